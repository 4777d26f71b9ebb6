"""Zip files that are written piece by piece, in constant memory: they are never a whole in memory or on disk."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

LEVEL: Final = 1
"""Of Deflate: a download must not cost more processor time than it saves of the network."""
_EARLIEST_ZIP: Final = datetime(1980, 1, 1, tzinfo=UTC)
_READABLE: Final = 0o100644


class ArchiveMember(NamedTuple):
    """A file in an archive: its name, size and time, and the function that reads its content."""

    name: str
    size: int
    modified: datetime
    read: Callable[[], Iterator[memoryview]]


def zip_pieces(members: Iterable[ArchiveMember]) -> Iterator[bytes | memoryview]:
    """Yield a zip file (zip64 where it is needed)."""
    sink = _Sink()
    with ZipFile(sink, "w", ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for member in members:
            about = ZipInfo(member.name, max(member.modified, _EARLIEST_ZIP).timetuple()[:6])
            about.compress_type, about.external_attr, about.file_size = ZIP_DEFLATED, _READABLE << 16, member.size
            with archive.open(about, "w", force_zip64=member.size >= 1 << 31) as file:
                for piece in member.read():
                    file.write(piece)
                    yield from sink.taken()
            yield from sink.taken()
    yield from sink.taken()


class _Sink:
    """A file that cannot be sought, whose bytes are taken out again."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes, /) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Keep everything: there is no place to flush to."""

    def close(self) -> None:
        """Keep everything, as `flush` does."""

    def taken(self) -> Iterator[bytes]:
        pieces, self._pieces = self._pieces, []
        if joined := b"".join(pieces):
            yield joined


def unique_names(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, with a number in those that an earlier one has, ignoring case: `a.txt`, `a (2).txt`."""
    seen: set[str] = set()
    counts: dict[str, int] = {}
    for name in names:
        chosen, folded = name, name.casefold()
        while chosen.casefold() in seen:
            counts[folded] = counts.get(folded, 1) + 1
            stem, dot, extension = name.rpartition(".")
            numbered = f"{stem or name} ({counts[folded]})"
            chosen = numbered + dot + extension if stem else numbered
        seen.add(chosen.casefold())
        yield chosen
