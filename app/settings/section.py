"""What all tables of the configuration have in common: no unknown keys, and values that lie in files of their own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

Place = tuple[int | str, ...]
Located = tuple[Place, str]
"""A place below a table, and what is wrong there."""


class Section(BaseModel):
    """A table of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _files(cls, given: Any) -> Any:
        return with_files(given, cls)


def with_files(given: Any, model: type[BaseModel]) -> Any:
    """Return a table with each `key_file` replaced by `key` and the content of that file.

    This holds for keys of the model that have no `key_file` of their own, also in tables within lists. Raises
    ValidationError with all files that cannot be read.
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
            text = Path(path).read_text().strip()
        except (OSError, TypeError, ValueError) as error:
            why = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error
            why = "give the path of a file" if isinstance(error, TypeError) else why
            problems.append(((*place, key), f"cannot read {path!r}: {getattr(error, 'strerror', None) or why}"))
            continue
        table[stem] = text.split() if "list" in str(model.model_fields[stem].annotation) else text
    for key, within in _tables_of(model).items():
        if isinstance(table.get(key), list):
            table[key] = [
                _with_files(each, within, (*place, key, number), problems) for number, each in enumerate(table[key])
            ]
    return table


def _tables_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the fields of a model that are lists of tables, with the model of these tables."""
    found = {name: get_args(field.annotation)[:1] for name, field in model.model_fields.items()}
    return {
        name: kinds[0]
        for name, kinds in found.items()
        if kinds and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)
    }
