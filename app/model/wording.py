"""Errors of validation as sentences: what is wrong, the value where it is no secret, and what to write instead.

They are given as pydantic's dictionaries, and the same in settings, in requests and in options of commands.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from app.model.patterns import SENTENCES

_LONGEST: Final = 40
_PIECE: Final = re.compile(r"(\d+) (days?|hours?|minutes?|seconds?|microseconds?)")
_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_PREFIXES: Final = ("Value error, ", "Assertion failed, ")

Context = Mapping[str, Any]


def sentence(detail: Mapping[str, Any], *, of_request: bool = False) -> str:
    """Return an error of pydantic as a sentence, in no library's words: of a setting, or of a request.

    Texts of any form may be secrets, and are not shown.
    """
    if of_request and (said := _OF_REQUESTS.get(str(detail["type"]))) is not None:
        return said
    message = str(detail["msg"])
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    made = _BY_TYPE.get(str(detail["type"]))
    return message if made is None else made(detail.get("ctx", {}), _shown(detail.get("input")))


def _shown(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(value, timedelta):
        return _amount(value)
    said = {True: "true", False: "false"}[text] if isinstance(text, bool) else repr(text)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def _amount(value: Any) -> str:
    if isinstance(value, str) and (parts := _PIECE.findall(value)):
        value = timedelta(**{f"{unit.rstrip('s')}s": int(number) for number, unit in parts})
    if isinstance(value, timedelta):
        unit, length = next(
            ((unit, length) for unit, length in _UNITS.items() if value and not value % length),
            ("s", timedelta(seconds=1)),
        )
        return f"{value / length:g}{unit}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _items(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _fixed(text: str, _context: Context, value: str) -> str:
    return text.format(value)


def _at_least(characters: int) -> str:
    return "must not be empty" if characters == 1 else f"give at least {characters:,} characters"


def _pattern(context: Context, _value: str) -> str:
    pattern = str(context["pattern"])
    return SENTENCES.get(pattern, f"does not have the form {pattern}")


_WHOLE: Final = "give a whole number, not {}"
_NUMBER: Final = "give a number, not {}"
_BOOLEAN: Final = "give true or false, not {}"
_DURATION: Final = "unknown duration {}; write seconds, or units as in 30s, 1h30m or 7d"
_SIZE: Final = "unknown size {}; write bytes, or a unit as in 64 MiB"
_CHOICE: Final = "unknown value {}; choose "

_WITH_VALUE: Final[dict[str, tuple[str, ...]]] = {
    _WHOLE: ("int_type", "int_parsing", "int_parsing_size", "int_from_float"),
    _NUMBER: ("float_type", "float_parsing", "finite_number"),
    _BOOLEAN: ("bool_type", "bool_parsing"),
    _DURATION: ("time_delta_type", "time_delta_parsing"),
    _SIZE: ("byte_size", "byte_size_unit"),
    "unknown time {}; write it as in 2026-05-01T12:00:00Z": (
        "datetime_type",
        "datetime_parsing",
        "datetime_from_date_parsing",
        "datetime_object_invalid",
        "timezone_aware",
    ),
    "unknown date {}; write it as in 2026-05-01": ("date_type", "date_parsing", "date_from_datetime_parsing"),
    "unknown network {}; write it as in 10.0.0.0/8": ("ip_v4_network", "ip_v6_network"),
}
_WITHOUT_VALUE: Final[dict[str, tuple[str, ...]]] = {
    "is required": ("missing",),
    "no such setting": ("extra_forbidden",),
    "give a text": ("string_type", "string_sub_type", "path_type"),
    "give text in UTF-8": ("string_unicode",),
    "give a list": ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"),
    "give a table": ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
}

_OF_REQUESTS: Final[Mapping[str, str]] = {
    "extra_forbidden": "no such member; leave it out",
    **dict.fromkeys(_WITHOUT_VALUE["give a table"], "give an object"),
}

_BY_TYPE: Final[Mapping[str, Callable[[Context, str], str]]] = {
    **{kind: partial(_fixed, text) for text, kinds in (_WITH_VALUE | _WITHOUT_VALUE).items() for kind in kinds},
    "literal_error": lambda context, value: _CHOICE.format(value) + str(context["expected"]),
    "enum": lambda context, value: _CHOICE.format(value) + str(context["expected"]),
    "greater_than": lambda context, value: f"{value} is too small; give more than {_amount(context['gt'])}",
    "greater_than_equal": lambda context, value: f"{value} is too small; give at least {_amount(context['ge'])}",
    "less_than": lambda context, value: f"{value} is too large; give less than {_amount(context['lt'])}",
    "less_than_equal": lambda context, value: f"{value} is too large; give at most {_amount(context['le'])}",
    "string_too_short": lambda context, _: _at_least(context["min_length"]),
    "string_too_long": lambda context, _: f"give at most {context['max_length']:,} characters",
    "too_short": lambda context, _: f"give at least {_items(context['min_length'])}",
    "too_long": lambda context, _: f"give at most {_items(context['max_length'])}",
    "string_pattern_mismatch": _pattern,
}
