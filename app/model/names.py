"""The comparison of names: of libraries, members, variables and formats.

SAS ignores the case of ASCII letters in names, and of no others: `straße` and `STRASSE` are two names, and so are `É`
and `é`. Whatever finds, joins or refuses things by their names compares `folded` names.

Programs that read tables ignore more than that: Spark, for instance, takes `É` and `é` for one column. So names that
the gateway makes up, and those of columns and files that stand side by side, differ in their `casefold`.
"""

from string import ascii_lowercase, ascii_uppercase
from typing import Final

_SMALL: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_CAPITALS: Final = str.maketrans(ascii_lowercase, ascii_uppercase)


def folded(name: str) -> str:
    """Return a name with small ASCII letters: equal for names that SAS takes for one."""
    return name.lower() if name.isascii() else name.translate(_SMALL)


def in_capitals(name: str) -> str:
    """Return a name as SAS shows it, with ASCII letters in capitals."""
    return name.upper() if name.isascii() else name.translate(_CAPITALS)
