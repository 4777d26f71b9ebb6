"""Both hosts of assembly over the messages of very many senders at once, each with a source of its own."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.framing.arrivals import ArrivalsBySource
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter, Catalog, ContentStore, Journal
from app.service.assembling.assembler import Assembler
from app.service.content.access import open_content, object_name, opened
from app.service.finishing.finisher import Complete, Finisher
from tests.evidence.senders.sent import Cell, Column, Physical, Table
from tests.support.found import settings
from tests.support.passes import run_batch
from tests.support.service_context import service_context

AT_ONCE = 500
"""The messages that the journal is given at once."""


class Received(NamedTuple):
    """An attachment as a client sees it; content is there where it is finished."""

    name: str
    state: AttachmentState
    reason: str | None
    content: bytes | Table | None


Traffic = Mapping[str, Sequence[Sequence[Physical]]]
"""By source, the messages that come; the gateway is restarted between two sequences."""


def gateway(folder: Path, framing: str, traffic: Traffic) -> dict[str, list[Received]]:
    """Return what the gateway's own process makes of messages, by source; its journal is in `folder`."""
    with service_context(folder, segment_bytes=64 << 20) as context:
        for life in range(max(map(len, traffic.values()))):
            arrivals = ArrivalsBySource()
            came = [
                _physical(source, framing, message)
                for source, lives in traffic.items()
                if life < len(lives)
                for message in lives[life]
            ]
            numbered = arrivals.numbered(came)
            for start in range(0, len(numbered), AT_ONCE):
                context.journal.append(numbered[start : start + AT_ONCE])
            complete: dict[str, Complete | None] = {}
            Assembler(context, complete.update).recover()
            Finisher(context).finish(complete)
        context.journal.seal()
        return _received(context.catalog, context.store, context.journal)


def pipeline(folder: Path, journal: Path) -> dict[str, list[Received]]:
    """Return what the pipeline makes of an archive, without Spark."""
    run_batch(folder, journal)
    return in_folder(folder, journal)


def in_folder(folder: Path, journal: Path) -> dict[str, list[Received]]:
    """Return what a pipeline has left in its folder."""
    chosen = settings(folder)
    with closing(ArrowJournal(journal)) as opened_, closing(SqlCatalog(chosen.catalog_url)) as catalog:
        return _received(catalog, ObjectStore(chosen.content_url), opened_)


def _physical(source: str, framing: str, message: Physical) -> PhysicalMessage:
    fields: dict[str, Any] = message._asdict()
    del fields["role"], fields["records"]
    return PhysicalMessage(source, framing, **fields, received_at=1)


def _received(catalog: Catalog, store: ContentStore, journal: Journal) -> dict[str, list[Received]]:
    found: dict[str, list[Received]] = {}
    for record in _records(catalog):
        content = None
        if record.state is AttachmentState.FINISHED:
            content = _content(record, catalog, store, journal)
        name = record.qualifier_2 or record.correl_id.hex()
        found.setdefault(record.source, []).append(Received(name, record.state, record.reason, content))
    return found


def _records(catalog: Catalog) -> Iterable[AttachmentRecord]:
    cursor: str | None = None
    while True:
        page = catalog.attachments(AttachmentFilter(), cursor, 1000)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _content(record: AttachmentRecord, catalog: Catalog, store: ContentStore, journal: Journal) -> bytes | Table:
    if record.kind is AttachmentKind.DATA_SET:
        with opened(store, record.object_name or object_name(record.id)) as file:
            return _table(pq.read_table(file))
    content = open_content(record, catalog, store, journal)
    return b"".join(content.read(0, content.size))


def _table(found: Any) -> Table:
    """Return a table without what the product adds beside the variables."""
    columns = []
    for field in found.schema:
        said = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        is_text = said.get("sas.type", "") == "char" or (str(field.type) == "string" and "sas.length" in said)
        columns.append(Column(field.name, said.get("sas.label", ""), int(said["sas.length"]) if is_text else None))
    rows: list[tuple[Cell, ...]] = [tuple(row.values()) for row in found.to_pylist()]
    return Table(tuple(columns), tuple(rows))
