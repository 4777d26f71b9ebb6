"""The consequences of the effects of assembly: one interpretation for every host.

The machine never sees bytes. A host gives `interpret` access to the messages that an effect refers to. It carries out
the result in its own way: at once, in memory, or with the results of a batch.
"""

from typing import NamedTuple, Protocol

from app.assembly.collecting import Address, ApplicationArrived, Refused, Repeated
from app.model.errors import DamagedError, InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import MessageRecord, changed


class Messages(Protocol):
    """The messages that a host can still read, by their packed journal positions."""

    def message(self, position: int) -> PhysicalMessage | None:
        """Return a message; None when the journal no longer has it, or cannot read it back."""

    def body(self, position: int) -> bytes | memoryview:
        """Return the body of a message. Raises DamagedError when it cannot be read back."""


class Rejected(NamedTuple):
    """A message that goes to quarantine, with the reason. It may contradict a part of an `attachment`."""

    position: int
    message: PhysicalMessage
    error: InvalidInputError
    attachment: str | None = None


class Duplicate(NamedTuple):
    """A message that changes nothing, because an earlier one with the same bytes has its place.

    `to_finish` is an attachment to finish again: it waits for a part that could not be read, and may be readable again.
    """

    position: int
    to_finish: str | None = None


class Unreadable(NamedTuple):
    """A part that came again, and whose earlier copy the journal cannot read back. It may replace that copy."""

    attachment: str
    first: int
    again: int
    error: DamagedError


class Answered(NamedTuple):
    """The application message, at this position, of the message at this address."""

    address: Address
    answer: PhysicalMessage
    position: int


Consequence = Rejected | Duplicate | Unreadable | Answered


def interpret(effect: Repeated | Refused | ApplicationArrived, messages: Messages) -> Consequence | None:
    """Return the consequence for the host; None when the message that an effect refers to is no longer available.

    Different bytes in one place are a conflict; the first ones stay.
    """
    match effect:
        case Repeated(attachment, first, again, waits_for_parts, say_the_same):
            duplicate = Duplicate(again, attachment if waits_for_parts else None)
            if first is None:
                return duplicate
            try:
                body = messages.body(first)
                has_changed = not say_the_same and not is_same(body, messages.body(again))
            except DamagedError as error:
                return duplicate if attachment is None else Unreadable(attachment, first, again, error)
            message = messages.message(again) if has_changed else None
            if message is None:
                return duplicate
            why = "its place is taken by an earlier message with other bytes"
            return Rejected(again, message, InvalidInputError("conflicting-part", "body", -1, why), attachment)
        case Refused(position, code, row, why, at):
            message = messages.message(position)
            return None if message is None else Rejected(position, message, InvalidInputError(code, row, at, why))
        case ApplicationArrived(address, position):
            answer = messages.message(position)
            return None if answer is None else Answered(address, answer, position)


def is_same(body: bytes | memoryview, other: bytes | memoryview) -> bool:
    """Tell whether two bodies have the same bytes. Python compares views byte by byte, in ten times as long."""
    return len(body) == len(other) and bytes(body) == bytes(other)


def answered(message: MessageRecord, answer: PhysicalMessage, position: int) -> MessageRecord:
    """Return a message with its application message, which is at this packed position. If it has no attachments, it is
    then complete."""
    return changed(
        message,
        application_body=bytes(answer.body),
        application_format=answer.format,
        application_ccsid=answer.ccsid,
        application_position=position,
        complete_at=None if message.attachments else answer.received_at,
    )
