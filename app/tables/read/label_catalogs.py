"""Read a catalog of value labels from a file: a sas7bcat, or a data set of CNTLOUT= in any format that is read."""

from collections.abc import Iterator
from typing import BinaryIO

from app.dataset import value_labels
from app.dataset.checks import Fault
from app.dataset.value_labels import Catalog
from app.tables.read import file_formats, sas7bcat
from app.tables.read.read_request import Options, unreadable

MOST_NAMES = 10
"""The maximum number of formats that a warning names."""


def read(
    file: BinaryIO, file_name: str, media_type: str, encoding: str | None = None
) -> tuple[Catalog, tuple[Fault, ...]]:
    """Return the value labels in a file, and warnings of entries that are not taken.

    Raises InvalidInputError that names the fault.
    """
    file.seek(0)
    head = file.read(len(sas7bcat.MAGIC))
    if not head:
        raise unreadable("the file is empty; it must have the value labels of formats")
    if head == sas7bcat.MAGIC:
        catalog, said = sas7bcat.read_sas7bcat(file, encoding)
        return catalog, tuple(Fault(None, "value-labels", f"the catalog: {why}") for why in said)
    found = file_formats.format_of(file, file_name, media_type)
    reading = file_formats.read(
        file, found, Options(encoding=encoding, types={"start": "character", "end": "character"})
    )
    if not value_labels.is_catalog(reading.schema):
        raise unreadable("it is neither a sas7bcat nor a data set with FMTNAME, START and LABEL")
    left_out: set[str] = set()
    try:
        catalog = value_labels.from_batches(reading.batches(), left_out)
    except ValueError as error:
        raise unreadable(str(error)) from None
    return catalog, tuple(_warnings(sorted(left_out)))


def _warnings(names: list[str]) -> Iterator[Fault]:
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        formats_named = f"{', '.join(names[:MOST_NAMES])}{more}"
        why = f"the catalog's ranges, OTHER and pictures are not taken, only single values; formats: {formats_named}"
        yield Fault(None, "value-labels", why)
