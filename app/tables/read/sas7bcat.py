"""Read catalogs of formats: sas7bcat files, data sets of CNTLOUT= in any format, by their content.

pyreadstat parses sas7bcat files, with the C library ReadStat. It tells single values only, no ranges.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.dataset import value_labels
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.names import in_capitals
from app.tables.read import sas_file_charsets, sas_pages
from app.tables.read.damage_errors import READSTAT, SAS7BCAT, meaning
from app.tables.read.read_request import unreadable
from app.tables.read.sas_file_charsets import AsLatin1, SasCharset
from app.tables.read.text_charsets import Metadata

MAGIC: Final = bytes.fromhex("000000000000000000000000c2ea8163b31411cfbd92080009c7318c181f1011")
"""The first bytes of every sas7bcat file."""

_ERRORS = (ArithmeticError, ValueError, LookupError, TypeError, OSError)


def read_sas7bcat(file: Any, encoding: str | None = None) -> tuple[Catalog, tuple[str, ...]]:
    """Return the value labels of a sas7bcat file, and warnings.

    Texts are in the character set that the file states, unless `encoding` is another one. Raises InvalidInputError for
    a file that cannot be read.
    """
    import pyreadstat  # noqa: PLC0415 - slow to import, and few processes read such files

    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise unreadable(f"not a sas7bcat file: its first {len(MAGIC)} bytes are not those of one")
    charset = sas_file_charsets.charset_of(file, SAS7BCAT, encoding)
    file.seek(0)
    source: Any = AsLatin1(file)
    metadata = Metadata(charset.codec)
    try:
        _, about = pyreadstat.read_sas7bcat(source, output_format="dict")
        found = _catalog(about.value_labels, metadata)
    except MemoryError:
        raise
    except (*_ERRORS, pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        raise sas_pages.explained(file, SAS7BCAT, meaning(error, READSTAT)) from None
    try:
        value_labels.check_size(found.values())
    except ValueError as error:
        raise unreadable(str(error)) from None
    return found, tuple(_warnings(found, charset, metadata))


def _catalog(raw: Mapping[str, Mapping[Any, str]], metadata: Metadata) -> Catalog:
    found: dict[str, ValueLabels] = {}
    for raw_name, labels in raw.items():
        name = in_capitals(metadata.text(raw_name, "name of the format"))
        found[name] = {
            _value_text(value, name, metadata): metadata.text(label, f"label in {name}")
            for value, label in labels.items()
        }
    return found


def _warnings(found: Catalog, charset: SasCharset, metadata: Metadata) -> Iterator[str]:
    texts = (text for name, labels in found.items() for text in (name, *labels, *labels.values()))
    if charset.unstated and not all(map(str.isascii, texts)):
        yield f"it states no character set and was read as {charset.codec}; state its `encoding`"
    if metadata.remarks:
        more = f"; so are {len(metadata.remarks) - 1} more texts" if metadata.remarks[1:] else ""
        yield f"{metadata.remarks[0].why}{more}"


def _value_text(value: float | str, name: str, metadata: Metadata) -> str:
    """Return the text that identifies a value. Of numbers, special missing values are told as letters."""
    if not isinstance(value, str):
        return value_labels.value_text(value)
    return value_labels.value_text(metadata.text(value, f"value in {name}")) if name.startswith("$") else f".{value}"
