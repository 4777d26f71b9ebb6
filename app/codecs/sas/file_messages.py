"""The sequenced messages of an external file: its description first, then its records.

Records are a stream: the payloads of the messages in sequence. Most senders begin every message with a new record. But
a record that is too large spans messages, and the specification allows this for any record.

The specification says of the header that its strings are null terminated; it does not say so of the records. The
gateway writes records without a NUL. When reading, it also recognises senders that write a NUL after each record: after
the length's bytes in any file, or included in the length in a text file (`detect`).
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from app.codecs.sas.constants import Long
from app.codecs.sas.dialect import Dialect, frames, members, with_nul, with_order
from app.wire import Layout, WireError, row
from app.wire.kinds import Buffer, Nul, Order, number_code

DETECTION_PREFIX = 1 << 16
"""Bytes of records that `detect` examines before it examines all."""

_INT_LIMIT = 1 << 31
_SIZES = 1 << 32
_LINE_ENDS = (1, 2, 4)
_ORDER_WORDS: dict[Order, Literal["big", "little"]] = {">": "big", "<": "little"}
_RECORD_NULS: tuple[Nul, ...] = ("absent", "excluded")


class FileDescription(NamedTuple):
    """The first sequenced message of a file.

    `filesize` is the sender's number, modulo 2^32 in a message of 8 bytes; senders may or may not count line ends.
    """

    lrecl: int
    filesize: int


@dataclass(slots=True)
class RecordTotals:
    """Running totals of a file's records: their number, their size in bytes, and the size of the longest."""

    count: int = 0
    size: int = 0
    longest: int = 0

    def add(self, length: int) -> None:
        """Count a record of `length` bytes."""
        self.count += 1
        self.size += length
        self.longest = max(self.longest, length)

    def add_all(self, lengths: Sequence[int]) -> None:
        """Count records of these lengths."""
        self.count += len(lengths)
        self.size += sum(lengths)
        self.longest = max([self.longest, *lengths])


def is_announced_size(description: FileDescription, totals: RecordTotals, *, of_lines: bool) -> bool:
    """Tell whether records have the announced size of their file; zero announces none.

    The announced size may include padding of records to the record length. The size of a file of lines may or may not
    include the line ends (of 1, 2 or 4 bytes, with or without one after the last line). Sizes are compared modulo 2^32.
    """
    lrecl, filesize = description
    sizes = {totals.size, totals.count * lrecl}
    if of_lines:
        sizes |= {totals.size + lines * width for lines in (totals.count, totals.count - 1) for width in _LINE_ENDS}
    return not filesize or any(not (filesize - size) % _SIZES for size in sizes)


def size_contradiction(description: FileDescription, totals: RecordTotals, *, of_lines: bool) -> str | None:
    """Return a sentence if the records of a file have not its announced size: bytes may be missing."""
    if is_announced_size(description, totals, of_lines=of_lines):
        return None
    return (
        f"the sender announced {description.filesize} bytes, but {totals.size} were received in {totals.count} records"
    )


def length_contradiction(description: FileDescription, totals: RecordTotals) -> str | None:
    """Return a sentence if a record is longer than announced. Zero announces no length."""
    if not description.lrecl or totals.longest <= description.lrecl:
        return None
    return f"the sender announced records of at most {description.lrecl} bytes, but the longest has {totals.longest}"


class FileDescriptionMessage(Layout):
    """Two numeric integers: the file's logical record length and size."""

    lrecl: Long = row("logical record length")
    filesize: Long = row("size of the file")


