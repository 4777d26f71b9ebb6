"""Validation: patterns of texts, and errors as sentences that are the same in settings, requests and commands.

A sentence says what is wrong, the value where it is no secret, and what to write instead. Errors are given as
pydantic's dictionaries.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

NO_CONTROL_CHARACTERS: Final = r"^[^\x00-\x1f\x7f]*$"
TEXT: Final = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"
NO_SPACES: Final = r"^[!-~]*$"
IDEMPOTENCY_KEY: Final = r"^[!-~]{1,255}$"
DELIMITER: Final = r"^[\t !#-~]$"
PRINTABLE_ASCII: Final = r"^[ -~]*$"
CORREL_ID: Final = r"^([0-9a-fA-F]{2}){0,24}$"
SETTING_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
SHA_256: Final = r"^[0-9A-Fa-f]{64}$"
ORIGIN: Final = r"^(\*|https?://[A-Za-z0-9.\[\]:-]+)$"
HOST: Final = r"^((\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]?)$"
IDENTIFIER: Final = r"^[0-9a-f]{32}$"
SF_BOOLEAN: Final = r"^\?[01]$"
SOME_PRINTABLE_ASCII: Final = r"^[ -~]+$"
CODE_VERIFIER: Final = r"^[A-Za-z0-9._~-]{43,128}$"

SENTENCES: Final[Mapping[str, str]] = {
    NO_CONTROL_CHARACTERS: "control characters, such as line ends and tabs, are not allowed",
    TEXT: "control characters other than tabs and line ends are not allowed",
    NO_SPACES: "only printable ASCII characters without spaces are allowed",
    IDEMPOTENCY_KEY: "give 1 to 255 printable ASCII characters without spaces",
    DELIMITER: "give one character: a tab, a space or a printable ASCII character other than the quotation mark",
    PRINTABLE_ASCII: "only printable ASCII characters are allowed",
    CORREL_ID: "give up to 24 bytes, as two hexadecimal digits each",
    SETTING_NAME: "give 1 to 64 letters, digits, dots, underscores and hyphens; the first is a letter or a digit",
    SHA_256: "give a SHA-256, 64 hexadecimal digits",
    ORIGIN: "give an origin, such as https://console.example, or *",
    HOST: "give a name such as gateway.example, *.example for all names below it, or an address, without a port",
    IDENTIFIER: "give an identifier, 32 hexadecimal digits in lower case",
    SF_BOOLEAN: "give ?1 or ?0",
    SOME_PRINTABLE_ASCII: "give printable ASCII characters",
    CODE_VERIFIER: "give 43 to 128 letters, digits, dots, underscores, tildes and hyphens (RFC 7636)",
}


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
    if of_request and (shown := _OF_REQUESTS.get(str(detail["type"]))) is not None:
        return shown
    message = str(detail["msg"])
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    if (made := _BY_TYPE.get(str(detail["type"]))) is None:
        return message
    given, context = detail.get("input"), detail.get("ctx", {})
    if isinstance(given, timedelta):
        return made(context, _amount(given))
    text = given.decode(errors="replace") if isinstance(given, bytes) else given
    shown = {True: "true", False: "false"}[text] if isinstance(text, bool) else repr(text)
    return made(context, shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…")


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
    "string_too_short": lambda context, _: (
        "must not be empty" if context["min_length"] == 1 else f"give at least {context['min_length']:,} characters"
    ),
    "string_too_long": lambda context, _: f"give at most {context['max_length']:,} characters",
    "too_short": lambda context, _: f"give at least {_items(context['min_length'])}",
    "too_long": lambda context, _: f"give at most {_items(context['max_length'])}",
    "string_pattern_mismatch": lambda context, _: SENTENCES.get(
        context["pattern"], f"does not have the form {context['pattern']}"
    ),
}
