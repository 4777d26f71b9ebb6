"""An attachment while it is being received, and the effects that a physical message has on it."""

from typing import Any, NamedTuple

from app.assembly.part_places import BIG, LITTLE, LITTLE_ENDIAN_FROM, Parts, little_endian, number_in
from app.assembly.states import DONE, Input, follow
from app.codecs.sas.dialect import orders
from app.model.attachment import AttachmentDefinition, AttachmentState
from app.model.event import Unsequenced
from app.model.evidence import Choice, Ground, Question, kept_warnings
from app.model.message import OTHER_BYTES
from app.model.records import DAMAGED_PART, DOUBTFUL_COUNT, LOST_CODES, AttachmentRecord, changed

Key = tuple[str, bytes]
"""The key of an attachment: a source, and a correlid of 16 bytes or the identifier of an IBM MQ group of 24 bytes."""

Address = tuple[str, bytes]
"""The address of an application message: a source and the 20 bytes of a correlid that are compared."""


class Repeated(NamedTuple):
    """A physical message whose place is taken by an earlier one: the host compares the two bodies.

    `attachment` is None for a header and for an application message. `first` is None when the earlier message is no
    longer in the journal. Then the later one counts as the same. Two messages that `say_the_same` need not have the
    same bytes. The attachment that `waits_for_parts` is quarantined because one of its parts could not be read back.
    """

    attachment: str | None
    first: int | None
    again: int
    waits_for_parts: bool = False
    say_the_same: bool = False


class Refused(NamedTuple):
    """A physical message that contradicts earlier ones and belongs in quarantine. The reason is as in
    `InvalidInputError`. Of a header, these are the correlids of the attachments that it has `contradicted`."""

    position: int
    code: str
    row: str
    why: str
    at: int = -1
    contradicted: tuple[bytes, ...] = ()


class Completed(NamedTuple):
    """An attachment that has all of its `parts` parts. It `had_strays` if others counted as parts of it before."""

    attachment: str
    parts: int
    had_strays: bool = False


class ApplicationArrived(NamedTuple):
    """The application message of a message is at this position. The host gives its body to `set_application`."""

    address: Address
    position: int


class Warned(NamedTuple):
    """A finished attachment, with the name that its sender gave it, may not be as it was sent: `why` is a sentence."""

    attachment: str
    name: str
    why: str


class Identification(NamedTuple):
    """A header identifies what waited as an unannounced attachment: an attachment of this message, or
    its application message."""

    attachment: str
    message: str
    is_application: bool


class Discarded(NamedTuple):
    """An attachment that was not complete is deleted, since its sender has aborted it."""

    attachment: str


Effect = Repeated | Refused | Completed | ApplicationArrived | Identification | Warned | Discarded
NOTHING: tuple[Effect, ...] = ()

CONTRADICTED = Choice(Question.MESSAGES, "first", Ground.PREFERENCE, ("later",))
"""Messages of an attachment contradicted each other before all of them were there. The first ones were taken."""
CONTRADICTED_LATER = "a message that came when it was complete contradicts it, and is in quarantine"

READ = frozenset({AttachmentState.COMPLETE, AttachmentState.FINISHED, AttachmentState.QUARANTINED})
"""The states in which content is read, or was."""


