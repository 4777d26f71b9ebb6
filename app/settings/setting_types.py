"""The types of single values: durations, names, digests, dialects, framings, line ends."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from app.codecs.sas.dialect import Dialect
from app.framing.counting import RULE_NAMES
from app.framing.registry import framing
from app.model.validation import SETTING_NAME, SHA_256

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
