"""The lines of a capture, up to a maximum length, its entries, and their origin."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import PhysicalMessage
from app.wire import WireError

LONGEST_LINE: Final = (1 << 29) + (1 << 16)
"""Size in bytes of the longest line that is read: the largest MQTT packet in hexadecimal, with some room for a time."""

_PIECE = 1 << 20


class Readable(Protocol):
    """The part of a binary file that `lines` needs."""

    def readline(self, size: int, /) -> bytes: ...


class LineError(ValueError):
    """A malformed line; `at` is the byte of the error."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(f"{why} (byte {at})")
        self.at, self.why = at, why


class BoundedLine(NamedTuple):
    """A line without its line ending. `is_whole` is false if it was longer than `LONGEST_LINE` and was cut there.
    `is_ended` is false if it had no line ending, as the last line of a file that was cut."""

    number: int
    content: bytes
    is_whole: bool = True
    is_ended: bool = True

    def require_whole(self) -> None:
        """Raise LineError if the line was cut."""
        if not self.is_whole:
            raise LineError(len(self.content), f"the line is longer than the limit of {LONGEST_LINE:,} bytes")


def lines(file: Readable) -> Iterator[BoundedLine]:
    """Yield the lines of a file with their numbers, from 1 on."""
    number = 0
    while content := file.readline(LONGEST_LINE):
        number += 1
        is_whole = content.endswith(b"\n") or len(content) < LONGEST_LINE
        is_ended = content.endswith(b"\n") or not is_whole
        yield BoundedLine(number, content.removesuffix(b"\n").removesuffix(b"\r"), is_whole, is_ended)
        while not is_whole and (rest := file.readline(_PIECE)):
            is_whole = rest.endswith(b"\n")


LONGEST_MESSAGE: Final = 100 << 20
"""Size in bytes of the longest message that is read: the maximum that IBM MQ allows for a queue's MaxMsgLength."""


class RefusedEntry(NamedTuple):
    """A piece of a capture that could not be read.

    `message` has the bytes as its body, and the known facts in its fields. `code` is for programs, and `why` is a
    sentence for people. `line` counts from 1. `at` is the byte of that line, or of the file if `line` is 0. Where they
    do not apply, `line` is 0 and `at` is -1. `row` names the field of the message that is wrong, and `body_at` the byte
    of its body, where they are known.
    """

    message: PhysicalMessage
    code: str
    why: str
    line: int = 0
    at: int = -1
    row: str = ""
    body_at: int = -1


class SkippedEntry(NamedTuple):
    """A well-formed piece of a capture that is not a message; `what` names its kind."""

    what: str


Entry = PhysicalMessage | RefusedEntry | SkippedEntry


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

    def refused(
        self,
        body: bytes | memoryview,
        code: str,
        why: str,
        line: int = 0,
        at: int = -1,
        error: WireError | InvalidInputError | None = None,
    ) -> RefusedEntry:
        """Return a refusal of bytes of which nothing else is known than the `error` of reading them, if any."""
        initial = self.initial
        unread = PhysicalMessage(initial.source, initial.framing, body=body, received_at=self.now())
        row, body_at = ("", -1) if error is None else (error.row, error.at)
        return RefusedEntry(unread, code, why, line, at, row, body_at)
