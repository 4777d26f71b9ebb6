"""Read a catalog of value labels from a file: a sas7bcat, or a data set of CNTLOUT= in any format that is read."""

from typing import BinaryIO

from app.dataset import value_labels
from app.dataset.value_labels import Catalog
from app.tables.read import formats, sas7bcat
from app.tables.read.request import Options, unreadable


def read(file: BinaryIO, file_name: str, media_type: str, encoding: str | None = None) -> Catalog:
    """Return the value labels in a file. Raises InvalidInputError that names the fault."""
    file.seek(0)
    if file.read(len(sas7bcat.MAGIC)) == sas7bcat.MAGIC:
        return sas7bcat.read_sas7bcat(file, encoding)
    found = formats.format_of(file, file_name, media_type)
    reading = formats.read(file, found, Options(encoding=encoding, types={"start": "character", "end": "character"}))
    if not value_labels.is_catalog(reading.schema):
        raise unreadable("it is neither a sas7bcat nor a data set with FMTNAME, START and LABEL")
    try:
        return value_labels.from_batches(reading.batches())
    except ValueError as error:
        raise unreadable(str(error)) from None
