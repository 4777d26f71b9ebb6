"""The steps from complete to finished, settled, quarantined or deleted."""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import BigInteger, bindparam, exists, func, literal_column, select, tuple_, update

from adapters.sql_catalog.bulk_rows import BulkStatement
from adapters.sql_catalog.parts.closing import finish, forget_pieces, place_content, states
from adapters.sql_catalog.parts.part import CatalogPart, Lookup, among, chunks, is_past, log_events
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.bounded_types import AnyText, Octets
from adapters.sql_catalog.schema.record_rows import attachment_record
from adapters.sql_catalog.schema.state_conditions import may_become
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState
from app.model.identity import announces_application
from app.model.records import DAMAGED_CONTENT, AttachmentRecord, Finished, NewEvent, StoredObject

_attachments, _messages = catalog_tables.attachments, catalog_tables.messages
_state = _attachments.c.state

_COMPLETE = AttachmentState.COMPLETE.value
_FINISHED = AttachmentState.FINISHED.value
_RECEIVING = AttachmentState.RECEIVING.value
_NOT_FINISHED = tuple(state.value for state in AttachmentState if state is not AttachmentState.FINISHED)

_theirs = _attachments.c.message_id == _messages.c.id
_LACKS_NO_CONTENT = catalog_tables.IS_INCOMPLETE, ~exists().where(_theirs, _state.in_(_NOT_FINISHED))
_LEFT_TO_COMPLETE = (
    select(select(func.min(_attachments.c.id)).where(_theirs, _state == _FINISHED).scalar_subquery())
    .select_from(_messages)
    .where(*_LACKS_NO_CONTENT)
)
_INCOMPLETE = select(
    _messages.c.id,
    _messages.c.source,
    _messages.c.attachments,
    _messages.c.message_correl_id,
    _messages.c.application_body.is_not(None).label("answered"),
    select(func.count()).where(_theirs, _state == _FINISHED).scalar_subquery().label("finished"),
).where(*_LACKS_NO_CONTENT)
# The index answers this: a message may list very many attachments, and each of them asks.
_INCOMPLETE_OF = Lookup(
    _attachments.c.id,
    lambda wanted: _INCOMPLETE.where(_messages.c.id.in_(select(_attachments.c.message_id).where(wanted))),
)
_FINISHED_OF = Lookup(_attachments.c.id, lambda wanted: select(_attachments.c.id).where(wanted, _state == _FINISHED))
_first = tuple_(_attachments.c.first_received_at, _attachments.c.id)
_BEGUN_FIRST = (
    select(_attachments.c.first_received_at, _attachments.c.id, _attachments.c.last_received_at)
    .where(_state == _RECEIVING, _first > tuple_(bindparam("time", type_=BigInteger), bindparam("id", type_=AnyText)))
    .order_by(_attachments.c.first_received_at, _attachments.c.id)
    .limit(1000)
)
_COMPLETE_MESSAGE = BulkStatement(
    update(_messages)
    .where(_messages.c.id == bindparam("message", type_=AnyText))
    .values(complete_at=bindparam("now", type_=BigInteger)),
    ("message", "now"),
)


_SETTLE = BulkStatement(
    update(_attachments)
    .where(_attachments.c.id == bindparam("attachment", type_=AnyText))
    .values(
        storage=literal_column("'store'"),
        object_name=bindparam("object", type_=AnyText),
        checksums=bindparam("sums", type_=Octets),
        settled_at=bindparam("now", type_=BigInteger),
    ),
    ("attachment", "object", "sums", "now"),
)


