"""The log of receipts. Clients get its heads, so every write is durable on return: a log that a power failure has cut
would go on as another one."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Text, and_, bindparam, cast, delete, func, insert, select, update

from adapters.sql_catalog.bulk_rows import BulkStatement
from adapters.sql_catalog.parts.part import CatalogPart, among, chunks, is_past, log_events
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.catalog_tables import (
    receipt_heads,
    receipt_log,
    receipt_replies,
    receipt_retries,
    receipt_statements,
    receipt_tables,
    receipt_tiles,
)
from adapters.sql_catalog.schema.record_rows import delivery_record
from app.model.attachment import AttachmentKind
from app.model.errors import CatalogError
from app.model.receipt_records import (
    ATTACHMENT_FINISHED,
    DELIVERY_SENT,
    NO_RETRIES,
    CommittedTables,
    FinishedFacts,
    KeptHead,
    KeptStatement,
    NewReceipt,
    ReceiptCause,
    ReceiptLog,
    ReceiptRetry,
)
from app.model.records import DeliveryRecord, NewEvent

_events, _attachments, _messages = catalog_tables.events, catalog_tables.attachments, catalog_tables.messages
_IN_JSON = {"warnings", "evidence"}
_OF_MESSAGE = {"header_position", "header_correl_id", "message_correl_id"}
_EVENT = (_events.c.number, _events.c.type, _events.c.subject, _events.c.time, cast(_events.c.data, Text).label("data"))
# Facts of another time than the event's are of what the attachment became later.
_OF_THE_EVENT = and_(
    _events.c.type == ATTACHMENT_FINISHED,
    _attachments.c.id == _events.c.subject,
    _attachments.c.finished_at == _events.c.time,
)
_CAUSES = (
    select(
        *_EVENT,
        _attachments.c.id,
        *(
            cast(_attachments.c[name], Text).label(name)
            if name in _IN_JSON
            else (_messages if name in _OF_MESSAGE else _attachments).c[name]
            for name in FinishedFacts._fields
        ),
    )
    .select_from(_events)
    .outerjoin(_attachments, _OF_THE_EVENT)
    .outerjoin(_messages, _messages.c.id == _attachments.c.message_id)
    .where(
        _events.c.number > bindparam("after"),
        _events.c.number <= bindparam("newest"),
        _events.c.type.in_((ATTACHMENT_FINISHED, DELIVERY_SENT)),
    )
    .order_by(_events.c.number)
    .limit(bindparam("most"))
)
_ROWS = 100
"""The rows that are read at once: few enough that they are still in the processor's cache when they are used."""
_KINDS = {None: None} | {int(kind): kind for kind in AttachmentKind}
_INSERT = BulkStatement(insert(receipt_statements), ("number", "subject", "statement"))
_LOG = select(receipt_log.c.name, receipt_log.c.size, receipt_log.c.event)


