"""Which table a data set belongs to.

A table is named as SAS names data sets: `LIBRARY.MEMBER`, in capitals, as SAS ignores case. A data set without a
library is one of `WORK`, as a one-level name is in SAS. The name of a data set's table always has a dot, so that no
sender can take those of the tables beside them. A library with a dot or a quote, which SAS has not, is written as a
name literal.
"""

FILES = "files"
"""The table of all file attachments."""

DEFAULT_LIBRARY = "WORK"
UNNAMED = "_UNNAMED_"


def table_name(library: str, member: str) -> str:
    """The table of a data set, by the names its sender gave it."""
    return f"{_library(_word(library) or DEFAULT_LIBRARY)}.{_word(member) or UNNAMED}"


def _word(name: str) -> str:
    return name.strip(" \0").upper()


def _library(word: str) -> str:
    if "." not in word and "'" not in word:
        return word
    quoted = word.replace("'", "''")
    return f"'{quoted}'"
