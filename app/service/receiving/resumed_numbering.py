"""Numbering on arrival continues where the journal ends.

Some messages do not say what they belong to, and are numbered in the order in which they come. What is open of them,
and how their senders count, is in memory. Before a source begins to receive, both are read from the journal:

- If the catalog does not know how the senders of a source count, all messages of the source show it again.
- What is open is read again, from the earliest header of which an attachment is being received. Messages of what has
  ended are left out: others of the same line may have been retired. What is in doubt can be decided then.
- If the transport can prove that nothing is missing behind the journal's last message (`app.ports.Receiver.resume`),
  what is open continues. Otherwise it is closed.
"""

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from app.framing.arrivals import ArrivalsBySource
from app.framing.protocol import KEY_SIZE
from app.framing.registry import traits
from app.model.errors import DamagedError
from app.model.message import GAP, UNREADABLE, PhysicalMessage, Position
from app.observe import logger
from app.ports import Receiver, WritableJournal, messages_of
from app.service.context import WriterContext

log = logger(__name__)

MOST_BATCHES = 4096
"""Record batches that are looked through for the newest messages of a source."""
_BEGINNING = Position(0, 0, 0)
_NOTHING = memoryview(b"")

Wanted = Callable[[Position, PhysicalMessage], bool]
"""A function that tells whether a message of a source, here without its body, must be read again."""


def resume_numbering(context: WriterContext, receivers: Mapping[str, Receiver], arrivals: ArrivalsBySource) -> None:
    """Have numbering continue behind the journal. Call it before anything is received, and when the catalog includes
    what an earlier process has assembled."""
    for name, receiver in receivers.items():
        source = context.settings.sources.get(name)
        if source is None or not traits(source.framing).numbered_on_arrival:
            continue
        if not context.catalog.counting(name):
            shown = ArrivalsBySource()  # all messages of the source in the journal show how its senders count
            shown.resume(_messages(context.journal, name, _BEGINNING, lambda _position, _message: True))
            if learned := shown.take_learned(name):
                context.catalog.learn_counting(name, learned)
        arrivals.prepare(name, source.framing)
        continues = receiver.resume(_newest(context.journal, name))
        _continue(context, name, arrivals)
        if not continues:
            arrivals.close(name)
        log.info("numbering_begun", source=name, continues=continues)


def _continue(context: WriterContext, source: str, arrivals: ArrivalsBySource) -> None:
    """Have messages of what is open numbered again, and all messages that the catalog does not include yet."""
    included = context.catalog.progress()
    behind = _BEGINNING
    if included is not None:
        last = Position.unpack(included)
        behind = last._replace(row=last.row + 1)
    positions = context.catalog.open_correl_ids(source)
    keys = {correl_id[:KEY_SIZE] for correl_id in positions}
    first = min([behind, *map(Position.unpack, positions.values())])

    def is_wanted(position: Position, message: PhysicalMessage) -> bool:
        return position >= behind or message.framing == UNREADABLE or message.correl_id[:KEY_SIZE] in keys

    arrivals.resume(_messages(context.journal, source, first, is_wanted))


def _newest(journal: WritableJournal, source: str) -> Iterator[PhysicalMessage]:
    """Yield the messages of a source without their bodies, the newest first, up to the first damage."""
    left = MOST_BATCHES
    for segment in reversed(journal.segments()):
        try:
            for batch in reversed(range(journal.batch_count(segment.number))):
                for _, message in reversed(_of_source(journal, segment.number, batch, source)):
                    yield message
                left -= 1
                if not left:
                    return
        except (DamagedError, KeyError):
            return


def _messages(journal: WritableJournal, source: str, first: Position, is_wanted: Wanted) -> Iterator[PhysicalMessage]:
    """Yield messages of a source from a position on, in the journal's order.

    A lost batch is a message without a source. Of a message that is not wanted and reports a gap, only the gap is
    left.
    """
    for segment in journal.segments():
        if segment.number < first.segment:
            continue
        start = first.batch if segment.number == first.segment else 0
        try:
            for batch in range(start, journal.batch_count(segment.number)):
                yield from _of_batch(journal, segment.number, batch, source, first, is_wanted)
        except (DamagedError, KeyError):
            yield PhysicalMessage("", UNREADABLE)


def _of_batch(
    journal: WritableJournal, segment: int, batch: int, source: str, first: Position, is_wanted: Wanted
) -> list[PhysicalMessage]:
    try:
        found = _of_source(journal, segment, batch, source)
        wanted = {at.row: is_wanted(at, each) for at, each in found if at >= first}
        rows = [at.row for at, each in found if at >= first and (wanted[at.row] or GAP in each.properties)]
        messages = journal.messages(segment, batch, rows) if rows else []
        return [
            each if wanted[row] else PhysicalMessage(source, UNREADABLE)
            for row, each in zip(rows, messages, strict=True)
        ]
    except (DamagedError, KeyError):
        return [PhysicalMessage("", UNREADABLE)]


def _of_source(
    journal: WritableJournal, segment: int, batch: int, source: str
) -> list[tuple[Position, PhysicalMessage]]:
    """Return the messages of a source in a batch, without their bodies. Raises KeyError and DamagedError."""
    columns = journal.descriptors(segment, batch)
    rows = pc.indices_nonzero(pc.equal(columns.column("source"), pa.scalar(source)))
    messages = messages_of(columns.take(rows), [_NOTHING] * len(rows))
    return [(Position(segment, batch, row), each) for row, each in zip(rows.to_pylist(), messages, strict=True)]
