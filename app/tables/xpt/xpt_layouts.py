"""The records of a transport file, and the digits in its header records.

A file is a sequence of records of 80 bytes: header records, each of which describes the data after it, and data.
Numbers have the high byte first. Text is padded with blanks; in some of SAS's own files with NULs.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final, Literal, NamedTuple

from app.dataset.schema import MOST_VARIABLES
from app.model.errors import InvalidInputError
from app.wire import Chars, Context, Layout, Num, Raw, row

RECORD: Final = 80
"""The size of a record in bytes."""

Char2 = Annotated[str, Chars(2)]
Char8 = Annotated[str, Chars(8)]
Char16 = Annotated[str, Chars(16)]
Char20 = Annotated[str, Chars(20)]
Char24 = Annotated[str, Chars(24)]
Char30 = Annotated[str, Chars(30)]
Char32 = Annotated[str, Chars(32)]
Char40 = Annotated[str, Chars(40)]
Char64 = Annotated[str, Chars(64)]
Short = Annotated[int, Num("H")]
Long = Annotated[int, Num("I")]


class HeaderRecord(Layout):
    """The first record of each part of a file."""

    header: Char20 = row("HEADER RECORD*******", default="HEADER RECORD*******")
    name: Char8 = row("the part's name", default="")
    record: Char20 = row("HEADER RECORD!!!!!!!", default="HEADER RECORD!!!!!!!")
    numbers: Char30 = row("digits: sizes and counts of the data that follows", default="0" * 30)
    blanks: Char2 = row("blanks", default="")


class LibraryRecord(Layout):
    """The record after LIBRARY or LIBV8: the system that made the file."""

    sas_symbol_1: Char8 = row("SAS", default="SAS")
    sas_symbol_2: Char8 = row("SAS", default="SAS")
    saslib: Char8 = row("SASLIB", default="SASLIB")
    version: Char8 = row("version of SAS that made the file", default="")
    system: Char8 = row("operating system on which it was made", default="")
    blanks: Char24 = row("blanks", default="")
    created: Char16 = row("time of creation, as ddMMMyy:hh:mm:ss", default="")


class ModifiedRecord(Layout):
    """The record after the library record."""

    modified: Char16 = row("time of the last change of the file, as ddMMMyy:hh:mm:ss", default="")
    blanks: Char64 = row("blanks", default="")


class MemberRecord5(Layout):
    """The record after DSCRPTR: a data set of version 5."""

    sas_symbol: Char8 = row("SAS", default="SAS")
    name: Char8 = row("data set name", default="")
    sasdata: Char8 = row("SASDATA", default="SASDATA")
    version: Char8 = row("version of SAS that made the data set", default="")
    system: Char8 = row("operating system on which it was made", default="")
    blanks: Char24 = row("blanks", default="")
    created: Char16 = row("time of creation, as ddMMMyy:hh:mm:ss", default="")


class MemberRecord8(Layout):
    """The record after DSCPTV8: a data set of version 8."""

    sas_symbol: Char8 = row("SAS", default="SAS")
    name: Char32 = row("data set name", default="")
    sasdata: Char8 = row("SASDATA", default="SASDATA")
    version: Char8 = row("version of SAS that made the data set", default="")
    system: Char8 = row("operating system on which it was made", default="")
    created: Char16 = row("time of creation, as ddMMMyy:hh:mm:ss", default="")


class LabelRecord(Layout):
    """The record after a member record of either version."""

    modified: Char16 = row("time of the last change of the data set, as ddMMMyy:hh:mm:ss", default="")
    blanks: Char16 = row("blanks", default="")
    label: Char40 = row("data set label", default="")
    type: Char8 = row("data set type", default="")


class Namestr(Layout):
    """The description of a variable that both versions share; each version adds bytes of its own."""

    ntype: Short = row("type of variable: 1 numeric, 2 character")
    nhfun: Short = row("hash of the name, always 0", default=0)
    nlng: Short = row("length of the variable in an observation", default=8)
    nvar0: Short = row("number of the variable, from 1", default=0)
    nname: Char8 = row("name", default="")
    nlabel: Char40 = row("label", default="")
    nform: Char8 = row("name of the format", default="")
    nfl: Short = row("format field length, or 0", default=0)
    nfd: Short = row("format number of decimals", default=0)
    nfj: Short = row("0 left justification, 1 right", default=0)
    nfill: Annotated[bytes, Raw(2)] = row("unused", default=bytes(2))
    niform: Char8 = row("name of the informat", default="")
    nifl: Short = row("informat length attribute", default=0)
    nifd: Short = row("informat number of decimals", default=0)
    npos: Long = row("position of the value in an observation", default=0)


class Namestr5(Namestr):
    """A variable in version 5. Files of VAX/VMS have 48 bytes at the end."""

    rest: Annotated[bytes, Raw(52)] = row("unused", default=bytes(52))


class Namestr8(Namestr):
    """A variable in version 8."""

    longname: Char32 = row("long name", default="")
    lablen: Short = row("length of the label", default=0)
    formlen: Short = row("length of the format name", default=0)
    informlen: Short = row("length of the informat name", default=0)
    rest: Annotated[bytes, Raw(14)] = row("unused", default=bytes(14))


class Label8(Layout):
    """The record after LABELV8, for a label that its Namestr8 cannot hold; name and label follow."""

    number: Short = row("number of the variable, from 1")
    name: Short = row("bytes of the name")
    label: Short = row("bytes of the label")


class Label9(Label8):
    """The record after LABELV9, for a format or informat name that its Namestr8 cannot hold.

    Name, label, format and informat follow.
    """

    format: Short = row("bytes of the format, written as in a FORMAT statement", default=0)
    informat: Short = row("bytes of the informat, written in the same way", default=0)


CONTEXT: Final = Context(">", "latin-1")
"""The representation of header records; texts of the data set have a character set of their own."""

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
