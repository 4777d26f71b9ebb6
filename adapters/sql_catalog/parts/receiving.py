"""Sources: the time in which they could receive, the attachments that expire by it, and the numbering on arrival."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from adapters.sql_catalog.parts.closing import forget_pieces
from adapters.sql_catalog.parts.part import CatalogPart, among, chunks, log_events
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.record_rows import attachment_record
from adapters.sql_catalog.schema.state_conditions import becomes, can
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState
from app.model.records import ALONE, AttachmentRecord, NewEvent, ReceivingMark

_attachments, _times, _marks = catalog_tables.attachments, catalog_tables.receiving_time, catalog_tables.receiving_marks
_expirations, _counting, _messages = catalog_tables.expirations, catalog_tables.counting, catalog_tables.messages
_state = _attachments.c.state

# An attachment after its parts were forgotten. The values of its header stay, so that a repeated header is recognized
# and changes nothing.
NOTHING_CAME: dict[str, Any] = {
    "parts_expected": None,
    "parts_received": 0,
    "bytes_received": 0,
    "pending_counts": [],
    "pending_position": None,
    "group_last": None,
    "group_ended": None,
    "group_size": None,
    "completed_at": None,
}

KEPT = 10_000
"""Subjects of a source that are kept when there are twice as many."""


class ReceivingPart(CatalogPart):
    """`app.ports.catalog.receiving` over SQL."""

    def receiving_time(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        with self._database.read() as connection:
            for journal, source, counted in connection.execute(select(_times)):
                found.setdefault(journal, {})[source] = counted
        return found

    def receiving_marks(self) -> list[ReceivingMark]:
        marks = select(_marks.c.source, _marks.c.counted, _marks.c.position, _marks.c.journal)
        order = _marks.c.journal, _marks.c.source, _marks.c.counted
        return self._all(marks.order_by(*order), ReceivingMark._make)

    def save_receiving_time(
        self,
        counted: Mapping[str, int],
        marks: Sequence[ReceivingMark],
        forget_before: Mapping[str, int],
        journal: str = ALONE,
    ) -> None:
        with self._database.write() as connection:
            if journal != ALONE:
                own = catalog_tables.receiving_journals
                has_joined = select(own.c.id).where(own.c.id == journal, own.c.has_left.is_(False))
                if connection.execute(has_joined).first() is None:
                    return  # it was made to leave, and joins again when it looks for the others
            if counted:
                rows = [{"journal": journal, "source": name, "counted": time} for name, time in counted.items()]
                connection.execute(self._database.upsert(_times, "counted"), rows)
            if marks:
                add = self._database.insert(_marks).on_conflict_do_nothing()
                connection.execute(add, [mark._asdict() for mark in marks])
            for source, before in forget_before.items():
                old = _marks.c.journal == journal, _marks.c.source == source, _marks.c.counted < before
                connection.execute(delete(_marks).where(*old))

    def silent_attachments(self, source: str, last_position: int, limit: int) -> list[AttachmentRecord]:
        # No index has this order, since every checkpoint would have to rewrite it. The query scans all receiving
        # attachments.
        last = _attachments.c.last_position
        silent = select(_attachments).where(can(Input.SILENCE), _attachments.c.source == source, last <= last_position)
        return self._all(silent.order_by(last, _attachments.c.id).limit(limit), attachment_record)

    def expire(
        self, records: Sequence[AttachmentRecord], counted: int, reasons: Sequence[str], events: Sequence[NewEvent]
    ) -> set[str]:
        expired: set[str] = set()
        with self._database.write() as connection:
            for record, reason in zip(records, reasons, strict=True):
                silent = (
                    _attachments.c.id == record.id,
                    can(Input.SILENCE),
                    _attachments.c.last_position <= record.last_position,
                )
                values = {"state": becomes(Input.SILENCE), "reason_code": "expired", "reason": reason}
                if connection.execute(update(_attachments).where(*silent).values(values)).rowcount:
                    expired.add(record.id)
            for some in chunks([record for record in records if record.id in expired]):
                connection.execute(
                    delete(_expirations).where(
                        among(connection, _expirations.c.attachment_id, [record.id for record in some])
                    )
                )
                rows = [{"attachment_id": each.id, "source": each.source, "counted": counted} for each in some]
                connection.execute(insert(_expirations), rows)
            log_events(connection, [event for event in events if event.subject in expired])
        return expired

    def expired_before(self, source: str, counted: int, limit: int) -> list[AttachmentRecord]:
        which = _expirations.c.source == source, _expirations.c.counted <= counted
        found = select(_attachments).join(_expirations, _expirations.c.attachment_id == _attachments.c.id)
        return self._all(found.where(*which).order_by(_expirations.c.counted).limit(limit), attachment_record)

    def restart(self, attachment_ids: Sequence[str], state: AttachmentState, reason: str | None) -> list[str]:
        follows = follow(state, Input.PARTS_GONE)
        if follows is None:
            return []
        code = None if follows is AttachmentState.RECEIVING else _attachments.c.reason_code
        values = {"state": follows.value, "reason": reason, "reason_code": code, **NOTHING_CAME}
        restarted: list[str] = []
        with self._database.write() as connection:
            for some in chunks(attachment_ids):
                ids = among(connection, _attachments.c.id, some)
                which = ids, _state == state.value
                here = [*connection.scalars(select(_attachments.c.id).where(*which))]
                connection.execute(update(_attachments).where(*which).values(values))
                forget_pieces(connection, here)
                connection.execute(delete(_expirations).where(among(connection, _expirations.c.attachment_id, some)))
                restarted += here
            if restarted:
                restarts = catalog_tables.progress.c.restarts
                connection.execute(update(catalog_tables.progress).values(restarts=restarts + len(restarted)))
        return restarted

    def counting(self, source: str) -> dict[str, str]:
        of_source = select(_counting.c.subject, _counting.c.rules).where(_counting.c.source == source)
        with self._database.read() as connection:
            rows = connection.execute(of_source.order_by(_counting.c.learned))
            return {row.subject: row.rules for row in rows}

    def learn_counting(self, source: str, rules: Mapping[str, str]) -> None:
        mine = _counting.c.source == source
        with self._database.write() as connection:
            newest, known = connection.execute(
                select(func.coalesce(func.max(_counting.c.learned), 0), func.count()).where(mine)
            ).one()
            rows = [
                {"source": source, "subject": subject, "rules": text, "learned": newest + number}
                for number, (subject, text) in enumerate(rules.items(), 1)
            ]
            if rows:
                connection.execute(self._database.upsert(_counting, "rules", "learned"), rows)
            if known + len(rows) > 2 * KEPT:
                last = select(_counting.c.learned).where(mine).order_by(_counting.c.learned.desc())
                oldest = connection.scalar(last.offset(KEPT - 1).limit(1))
                connection.execute(delete(_counting).where(mine, _counting.c.learned < oldest))

    def open_correl_ids(self, source: str) -> dict[bytes, int]:
        receiving = select(_attachments.c.message_id).where(
            _attachments.c.source == source, _attachments.c.state == AttachmentState.RECEIVING.value
        )
        found = (
            select(_messages.c.header_position, _messages.c.header_correl_id, _attachments.c.correl_id)
            .join(_attachments, _attachments.c.message_id == _messages.c.id)
            .where(_messages.c.id.in_(receiving))
        )
        with self._database.read() as connection:
            rows = connection.execute(found)
            return {each: row.header_position for row in rows for each in (row.header_correl_id, row.correl_id)}
