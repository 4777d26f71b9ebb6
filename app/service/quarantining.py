"""What quarantine keeps of a physical message, and tells of it."""

from app.model.errors import TheirError
from app.model.message import PhysicalMessage
from app.model.records import NewEvent, QuarantineRecord


def quarantine_record(position: int, message: PhysicalMessage, error: TheirError) -> QuarantineRecord:
    """What quarantine keeps of a physical message; its identifier is its place in the journal."""
    return QuarantineRecord(
        id=f"{position:016x}",
        source=message.source,
        position=position,
        code=error.code,
        row=error.row,
        at=error.at,
        why=error.why,
        msg_type=message.msg_type,
        correl_id=message.correl_id,
        size=len(message.body),
        received_at=message.received_at,
    )


def quarantine_event(record: QuarantineRecord) -> NewEvent:
    data: dict[str, object] = {"source": record.source, "code": record.code, "row": record.row, "why": record.why}
    return NewEvent("message.quarantined", record.id, record.received_at, data)
