"""The rules of SAS for names, labels, formats and lengths, checked before anything is sent.

Sources: SAS, "Rules for SAS Names", "SAS Name Literals", "Length and Precision of Variables"; the Common Messaging
Interface's attachment option ATTACH_VERSION=VERSION_8, without which a SAS of version 8 cannot read an attachment.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from app.dataset import character_columns, format_names
from app.dataset.format_names import SasFormat
from app.model.attachment import DataSetVersion
from app.model.names import folded, in_capitals

LONGEST_NAME = 32
"""The maximum length in bytes of the name of a variable or a member."""
LONGEST_LABEL = 256
LONGEST_LIBRARY = 8
WIDEST_FORMAT = 32_767
MOST_DECIMALS = 31

LONGEST_FORMAT: Mapping[DataSetVersion, int] = {"V8": 8, "V9": 32}
"""The maximum length in bytes of a format's name, including the `$` of a character format."""

_LONGEST_REFERENCE = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORMAT_NAME = re.compile(r"\$?(?:[A-Za-z_](?:[A-Za-z0-9_]*[A-Za-z_])?)?")
# Texts may contain TAB, LF and CR; other control characters make messages unreadable.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ANY_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_INTEGER = re.compile(r"-?[0-9]{1,5}")
_LONG = re.compile(r"-?[0-9]{1,10}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")


_RESERVED_DATA_SETS = ("_NULL_", "_DATA_", "_LAST_", "_ALL_")
_AUTOMATIC = ("_CHARACTER_", "_CHAR_", "_CMD_", "_ERROR_", "_FILE_", "_INFILE_", "_IORC_", "_MSG_", "_N_", "_NUMERIC_")

RESERVED_MEMBERS = frozenset(_RESERVED_DATA_SETS)
"""Names that no data set can have."""

RESERVED_VARIABLES = frozenset((*_RESERVED_DATA_SETS, *_AUTOMATIC))
"""Names of automatic variables, of lists of variables and of data sets, which no variable can have."""


class Fault(NamedTuple):
    """A fault in a variable (None: in the data set), or a reason for a warning.

    `code` is for programs. `row` is the number of an observation, from 1, if the fault is in one.
    """

    variable: str | None
    code: str
    why: str
    row: int | None = None


def name_faults(names: Iterable[str], charset: str, *, literals: bool = False) -> Iterator[Fault]:
    """Yield the faults in variables' names. With `literals`, any name is allowed, as with VALIDVARNAME=ANY."""
    taken: set[str] = set()
    for name in names:
        if (why := _name_fault(name, charset, LONGEST_NAME, RESERVED_VARIABLES, literals=literals)) is not None:
            yield Fault(name, "name", why)
        if in_capitals(name) in taken:
            yield Fault(name, "name", "another variable has this name; upper and lower case are the same")
        taken.add(in_capitals(name))


def data_set_name_faults(library: str, member: str, charset: str) -> Iterator[Fault]:
    """Yield the faults in the name `library.member`."""
    for code, word, longest, reserved in (
        ("library", library, LONGEST_LIBRARY, frozenset[str]()),
        ("member", member, LONGEST_NAME, RESERVED_MEMBERS),
    ):
        if (why := _name_fault(word, charset, longest, reserved, literals=False)) is not None:
            yield Fault(None, code, f"{code} {word!r}: {why}")


def _name_fault(name: str, charset: str, longest: int, reserved: Container[str], *, literals: bool) -> str | None:
    size = _size(name, charset)
    if size is None:
        return f"not in character set {charset}"
    if not 1 <= size <= longest or not name.strip():
        return f"a name has 1 to {longest} bytes, this one {size}"
    if _ANY_CONTROL.search(name):
        return "a name must not have control characters or line ends"
    if in_capitals(name) in reserved:
        return "SAS reserves this name; choose another one"
    if not literals and not _NAME.fullmatch(name):
        return "a name must have only letters, digits and _, and must not begin with a digit"
    return None


def charset_fault(charset: str) -> str | None:
    """Return the fault in the character set of a data set, or None."""
    try:
        character_columns.blank(charset)
    except ValueError:
        return f"in character set {charset} a blank has more than one byte; SAS needs one byte"
    return None


def label_fault(label: str, charset: str) -> str | None:
    """Return the fault in a label, or None."""
    size = _size(label, charset)
    if size is None:
        return f"the label has characters that character set {charset} lacks"
    return None if size <= LONGEST_LABEL else f"a label has at most {LONGEST_LABEL} bytes, this one {size}"


