"""What all tables of the configuration share: no unknown keys, and values that may be in separate files."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.secret import ValueFile, rotating

Place = tuple[int | str, ...]
Located = tuple[Place, str]
"""A place below a table, and what is wrong there."""


class Section(BaseModel):
    """A table of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _files(cls, given: Any) -> Any:
        return with_files(given, cls)


def with_files(given: Any, model: type[BaseModel]) -> Any:
    """Return a table with each `key_file` replaced by `key` and the content of that file.

    This holds for keys of the model that have no `key_file` of their own, also in tables within lists. The types of
    `app.secret` keep the file, and read it again. Raises ValidationError with all files that cannot be read.
    """
    problems: list[Located] = []
    table = _with_files(given, model, (), problems)
    if problems:
        raise all_errors(problems)
    return table


def all_errors(problems: Sequence[Located]) -> ValidationError:
    """Return one error with all problems, each with its place and its sentence."""
    details = [
        InitErrorDetails(type=PydanticCustomError("setting", "{why}", {"why": why}), loc=place, input=None)
        for place, why in problems
    ]
    return ValidationError.from_exception_data("settings", details)


def _with_files(given: Any, model: type[BaseModel], place: Place, problems: list[Located]) -> Any:
    if not isinstance(given, Mapping):
        return given
    table = dict(given)
    for key in [key for key in table if key.endswith("_file") and key not in model.model_fields]:
        stem = key.removesuffix("_file")
        if stem not in model.model_fields:
            continue
        path = table.pop(key)
        if stem in table:
            problems.append(((*place, key), f"give {stem} or {key}, not both"))
            continue
        try:
            file, annotation = ValueFile(path, key), model.model_fields[stem].annotation
        except ValueError as error:
            problems.append(((*place, key), str(error)))
            continue
        if (make := rotating(annotation)) is not None:
            table[stem] = make(file)
        else:
            table[stem] = file.text().split() if "list" in str(annotation) else file.text()
    for key, field in model.model_fields.items():
        within = next(iter(get_args(field.annotation)), None)
        if isinstance(within, type) and issubclass(within, BaseModel) and isinstance(table.get(key), list):
            table[key] = [
                _with_files(each, within, (*place, key, number), problems) for number, each in enumerate(table[key])
            ]
    return table
