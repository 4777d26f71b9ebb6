"""The header records of both versions, and the digits in them."""

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from app.dataset.schema import MOST_VARIABLES
from app.model.errors import TheirError
from app.tables.xpt.layouts import CONTEXT, HeaderRecord

Version = Literal[5, 8]


class Parts(NamedTuple):
    """The names of the header records of one version, in the order of the file."""

    library: str
    member: str
    descriptor: str
    variables: str
    observations: str


PARTS: Final[Mapping[Version, Parts]] = {
    5: Parts("LIBRARY", "MEMBER", "DSCRPTR", "NAMESTR", "OBS"),
    8: Parts("LIBV8", "MEMBV8", "DSCPTV8", "NAMSTV8", "OBSV8"),
}

LABELS_8: Final = "LABELV8"
LABELS_9: Final = "LABELV9"

NAMESTR_SIZE: Final = 140
"""Bytes of a variable's description; 136 where VAX/VMS wrote it."""

_DESCRIPTOR_SIZE: Final = 160


def header(name: str, numbers: str = "0" * 30) -> bytes:
    """A header record."""
    return HeaderRecord(name=name, numbers=numbers).encode(CONTEXT)


@cache
def start_of(name: str) -> bytes:
    """What a header record of this name begins with."""
    return HeaderRecord(name=name, numbers="").encode(CONTEXT)[:48]


def member_numbers() -> str:
    return f"{_DESCRIPTOR_SIZE:020}{NAMESTR_SIZE:010}"


def variables_numbers(count: int) -> str:
    return f"{count:010}{0:020}"


def observations_numbers(count: int | None) -> str:
    """The number of observations, as version 8 has it; zero where it is not known."""
    return f"{count:15}" if count else "0" * 30


def namestr_size(record: HeaderRecord, at: int) -> int:
    """Bytes of a variable's description, from the header record of a member at byte `at`. Raises TheirError."""
    size = _digits(record.numbers[26:30], record, at)
    if size not in {NAMESTR_SIZE, 136}:
        raise TheirError("xpt-header", record.name, at, f"descriptions of variables have {size} bytes, not 140 or 136")
    return size


def variable_count(record: HeaderRecord, at: int) -> int:
    """The number of variables, from the header record of their descriptions. Raises TheirError."""
    count = _digits(record.numbers[4:10], record, at)
    if count > MOST_VARIABLES:
        raise TheirError("xpt-variables", record.name, at, f"{count} variables are more than {MOST_VARIABLES}")
    return count


def label_count(record: HeaderRecord, at: int) -> int:
    """The number of long labels, from the header record of these. Raises TheirError."""
    return _digits((record.numbers.split() or [""])[0], record, at)


def observation_count(record: HeaderRecord, at: int) -> int | None:
    """The number of observations, from their header record in version 8; None where it does not tell. Raises
    TheirError.

    Some programs leave the zeros of version 5 there, so that zero tells nothing.
    """
    digits = record.numbers[:15].strip()
    return _digits(digits, record, at) or None if digits else None


def _digits(text: str, record: HeaderRecord, at: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise TheirError("xpt-header", record.name, at, f"{text!r} stands where a number belongs")
    return int(text)
