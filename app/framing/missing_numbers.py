"""The numbers of missing parts: which a receiver asks for, and which messages of a delivery have them."""

from collections.abc import Sequence
from typing import Final

from app.assembly.groups import highest_message
from app.assembly.part_places import LITTLE, LITTLE_ENDIAN_FROM, Parts, little_endian
from app.codecs.missing_parts.request_documents import HIGHEST, MOST_RANGES, MissingParts, MissingRange
from app.codecs.sas import dialect
from app.framing.registry import framing
from app.model.event import Event, GroupPart, PartArrived, Pieces, Unsequenced
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord

_SHORTEST_KEY: Final = 16


def missing_parts(
    record: AttachmentRecord, framing_name: str, parts: Parts, gaps: Sequence[tuple[int, int]], request: int
) -> MissingParts:
    """Return the request for what an attachment lacks, of which `parts` have come and `gaps` are known.

    Until the number of its parts is known, all that follow the last one are asked for. A count that waits for the
    header has two readings; the lower one that is not refuted is taken: a sender has no parts behind its last one.
    """
    ranges: list[MissingRange] = [*gaps[:MOST_RANGES]]
    if record.group is not None:
        is_whole = record.group.last is not None
        followed = _followed(ranges, highest_message(parts), is_whole=is_whole)
        return MissingParts(framing_name, record.correl_id, followed, request=request)
    # In the byte order in which the sender writes the numbers.
    order, _ = parts.majority()
    if order == LITTLE:
        highest = max((little_endian(number) for number, _ in parts), default=0)
    else:
        highest = parts.highest_below(LITTLE_ENDIAN_FROM)
    likely = [count for count in record.pending_counts if count >= highest]
    if record.parts_expected is None and likely:
        counted = min(likely)
        if counted > highest and len(ranges) < MOST_RANGES:
            ranges.append((highest + 1, min(counted, HIGHEST)))
    is_counted = record.parts_expected is not None or record.pending_position is not None
    return MissingParts(
        framing_name,
        record.correl_id,
        _followed(ranges, highest, is_whole=is_counted),
        header=record.kind is None,
        total=not is_counted,
        request=request,
    )


def _followed(ranges: list[MissingRange], highest: int, *, is_whole: bool) -> tuple[MissingRange, ...]:
    """Return ranges, and all that follow the highest number that has come, unless the last one is known."""
    if not is_whole and len(ranges) < MOST_RANGES and highest < HIGHEST:
        ranges.append((highest + 1, None))
    return tuple(ranges)


def ask_for(requests: Sequence[MissingParts], message: PhysicalMessage) -> bool:
    """Tell whether any of these requests asks for a message of the delivery that has their attachments."""
    cut_by = framing(message.framing)
    if cut_by.is_header(message):
        return any(request.header for request in requests)
    event = cut_by.read(message, dialect.ALL)
    return not isinstance(event, Pieces) and any(_asks_for(request, event) for request in requests)


def _asks_for(request: MissingParts, event: Event) -> bool:
    key = getattr(event, "correl_id", b"")
    # Zeros may fill up either key.
    if len(key) < _SHORTEST_KEY or request.attachment.rstrip(b"\0") != key.rstrip(b"\0"):
        return False
    match event:
        case PartArrived():
            return request.has(event.sequence)
        case GroupPart():
            return request.has(event.message)
        case Unsequenced():
            return request.total
        case _:
            return False
