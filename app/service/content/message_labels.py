"""Value labels of received data sets: from the catalogs of their message."""

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from app.dataset import value_labels
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.names import folded, in_capitals
from app.model.records import AttachmentRecord
from app.ports import Catalog as CatalogPort
from app.service.content.stored_content import Content, ContentFile
from app.tables.read.label_catalogs import read_sas7bcat


def catalogs_of(record: AttachmentRecord, catalog: CatalogPort) -> Iterator[AttachmentRecord]:
    """Yield the finished attachments of the same message that are catalogs by their names, in the header's order."""
    message = catalog.message(record.message_id) if record.message_id else None
    for attachment_id in message.attachments if message is not None else ():
        found = catalog.attachment(attachment_id)
        if found is None or found.id == record.id or found.state is not AttachmentState.FINISHED:
            continue
        if found.kind is AttachmentKind.DATA_SET:
            is_catalog = in_capitals(found.qualifier_2) == value_labels.MEMBER
        else:
            is_catalog = folded(found.qualifier_2).endswith(".sas7bcat")
        if is_catalog:
            yield found


def read_catalogs(contents: Sequence[tuple[AttachmentKind, Content]]) -> Catalog:
    """Return the value labels in catalogs; the first with a format takes precedence.

    Raises InvalidInputError for one that cannot be read.
    """
    catalog: dict[str, ValueLabels] = {}
    for kind, content in contents:
        file = ContentFile(content)
        found: Catalog = {}
        if kind is not AttachmentKind.DATA_SET:
            found = read_sas7bcat(io.BufferedReader(file))[0]
        else:
            with pq.ParquetFile(pa.PythonFile(file, "r")) as opened:
                if value_labels.is_catalog(opened.schema_arrow):
                    found = value_labels.from_batches(opened.iter_batches(use_threads=False))
        catalog = {**found, **catalog}
    return catalog
