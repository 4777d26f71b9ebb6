"""The content of complete attachments, for every host of assembly."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from app.assembly.arrangement import arrangement_of
from app.assembly.part_places import Parts
from app.model.errors import DamagedError, InvalidInputError
from app.model.evidence import kept_warnings
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    DAMAGED_PART,
    PARTS_GONE,
    AttachmentRecord,
    Finished,
    RefusedContent,
    changed,
)
from app.ports import JournalReader
from app.service.context import Stores
from app.service.finishing.complete_content import content_of
from app.service.finishing.content_evidence import concluded, held, other_bytes, require_certain, with_earlier
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.quarantine.quarantine_records import Entry, damaged_part, quarantine_entry
from app.wire import WireError


class Rejection(NamedTuple):
    """The refusal of an attachment for the catalog, and the quarantine entry of the part that shows the fault, if there
    is one."""

    refusal: RefusedContent
    entries: Sequence[Entry]


class ContentRejected(Exception):
    """Content that breaks its specification, or whose parts cannot be read.

    `part` is the journal position of the part that shows the fault, the first one if none does; None when there are no
    parts.
    """

    def __init__(self, error: InvalidInputError, part: Position | None) -> None:
        super().__init__(str(error))
        self.error, self.part = error, part

    def of(self, record: AttachmentRecord, journal: JournalReader) -> Rejection:
        """Return the rejection of this attachment."""
        entries: list[Entry] = []
        if self.part is not None and self.error.code == DAMAGED_PART:
            entries.append((damaged_part(record, self.part.pack(), self.error), None))
        elif self.part is not None:
            entries.append(quarantine_entry(self.part.pack(), journal.read(self.part), self.error))
        number = f"part {self.error.part + 1}: " if self.error.part else ""
        return Rejection(RefusedContent(record.id, self.error.code, f"{number}{self.error}"), entries)


def read_content(complete: CompleteAttachment, stores: Stores, first: PhysicalMessage | None = None) -> Finished:
    """Return the content of a complete attachment, whose `runs` are known; `finished_at` is not set.

    `first` is the message of the first part, where it has been read already. Raises ContentRejected for faults of the
    sender and for parts that the journal cannot read back, and GatewayError for faults here.
    """
    record, keys, positions = complete.record, array("q"), []
    for key, packed in arrangement_of(record).in_order(record, Parts(complete.runs or ())):
        keys.append(key)
        positions.append(Position.unpack(packed))
    if not positions:
        why = "an attachment has at least one sequenced message"
        raise ContentRejected(InvalidInputError("no-parts", "number of messages", -1, why), None)
    try:
        require_certain(record, record.evidence, stores)
        message = first or stores.journal.read(positions[0])
        found = content_of(record, stores.described(message), keys, positions, stores)
        return _allowed(with_earlier(concluded(found, message, stores), record), record, stores)
    except InvalidInputError as error:
        raise ContentRejected(error, positions[error.part or 0]) from error
    except WireError as error:
        refusal = InvalidInputError("bad-content", error.row, error.at, error.why, error.part)
        raise ContentRejected(refusal, positions[error.part or 0]) from error
    except DamagedError as error:
        known = ((each.segment, each.batch, each.row) for each in error.damage)
        damaged = next((Position(*place) for place in known if None not in place), positions[0])  # type: ignore[arg-type]
        raise ContentRejected(InvalidInputError(DAMAGED_PART, "body", -1, str(error)), damaged) from error
    except KeyError as gone:
        if _are_there(positions, stores.journal):  # a library has raised it
            raise
        why = "its parts are no longer in the journal"
        raise ContentRejected(InvalidInputError(PARTS_GONE, "", -1, why), None) from gone


def read_or_reject(
    complete: CompleteAttachment, stores: Stores, first: PhysicalMessage | None = None
) -> Finished | Rejection:
    """Return the content as `read_content` does, or its rejection. Raises GatewayError for faults here."""
    try:
        return read_content(complete, stores, first)
    except ContentRejected as rejected:
        return rejected.of(complete.record, stores.journal)


def _allowed(found: Finished, record: AttachmentRecord, stores: Stores) -> Finished:
    """Return the content, with a warning if it has another reading. Raises InvalidInputError if its source holds
    attachments with such a warning."""
    ambiguity = other_bytes(record.kind, found.evidence)
    if ambiguity is not None:
        found = changed(found, warnings=kept_warnings((ambiguity, *found.warnings)))
    is_held = stores.is_strict(record.source) or (ambiguity is not None and stores.on_doubt(record.source) == "hold")
    if is_held and found.warnings:
        raise held(found.warnings)
    return found


def _are_there(positions: Sequence[Position], journal: JournalReader) -> bool:
    try:
        return sum(1 for _ in journal.extents(positions)) == len(positions)
    except (KeyError, DamagedError):
        return False