class TrackedAttachment:
    """An attachment's catalog record, its parts, and the fields that change with every message."""

    __slots__ = ("bytes_received", "duplicates", "group", "last_position", "last_received_at", "parts", "record")

    def __init__(self, record: AttachmentRecord, parts: Parts) -> None:
        self.record, self.parts = record, parts
        self.bytes_received, self.duplicates, self.group = record.bytes_received, record.duplicates, record.group
        self.last_position, self.last_received_at = record.last_position, record.last_received_at

    def current(self) -> AttachmentRecord:
        """Return the record with the changes since it was loaded."""
        before = 0 if self.parts.has_less else self.record.parts_received
        return changed(
            self.record,
            parts_received=max(self.parts.count, before),
            bytes_received=self.bytes_received,
            duplicates=self.duplicates,
            group=self.group,
            last_position=self.last_position,
            last_received_at=self.last_received_at,
        )

    @property
    def is_lost(self) -> bool:
        """Whether the attachment is quarantined and its content, or a part of it, is gone. The next message restarts
        it."""
        is_gone = self.record.reason_code in LOST_CODES or self.parts.has_less
        return is_gone and self.record.state is AttachmentState.QUARANTINED

    @property
    def has_forgotten_its_parts(self) -> bool:
        """Whether the attachment is done, so that every further message of it is a duplicate."""
        return not self.parts.count and self.record.state in DONE

    def repeated(self, first: int | None, again: int, *, say_the_same: bool = False) -> tuple[Effect, ...]:
        """Count a message that came again; see `Repeated`."""
        self.duplicates += 1
        return (Repeated(self.record.id, first, again, self.waits_for_parts, say_the_same),)

    def refused(self, refusal: Refused) -> tuple[Effect, ...]:
        """Refuse a message that contradicts earlier ones."""
        return (refusal, *self.doubted())

    def doubted(self) -> tuple[Effect, ...]:
        """Note that a refused message contradicts earlier ones; see `contradicted`. An attachment that is already
        complete gets a warning."""
        self.contradict()
        return NOTHING if CONTRADICTED_LATER in self.record.warnings else self.warned(CONTRADICTED_LATER)

    def warned(self, why: str) -> tuple[Effect, ...]:
        """Add a warning, if the attachment is complete."""
        record = self.record
        if record.state not in READ:
            return NOTHING
        self.record = changed(record, warnings=(*record.warnings, why))
        return (Warned(record.id, record.qualifier_2, why),)

    def contradict(self) -> None:
        """Note that messages of an attachment that is not complete contradict each other."""
        if self.record.state is AttachmentState.RECEIVING:
            self.record = contradicted(changed(self.record, group=self.group))

    def replace_part(self, first: int, again: int) -> bool:
        """Replace a part; see `Assembly.replace_part`."""
        state = self.record.state
        if state in DONE or not self.parts.replace(first, again):
            return False
        return state is AttachmentState.COMPLETE or self.waits_for_parts

    @property
    def waits_for_parts(self) -> bool:
        """Whether the attachment is quarantined because a part could not be read back."""
        return self.record.state is AttachmentState.QUARANTINED and self.record.reason_code == DAMAGED_PART

    def note(self, count: Unsequenced) -> None:
        """Note how it was decided what a count says, or why it is in doubt; a count that says a number ends the
        doubt."""
        record = self.record
        if record.state is not AttachmentState.RECEIVING or record.parts_expected is not None:
            return
        if count.doubt and not count.counts:
            self.record = changed(record, reason_code=DOUBTFUL_COUNT, reason=count.doubt)
        elif count.choice is not None:
            warnings = (count.doubt,) if count.doubt else ()
            evidence = (*(each for each in record.evidence if each.question is Question.MESSAGES), count.choice)
            self.record = changed(record, reason_code=None, reason=None, evidence=evidence, warnings=warnings)

    def settled(self, expected: int) -> tuple[Effect, ...]:
        """Make the attachment complete if all parts 1..expected are there, in one byte order.

        Those in the other byte order are strays, which are refused wherever they came. So are those beyond the count,
        which contradict it.
        """
        if follow(self.record.state, Input.ALL_THERE) is None:
            return NOTHING
        likely = LITTLE if orders(self.record.dialects) == {LITTLE} else BIG
        strays = self.parts.take_strays(expected, likely)
        if strays is None:
            return NOTHING
        if strays:
            order = BIG if self.parts.find(1) is not None else LITTLE
            if any(number_in(order, number) < LITTLE_ENDIAN_FROM for number, _ in strays):
                self.contradict()
        return (*self.completed(expected, had_strays=bool(strays)), *(stray(*each) for each in strays))

    def completed(self, parts: int, *, had_strays: bool = False) -> tuple[Effect, ...]:
        """Make the attachment complete, with `parts` parts."""
        if (state := follow(self.record.state, Input.ALL_THERE)) is None:
            return NOTHING
        self.record = changed(
            self.record,
            state=state,
            parts_expected=parts,
            pending_counts=(),
            pending_position=None,
            completed_at=self.last_received_at,
        )
        return (Completed(self.record.id, parts, had_strays),)

    def define(self, definition: AttachmentDefinition, **more: Any) -> None:
        """Take over the definition that a sender gives, and what is in doubt about it."""
        if definition.warnings:
            more["warnings"] = kept_warnings((*self.record.warnings, *definition.warnings))
        self.record = changed(
            self.record,
            kind=definition.kind,
            qualifier_1=definition.qualifier_1,
            qualifier_2=definition.qualifier_2,
            description=definition.description,
            minor_version=definition.minor_version,
            major_version=definition.major_version,
            **more,
        )


def contradicted(record: AttachmentRecord) -> AttachmentRecord:
    """Return an attachment with the note that a message was refused which contradicts an earlier one.

    A file of byte ranges may have a checksum. It has a warning instead, which its framing follows (`OTHER_BYTES`).
    """
    if record.group is not None and record.group.is_of_ranges:
        return record if OTHER_BYTES in record.warnings else changed(record, warnings=(*record.warnings, OTHER_BYTES))
    return record if CONTRADICTED in record.evidence else changed(record, evidence=(*record.evidence, CONTRADICTED))


def stray(sequence: int, position: int) -> Refused:
    """Return the refusal of a part that is not a part of its complete attachment."""
    why = f"part {sequence}, which is {little_endian(sequence)} little-endian, but the attachment has all its parts"
    return Refused(position, "sequence-beyond-count", "correl_id", why)
