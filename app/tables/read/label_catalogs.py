"""Read a catalog of value labels from a file: a sas7bcat, or a data set of CNTLOUT= in any format that is read.

pyreadstat parses sas7bcat files, with the C library ReadStat. It returns single values only, no ranges.
"""

from typing import Any, BinaryIO, Final

from app.dataset import value_labels
from app.dataset.checks import Fault
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.names import in_capitals
from app.tables.read import file_formats, sas_file_headers
from app.tables.read.damage_errors import READSTAT, SAS7BCAT, meaning
from app.tables.read.read_request import ReadOptions, listed, unreadable
from app.tables.read.sas_file_headers import AsLatin1
from app.tables.read.text_charsets import Metadata


def read(
    file: BinaryIO, file_name: str, media_type: str, encoding: str | None = None
) -> tuple[Catalog, tuple[Fault, ...]]:
    """Return the value labels in a file, and warnings of entries that are not taken.

    Raises InvalidInputError that names the fault.
    """
    file.seek(0)
    head = file.read(len(SAS7BCAT_MAGIC))
    if not head:
        raise unreadable("the file is empty; it must have the value labels of formats")
    if head == SAS7BCAT_MAGIC:
        catalog, warnings = read_sas7bcat(file, encoding)
        return catalog, tuple(Fault(None, "value-labels", f"the catalog: {why}") for why in warnings)
    found = file_formats.format_of(file, file_name, media_type)
    reading = file_formats.read(
        file, found, ReadOptions(encoding=encoding, types={"start": "character", "end": "character"})
    )
    if not value_labels.is_catalog(reading.schema):
        raise unreadable("it is neither a sas7bcat nor a data set with FMTNAME, START and LABEL")
    left_out: set[str] = set()
    try:
        catalog = value_labels.from_batches(reading.batches(), left_out)
    except ValueError as error:
        raise unreadable(str(error)) from None
    if not left_out:
        return catalog, ()
    why = "the catalog's ranges, OTHER and pictures are not taken, only single values; formats: "
    return catalog, (Fault(None, "value-labels", why + listed(sorted(left_out))),)


SAS7BCAT_MAGIC: Final = bytes.fromhex("000000000000000000000000c2ea8163b31411cfbd92080009c7318c181f1011")
"""The first bytes of every sas7bcat file."""

_ERRORS = (ArithmeticError, ValueError, LookupError, TypeError, OSError)


def read_sas7bcat(file: Any, encoding: str | None = None) -> tuple[Catalog, tuple[str, ...]]:
    """Return the value labels of a sas7bcat file, and warnings.

    Texts are in the character set that the file states, unless `encoding` is another one. Raises InvalidInputError for
    a file that cannot be read.
    """
    import pyreadstat  # noqa: PLC0415 - slow to import, and few processes read such files

    file.seek(0)
    if file.read(len(SAS7BCAT_MAGIC)) != SAS7BCAT_MAGIC:
        raise unreadable(f"not a sas7bcat file: its first {len(SAS7BCAT_MAGIC)} bytes differ")
    charset = sas_file_headers.charset_of(file, SAS7BCAT, encoding)
    file.seek(0)
    source: Any = AsLatin1(file)
    metadata = Metadata(charset.codec)
    try:
        _, about = pyreadstat.read_sas7bcat(source, output_format="dict")
        found: dict[str, ValueLabels] = {}
        for raw_name, labels in about.value_labels.items():
            name = in_capitals(metadata.text(raw_name, "name of the format"))
            found[name] = {
                _value_text(value, name, metadata): metadata.text(label, f"label in {name}")
                for value, label in labels.items()
            }
    except MemoryError:
        raise
    except (*_ERRORS, pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        raise sas_file_headers.explained(file, SAS7BCAT, meaning(error, READSTAT)) from None
    try:
        value_labels.check_size(found.values())
    except ValueError as error:
        raise unreadable(str(error)) from None
    warnings = []
    texts = (text for name, labels in found.items() for text in (name, *labels, *labels.values()))
    if charset.unstated and not all(map(str.isascii, texts)):
        warnings.append(f"it states no character set and was read as {charset.codec}; state its `encoding`")
    if metadata.remarks:
        more = f"; so are {len(metadata.remarks) - 1} more texts" if metadata.remarks[1:] else ""
        warnings.append(f"{metadata.remarks[0].why}{more}")
    return found, tuple(warnings)


def _value_text(value: float | str, name: str, metadata: Metadata) -> str:
    """Return the text that identifies a value. Of numbers, special missing values are given as letters."""
    if not isinstance(value, str):
        return value_labels.value_text(value)
    return value_labels.value_text(metadata.text(value, f"value in {name}")) if name.startswith("$") else f".{value}"
