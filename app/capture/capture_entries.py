"""The entries of a capture, and their origin."""

from collections.abc import Callable
from typing import Final, NamedTuple

from app.model.framing_facts import FramingTraits
from app.model.message import PhysicalMessage

LONGEST_MESSAGE: Final = 100 << 20
"""Size in bytes of the longest message that is read: the maximum that IBM MQ allows for a queue's MaxMsgLength."""


class RefusedEntry(NamedTuple):
    """A piece of a capture that could not be read.

    `message` has the bytes as its body, and the known facts in its fields. `code` is for programs, and `why` is a
    sentence for people. `line` counts from 1. `at` is the byte of that line, or of the file if `line` is 0. Where they
    do not apply, `line` is 0 and `at` is -1.
    """

    message: PhysicalMessage
    code: str
    why: str
    line: int = 0
    at: int = -1


class Skipped(NamedTuple):
    """A well-formed piece of a capture that is not a message; `what` names its kind."""

    what: str


Entry = PhysicalMessage | RefusedEntry | Skipped


class Origin(NamedTuple):
    """The origin of the messages of a capture.

    `initial` has their source and framing, and the values of fields that a capture does not state: 0 and empty if these
    stay unknown. `now` is the clock of the import, in µs since 1970. `framing` has the traits of the framing that
    `initial` names.
    """

    initial: PhysicalMessage
    now: Callable[[], int]
    framing: FramingTraits

    def completed(self, message: PhysicalMessage) -> PhysicalMessage:
        """Return a message with the initial Encoding and CodedCharSetId where it has none."""
        initial = self.initial
        if (message.encoding or not initial.encoding) and (message.ccsid or not initial.ccsid):
            return message
        return message._replace(encoding=message.encoding or initial.encoding, ccsid=message.ccsid or initial.ccsid)

    def refused(self, body: bytes | memoryview, code: str, why: str, line: int = 0, at: int = -1) -> RefusedEntry:
        """Return a refusal of bytes of which nothing else is known."""
        initial = self.initial
        unread = PhysicalMessage(initial.source, initial.framing, body=body, received_at=self.now())
        return RefusedEntry(unread, code, why, line, at)
