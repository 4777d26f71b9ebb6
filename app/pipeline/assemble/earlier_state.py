"""What the catalog has of the keys of a batch: assembly continues from there.

A batch reads only the segments behind the catalog's progress. An attachment or a message that earlier batches have
begun is in the catalog, so the state under its key comes from there (`HeldState`), and none of its messages is read
again. Two things are not in the catalog:

- The places of the parts of a finished attachment. A message of it that comes again is compared with the first one. So
  the segments that have its messages are read once more, and only its references are taken from them.
- What was in the catalog before a commit that was interrupted. An attachment that this commit has finished is read
  again in the same way.

A batch that processes messages again reads the whole archive. It needs from the catalog only what headers have
announced whose segments are gone: retention keeps the segments of parts that are still needed, but not of headers.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple

from app.assembly.collecting import Key, TrackedAttachment
from app.assembly.header_checks import Announcement, Claim, message_address, waiting_key
from app.assembly.states import DONE
from app.model.attachment import AttachmentDefinition, AttachmentState
from app.model.message import Position
from app.model.records import AttachmentRecord, MessageRecord, changed
from app.pipeline.assemble.assemble_key import kept_messages
from app.pipeline.read.journal_archives import first_received_at
from app.pipeline.references.header_pass import Remembered
from app.pipeline.references.message_references import AttachmentClaim, HeldState, MessageBegun
from app.ports import Catalog, JournalArchive
from app.service.finishing.stored_parts import held_parts

_DEFINITION = tuple(each.name for each in fields(AttachmentDefinition))

Keys = Iterable[tuple[str, Sequence[bytes]]]
"""Keys of a source, piece by piece. A key may come several times."""

IsEarlier = Callable[[int], bool]
"""A function that tells whether the header at a packed position comes from the catalog, and not from the archive."""


class EarlierState(NamedTuple):
    """The state from earlier batches, and the dialects of the sources.

    The references to `sought` keys are to be read again in these `segments`, up to the packed position `known`.
    """

    references: tuple[HeldState | MessageBegun | AttachmentClaim, ...] = ()
    dialects: Mapping[str, int] = {}
    sought: frozenset[Key] = frozenset()
    segments: frozenset[int] = frozenset()
    known: int = -1

    @property
    def keys(self) -> frozenset[Key]:
        """Return the keys under which something is known."""
        return frozenset((each.source, each.key) for each in self.references)

    def remembered(self, source: str) -> Remembered:
        """Return what earlier headers of a source have announced."""
        memory = Remembered(self.dialects.get(source))
        for each in self.references:
            if each.source != source:
                continue
            messages: Sequence[MessageRecord] = ()
            announced: Announcement | None = None
            match each:
                case MessageBegun(record=message):
                    messages = (message,)
                case AttachmentClaim(claim=claim):
                    announced = Announcement.of(claim.message, claim.definition)
                case HeldState():
                    messages = each.messages
                    record = None if each.attachment is None else each.attachment.record
                    announced = None if record is None else Announcement.of(record.message_id or "", record)
            if announced is not None:
                memory.keep_announcement((source, each.key), announced)
            for message in messages:
                memory.keep_address(message_address(message), message.id, message.header_position)
        return memory


NOTHING_EARLIER = EarlierState()


def of_earlier_batches(catalog: Catalog, archive: JournalArchive, known: int, keys: Keys) -> EarlierState:
    """Return what the catalog has of these keys from messages up to the packed position `known`."""
    sequences = archive.sequences()
    present = {*chain.from_iterable(sequences)}
    received_at = lru_cache(maxsize=None)(partial(first_received_at, archive))
    held: dict[Key, HeldState] = {}
    claims: dict[Key, AttachmentClaim] = {}
    sought: set[Key] = set()
    segments: set[int] = set()
    for source, some in keys:
        records = [
            record
            for record in catalog.attachments_by_key(source, some).values()
            if record.first_position <= known  # what an interrupted commit has added is assembled once more
        ]
        runs = catalog.part_runs_of([record.id for record in records if record.state not in DONE])
        again: list[AttachmentRecord] = []
        for record in records:
            key, needed = (source, record.correl_id), _segments(record, known, sequences, received_at)
            is_again = record.state is AttachmentState.FINISHED and needed.issubset(present)
            if is_again:
                again.append(record)
                sought.add(key)
                segments |= needed
            if not is_again or record.last_position <= known:
                there, parts, _ = held_parts(record, runs.get(record.id, []), present)
                # To assembly, an attachment whose parts are known is complete.
                there = changed(there, state=AttachmentState.COMPLETE) if is_again else there
                held[key] = HeldState(*key, 0, (), (), TrackedAttachment(there, parts), ())
        claims.update(((source, each.key), each) for each in _claims(catalog, again, lambda at: at <= known))
        messages: dict[bytes, list[MessageRecord]] = {}
        for message in catalog.messages_by_key(source, some):
            if message.header_position <= known:
                messages.setdefault(_key_of(message), []).append(message)
        for correl_id, each in messages.items():
            before = held.get((source, correl_id))
            attachment = None if before is None else before.attachment
            held[source, correl_id] = HeldState(source, correl_id, 0, (), (), attachment, kept_messages(each))
    return EarlierState(
        (*held.values(), *claims.values()),
        catalog.source_dialects(),
        frozenset(sought),
        frozenset(segments),
        known,
    )


def of_gone_headers(catalog: Catalog, present: Collection[int], keys: Keys) -> EarlierState:
    """Return what headers have announced with these keys whose segments are not among the `present` ones."""

    def is_gone(position: int) -> bool:
        return Position.unpack(position).segment not in present

    begun: dict[str, MessageBegun] = {}
    claims: dict[Key, AttachmentClaim] = {}
    for source, some in keys:
        for message in catalog.messages_by_key(source, some):
            if message.complete_at is None and is_gone(message.header_position):
                place = _key_of(message), message.header_position, (), (message.received_at,)
                begun[message.id] = MessageBegun(source, *place, message)
        records = catalog.attachments_by_key(source, some).values()
        claims.update(((source, each.key), each) for each in _claims(catalog, records, is_gone))
    return EarlierState((*begun.values(), *claims.values()), catalog.source_dialects())


def _claims(catalog: Catalog, records: Iterable[AttachmentRecord], is_earlier: IsEarlier) -> Iterator[AttachmentClaim]:
    """Yield the claims of these attachments by headers that are earlier. Such a reference counts no message as
    received."""
    announced = [record for record in records if record.kind is not None and record.message_id is not None]
    messages = {each.id: each for each in catalog.messages_by_id([record.message_id or "" for record in announced])}
    for record in announced:
        message = messages.get(record.message_id or "")
        if message is not None and is_earlier(message.header_position):
            definition = AttachmentDefinition(*(getattr(record, name) for name in _DEFINITION))
            claim = Claim(message.id, record.ordinal, definition, record.dialects, record.trace_parent)
            place = record.correl_id, message.header_position, (), (message.received_at,)
            yield AttachmentClaim(record.source, *place, claim)


def _segments(
    record: AttachmentRecord,
    known: int,
    sequences: Iterable[Sequence[int]],
    first_received_at: Callable[[int], int | None],
) -> set[int]:
    """Return the segments that may have messages up to the packed position `known` that an attachment is made of.
    `sequences` has the segments of each journal.

    Its last message may be a duplicate that came long after it was complete. One segment more is taken, since messages
    of several sources may be journalled in a slightly different order than they were received in.
    """
    first, last = (Position.unpack(at).segment for at in (record.first_position, min(record.last_position, known)))

    def behind(numbers: Sequence[int], received_at: int) -> int:
        """Return the first of these segments, up to the last one, that begins later than at a time."""
        low, high = bisect_right(numbers, first), bisect_right(numbers, last)
        at = bisect_right(numbers, received_at, low, high, key=lambda number: first_received_at(number) or 0)
        return numbers[at] if at < high else last

    if record.completed_at is None:
        return set(range(first, last + 1))
    completed_at = record.completed_at
    return set(range(first, max((behind(numbers, completed_at) for numbers in sequences), default=last) + 1))


def _key_of(message: MessageRecord) -> bytes:
    """Return the key that an application message has while it waits for its header."""
    (_, key), _ = waiting_key(message_address(message))
    return key
