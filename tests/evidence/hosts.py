"""Both hosts of assembly over the messages of very many senders at once, each with a source of its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter, Catalog, ContentStore, Intake, Journal, Receiver
from app.service.content.stored_content import object_name, open_content, opened
from app.service.context import ServiceContext
from app.service.gateway import Gateway
from app.testing.gateway_stages import service_context
from app.testing.host_results import PATIENT, settings
from app.testing.waiting import until
from tests.evidence.senders.sent import Column, Files, Physical, Table
from tests.support.local_steps import run_batch

PATIENCE = 240.0
LAST_SOURCE = "the last message of all"


class Received(NamedTuple):
    """An attachment as a client sees it; its content is there where it is finished."""

    name: str
    state: AttachmentState
    reason: str | None
    content: bytes | Files | Table | None


class Traffic(NamedTuple):
    """The messages of one source: the gateway is restarted between two of the `lives`."""

    framing: str
    lives: Sequence[Sequence[Physical]]


Found = Mapping[str, Sequence[Received]]
"""By source, the attachments that a host has."""


class Broker:
    """The receiver of all sources: it hands over what they have, each source by itself. It loses nothing."""

    def __init__(self, several: Sequence[Sequence[PhysicalMessage]]) -> None:
        self._several = several

    def session(self, name: str | None = None) -> None:
        """Return None: no broker keeps anything."""
        del name

    def run(self, intake: Intake, stop: Event) -> None:
        """Hand over everything, and end."""
        for messages in self._several:
            if messages and not stop.is_set():
                intake.submit(messages, lambda: None)

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Say that nothing is missing behind what the journal has."""
        del newest
        return True

    def status(self) -> dict[str, Any]:
        return {"connected": True, "since": 1, "error": None}


def gateway(folder: Path, traffic: Mapping[str, Traffic]) -> Found:
    """Return what a gateway has received when all messages have come; its journal is in `folder`."""
    lives = max(len(each.lives) for each in traffic.values())
    restarted = {source: each.framing for source, each in traffic.items() if len(each.lives) > 1}
    sources = {
        source: {"transport": "memory", "queue": source, "framing": framing} for source, framing in restarted.items()
    }
    tables: dict[str, Any] = {"sources": sources, **PATIENT}
    for life in range(lives):
        last = PhysicalMessage(LAST_SOURCE, "mq_group", msg_type=8, message_id=b"%d" % life, body=b"the end")
        several = [
            [_physical(source, each.framing, message) for message in each.lives[life]]
            for source, each in traffic.items()
            if life < len(each.lives)
        ]
        receivers: dict[str, Receiver] = {source: Broker([]) for source in restarted}
        receivers["all"] = Broker([*several, [last]])
        with service_context(folder, segment_bytes=64 << 20, **tables) as context:
            _run(Gateway(context, receivers, {}), context, last)
    with service_context(folder) as context:
        context.journal.seal()
        return _received(context.catalog, context.store, context.journal)


def _run(gateway_: Gateway, context: ServiceContext, last: PhysicalMessage) -> None:
    """Run a gateway until the last message of all is finished, and everything before it."""
    catalog, key = context.catalog, attachment_id(LAST_SOURCE, last.message_id.ljust(24, b"\0"))

    def is_over() -> bool:
        record = catalog.attachment(key)
        is_finished = record is not None and record.state is AttachmentState.FINISHED
        return is_finished and not catalog.complete_attachments(1)

    gateway_.start()
    until(is_over, PATIENCE)
    gateway_.stop()


def pipeline(folder: Path, journal: Path) -> Found:
    """Return what the pipeline makes of an archive, in this process."""
    run_batch(folder, journal)
    return in_folder(folder, journal)


def in_folder(folder: Path, journal: Path) -> Found:
    """Return what a pipeline has left in its folder."""
    chosen = settings(folder)
    with closing(ArrowJournal(journal)) as opened_, closing(SqlCatalog(chosen.catalog_url)) as catalog:
        return _received(catalog, ObjectStore(chosen.content_url), opened_)


def _physical(source: str, framing: str, message: Physical) -> PhysicalMessage:
    fields: dict[str, Any] = message._asdict()
    del fields["role"], fields["records"]
    return PhysicalMessage(source, framing, **fields, received_at=1)


def _received(catalog: Catalog, store: ContentStore, journal: Journal) -> Found:
    found: dict[str, list[Received]] = {}
    known = [*_records(catalog)]
    objects = {object_name(record.id): record for record in known if record.state is not AttachmentState.FINISHED}
    left = [objects.get(name) for name in store.names("attachments/") if name in objects]
    assert not left, "content that is held leaves nothing in the store"
    for record in known:
        if record.source == LAST_SOURCE:
            continue
        is_finished = record.state is AttachmentState.FINISHED
        content = _content(record, catalog, store, journal) if is_finished else None
        name = record.qualifier_2 or record.correl_id.hex()
        found.setdefault(record.source, []).append(Received(name, record.state, record.reason, content))
    return {
        source: sorted(several, key=lambda each: (each.name, each.state, each.reason or ""))
        for source, several in found.items()
    }


def _records(catalog: Catalog) -> Iterable[AttachmentRecord]:
    cursor: str | None = None
    while True:
        page = catalog.attachments(AttachmentFilter(), cursor, 1000)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _content(
    record: AttachmentRecord, catalog: Catalog, store: ContentStore, journal: Journal
) -> bytes | Files | Table:
    if record.kind is AttachmentKind.DATA_SET:
        with opened(store, record.object_name or object_name(record.id)) as file:
            return _table(pq.read_table(file))
    content = open_content(record, catalog, store, journal)
    whole = b"".join(content.read(0, content.size))
    if not record.files:
        return whole
    assert sum(each.size for each in record.files) == len(whole)
    return tuple(whole[each.offset : each.offset + each.size] for each in record.files)


def _table(found: pa.Table) -> Table:
    columns = []
    for field in found.schema:
        said = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        width = int(said["sas.length"]) if "sas.length" in said and pa.types.is_string(field.type) else None
        columns.append(Column(field.name, said.get("sas.label", ""), width))
    return Table(tuple(columns), tuple(tuple(row.values()) for row in found.to_pylist()))
