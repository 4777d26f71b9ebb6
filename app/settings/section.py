"""What all tables of the configuration have in common: no unknown keys, and values that lie in files of their own."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from app.secret import ValueFile, rotating


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
    `app.secret` keep the file, and read it again.
    """
    if not isinstance(given, Mapping):
        return given
    table = dict(given)
    for key in [key for key in table if key.endswith("_file") and key not in model.model_fields]:
        stem = key.removesuffix("_file")
        if stem not in model.model_fields:
            continue
        path = table.pop(key)
        if stem in table:
            raise ValueError(f"give {stem} or {key}, not both")
        file, annotation = ValueFile(path, key), model.model_fields[stem].annotation
        if (make := rotating(annotation)) is not None:
            table[stem] = make(file)
        else:
            table[stem] = file.text().split() if "list" in str(annotation) else file.text()
    for key, within in _tables_of(model).items():
        if isinstance(table.get(key), list):
            table[key] = [with_files(each, within) for each in table[key]]
    return table


def _tables_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the fields of a model that are lists of tables, with the model of these tables."""
    found = {name: get_args(field.annotation)[:1] for name, field in model.model_fields.items()}
    return {
        name: kinds[0]
        for name, kinds in found.items()
        if kinds and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)
    }
