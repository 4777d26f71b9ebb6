"""Read the lines of a file, up to a maximum length."""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

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
    """A line without its line ending. `is_whole` is false if it was longer than `LONGEST_LINE` and was cut there."""

    number: int
    content: bytes
    is_whole: bool = True

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
        yield BoundedLine(number, content.removesuffix(b"\n").removesuffix(b"\r"), is_whole)
        while not is_whole and (rest := file.readline(_PIECE)):
            is_whole = rest.endswith(b"\n")
