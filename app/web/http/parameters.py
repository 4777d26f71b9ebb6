"""Types of parameters: whole numbers, times, and text in paths."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticKnownError
from starlette.convertors import Convertor, register_url_convertor

from app.model import times

_WHOLE = re.compile(r"[0-9]+|-[0-9]*[1-9][0-9]*")
"""A negative number passes, so that its error names the least number that is possible."""


def _require_digits(value: Any) -> Any:
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        raise PydanticKnownError("int_parsing")
    return value


DIGITS = BeforeValidator(_require_digits)
"""What comes after the limits of a whole number, `Annotated[int, Query(ge=0), DIGITS]`, so that OpenAPI has them."""


_NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)


def _no_number(given: object) -> object:
    if isinstance(given, str) and _NUMBER.fullmatch(given.strip()):
        raise ValueError("a number is not a time; write a time such as 2026-11-21T08:00:00Z or 2026-11-21")
    return given


Timestamp = Annotated[datetime, BeforeValidator(_no_number)]
"""A time in ISO 8601. pydantic reads digits as seconds since 1970, which is never the intent of `20261122`."""


def to_microseconds(time: datetime | None) -> int | None:
    """Return the microseconds from 1970-01-01 UTC to a time. A time without a zone is UTC."""
    return None if time is None else times.to_microseconds(time)


def optional_time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else times.to_time(microseconds)


class _AnyText(Convertor[str]):
    """The converter of the path parameter."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("text", _AnyText())
