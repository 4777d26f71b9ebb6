"""Read catalogs of formats: sas7bcat files, data sets of CNTLOUT= in any format, by their content.

pyreadstat parses sas7bcat files, with the C library ReadStat. It tells single values only, no ranges.
"""

from typing import Any, Final

from app.dataset import value_labels
from app.dataset.value_labels import Catalog
from app.model.names import in_capitals
from app.tables.read import sas_pages
from app.tables.read.damage import READSTAT, SAS7BCAT, meaning
from app.tables.read.request import unreadable

MAGIC: Final = bytes.fromhex("000000000000000000000000c2ea8163b31411cfbd92080009c7318c181f1011")
"""The first bytes of every sas7bcat file."""

_ERRORS = (ArithmeticError, ValueError, LookupError, TypeError, OSError)


def read_sas7bcat(file: Any, encoding: str | None = None) -> Catalog:
    """Return the value labels of a sas7bcat file. Raises InvalidInputError for one that cannot be read."""
    import pyreadstat  # noqa: PLC0415 - slow to import, and few processes read such files

    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise unreadable(f"not a sas7bcat file: its first {len(MAGIC)} bytes are not those of one")
    file.seek(0)
    try:
        _, about = pyreadstat.read_sas7bcat(file, encoding=encoding, output_format="dict")
        found: Catalog = {
            in_capitals(name): {
                _value_text(value, is_text=name.startswith("$")): label.rstrip(" ") for value, label in labels.items()
            }
            for name, labels in about.value_labels.items()
        }
    except MemoryError:
        raise
    except (*_ERRORS, pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        raise sas_pages.explained(file, SAS7BCAT, meaning(error, READSTAT)) from None
    try:
        value_labels.check_size(found.values())
    except ValueError as error:
        raise unreadable(str(error)) from None
    return found


def _value_text(value: float | str, *, is_text: bool) -> str:
    """Return the text that identifies a value. Of numbers, special missing values are told as letters."""
    if isinstance(value, str) and not is_text:
        return f".{value}"
    return value_labels.value_text(value)