class FinishingPart(CatalogPart):
    """`app.ports.catalog.finishing` over SQL."""

    def complete_attachments(
        self, limit: int | None = None, after: AttachmentRecord | None = None
    ) -> list[AttachmentRecord]:
        order = (_attachments.c.first_received_at, _attachments.c.id)
        complete = select(_attachments).where(_state == _COMPLETE).order_by(*order).limit(limit)
        if after is not None:
            complete = complete.where(tuple_(*order) > (after.first_received_at, after.id))
        return self._all(complete, attachment_record)

    def unsettled_attachments(
        self, finished_before: int, limit: int, after: AttachmentRecord | None = None, latest: int | None = None
    ) -> list[AttachmentRecord]:
        order = (_attachments.c.finished_at, _attachments.c.id)
        unsettled = select(_attachments).where(
            catalog_tables.IS_UNSETTLED, is_past(_attachments.c.finished_at, finished_before - 1, latest)
        )
        if after is not None:
            unsettled = unsettled.where(tuple_(*order) > (after.finished_at, after.id))
        return self._all(unsettled.order_by(*order).limit(limit), attachment_record)

    def oldest_unfinished(self) -> int | None:
        # No index has the times of last messages, since every checkpoint would have to rewrite it. But an attachment
        # that began after the oldest of these times found so far has no older one.
        oldest, after = None, (-1, "")
        with self._database.read() as connection:
            while rows := connection.execute(_BEGUN_FIRST, {"time": after[0], "id": after[1]}).all():
                found = min(row.last_received_at for row in rows)
                oldest = found if oldest is None else min(oldest, found)
                after = rows[-1].first_received_at, rows[-1].id
                if after[0] >= oldest:
                    break
        return oldest

    def finish(self, finished: Sequence[Finished], events: Sequence[NewEvent]) -> set[str]:
        with self._database.write() as connection:
            known = states(connection, [each.id for each in finished])
            accepted = {each for each, state in known.items() if follow(state, Input.CONTENT_READ) is not None}
            contents = [each for each in finished if each.id in accepted]
            finish(connection, contents)
            place_content(connection, contents)
            log_events(connection, [event for event in events if event.subject in accepted])
        return accepted

    def settle(self, objects: Mapping[str, StoredObject], now: int) -> set[str]:
        with self._database.write() as connection:
            known = states(connection, objects)
            settled = [each for each in objects if known.get(each) is AttachmentState.FINISHED]
            names, checksums = [objects[each].name for each in settled], [objects[each].checksums for each in settled]
            times = [now] * len(settled)
            _SETTLE.run(connection, {"attachment": settled, "object": names, "sums": checksums, "now": times})
            forget_pieces(connection, settled)
        return set(settled)

    def mark_damaged(self, attachment_id: str, reason: str | None, events: Sequence[NewEvent] = ()) -> bool:
        code = None if reason is None else DAMAGED_CONTENT
        marked = update(_attachments).where(
            _attachments.c.id == attachment_id, _state == _FINISHED, _attachments.c.reason_code.is_distinct_from(code)
        )
        with self._database.write(durable=True) as connection:
            if not connection.execute(marked.values(reason_code=code, reason=reason)).rowcount:
                return False
            log_events(connection, events)
        return True

    def left_to_complete(self) -> list[str]:
        with self._database.read() as connection:
            return [each for each in connection.scalars(_LEFT_TO_COMPLETE) if each is not None]

    def complete_messages(
        self, attachment_ids: Sequence[str], now: int, event: Callable[[str, str], NewEvent]
    ) -> set[str]:
        with self._database.write() as connection:
            rows = (row for some in chunks(attachment_ids) for row in _INCOMPLETE_OF.run(connection, some))
            waiting = {row.id: row for row in rows if row.answered or not announces_application(row.message_correl_id)}
            undecided = [row for row in waiting.values() if row.finished != len(row.attachments)]
            asked = [*{each for row in undecided for each in row.attachments}]
            finished = {each for some in chunks(asked) for each in _FINISHED_OF.run(connection, some).scalars()}
            open_ones = {row.id for row in undecided if not finished.issuperset(row.attachments)}
            done = [row for each, row in waiting.items() if each not in open_ones]
            ids = [row.id for row in done]
            _COMPLETE_MESSAGE.run(connection, {"message": ids, "now": [now] * len(ids)})
            log_events(connection, [event(row.id, row.source) for row in done])
        return set(ids)

    def set_state(
        self,
        attachment_ids: Sequence[str],
        state: AttachmentState,
        *,
        reason_code: str | None = None,
        reason: str | None = None,
        events: Sequence[NewEvent] = (),
    ) -> None:
        # The row of a deleted attachment remains, so that its messages that still arrive are recognized.
        allowed = may_become(state)
        values = {"state": state.value, "reason_code": reason_code, "reason": reason}
        if state is AttachmentState.DELETED:
            values["storage"] = None
        changed: set[str] = set()
        with self._database.write(durable=True) as connection:
            for some in chunks(attachment_ids):
                which = among(connection, _attachments.c.id, some), allowed
                changed.update(connection.scalars(select(_attachments.c.id).where(*which)))
                connection.execute(update(_attachments).where(*which).values(values))
                if state is AttachmentState.DELETED:
                    forget_pieces(connection, some)
            log_events(connection, [event for event in events if event.subject in changed])
