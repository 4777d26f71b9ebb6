"""Assembly of one key at a time: it turns the references of an attachment into outcomes.

The state of an attachment or a message depends only on the references under its key, in the journal's order. So
`assemble` can process the keys anywhere and in any order. It returns what has to be read from the journal
(`KeyOutcome`), and what must be kept for later references (`KeyState`). This module never reads bodies;
`app.pipeline.finish.finish_outcomes` does. A batch takes attachments and messages that came once and whole by columns
instead (`app.pipeline.assemble.columnar_assembly`).
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from app.assembly.arrangement import arrangement_of
from app.assembly.collecting import (
    NOTHING,
    ApplicationArrived,
    Completed,
    Effect,
    Identification,
    Key,
    Refused,
    Repeated,
    TrackedAttachment,
    Warned,
)
from app.assembly.header_checks import message_address
from app.assembly.machine import Assembly, AssemblyLimits
from app.model.attachment import AttachmentState
from app.model.event import PartsArrived
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, MessageRecord, PartRun
from app.pipeline.references.message_references import (
    AttachmentClaim,
    CommonDialects,
    HeldState,
    MessageBegun,
    MessageEvent,
    Reference,
    RefusedMessage,
    RepeatedHeader,
    SequencedParts,
)
from app.tables.quality import Increment, hour_of

MOST_RANGES = 1000
"""The largest number of missing ranges of one attachment that is counted."""

MOST_ANSWERED = 16
"""The largest number of answered messages kept under a key. Their application messages' correlids begin alike."""

WITHOUT_KEY_AT_ONCE = 4096
"""The largest number of references without a key in one group: a source may send any number of invalid messages."""


NOT_FETCHED = PhysicalMessage("", "")
"""A placeholder for an application message until `app.pipeline.finish.finish_outcomes` has fetched it."""


_OPEN = frozenset({AttachmentState.RECEIVING, AttachmentState.EXPIRED})


class KeyState(NamedTuple):
    """The state under a key between two batches.

    It is an attachment, a message, in rare cases both, or several messages whose application messages have correlids
    that begin alike.
    """

    attachment: TrackedAttachment | None = None
    messages: tuple[MessageRecord, ...] = ()

    @property
    def is_done(self) -> bool:
        """Return whether everything has come, so that later messages are duplicates."""
        attachment = self.attachment
        is_complete = attachment is None or attachment.record.state is not AttachmentState.RECEIVING
        return is_complete and all(message.application_body is not None for message in self.messages)


class KeyOutcome(NamedTuple):
    """What the references under a key have changed.

    `position` is the place of the first part, `reached` the highest packed position among the messages. `record` and
    `messages` are in their present state, and `fresh` are the part runs added. `complete` holds all runs once every
    part is there. `removed` was taken for an attachment. If `has_less`, all runs but `fresh` are to be deleted.
    `applications` are the identifiers of messages that have a body, each with the place of its application message.
    `identified` are the attachments and application messages that waited for a header that has come. `repeated` are
    pairs of places: the earlier message and its repetition, of which the first `repeated_before` are of the attachment
    and came before it was complete. `state` is the size of the kept state in bytes, if it is counted.
    """

    position: int
    reached: int
    quality: Increment
    record: AttachmentRecord | None = None
    fresh: tuple[PartRun, ...] = ()
    complete: tuple[PartRun, ...] | None = None
    removed: str | None = None
    messages: tuple[MessageRecord, ...] = ()
    has_less: bool = False
    applications: tuple[tuple[str, int], ...] = ()
    repeated: tuple[tuple[int | None, int], ...] = ()
    repeated_before: int = 0
    refused: tuple[Refused, ...] = ()
    identified: tuple[Identification, ...] = ()
    dialects: int | None = None
    state: int = 0
    warned: Warned | None = None


