"""The assembly machine: it turns events of physical messages into attachments and messages.

Everything is keyed by source and correlid, never by order of arrival. A header, a count, a part and an application
message may come in any order, any number of times, from any thread of the broker. The rules:

- A part whose sequence number is there already changes nothing. The host compares its bytes (`Repeated`), since the
  machine never holds bytes.
- A physical message with a bare correlid is the count of an attachment or the application message of a message. The
  header decides, and shows in which byte order the count is written. Until then the message waits with the attachment
  that it may belong to (`pending_*`).
- The correlid of an application message may use the four bytes where a part has its sequence number. The announcements
  of headers distinguish the two. One that comes before its header waits as a part of an unannounced attachment. The
  header identifies it (`Identification`), and its message keeps the identifier under which it waited.
- A message that contradicts an earlier one (another header, another count, a part beyond the count, a part with other
  bytes) is refused. The first one holds and the later one goes to quarantine. An attachment whose messages contradict
  each other before it is complete has a note (`collecting.CONTRADICTED`): it is in doubt.
- Parts may be numbered in either byte order. An attachment is complete when it has its header, its count and the parts
  1..count in one of them. Parts in the other one are then refused, wherever they came.
- A group of IBM MQ is an attachment without a header. Each part gives the common facts, and the facts of the first part
  hold. The group is complete when its last logical message is known, and each message has its end and all the bytes up
  to it. `app.assembly.groups` has the contradictions.
- A file that comes in byte ranges is complete when its beginning and its end are known, and all bytes between them have
  come (`app.assembly.ranges`). Its sender may give it up before.

The host loads the catalog's rows for `Assembly.keys(event)` before it applies an event. It takes the changes of many
events as one `Checkpoint`.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from app.assembly import groups, ranges
from app.assembly.collecting import (
    NOTHING,
    Address,
    ApplicationArrived,
    Discarded,
    Effect,
    Identification,
    Key,
    Refused,
    Repeated,
    TrackedAttachment,
    stray,
)
from app.assembly.header_checks import (
    Announcement,
    Claim,
    address_of,
    claims,
    header_address,
    judge,
    message_address,
    waiting_key,
)
from app.assembly.interpretation import answered
from app.assembly.part_places import Parts, little_endian
from app.assembly.states import Input, follow
from app.codecs.sas.dialect import orders
from app.model.attachment import AttachmentState
from app.model.event import (
    Aborted,
    Announced,
    Event,
    GroupPart,
    OtherHeader,
    PartArrived,
    PartsArrived,
    RangePart,
    Refuted,
    Unsequenced,
)
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import ABORTED, NOTHING_CAME, AttachmentRecord, Checkpoint, MessageRecord, changed

_BOTH_ORDERS = frozenset("><")
_WHOLE = {AttachmentState.COMPLETE, AttachmentState.QUARANTINED}


class AssemblyLimits(NamedTuple):
    """The limits beyond which messages are refused: `parts` of an attachment, and `attachments` of a message."""

    parts: int = 1_000_000
    attachments: int = 10_000


class Assembly:
    """The attachments and messages being received, as far as the host has loaded them."""

    def __init__(self, limits: AssemblyLimits) -> None:
        self.limits = limits
        self.attachments: dict[Key, TrackedAttachment] = {}
        self.messages: dict[Address, MessageRecord] = {}
        self._changed: dict[Key, None] = {}
        self._changed_messages: dict[str, MessageRecord] = {}
        self._removed: dict[str, None] = {}
        self._reopened: dict[str, None] = {}
        self._begun: set[str] = set()
        """The attachments and messages that are in no checkpoint yet, and that the host did not load."""

    # --- loading, events and changes ------------------------------------------------------------------------------

    @staticmethod
    def keys(source: str, event: Event) -> list[Key]:
        """Return the keys whose attachments must be loaded, where they exist, before `event` is applied."""
        if isinstance(event, Announced):
            correl_ids = [entry.correl_id for entry in event.header.attachments]
            key, _ = waiting_key(header_address(source, event.header))
            return [key, *((source, correl_id) for correl_id in correl_ids)]
        return [(source, event.correl_id)]

    def address(self, source: str, event: Event) -> Address | None:
        """Return the address whose message must be loaded, where it exists, before `event` is applied; None if none
        matters.

        Call it after the attachments of `keys` are loaded.
        """
        if isinstance(event, Announced):
            return header_address(source, event.header)
        if isinstance(event, GroupPart | RangePart | Aborted):
            return None
        if isinstance(event, PartArrived) and self.is_announced((source, event.correl_id)):
            return None
        return address_of((source, event.correl_id), event.sequence if isinstance(event, PartArrived) else 0)

    def apply(self, source: str, event: Event, position: int, received_at: int) -> tuple[Effect, ...]:
        """Apply the event of one physical message. `position` is its packed place in the journal."""
        if isinstance(event, PartArrived):
            return self._part(source, event, position, received_at)
        if isinstance(event, GroupPart | RangePart | Aborted):
            return self._without_header(source, event, position, received_at)
        if isinstance(event, Unsequenced):
            return self._unsequenced(source, event, position, received_at)
        if isinstance(event, Refuted | OtherHeader):
            return self._doubted(source, event)
        return self._header(source, event, position, received_at)

    def is_announced(self, key: Key) -> bool:
        """Tell whether a header has announced this attachment, as far as it is loaded."""
        attachment = self.attachments.get(key)
        return attachment is not None and attachment.record.kind is not None

    def set_application(self, address: Address, answer: PhysicalMessage, position: int) -> None:
        """Set the application message that an `ApplicationArrived` effect found at this position."""
        record = answered(self.messages[address], answer, position)
        self.messages[address] = self._changed_messages[record.id] = record

    def replace_part(self, attachment_id: str, first: int, again: int) -> bool:
        """Replace the part at position `first`, which cannot be read back, by the same part at `again`.

        Return whether the attachment must be finished (again) with it. The host has that done after its next
        checkpoint.
        """
        for key in reversed(self._changed):
            attachment = self.attachments.get(key)
            if attachment is not None and attachment.record.id == attachment_id:
                return attachment.replace_part(first, again)
        return False

    def contradict(self, attachment_id: str) -> None:
        """Note that two messages of an attachment, one of which the host refuses, have other bytes for the same
        place."""
        for key in reversed(self._changed):
            attachment = self.attachments.get(key)
            if attachment is not None and attachment.record.id == attachment_id:
                attachment.contradict()
                return

    def take_changes(self) -> Checkpoint:
        """Return the changes since the last call.

        Complete attachments, and messages with their application message, are dropped from memory, since further
        messages of them are rare. The others move to the end of the line for `forget_beyond`.
        """
        checkpoint = Checkpoint()
        for key in self._changed:
            if (attachment := self.attachments.get(key)) is None:
                continue
            record = attachment.current()
            checkpoint.attachments.append(record)
            if attachment.parts.has_less:
                checkpoint.without_parts.append(record.id)
            if runs := attachment.parts.take_fresh():
                checkpoint.part_runs[record.id] = runs
            del self.attachments[key]
            if record.state is AttachmentState.RECEIVING:
                self.attachments[key] = TrackedAttachment(record, attachment.parts)
        for message in self._changed_messages.values():
            checkpoint.messages.append(message)
            address = message_address(message)
            held = self.messages.pop(address, None)
            if held is not None and held.application_body is None:
                self.messages[address] = held
        checkpoint.removed_attachments, checkpoint.reopened = list(self._removed), list(self._reopened)
        ids = [*(each.id for each in checkpoint.attachments), *(each.id for each in checkpoint.messages)]
        checkpoint.saved_before = set(ids) - self._begun
        self._changed, self._changed_messages, self._removed, self._reopened = {}, {}, {}, {}
        self._begun = set()
        return checkpoint

    def forget_beyond(self, attachments: int) -> None:
        """Drop the attachments and messages that were touched longest ago. Call it only when nothing is changed."""
        for held in (self.attachments, self.messages):
            for key in list(held)[: max(0, len(held) - attachments)]:
                del held[key]

    # --- one function an event ------------------------------------------------------------------------------------

    def _part(self, source: str, event: PartArrived, position: int, received_at: int) -> tuple[Effect, ...]:
        if self.messages and not self.is_announced(key := (source, event.correl_id)):
            address = address_of(key, event.sequence)
            if (message := self.messages.get(address)) is not None:
                return _application(message, address, position)
        attachment = self._touch(source, event.correl_id, position, received_at)
        record = attachment.record
        most = self.limits.parts if record.parts_expected is None else record.parts_expected
        if event.sequence > most and little_endian(event.sequence) > most:
            why = f"part {event.sequence}, but the attachment has at most {most} parts"
            refusal = Refused(position, "sequence-beyond-count", "correl_id", why)
            return (refusal,) if record.parts_expected is None else attachment.refused(refusal)
        if attachment.has_forgotten_its_parts:
            return attachment.repeated(None, position)
        if record.state in _WHOLE and attachment.parts.find(event.sequence) is None:
            return (stray(event.sequence, position),)
        if (first := attachment.parts.add(event.sequence, position)) is not None:
            return NOTHING if first == position else attachment.repeated(first, position)
        attachment.bytes_received += event.size
        return self._check_complete(attachment)

    def parts(self, source: str, event: PartsArrived, positions: Sequence[int]) -> tuple[Effect, ...]:
        """Apply parts that were received together, at these packed places."""
        effects = self.take_parts(source, event, positions)
        if effects is None:
            effects = NOTHING
            received = zip(event.sizes, event.received_at, positions, strict=True)
            for sequence, (size, received_at, position) in enumerate(received, event.first):
                effects += self._part(source, PartArrived(event.correl_id, sequence, size), position, received_at)
        return effects

    def take_parts(self, source: str, event: PartsArrived, positions: Sequence[int]) -> tuple[Effect, ...] | None:
        """Take parts that were received together, if all of them are new and allowed. Otherwise return None: each must
        be applied by itself."""
        key = (source, event.correl_id)
        if self.messages and not self.is_announced(key):
            return None
        attachment = self.attachments.get(key)
        most, length = self.limits.parts, len(event.sizes)
        if attachment is not None:
            if (
                attachment.has_forgotten_its_parts
                or attachment.is_lost
                or attachment.record.state in _WHOLE
                or attachment.parts.has_any(event.first, length)
            ):
                return None
            if (expected := attachment.record.parts_expected) is not None:
                most = expected
        if event.first + length - 1 > most:
            return None
        attachment = self._touch(source, event.correl_id, positions[0], event.received_at[0])
        attachment.parts.add_new(event.first, positions)
        attachment.bytes_received += sum(event.sizes)
        attachment.last_position = max(attachment.last_position, positions[-1])
        attachment.last_received_at = max(attachment.last_received_at, *event.received_at)
        return self._check_complete(attachment)

    def _without_header(
        self, source: str, event: GroupPart | RangePart | Aborted, position: int, received_at: int
    ) -> tuple[Effect, ...]:
        """Apply the event of an attachment that no header announces."""
        if isinstance(event, GroupPart) and event.message > self.limits.parts:
            why = f"message {event.message}, but a group has at most {self.limits.parts} parts"
            return (Refused(position, "too-many-parts", "msg_seq_number", why),)
        attachment = self._touch(source, event.correl_id, position, received_at)
        if isinstance(event, Aborted):
            if (state := follow(attachment.record.state, Input.ABORT)) is None:
                return NOTHING
            attachment.parts.keep(lambda _position: False)  # nothing of it is needed any more
            reason = "its sender has aborted it"
            attachment.record = changed(attachment.record, state=state, reason_code=ABORTED, reason=reason)
            return (Discarded(attachment.record.id),)
        if attachment.has_forgotten_its_parts:
            return attachment.repeated(None, position)
        if isinstance(event, RangePart):
            return ranges.take(attachment, event, position, self.limits.parts)
        return groups.take(attachment, event, position, self.limits.parts)

    def _unsequenced(self, source: str, event: Unsequenced, position: int, received_at: int) -> tuple[Effect, ...]:
        address = address_of((source, event.correl_id))
        if (message := self.messages.get(address)) is not None:
            return _application(message, address, position)
        attachment = self._touch(source, event.correl_id, position, received_at)
        record = attachment.record
        if record.kind is not None:
            attachment.note(event)
            return NOTHING if event.doubt and not event.counts else self._count(attachment, event.counts, position)
        if record.pending_position is not None:
            return attachment.repeated(record.pending_position, position)
        attachment.record = changed(record, pending_position=position, pending_counts=event.counts)
        return NOTHING

    def _doubted(self, source: str, event: Refuted | OtherHeader) -> tuple[Effect, ...]:
        attachment = self.attachments.get((source, event.correl_id))
        if attachment is None:
            return NOTHING
        self._changed[source, event.correl_id] = None
        return attachment.warned(event.why) if isinstance(event, Refuted) else attachment.doubted()

    def _count(self, attachment: TrackedAttachment, counts: tuple[int, ...], position: int) -> tuple[Effect, ...]:
        record = attachment.record
        if record.parts_expected is not None:
            if record.parts_expected in counts:
                return attachment.repeated(None, position)
            why = f"{_spoken(counts)}, but an earlier count said {record.parts_expected}"
            return attachment.refused(Refused(position, "conflicting-count", "number of messages", why))
        plausible = plausible_counts(counts, record.dialects, self.limits.parts)
        _, came = attachment.parts.majority()
        fitting = [count for count in plausible if came <= count]
        if not fitting:
            limit = f"at most {self.limits.parts} parts are allowed" if not plausible else f"{came} came"
            return (Refused(position, "bad-count", "number of messages", f"{_spoken(counts)}, and {limit}"),)
        count = fitting[0]
        if record.kind is not None and (effects := attachment.settled(count)):
            return effects
        attachment.record = changed(record, parts_expected=count, pending_counts=(), pending_position=None)
        return NOTHING

    def _header(self, source: str, event: Announced, position: int, received_at: int) -> tuple[Effect, ...]:
        judged = judge(source, event.header, position, received_at, self.limits.attachments, self)
        if isinstance(judged, MessageRecord):
            claimed = (self.claim(source, each, position, received_at) for each in claims(judged.id, event))
            return (*self.begin_message(judged), *chain.from_iterable(claimed))
        match judged:
            case (Repeated(),):
                return judged + self._claim_unknown(source, event, position, received_at)
            case (Refused(contradicted=correl_ids),):
                doubted = (self._doubted(source, OtherHeader(each)) for each in correl_ids)
                return (*judged, *chain.from_iterable(doubted))
        return judged

    def _claim_unknown(self, source: str, event: Announced, position: int, received_at: int) -> tuple[Effect, ...]:
        """Apply a header that came again: attachments of its message that are no longer known begin anew."""
        effects: tuple[Effect, ...] = ()
        message = self.messages[header_address(source, event.header)]
        for claim in claims(message.id, event):
            key = source, claim.definition.correl_id
            if attachment_id(*key) in message.attachments and not self.is_announced(key):
                effects += self.claim(source, claim, position, received_at)
        return effects

    # --- accepted headers ---------------------------------------------------------------------------------------------

    def addressed(self, address: Address) -> tuple[str, int] | None:
        """Return the message of an address and its header's position; see `EarlierHeaders`."""
        message = self.messages.get(address)
        return None if message is None else (message.id, message.header_position)

    def announced(self, key: Key) -> Announcement | None:
        """Return the announcement of an attachment; see `app.assembly.header_checks.EarlierHeaders`."""
        attachment = self.attachments.get(key)
        return None if attachment is None else Announcement.of(attachment.record.message_id or "", attachment.record)

    def begin_message(self, message: MessageRecord) -> tuple[Effect, ...]:
        """Begin the message of an accepted header.

        Its application message may wait under its correlid, as a count or a part of no announced attachment. The
        message records as what it has waited.
        """
        address = message_address(message)
        self.messages.setdefault(address, message)
        self._changed_messages[message.id] = message
        self._begun.add(message.id)
        key, sequence = waiting_key(address)
        if attachment_id(*key) in message.attachments:
            return NOTHING  # where one header announces both, the waiting message belongs to the attachment
        waiting = self.attachments.get(key)
        if waiting is None or waiting.record.kind is not None or (waiting.parts.count and not sequence):
            return NOTHING
        position = waiting.parts.remove(sequence) if sequence else waiting.record.pending_position
        if position is None:
            return NOTHING
        waited_as = waiting.record.id
        if waiting.parts.count or (sequence and waiting.record.pending_position is not None):
            self._changed[key] = None
        else:
            del self.attachments[key]
            self._changed.pop(key, None)
            self._removed[waited_as] = None
        message = changed(self.messages[address], waited_as=waited_as)
        self.messages[address] = self._changed_messages[message.id] = message
        return (Identification(waited_as, message.id, True), ApplicationArrived(address, position))

    def claim(self, source: str, claim: Claim, position: int, received_at: int) -> tuple[Effect, ...]:
        """Announce an attachment, as an accepted header at this position does."""
        definition = claim.definition
        known = self.attachments.get((source, definition.correl_id))
        has_waited = known is not None and known.record.kind is None
        attachment = self._touch(source, definition.correl_id, position, received_at)
        attachment.define(
            definition,
            message_id=claim.message,
            ordinal=claim.ordinal,
            dialects=claim.dialects,
            trace_parent=claim.trace_parent,
        )
        identified = (Identification(attachment.record.id, claim.message, False),) if has_waited else NOTHING
        if (pending := attachment.record.pending_position) is not None:
            return identified + self._count(attachment, attachment.record.pending_counts, pending)
        return identified + self._check_complete(attachment)

    # --- shared helpers -------------------------------------------------------------------------------------------

    def _touch(self, source: str, correl_id: bytes, position: int, received_at: int) -> TrackedAttachment:
        key = (source, correl_id)
        attachment = self.attachments.get(key)
        if attachment is None:
            record = AttachmentRecord(
                id=attachment_id(source, correl_id),
                source=source,
                correl_id=correl_id,
                first_position=position,
                last_position=position,
                first_received_at=received_at,
                last_received_at=received_at,
            )
            attachment = self.attachments[key] = TrackedAttachment(record, Parts())
            self._begun.add(record.id)
        elif attachment.record.state is AttachmentState.EXPIRED:
            state = follow(AttachmentState.EXPIRED, Input.MESSAGE)
            assert state is not None
            attachment.record = changed(attachment.record, state=state, reason=None, reason_code=None)
        elif attachment.is_lost:
            state = follow(attachment.record.state, Input.SENT_AGAIN)
            assert state is not None
            begun_again = changed(attachment.record, state=state, **NOTHING_CAME)
            attachment = self.attachments[key] = TrackedAttachment(begun_again, Parts())
            self._reopened[attachment.record.id] = None
        if position < attachment.record.first_position:
            attachment.record = changed(attachment.record, first_position=position)
        attachment.last_position = max(attachment.last_position, position)
        attachment.last_received_at = max(attachment.last_received_at, received_at)
        self._changed[key] = None
        return attachment

    def _check_complete(self, attachment: TrackedAttachment) -> tuple[Effect, ...]:
        record = attachment.record
        if record.kind is None or record.parts_expected is None or attachment.parts.count < record.parts_expected:
            return NOTHING
        return attachment.settled(record.parts_expected)


def plausible_counts(counts: tuple[int, ...], dialects: int, most: int) -> list[int]:
    """Return the possible values of a count, at most `most`, the smallest first: those in a byte order that the header
    can have."""
    known: frozenset[str] = orders(dialects) or _BOTH_ORDERS
    in_order = (count for order, count in zip("><", counts, strict=False) if order in known)
    return sorted(count for count in in_order if 0 <= count <= most)


def _application(message: MessageRecord, address: Address, position: int) -> tuple[Effect, ...]:
    """Return the effect of an application message that comes after its header, for the first time or again."""
    if message.application_body is None:
        return (ApplicationArrived(address, position),)
    first = message.application_position
    return NOTHING if first == position else (Repeated(None, first, position),)


def _spoken(counts: tuple[int, ...]) -> str:
    return f"the count reads {' or '.join(map(str, counts))}" if counts else "the body is not a count"
