"""Requests for missing parts, and the deliveries that have them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, func, or_, select, update

from adapters.sql_catalog.parts.part import CatalogPart, is_past, log_events
from adapters.sql_catalog.schema.catalog_tables import (
    IS_ASKED,
    attachments,
    deliveries,
    missing_requests,
    sent_attachments,
)
from adapters.sql_catalog.schema.record_rows import attachment_record, delivery_record
from adapters.sql_catalog.schema.state_conditions import can
from app.assembly.states import Input
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, DeliveryRecord, NewEvent
from app.ports.catalog.missing_parts import MissingRequest, ReceivedAfterRequest

_LOOKED_AT = 1000
_FIELDS = [missing_requests.c[name] for name in MissingRequest._fields]


class MissingPartsPart(CatalogPart):
    """`app.ports.catalog.missing_parts` over SQL."""

    def attachments_to_ask(
        self, source: str, last_position: int, now: int, limit: int, latest: int | None = None
    ) -> list[tuple[AttachmentRecord, int]]:
        last, asked = attachments.c.last_position, missing_requests.c
        requests = func.coalesce(asked.requests, 0)
        is_due = is_past(asked.next_at, now, latest)
        found = (
            select(attachments, requests.label("requests"))
            .outerjoin(missing_requests, asked.attachment_id == attachments.c.id)
            .where(
                can(Input.SILENCE),
                attachments.c.source == source,
                last <= last_position,
                or_(asked.attachment_id.is_(None), is_due),
            )
            .order_by(requests, last, attachments.c.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            rows = connection.execute(found).all()
        return [(attachment_record(row), row.requests) for row in rows]

    def requests_between(self, source: str, first: int, last: int) -> int:
        which = missing_requests.c.source == source, missing_requests.c.asked_at.between(first, last)
        with self._database.read() as connection:
            return connection.scalar(select(func.count()).select_from(missing_requests).where(*which)) or 0

    def record_requests(self, requests: Sequence[MissingRequest], events: Sequence[NewEvent]) -> None:
        names = [name for name in (*MissingRequest._fields, "is_open") if name != "attachment_id"]
        save = self._database.upsert(missing_requests, *names)
        with self._database.write(durable=True) as connection:
            connection.execute(save, [each._asdict() | {"is_open": True} for each in requests])
            log_events(connection, events)

    def missing_request(self, attachment_id: str) -> MissingRequest | None:
        asked = select(*_FIELDS).where(missing_requests.c.attachment_id == attachment_id)
        return self._one(asked, MissingRequest._make)

    def count_received_after_requests(self) -> list[ReceivedAfterRequest]:
        asked, known = missing_requests.c, attachments.c
        is_over = known.state != AttachmentState.RECEIVING.value
        changed = (
            select(
                asked.attachment_id, asked.source, asked.parts_received.label("before"), known.parts_received, is_over
            )
            .join(attachments, known.id == asked.attachment_id)
            .where(IS_ASKED, or_(known.parts_received != asked.parts_received, is_over))
            .limit(_LOOKED_AT)
        )
        with self._database.read() as connection:  # mostly there is none
            if connection.execute(changed).first() is None:
                return []
        found: dict[str, int] = {}
        with self._database.write() as connection:
            for attachment_id, source, before, now, ended in connection.execute(changed).all():
                found[source] = found.get(source, 0) + max(0, now - before)
                values = {"parts_received": now, "is_open": not ended}
                connection.execute(update(missing_requests).where(asked.attachment_id == attachment_id).values(values))
        return [ReceivedAfterRequest(source, parts) for source, parts in found.items()]

    def end_requests(self, source: str, correl_ids: Sequence[tuple[bytes, str]]) -> None:
        asked = missing_requests.c
        with self._database.write() as connection:
            for correl_id, reason in correl_ids:
                is_it = and_(attachments.c.source == source, attachments.c.correl_id == correl_id)
                which = asked.attachment_id.in_(select(attachments.c.id).where(is_it))
                connection.execute(update(missing_requests).where(which).values(next_at=None, ended=reason))

    def delivery_of(self, attachment: bytes, destination: str) -> DeliveryRecord | None:
        found = (
            select(deliveries)
            .join(sent_attachments, sent_attachments.c.delivery_id == deliveries.c.id)
            .where(sent_attachments.c.key == attachment, deliveries.c.destination == destination)
        )
        return self._one(found, delivery_record)


def keys_of(delivery: DeliveryRecord) -> list[dict[str, Any]]:
    """Return the rows by which a delivery is found."""
    keys = {each.correl_id[:16] for each in delivery.attachments} | {delivery.message_correl_id[:16]}
    return [{"key": key, "delivery_id": delivery.id} for key in sorted(keys) if any(key)]