def by_key(references: Iterable[Reference]) -> Iterator[tuple[Key, list[Reference]]]:
    """Yield references, which are sorted by source and key, grouped by both. Those without a key come in pieces."""
    for key, together in groupby(references, attrgetter("source", "key")):
        while some := list(islice(together, None if key[1] else WITHOUT_KEY_AT_ONCE)):
            yield key, some


def assemble(
    key: Key, references: Iterable[Reference], held: KeyState, limits: AssemblyLimits
) -> tuple[list[KeyOutcome], KeyState]:
    """Apply the references under a key to its state. Each reference without a key has an outcome of its own."""
    if not key[1]:
        return [_without_key(reference) for reference in references], held
    outcome, held = _assembled(key, sorted(references, key=attrgetter("position", "kind")), held, limits)
    return [outcome], held


def assemble_news(
    key: Key, references: Iterable[Reference], known: int | None, limits: AssemblyLimits
) -> list[KeyOutcome]:
    """Return the outcomes of all references under a key, limited to those after the packed position `known`.

    The outcomes of the earlier ones have been committed: their state is a `HeldState`, or follows from them.
    """
    held = KeyState()
    earlier: list[Reference] = []
    news: list[Reference] = []
    for reference in references:
        if isinstance(reference, HeldState):
            held = KeyState(reference.attachment, reference.messages)
        else:
            (earlier if known is not None and _end(reference) <= known else news).append(reference)
    if earlier and news:
        # The state that the catalog has, as far as it has any, gets the parts that were read again.
        read = assemble(key, earlier, KeyState(), limits)[1]
        if held.attachment is None or read.attachment is None:
            held = KeyState(held.attachment or read.attachment, held.messages or read.messages)
        else:
            held = KeyState(TrackedAttachment(held.attachment.record, read.attachment.parts), held.messages)
    return assemble(key, news, held, limits)[0] if news else []


def _end(reference: Reference) -> int:
    """Return the packed position of the last of its messages."""
    return reference.position + max(len(reference.sizes) - 1, 0)


def _without_key(reference: Reference) -> KeyOutcome:
    position = reference.position
    received_at = reference.received_at[0] if reference.received_at else 0
    quality = Increment(reference.source, hour_of(received_at), messages=len(reference.sizes))
    outcome = KeyOutcome(position, position, quality)
    match reference:
        case RefusedMessage(code=code, row=row, at=at, why=why):
            return outcome._replace(refused=(Refused(position, code, row, why, at),))
        case RepeatedHeader():
            return outcome._replace(repeated=((reference.first_position, position),))
        case CommonDialects():
            return outcome._replace(dialects=reference.dialects)
    return outcome


def _assembled(
    key: Key, references: list[Reference], held: KeyState, limits: AssemblyLimits
) -> tuple[KeyOutcome, KeyState]:
    assembly = Assembly(limits)
    before = _Before.of(held)
    if held.attachment is not None:
        assembly.attachments[key] = held.attachment
    known = {message_address(message): message for message in held.messages}
    assembly.messages.update(known)
    applications: dict[str, int] = {}
    before_complete: list[tuple[int | None, int]] = []
    other_repeated: list[tuple[int | None, int]] = []
    refused: list[Refused] = []
    warned: Warned | None = None
    identified: list[Identification] = []
    is_open = held.attachment is None or held.attachment.record.state in _OPEN
    is_complete = False
    for reference in references:
        for effect in _apply(assembly, key[0], reference):
            match effect:
                case Completed():
                    is_complete = True
                case Repeated(attachment_id, first, again, _, say_the_same):
                    is_before = attachment_id is not None and is_open and not is_complete
                    (before_complete if is_before else other_repeated).append((None if say_the_same else first, again))
                case Refused():
                    refused.append(effect)
                case Warned():
                    warned = effect
                case Identification():
                    identified.append(effect)
                case ApplicationArrived(address, position):
                    applications[assembly.messages[address].id] = position
                    assembly.set_application(address, NOT_FETCHED, position)
    attachment, messages = assembly.attachments.get(key), kept_messages(assembly.messages.values())
    changes = assembly.take_changes()
    record = changes.attachments[0] if changes.attachments else None
    after = KeyState(
        None if attachment is None else TrackedAttachment(record or attachment.record, attachment.parts), messages
    )
    outcome = KeyOutcome(
        position=record.first_position if record else references[0].position,
        reached=max(map(_end, references)),
        quality=_quality(key[0], references, before, after, is_complete),
        record=record,
        fresh=tuple(changes.part_runs.get(record.id, ())) if record else (),
        complete=tuple(attachment.parts.runs) if is_complete and attachment else None,
        removed=next(iter(changes.removed_attachments), None),
        messages=tuple(changes.messages),
        has_less=bool(changes.without_parts),
        applications=tuple(applications.items()),
        repeated=(*before_complete, *other_repeated),
        repeated_before=len(before_complete),
        refused=tuple(refused),
        warned=warned,
        identified=tuple(identified),
    )
    return outcome, after


