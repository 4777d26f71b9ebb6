"""The content of complete attachments, for every host of assembly."""

from array import array
from collections.abc import Iterator, Sequence

from app.assembly.arrangement import arrangement_of
from app.assembly.part_places import Parts
from app.model.errors import DamagedError, InvalidInputError
from app.model.evidence import kept_warnings
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    DAMAGED_PART,
    DOUBTFUL_CONTENT,
    PARTS_GONE,
    AttachmentRecord,
    Finished,
    RefusedContent,
    changed,
)
from app.ports import JournalReader
from app.service.context import Stores
from app.service.finishing.complete_content import content_of
from app.service.finishing.content_evidence import concluded, other_bytes, with_earlier
from app.service.quarantine.quarantine_records import Entry, damaged_part, quarantine_entry
from app.wire import WireError


class Spoilt(Exception):
    """Content that breaks its specification.

    `first` is the journal position of the first damaged part, or else of the first part; None when there are no parts.
    """

    def __init__(self, error: InvalidInputError, first: Position | None) -> None:
        super().__init__(str(error))
        self.error, self.first = error, first

    def refused(self, record: AttachmentRecord) -> RefusedContent:
        """Return the refusal of the attachment, for the catalog."""
        return RefusedContent(record.id, self.error.code, str(self.error))


def spoilt_entries(record: AttachmentRecord, spoilt: Spoilt, journal: JournalReader) -> list[Entry]:
    """Return the quarantine entries for content that cannot be read: the part that shows the fault, if any."""
    if spoilt.first is None:
        return []
    if spoilt.error.code == DAMAGED_PART:
        return [(damaged_part(record, spoilt.first.pack(), spoilt.error), None)]
    return [quarantine_entry(spoilt.first.pack(), journal.read(spoilt.first), spoilt.error)]


def read_content(
    record: AttachmentRecord, parts: Parts, stores: Stores, first: PhysicalMessage | None = None
) -> Finished:
    """Return the content of an attachment that has all `parts_expected` parts; `finished_at` is not set.

    `first` is the message of the first part (`first_place`), where it has been read already. Raises Spoilt for faults
    of the sender, and GatewayError for faults here.
    """
    keys, positions = _in_order(record, parts)
    if not positions:
        why = "an attachment has at least one sequenced message"
        raise Spoilt(InvalidInputError("no-parts", "number of messages", -1, why), None)
    try:
        message = first or stores.journal.read(positions[0])
        found = content_of(record, stores.described(message), keys, positions, stores)
        return _allowed(with_earlier(concluded(found, message, stores), record), record, stores)
    except InvalidInputError as error:
        raise Spoilt(error, positions[0]) from error
    except WireError as error:
        raise Spoilt(InvalidInputError("bad-content", error.row, error.at, error.why), positions[0]) from error
    except DamagedError as error:
        raise Spoilt(
            InvalidInputError(DAMAGED_PART, "body", -1, str(error)), _damaged(error) or positions[0]
        ) from error
    except KeyError as gone:
        if _are_there(positions, stores.journal):  # a library has raised it
            raise
        raise Spoilt(InvalidInputError(PARTS_GONE, "", -1, "its parts are no longer in the journal"), None) from gone


def _allowed(found: Finished, record: AttachmentRecord, stores: Stores) -> Finished:
    """Return the content, with a warning if it has another reading. Raises InvalidInputError if its source holds
    attachments with such doubts."""
    doubt = other_bytes(record.kind, found.evidence)
    if doubt is not None:
        found = changed(found, warnings=kept_warnings((doubt, *found.warnings)))
    is_held = stores.is_strict(record.source) or (doubt is not None and stores.on_doubt(record.source) == "hold")
    if is_held and found.warnings:
        why = f"{'; '.join(found.warnings)} (the source's setting on_doubt can accept it)"
        raise InvalidInputError(DOUBTFUL_CONTENT, "", -1, why)
    return found


def _are_there(positions: Sequence[Position], journal: JournalReader) -> bool:
    try:
        return sum(1 for _ in journal.extents(positions)) == len(positions)
    except (KeyError, DamagedError):
        return False


def _damaged(error: DamagedError) -> Position | None:
    """Return the first of the parts that cannot be read back, where the journal can tell."""
    places = ((each.segment, each.batch, each.row) for each in error.damage)
    return next((Position(*place) for place in places if None not in place), None)  # type: ignore[arg-type]


def first_place(record: AttachmentRecord, parts: Parts) -> int | None:
    """Return the packed position of the first part of a complete attachment; None when there are no parts."""
    return next(ordered_places(record, parts), None)


def ordered_places(record: AttachmentRecord, parts: Parts) -> Iterator[int]:
    """Yield the packed positions of the parts of a complete attachment, in the order of its content."""
    return (packed for _, packed in arrangement_of(record).in_order(record, parts))


def _in_order(record: AttachmentRecord, parts: Parts) -> tuple[Sequence[int], list[Position]]:
    keys, positions = array("q"), []
    for key, packed in arrangement_of(record).in_order(record, parts):
        keys.append(key)
        positions.append(Position.unpack(packed))
    return keys, positions