class ReceiptsPart(CatalogPart):
    """`ReceiptCatalog` of `app.ports.catalog` over SQL."""

    def receipt_log(self) -> ReceiptLog | None:
        return self._one(_LOG, ReceiptLog._make)

    def begin_receipt_log(self, name: str) -> ReceiptLog:
        with self._database.write(durable=True) as connection:
            if (row := connection.execute(_LOG).first()) is not None:
                return ReceiptLog._make(row)
            connection.execute(insert(receipt_log).values(id=1, name=name, size=0, event=0))
        return ReceiptLog(name, 0, 0)

    def receipt_causes(self, after: int, limit: int) -> tuple[list[ReceiptCause], int]:
        with self._database.read() as connection:
            newest = connection.scalar(select(func.max(_events.c.number))) or 0
            found = connection.execute(_CAUSES, {"after": after, "newest": newest, "most": limit})
            causes = [_cause(row) for some in found.partitions(_ROWS) for row in some]
            sent = _deliveries(connection, [each.subject for each in causes if each.type == DELIVERY_SENT])
            tables = _tables(connection, {each.time for each in causes if each.type == ATTACHMENT_FINISHED})
        if sent or tables:
            causes = [
                each._replace(sent=sent.get(each.subject), tables=tables.get(each.time) if each.finished else None)
                for each in causes
            ]
        return causes, (causes[-1].number if len(causes) == limit else max(newest, after))

    def save_receipt_tables(self, finished_at: int, versions: Mapping[str, int]) -> None:
        with self._database.write() as connection:
            number = select(func.coalesce(func.max(receipt_tables.c.number), 0) + 1).scalar_subquery()
            saved = insert(receipt_tables).values(number=number, finished_at=finished_at, versions=dict(versions))
            connection.execute(saved)

    def append_receipts(
        self,
        log: ReceiptLog,
        receipts: Sequence[NewReceipt],
        tiles: Mapping[tuple[int, int], bytes],
        event: int,
        head: KeptHead | None,
        events: Sequence[NewEvent] = (),
        tables: int = 0,
    ) -> ReceiptLog:
        changed = ReceiptLog(log.name, log.size + len(receipts), event)
        same = (receipt_log.c.name == log.name, receipt_log.c.size == log.size, receipt_log.c.event == log.event)
        with self._database.write(durable=True) as connection:
            if not connection.execute(update(receipt_log).where(*same).values(changed._asdict())).rowcount:
                raise CatalogError(f"the log of receipts {log.name} has changed since it had {log.size} statements")
            _INSERT.run(
                connection,
                {
                    "number": range(log.size, changed.size),
                    "subject": [each.subject for each in receipts],
                    "statement": [each.statement for each in receipts],
                },
            )
            if tiles:
                rows = [{"level": level, "number": number, "hashes": each} for (level, number), each in tiles.items()]
                connection.execute(self._database.upsert(receipt_tiles, "hashes"), rows)
            if head is not None:
                number = select(func.coalesce(func.max(receipt_heads.c.number), 0) + 1).scalar_subquery()
                connection.execute(insert(receipt_heads).values(number=number, **head._asdict()))
            log_events(connection, events)
            if tables:
                connection.execute(delete(receipt_tables).where(receipt_tables.c.number < tables))
        return changed

    def receipt_statement(self, subject: str) -> tuple[int, bytes] | None:
        about = select(receipt_statements.c.number, receipt_statements.c.statement)
        about = about.where(receipt_statements.c.subject == subject)
        return self._one(
            about.order_by(receipt_statements.c.number.desc()).limit(1), lambda row: (row.number, bytes(row.statement))
        )

    def receipt_statements(self, place: int, limit: int) -> list[KeptStatement]:
        number = receipt_statements.c.number
        later = select(receipt_statements).where(number >= place).order_by(number).limit(limit)
        return self._all(later, lambda row: KeptStatement(row.number, row.subject, bytes(row.statement)))

    def receipts_sent_back(self) -> int | None:
        place: int | None = self._one(select(receipt_log.c.sent_back), lambda row: row.sent_back)
        return place

    def save_receipts_sent_back(self, place: int) -> None:
        self._execute(update(receipt_log).values(sent_back=place))

    def receipts_replied(self, source: str) -> int | None:
        which = select(receipt_replies.c.place).where(receipt_replies.c.source == source)
        place: int | None = self._one(which, lambda row: row.place)
        return place

    def save_receipts_replied(
        self, source: str, place: int, retries: Mapping[int, ReceiptRetry | None] = NO_RETRIES
    ) -> None:
        later = [{"source": source, "place": at, **each._asdict()} for at, each in retries.items() if each is not None]
        with self._database.write(durable=True) as connection:
            connection.execute(self._database.upsert(receipt_replies, "place"), {"source": source, "place": place})
            if retries:
                which = (receipt_retries.c.source == source, receipt_retries.c.place.in_(retries))
                connection.execute(delete(receipt_retries).where(*which))
            if later:
                connection.execute(insert(receipt_retries), later)

    def receipts_to_retry(
        self, source: str, now: int, limit: int, latest: int | None = None
    ) -> list[tuple[KeptStatement, int]]:
        due = (
            select(receipt_statements, receipt_retries.c.refusals)
            .join(receipt_retries, receipt_retries.c.place == receipt_statements.c.number)
            .where(receipt_retries.c.source == source, is_past(receipt_retries.c.next_at, now, latest))
            .order_by(receipt_retries.c.next_at, receipt_retries.c.place)
            .limit(limit)
        )
        return self._all(due, lambda row: (KeptStatement(row.number, row.subject, bytes(row.statement)), row.refusals))

    def receipt_tile(self, level: int, number: int) -> bytes:
        wanted = (receipt_tiles.c.level == level, receipt_tiles.c.number == number)
        return self._one(select(receipt_tiles.c.hashes).where(*wanted), lambda row: bytes(row.hashes)) or b""

    def receipt_head(self) -> KeptHead | None:
        newest = select(receipt_heads).order_by(receipt_heads.c.number.desc()).limit(1)
        return self._one(
            newest, lambda row: KeptHead(row.size, bytes(row.protected), bytes(row.root), bytes(row.signature))
        )


def _deliveries(connection: Connection, ids: Sequence[str]) -> dict[str, DeliveryRecord]:
    table = catalog_tables.deliveries
    rows = (
        row
        for some in chunks(ids)
        for row in connection.execute(select(table).where(among(connection, table.c.id, some)))
    )
    return {row.id: delivery_record(row) for row in rows}


def _tables(connection: Connection, times: Collection[int]) -> dict[int, CommittedTables]:
    """Return the tables of the batches that finished attachments at these times."""
    if not times:
        return {}
    near = select(receipt_tables).where(receipt_tables.c.finished_at.between(min(times), max(times)))
    return {row.finished_at: CommittedTables(row.number, row.versions) for row in connection.execute(near)}


def _cause(row: Row[Any]) -> ReceiptCause:
    known, kind = row[len(_EVENT) : len(_EVENT) + 2]
    facts = None if known is None else FinishedFacts(_KINDS[kind], *row[len(_EVENT) + 2 :])
    return ReceiptCause._make((*row[: len(_EVENT)], facts, None, None))
