"""The models of the configuration, found by the types of their fields."""

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel

from app import plugins
from app.settings import Settings
from tests.support import mqi

mqi.load("pymqi")  # here, since it is built at first: tests with the marker `unit` may start no program


def within(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Find the models in the fields of a model, also those in lists and tables."""
    for name, field in model.model_fields.items():
        kinds = [field.annotation]
        while kinds:
            kind = kinds.pop()
            kinds += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield name, kind


def all_models() -> set[type[BaseModel]]:
    """Return all models of the configuration, those of the transports among them."""
    transports = [plugins.transport(name) for name in plugins.names("transport")]
    waiting: list[type[BaseModel]] = [Settings]
    for each in transports:
        waiting += [each.source_settings, each.destination_settings]
    found: set[type[BaseModel]] = set()
    while waiting:
        model = waiting.pop()
        if model not in found and model is not BaseModel:
            found.add(model)
            waiting += [inner for _, inner in within(model)]
    return found
