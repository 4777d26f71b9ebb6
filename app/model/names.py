"""Names of libraries, members, variables and formats: how they compare, and the name of a data set's table.

SAS ignores the case of ASCII letters in names, and of no others: `straße` and `STRASSE` are two names, and so are `É`
and `é`. Whatever finds, joins or refuses things by their names compares `folded` names.

Programs that read tables ignore more than that: Spark, for instance, takes `É` and `é` for one column. So names that
the gateway makes up, and names of columns and files in one place, differ in their `casefold`.

A table is named as SAS names data sets: `LIBRARY.MEMBER`, with ASCII letters in capitals, and without the blanks and
zeros that fill a name at its end. A data set without a library belongs to `WORK`, as a one-level name does in SAS. The
name of a data set's table always has a dot, so that no sender can use the names of the pipeline's own tables. A library
with a dot or a quote, which SAS does not allow, is written as a name literal.
"""

import re
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from app.model.attachment import AttachmentKind

_SMALL: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_CAPITALS: Final = str.maketrans(ascii_lowercase, ascii_uppercase)


def folded(name: str) -> str:
    """Return a name with small ASCII letters: equal for names that are one for SAS."""
    return name.lower() if name.isascii() else name.translate(_SMALL)


def in_capitals(name: str) -> str:
    """Return a name as SAS shows it, with ASCII letters in capitals."""
    return name.upper() if name.isascii() else name.translate(_CAPITALS)


FILES = "files"
"""The table of all file attachments."""

DEFAULT_LIBRARY = "WORK"
UNNAMED = "_UNNAMED_"


def table_name(library: str, member: str) -> str:
    """Return the table of a data set, by the names that its sender gave it."""
    library = _word(library) or DEFAULT_LIBRARY
    if "." in library or "'" in library:
        library = name_literal(library)
    return f"{library}.{_word(member) or UNNAMED}"


def table_with_rows(kind: AttachmentKind | None, library: str, member: str) -> str:
    """Return the table that gets the rows of a finished attachment: that of the data sets of its name, or `files`."""
    return table_name(library, member) if kind is AttachmentKind.DATA_SET else FILES


def library_and_member(name: str) -> tuple[str, str]:
    """Return the library, which may be a name literal, and the member of a table; a table of the pipeline has no
    library."""
    if (literal := _LITERAL.match(name)) is not None:
        return literal[1], name[literal.end() :]
    library, dot, member = name.partition(".")
    return (library, member) if dot else ("", name)


def plain_library(library: str) -> str:
    """Return a library as its sender named it, in capitals, also where it is a name literal."""
    return library[1:-1].replace("''", "'") if library.startswith("'") else library


def name_literal(name: str) -> str:
    """Return a name in quotes, as SAS writes one that is no usual name."""
    quoted = name.replace("'", "''")
    return f"'{quoted}'"


_LITERAL: Final = re.compile(r"('(?:[^']|'')*')\.")


def _word(name: str) -> str:
    return in_capitals(name.rstrip(" \0"))
