"""What all tables of the configuration share: no unknown keys, values that may be in separate files, and types of
values: durations, names, digests, dialects, framings, line ends."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.codecs.sas.dialect import Dialect
from app.framing.counting import RULE_NAMES
from app.framing.registry import framing
from app.model.validation import SETTING_NAME, SHA_256
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
    problems += (
        ((*place, key), f"give a number, not {str(table[key]).lower()}")
        for key, field in model.model_fields.items()
        if isinstance(table.get(key), bool) and _is_number(field.annotation)
    )
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


def _is_number(annotation: Any) -> bool:
    """Tell whether a value is a number or a duration, which pydantic would also make of a truth value."""
    kinds = [annotation]
    for each in kinds:
        kinds += get_args(each)
    kinds = [each if isinstance(each, type) else type(each) for each in kinds]  # the values of Literal
    return bool not in kinds and any(issubclass(each, int | float | timedelta) for each in kinds)


# --- types of values --------------------------------------------------------------------------------------------------

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
DURATION = re.compile(r"(?:\s*\d+(?:\.\d+)?\s*(?:ms|[smhdw]))+\s*")
_DURATION_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])")
_LONGEST_YEARS = 1000


def _duration(given: object) -> object:
    if isinstance(given, str) and DURATION.fullmatch(given):
        given = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PIECE.findall(given))
    elif isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            raise ValueError(f"unknown duration {given!r}; write seconds, or units as in 30s, 1h30m or 7d") from None
    if isinstance(given, int | float) and not 0 <= given <= _LONGEST_YEARS * 365 * 86400:
        raise ValueError(f"a duration must lie between 0 and {_LONGEST_YEARS} years")
    return given


def _framing(name: str) -> str:
    try:
        return framing(name).traits.name
    except KeyError as error:
        raise ValueError(str(error)) from None


def _counting_rule(name: str) -> str:
    if name not in RULE_NAMES:
        raise ValueError(f"unknown rule {name!r}; write one of {', '.join(RULE_NAMES)}")
    return name


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Name = Annotated[str, StringConstraints(pattern=SETTING_NAME)]
Digest = Annotated[str, StringConstraints(pattern=SHA_256, to_lower=True, strip_whitespace=True)]
DialectName = Annotated[str, AfterValidator(lambda name: Dialect.parse(name).name)]
FramingName = Annotated[str, AfterValidator(_framing)]
CountingRule = Annotated[str, AfterValidator(_counting_rule)]
LineEnd = Literal["\n", "\r\n", "\r", ""]


def microseconds(duration: timedelta) -> int:
    """Return a duration in microseconds, the unit of `Clock.now`."""
    return duration // timedelta(microseconds=1)