def read_file_description(body: Buffer, mask: int) -> tuple[FileDescription, int]:
    """Return a file's record length and size, and the dialects of the set in which the message has these contents.

    The message has 8 or 16 bytes, whatever the width of a long. If the byte order is unknown, the smaller record length
    is taken. Raises WireError.
    """
    if len(body) not in {8, 16}:
        raise WireError("FileDescriptionMessage", len(body), "two numeric integers have 8 or 16 bytes")
    readings = [
        (FileDescription(lrecl, int.from_bytes(body[len(body) // 2 :], word)), dialects)
        for order, word in _ORDER_WORDS.items()
        if (dialects := with_order(mask, order))
        and (lrecl := int.from_bytes(body[: len(body) // 2], word, signed=True)) >= 0
    ]
    if not readings:
        raise WireError("FileDescriptionMessage.lrecl", 0, "a negative record length")
    description = min(readings)[0]
    return description, sum(dialects for meaning, dialects in readings if meaning == description)


def write_file_description(description: FileDescription, dialect: Dialect) -> bytes:
    """Return the body of a file's first sequenced message.

    The size is modulo 2^32 if a long has 4 bytes. Raises WireError.
    """
    lrecl, filesize = description
    if dialect.long == 4:
        filesize = (filesize + _INT_LIMIT) % (2 * _INT_LIMIT) - _INT_LIMIT
    return FileDescriptionMessage(lrecl, filesize).encode(dialect.context())


def spans(parts: Iterable[Buffer], dialect: Dialect, *, is_whole: bool = True) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the positions of a file's records in the payloads of its messages.

    Each item is (index of the part, first byte in it, number of bytes, whether the record ends there). A record that
    spans parts gives one item for each part that holds some of it. Raises WireError, with a byte offset in the joined
    payloads, for a negative length, a missing NUL and, if the parts are the whole file, an incomplete last record.
    """
    record = _Record(dialect)
    size, unpack, nul, nul_if_empty = record.size, record.unpack, record.nul, record.nul_if_empty
    plain = not dialect.aligned and dialect.nul != "included"
    for index, part in enumerate(parts):
        at, end = 0, len(part)
        while at < end:
            if plain and record.is_between:
                while (start := at + size) <= end:
                    (length,) = unpack(part, at)
                    stop = start + length
                    behind = stop + (nul if length else nul_if_empty)
                    if length < 0 or behind > end or (behind > stop and part[stop]):
                        break
                    yield index, start, length, True
                    at = behind
                if at == end:
                    break
            start, length, ends, at = record.step(part, at)
            if length or ends:
                yield index, start, length, ends
        record.before += end
    if is_whole:
        record.finish()


class _Record:
    """The current record, if parts end inside of one; slow and exact.

    `before` is the number of bytes in earlier parts, `head` the bytes of a length read so far, `left` the number of
    data bytes still to come. `due` is whether a NUL must follow the data.
    """

    def __init__(self, dialect: Dialect) -> None:
        length = _length_of(dialect)
        self.size, self.unpack, self.aligned = length.size, length.unpack_from, dialect.aligned
        self.nul, self.nul_if_empty = dialect.nul != "absent", dialect.nul in {"excluded", "included"}
        self.counted = dialect.nul == "included"
        self.before = self.left = 0
        self.head = b""
        self.due = False

    @property
    def is_between(self) -> bool:
        return not (self.left or self.due or self.head)

    def step(self, part: Buffer, at: int) -> tuple[int, int, bool, int]:
        """Consume some of a part from byte `at` on.

        Return the first byte and the number of bytes of data, whether the record's data end there, and the next byte to
        read.
        """
        if self.left:
            length = min(self.left, len(part) - at)
            self.left -= length
            return at, length, not self.left, at + length
        if self.due:
            if part[at]:
                raise WireError(
                    "Record.data", self.before + at, f"expected a NUL after the record, found {part[at]:02X}"
                )
            self.due = False
            return at, 0, False, at + 1
        # The length of the next record, or a part of it.
        if self.aligned and not self.head and (pad := -at % self.size):
            if any(part[at : at + pad]):
                raise WireError("Record.length", self.before + at, "padding that is not zero")
            return at, 0, False, min(at + pad, len(part))
        end = min(at + self.size - len(self.head), len(part))
        self.head += part[at:end]
        if len(self.head) < self.size:
            return at, 0, False, end
        (length,) = self.unpack(self.head)
        if length < self.counted:
            raise WireError("Record.length", self.before + end - self.size, f"invalid length {length}")
        self.head = b""
        self.left = length - self.counted
        self.due = self.nul if self.left else self.nul_if_empty
        return end, 0, not self.left, end

    def finish(self) -> None:
        if not self.is_between:
            missing = self.left + self.due or self.size - len(self.head)
            raise WireError("Record.data", self.before, f"the last record is incomplete: {missing} bytes are missing")


def detect(parts: Callable[[], Iterable[Buffer]], mask: int, *, text: bool = False, is_whole: bool = True) -> Dialect:
    """Return the dialect of a file's records: a frame of the set, with the NUL rule of the records.

    `parts` returns the payloads of the file's messages, from the first on, each time it is called. If each of the first
    messages consists of whole records in a dialect, that dialect is returned without reading the rest; a later error in
    the rest is found when the file is read. Otherwise the whole file is read. Records without a NUL are tried first.
    But if all records of a `text` file end in a NUL, the NUL is not part of the text. If the parts are not the whole
    file (`is_whole`), the last record may be incomplete. Raises WireError of the dialect in which the most bytes could
    be read.
    """
    found = _detect(parts, mask, is_whole=is_whole)
    if not text or found.nul != "absent":
        return found
    included = replace(found, nul="included")
    prefix = list(_prefix(parts()))
    if (
        not any(map(len, prefix))
        or _fault(prefix, included, is_whole=False)
        or _fault(parts(), included, is_whole=is_whole)
    ):
        return found
    return included


@lru_cache(maxsize=256)
def tried_first(mask: int) -> Dialect | None:
    """Return the dialect that `detect` tries first; None unless its records have neither padding nor a NUL."""
    first = next(members(with_nul(frames(mask), "absent")), None)
    return None if first is None or first.aligned else first


def record_start(parts: Iterable[Buffer], plain: Dialect) -> int | None:
    """Return where the record of each part begins, in a dialect without padding and NULs; None unless each part is one
    record."""
    length = _length_of(plain)
    size, unpack = length.size, length.unpack_from
    try:
        whole = all(unpack(part)[0] == len(part) - size for part in parts)
    except struct.error:  # a part is shorter than a length
        return None
    return size if whole else None


class RivalDialects:
    """The dialects of a set, other than the chosen one, in which each part of a file consists of whole records, too.

    They are other readings of the file if its bytes are others in them. Where records are `joined`, an empty one has no
    bytes. `is_settled` says that there are none.
    """

    def __init__(self, mask: int, chosen: Dialect, *, joined: bool) -> None:
        self._chosen, self._joined = chosen, joined
        self._is_plain = chosen.nul == "absent" and not chosen.aligned
        self._left: Sequence[_Rival] = _rivals(mask, chosen)
        self._differ: set[Dialect] = set()

    @property
    def is_settled(self) -> bool:
        return not self._left

    @property
    def found(self) -> tuple[Dialect, ...]:
        """The dialects in which the bytes are others, the most likely first."""
        return tuple([rival.dialect for rival in self._left if rival.dialect in self._differ])

    def see(self, part: Buffer) -> None:
        """Leave out the dialects in which a part does not consist of whole records."""
        if self._left:
            is_one = self._is_plain and record_start([part], self._chosen) is not None
            own = None if is_one else self._places(part, self._chosen)
            self._left = [rival for rival in self._left if self._fits(part, rival, own, is_one=is_one)]

    def _fits(self, part: Buffer, rival: "_Rival", own: list[tuple[int, int]] | None, *, is_one: bool) -> bool:
        if is_one and rival.is_alike:  # the one record is the same, with or without padding between records
            return not rival.has_nul
        if not _may_begin(part, rival.dialect) or (read := self._places(part, rival.dialect)) is None:
            return False
        if read != (self._places(part, self._chosen) if is_one else own):
            self._differ.add(rival.dialect)
        return True

    def _places(self, part: Buffer, dialect: Dialect) -> list[tuple[int, int]] | None:
        try:
            found = [(start, length) for _, start, length, _ in spans([part], dialect)]
        except WireError:
            return None
        return [each for each in found if each[1]] if self._joined else found


class _Rival(NamedTuple):
    """A dialect, whether its lengths are written as in the chosen one, and whether a NUL follows each record."""

    dialect: Dialect
    is_alike: bool
    has_nul: bool


@lru_cache(maxsize=256)
def _rivals(mask: int, chosen: Dialect) -> tuple[_Rival, ...]:
    """Return the dialects that `detect` tries, without the chosen one. A NUL that all texts end in is in no doubt."""
    candidates = (dialect for nul in _RECORD_NULS for dialect in members(with_nul(frames(mask), nul)))
    is_sure = chosen.nul == "included"
    return tuple(
        _Rival(each, (each.order, each.long) == (chosen.order, chosen.long), each.nul != "absent")
        for each in candidates
        if each != chosen and not (is_sure and replace(each, nul="included") == chosen)
    )


def _may_begin(part: Buffer, dialect: Dialect) -> bool:
    """Tell whether a part can begin with a record of a dialect, by its length."""
    length_of = _length_of(dialect)
    if len(part) < length_of.size:
        return not len(part)
    (length,) = length_of.unpack_from(part)
    return bool(0 <= length <= len(part) - length_of.size)


def _detect(parts: Callable[[], Iterable[Buffer]], mask: int, *, is_whole: bool) -> Dialect:
    plain = tried_first(mask)
    if plain is not None and record_start(_prefix(parts()), plain) is not None:
        return plain
    possible = frames(mask)
    candidates = [dialect for nul in _RECORD_NULS for dialect in members(with_nul(possible, nul))]
    if not candidates:
        raise ValueError("no dialect to choose from")
    prefix = list(_prefix(parts()))
    for dialect in candidates:
        if not any(_fault([part], dialect) for part in prefix):
            return dialect
    faults: list[WireError] = []
    for dialect in candidates:
        fault = _fault(parts(), dialect, is_whole=is_whole)
        if fault is None:
            return dialect
        faults.append(fault)
    raise max(faults, key=lambda fault: fault.at)


def _prefix(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    size = 0
    for part in parts:
        yield part
        size += len(part)
        if size >= DETECTION_PREFIX:
            return


def _fault(parts: Iterable[Buffer], dialect: Dialect, *, is_whole: bool = True) -> WireError | None:
    """Return the error for parts that cannot be read in a dialect.

    If they are not the whole file, the last record may be incomplete.
    """
    try:
        deque(spans(parts, dialect, is_whole=is_whole), maxlen=0)
    except WireError as error:
        return error
    return None


def write_records(records: Iterable[Buffer], dialect: Dialect, limit: int) -> Iterator[bytes]:
    """Yield the payloads of a file's messages, of at most `limit` bytes.

    A message holds whole records; only a record that is too long for one message is split. No NUL is written after a
    record, whatever the dialect's rule for strings. Raises WireError for a record whose size does not fit its length
    field, and ValueError for a limit that leaves no room for a byte of data.
    """
    length_of = _length_of(dialect)
    size = length_of.size
    if limit <= size:
        raise ValueError(f"a limit of {limit} bytes leaves no room for data")
    pieces: list[Buffer] = []
    used = 0
    for record in records:
        try:
            head = length_of.pack(len(record))
        except struct.error:
            raise WireError("Record.length", used, f"a record of {len(record)} bytes") from None
        if dialect.aligned and used % size:
            head = bytes(-used % size) + head
        if used and used + len(head) + len(record) > limit:
            yield b"".join(pieces)
            pieces, used, head = [], 0, head[-size:]
        if len(head) + len(record) <= limit:
            pieces += head, record
            used += len(head) + len(record)
        else:
            at = limit - len(head)
            pieces = [head, record[:at]]
            for start in range(at, len(record), limit):
                yield b"".join(pieces)
                pieces = [record[start : start + limit]]
            used = len(pieces[0])
    if pieces:
        yield b"".join(pieces)


@lru_cache(maxsize=64)
def _length_of(dialect: Dialect) -> struct.Struct:
    return struct.Struct(dialect.order + number_code("long", dialect.context()))
