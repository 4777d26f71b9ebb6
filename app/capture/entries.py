"""What a capture consists of."""

from collections.abc import Callable
from typing import Final, NamedTuple

from app.model.framing import FramingTraits
from app.model.message import PhysicalMessage

LONGEST_MESSAGE: Final = 100 << 20
"""Bytes of the longest message that is read: what IBM MQ allows a queue's MaxMsgLength to be."""


class Refused(NamedTuple):
    """A piece of a capture that could not be read.

    `message` has its bytes as its body and what is known of it in its fields. `code` is a word for programs and `why` a
    sentence for people; `line` counts from 1, `at` is the byte of that line, or of the file where `line` is 0; both are
    left at 0 and -1 where they mean nothing.
    """

    message: PhysicalMessage
    code: str
    why: str
    line: int = 0
    at: int = -1


class Skipped(NamedTuple):
    """A piece of a capture that is well-formed and no message; `what` says of which kind."""

    what: str


Entry = PhysicalMessage | Refused | Skipped


class Origin(NamedTuple):
    """Where messages of a capture come from. `initial` has their source and framing, and the values of fields that a
    capture leaves unsaid: 0 and empty where these stay unsaid. `now` is the clock of the import, in µs since 1970.
    `framing` tells more of the framing that `initial` names."""

    initial: PhysicalMessage
    now: Callable[[], int]
    framing: FramingTraits

    def completed(self, message: PhysicalMessage) -> PhysicalMessage:
        """A message with the Encoding and CodedCharSetId that it does not say itself."""
        initial = self.initial
        if (message.encoding or not initial.encoding) and (message.ccsid or not initial.ccsid):
            return message
        return message._replace(encoding=message.encoding or initial.encoding, ccsid=message.ccsid or initial.ccsid)

    def refused(self, body: bytes | memoryview, code: str, why: str, line: int = 0, at: int = -1) -> Refused:
        """A refusal of bytes of which nothing is known."""
        initial = self.initial
        unread = PhysicalMessage(initial.source, initial.framing, body=body, received_at=self.now())
        return Refused(unread, code, why, line, at)