def kept_messages(messages: Collection[MessageRecord]) -> tuple[MessageRecord, ...]:
    """Return the messages to keep under a key: those that wait, and the newest answered ones.

    The answered ones are kept to recognize a second application message.
    """
    answered = [message for message in messages if message.application_body is not None]
    return (*(message for message in messages if message.application_body is None), *answered[-MOST_ANSWERED:])


def _apply(assembly: Assembly, source: str, reference: Reference) -> tuple[Effect, ...]:
    position, sizes, received_at = reference.position, reference.sizes, reference.received_at
    match reference:
        case SequencedParts():
            positions = range(position, position + len(sizes))
            return assembly.parts(source, PartsArrived(reference.key, reference.number, sizes, received_at), positions)
        case MessageEvent():
            return assembly.apply(source, reference.event, position, received_at[0])
        case MessageBegun():
            return assembly.begin_message(reference.record)
        case AttachmentClaim():
            return assembly.claim(source, reference.claim, position, received_at[0])
    return NOTHING


# --- quality ----------------------------------------------------------------------------------------------------------


class _Before(NamedTuple):
    """The state before a batch, with which quality is compared."""

    begun_at: int | None
    is_announced: bool
    missing: int

    @classmethod
    def of(cls, held: KeyState) -> "_Before":
        attachment = held.attachment
        begun_at = attachment.record.first_received_at if attachment else None
        return cls(begun_at, _is_announced(attachment), missing_count(attachment))


def _is_announced(attachment: TrackedAttachment | None) -> bool:
    return attachment is not None and attachment.record.kind is not None


def _quality(
    source: str, references: list[Reference], before: _Before, after: KeyState, is_complete: bool
) -> Increment:
    attachment = after.attachment
    messages = sum(len(reference.sizes) for reference in references)
    if attachment is None:
        received_at = references[0].received_at[0] if before.begun_at is None else before.begun_at
        return Increment(source, hour_of(received_at), messages)
    record = attachment.record
    took = ((record.completed_at or 0) - record.first_received_at) / 1e6 if is_complete else 0.0
    return Increment(
        source,
        hour_of(record.first_received_at),
        messages,
        attachments_begun=int(_is_announced(attachment)) - int(before.is_announced),
        attachments_completed=int(is_complete),
        missing_ranges=missing_count(attachment) - before.missing,
        seconds_to_complete=took,
        longest_seconds=took,
    )


def missing_count(attachment: TrackedAttachment | None) -> int:
    """Return the number of missing ranges of an announced attachment. A segmented message of a group counts until the
    group is whole."""
    if attachment is None or attachment.record.kind is None or attachment.record.state is not AttachmentState.RECEIVING:
        return 0
    record = attachment.record if attachment.group is None else attachment.current()
    return len(arrangement_of(record).missing(record, attachment.parts, lambda at: [0] * len(at), MOST_RANGES))