def has_controls(label: str) -> bool:
    """Tell whether a label has control characters other than TAB, LF and CR, with which messages are unreadable."""
    return _CONTROL.search(label) is not None


def without_controls(label: str) -> str:
    """Return a label with blanks in place of such control characters."""
    return _CONTROL.sub(" ", label)


def format_fault(reference: SasFormat, version: DataSetVersion, *, is_numeric: bool) -> str | None:
    """Return the fault in a format or informat of a variable, or None."""
    name = reference.name
    longest = LONGEST_FORMAT[version]
    if not _FORMAT_NAME.fullmatch(name):
        return f"{str(reference)!r} is not a format: a name has letters, digits and _, and does not end in a digit"
    if len(name) > longest:
        return f"{str(reference)!r}: the name of a format has at most {longest} bytes, this one {len(name)}"
    if str(reference) and name.startswith("$") == is_numeric:
        kind, sign = ("a numeric", "without $") if is_numeric else ("a character variable", "with $")
        return f"{str(reference)!r}: the format of {kind} is one {sign}"
    if reference.width > WIDEST_FORMAT or reference.decimals > MOST_DECIMALS:
        return f"{str(reference)!r}: widths go to {WIDEST_FORMAT} and decimals to {MOST_DECIMALS}"
    return None


def is_in(words: str, charset: str) -> bool:
    """Tell whether a character set has all characters of a text, and the text no control characters."""
    return _size(words, charset) is not None and not _CONTROL.search(words)


def is_short(written: str) -> bool:
    """Tell whether a text is a number of two bytes, as attributes of a data set are."""
    return bool(_INTEGER.fullmatch(written)) and -(1 << 15) <= int(written) < 1 << 15


def is_long(written: str) -> bool:
    """Tell whether a text is a number of four bytes."""
    return bool(_LONG.fullmatch(written)) and -(1 << 31) <= int(written) < 1 << 31


def reference(written: str) -> SasFormat:
    """Return the format that a text names; `DATE9` is accepted for `DATE9.`."""
    written = written.strip()
    if len(written) > _LONGEST_REFERENCE:
        return SasFormat(written)
    return format_names.parse(written if "." in written or not written else f"{written}.")


class Wanted(NamedTuple):
    """The nearest name that a variable can have, in any length, and whether it is the one that was wanted."""

    nearest: str
    is_kept: bool


def free_names(
    wanted: Sequence[Wanted], reserved: Iterable[str], shortened: Callable[[str, int], str], mark: str = ""
) -> list[str]:
    """Return a name for each wanted one, all of them different for SAS.

    Names that can be kept are kept, unless an earlier one is the same. Only then do others get their nearest name, or
    the first free one with 2, 3 ... after it and a mark. `shortened(name, size)` returns the beginning of a name that
    leaves room for this many more characters.
    """
    taken = set(map(folded, reserved))
    found: dict[int, str] = {}
    for at, (name, is_kept) in enumerate(wanted):
        if is_kept and folded(name) not in taken:
            found[at] = name
            taken.add(folded(name))
    numbers: dict[str, Iterator[int]] = {}
    for at, (name, _) in enumerate(wanted):
        if at not in found:
            free = shortened(name, 0)
            ends = (f"{mark}{number}" for number in numbers.setdefault(folded(free), count(2)))
            while folded(free) in taken:
                end = next(ends)
                free = shortened(name, len(end)) + end
            found[at] = free
            taken.add(folded(free))
    return [found[at] for at in range(len(wanted))]


def renamed(names: Iterable[str]) -> list[str]:
    """Return names that SAS accepts: valid ones unchanged, others as close to the given name as possible."""
    wanted = []
    for number, name in enumerate(names, 1):
        is_valid = _name_fault(name, "ascii", LONGEST_NAME, RESERVED_VARIABLES, literals=False) is None
        wanted.append(Wanted(name if is_valid else valid_name(name) or f"VAR{number}", is_valid))
    return free_names(wanted, RESERVED_VARIABLES, lambda name, room: name[: LONGEST_NAME - room], "_")


def valid_name(words: str) -> str:
    """Return a text with `_` for each character that a name cannot have. It is empty if nothing else is left."""
    kept = _NOT_IN_A_NAME.sub("_", words.strip())
    if not kept.strip("_") and kept != words:
        return ""
    return (f"_{kept}" if kept[:1].isdigit() else kept)[:LONGEST_NAME]


def _size(words: str, charset: str) -> int | None:
    try:
        return len(words.encode(charset))
    except UnicodeEncodeError:
        return None
