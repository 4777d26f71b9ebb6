"""The header records of both versions, and the digits in them."""

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from app.dataset.schema import MOST_VARIABLES
from app.model.errors import InvalidInputError
from app.tables.xpt.xpt_layouts import CONTEXT, HeaderRecord

Version = Literal[5, 8]


class HeaderNames(NamedTuple):
    """The names of the header records of one version, in the order of the file."""

    library: str
    member: str
    descriptor: str
    variables: str
    observations: str


PARTS: Final[Mapping[Version, HeaderNames]] = {
    5: HeaderNames("LIBRARY", "MEMBER", "DSCRPTR", "NAMESTR", "OBS"),
    8: HeaderNames("LIBV8", "MEMBV8", "DSCPTV8", "NAMSTV8", "OBSV8"),
}

LABELS_8: Final = "LABELV8"
LABELS_9: Final = "LABELV9"

NAMESTR_SIZE: Final = 140
"""The size of a variable's description in bytes; 136 in files of VAX/VMS."""

_DESCRIPTOR_SIZE: Final = 160


def header(name: str, numbers: str = "0" * 30) -> bytes:
    """Return a header record."""
    return HeaderRecord(name=name, numbers=numbers).encode(CONTEXT)


@cache
def start_of(name: str) -> bytes:
    """Return the first bytes of a header record of this name."""
    return HeaderRecord(name=name, numbers="").encode(CONTEXT)[:48]


def member_numbers() -> str:
    return f"{_DESCRIPTOR_SIZE:020}{NAMESTR_SIZE:010}"


def variables_numbers(count: int) -> str:
    return f"{count:010}{0:020}"


def observations_numbers(count: int | None) -> str:
    """Return the number of observations as version 8 writes it; zeros if it is unknown."""
    return f"{count:15}" if count else "0" * 30


def namestr_size(record: HeaderRecord, at: int) -> int:
    """Return the size of a variable's description, from a member's header record at byte `at`. Raises
    InvalidInputError."""
    size = _digits(record.numbers[26:30], record, at)
    if size not in {NAMESTR_SIZE, 136}:
        raise InvalidInputError(
            "xpt-header", record.name, at, f"descriptions of variables have {size} bytes, not 140 or 136"
        )
    return size


def variable_count(record: HeaderRecord, at: int) -> int:
    """Return the number of variables, from the header record of their descriptions. Raises InvalidInputError."""
    count = _digits(record.numbers[4:10], record, at)
    if count > MOST_VARIABLES:
        raise InvalidInputError("xpt-variables", record.name, at, f"{count} variables are more than {MOST_VARIABLES}")
    return count


def label_count(record: HeaderRecord, at: int) -> int:
    """Return the number of long labels, from their header record. Raises InvalidInputError."""
    return _digits((record.numbers.split() or [""])[0], record, at)


def observation_count(record: HeaderRecord, at: int) -> int | None:
    """Return the number of observations from their header record in version 8, or None if it has none.

    Raises InvalidInputError.

    Some programs leave the zeros of version 5 there, so zero counts as unknown.
    """
    digits = record.numbers[:15].strip()
    return _digits(digits, record, at) or None if digits else None


def _digits(text: str, record: HeaderRecord, at: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidInputError("xpt-header", record.name, at, f"expected a number, found {text!r}")
    return int(text)
