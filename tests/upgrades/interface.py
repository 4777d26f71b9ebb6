"""What clients, dashboards, configurations and scripts rely on: the OpenAPI document, and all names.

These are the names of metrics, settings, commands and options."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from app.cli.application import COMMANDS, loaded
from app.main import build
from app.metrics import Metrics, PipelineDeclared
from app.settings import Settings
from app.web.app import create_app
from docs.chart_schema import DESTINATIONS, SOURCES

_FOR_PEOPLE = {"description", "title", "summary"}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document without its texts for people and its examples."""
    with TemporaryDirectory() as folder:
        gateway = build(Settings(data=Path(folder)))
        document: dict[str, Any] = _bare(create_app(gateway).openapi())
        gateway.stop()
    document["info"] = {"title": "Attachment gateway", "version": "0"}
    return document


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    # A property may have one of these names; then its value is a schema.
    return {
        name: _bare(each)
        for name, each in value.items()
        if not (name in _FOR_PEOPLE and isinstance(each, str)) and name not in {"example", "examples"}
    }


def names() -> dict[str, dict[str, list[str]]]:
    """Return the labels of each metric, and the options of each command; and under `settings` the keys of each table of
    the configuration."""
    declared = (*Metrics().described, *PipelineDeclared().described)
    return {
        "metrics": {each.name: sorted(each.labels) for each in declared},
        "settings": {table: sorted(keys) for table, keys in _settings()},
        "commands": {name: options for first in COMMANDS for name, options in _commands(first, loaded(first))},
    }


def _settings() -> Iterator[tuple[str, list[str]]]:
    whole = Settings.model_json_schema()
    defined = whole["$defs"]
    yield "", list(whole["properties"])
    for name, schema in whole["properties"].items():
        schemas = [schema, *schema.get("anyOf", ()), *schema.get("patternProperties", {}).values()]
        for ref in (each["$ref"] for each in schemas if "$ref" in each):
            if keys := defined[ref.rpartition("/")[2]].get("properties"):
                yield name, list(keys)
    for name, transports in (("sources", SOURCES), ("destinations", DESTINATIONS)):
        for transport, model in transports.items():
            yield f"{name} of {transport}", list(model.model_json_schema()["properties"])


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, list[str]]]:
    yield name, sorted(option for each in command.params for option in (*each.opts, *each.secondary_opts))
    inner: Mapping[str, click.Command] = getattr(command, "commands", {})
    for each, subcommand in inner.items():
        yield from _commands(f"{name} {each}", subcommand)
