"""Pieces of bodies: adjacent ones are read together, and each is checked before it is returned.

A piece is checked as part of its whole body. A body that is larger than one read is checked once, in small parts; then
its pieces are read as they are asked for.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from crc32c import crc32c

from adapters.disk import ReadFile, UnreadableError
from app.model.errors import DamagedError
from app.model.records import Damage

RUN = 256 << 10
"""Adjacent bodies are read together, up to this number of bytes."""
GAP = 16 << 10
"""The largest distance in bytes between two bodies that are read together. Two separate reads would take longer."""

BODY_DAMAGED = "the body fails its checksum"


class PieceSource(Protocol):
    """A segment that pieces are read from."""

    number: int

    def file(self) -> ReadFile:
        """Return the segment's file. Raises KeyError when it is gone."""

    def is_checked(self, piece: "BodyPiece") -> bool: ...

    def set_checked(self, piece: "BodyPiece") -> None: ...


class BodyPiece(NamedTuple):
    """Bytes [begin, end) of a segment's file, within the body of a row at [start, stop)."""

    segment: PieceSource
    batch: int
    row: int
    start: int
    stop: int
    crc: int
    begin: int
    end: int

    def damage(self, why: str) -> Damage:
        return Damage(self.segment.number, self.batch, self.row, why)


def fetch(pieces: Iterable[memoryview | BodyPiece]) -> Iterator[memoryview | Damage]:
    """Yield the bytes of each piece, or its damage. Raises KeyError when a segment is gone."""
    run: list[BodyPiece] = []
    for piece in pieces:
        if isinstance(piece, BodyPiece) and (not run or _belongs(piece, run)):
            run.append(piece)
            continue
        yield from _fetch_run(run)
        run = []
        if isinstance(piece, BodyPiece):
            run.append(piece)
        else:
            yield piece
    yield from _fetch_run(run)


def readable(found: Iterable[memoryview | Damage]) -> Iterator[memoryview]:
    """Yield the bytes that were fetched. Raises DamagedError."""
    for each in found:
        if isinstance(each, Damage):
            raise DamagedError.of(each)
        yield each


def are_whole(bodies: memoryview, offsets: Sequence[int], crcs: Sequence[int]) -> bool:
    """Tell whether all of these adjacent bodies match their checksums."""
    return all(crc32c(bodies[offsets[row] : offsets[row + 1]]) == crc for row, crc in enumerate(crcs))


def read_rows(
    file: ReadFile, start: int, offsets: Sequence[int], crcs: Sequence[int], rows: Sequence[int]
) -> list[memoryview] | None:
    """Return the bodies in these rows of a batch, which ascend; None if one of them cannot be read or is damaged.

    Body i is bytes [start + offsets[i], start + offsets[i + 1]) of the file.
    """
    found: list[memoryview] = []
    at = 0
    file.will_need(start + offsets[rows[0]], start + offsets[rows[-1] + 1])
    while at < len(rows):
        first, end, behind = offsets[rows[at]], offsets[rows[at] + 1], at + 1
        while behind < len(rows) and offsets[rows[behind]] <= end + GAP and offsets[rows[behind] + 1] - first <= RUN:
            end = offsets[rows[behind] + 1]
            behind += 1
        try:
            data = memoryview(file.read(start + first, start + end))
        except UnreadableError:
            return None
        for row in rows[at:behind]:
            body = data[offsets[row] - first : offsets[row + 1] - first]
            if crc32c(body) != crcs[row]:
                return None
            found.append(body)
        at = behind
    return found


def check_in_parts(piece: BodyPiece) -> Damage | None:
    """Return the damage of the whole body that a piece belongs to, read in parts; None when it matches its checksum."""
    file, crc = piece.segment.file(), 0
    try:
        for at in range(piece.start, piece.stop, RUN):
            crc = crc32c(file.read(at, min(at + RUN, piece.stop)), crc)
    except UnreadableError as error:
        return piece.damage(str(error))
    return None if crc == piece.crc else piece.damage(BODY_DAMAGED)


def _belongs(piece: BodyPiece, run: list[BodyPiece]) -> bool:
    first, last = run[0], run[-1]
    is_behind = last.start <= piece.start <= last.stop + GAP and last.stop <= piece.stop
    return is_behind and piece.segment is last.segment and piece.stop - first.start <= RUN


def _fetch_run(run: list[BodyPiece]) -> Iterator[memoryview | Damage]:
    """Yield the bytes of pieces that are read together, or their damage."""
    if not run:
        return
    start, stop = run[0].start, run[-1].stop
    if stop - start > RUN:
        yield from map(_fetch_large, run)
        return
    try:
        data = memoryview(run[0].segment.file().read(start, stop))
    except UnreadableError as error:
        if len(run) == 1:
            yield run[0].damage(str(error))
        else:
            for piece in run:
                yield from _fetch_run([piece])
        return
    body: tuple[int, int] | None = None
    is_whole = False
    for piece in run:
        if body != piece[3:5]:
            body = piece[3:5]
            is_whole = crc32c(data[piece.start - start : piece.stop - start]) == piece.crc
        yield data[piece.begin - start : piece.end - start] if is_whole else piece.damage(BODY_DAMAGED)


def _fetch_large(piece: BodyPiece) -> memoryview | Damage:
    try:
        if (piece.begin, piece.end) == (piece.start, piece.stop):
            data = piece.segment.file().read(piece.begin, piece.end)
            return memoryview(data) if crc32c(data) == piece.crc else piece.damage(BODY_DAMAGED)
        if not piece.segment.is_checked(piece):
            if (damage := check_in_parts(piece)) is not None:
                return damage
            piece.segment.set_checked(piece)
        return memoryview(piece.segment.file().read(piece.begin, piece.end))
    except UnreadableError as error:
        return piece.damage(str(error))
