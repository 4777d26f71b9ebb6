"""The records: rows in the content store from which, with the journal, a lost catalog is rebuilt.

The journal has everything until its segments are retired. Before that, each row that has ended is written down
here: an attachment that is finished, expired, quarantined or deleted, with its message; a quarantined message; a
delivery. One object holds the rows of one round. So recording takes one flush to disk a round, and none for an
attachment.

- An object is `catalog/<level>-<number>.jsonl.gz`: a header, then one JSON object a line. A line has the `kind` of a
  row and the `row`, or the `id` of a row that was `dropped`. An object has each row at most once. The object with the
  higher number is newer, and its version of a row holds.
- `MERGED` objects of one level become one of the next level. So there are few objects, and each row is rewritten
  seldom.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from re import compile as pattern
from typing import Any, NamedTuple

import orjson

from app.model.data_formats import RECORDS, NewerFormat
from app.model.errors import GatewayError
from app.ports import ContentStore
from app.service.repair.record_json import Row, from_json, kind_of, to_json
from app.service.repair.record_json import line as to_line

FOLDER = "catalog/"
MERGED = 32
DROPPED = "dropped"
_NAME = pattern(r"catalog/(\d)-(\d{16})\.jsonl\.gz")
_GZIP = 31
_FAST = 1
_HIGHEST = 9
_ATTEMPTS = 5


class RecordFile(NamedTuple):
    """One object of records. Objects are ordered by age."""

    number: int
    level: int

    @property
    def name(self) -> str:
        return f"{FOLDER}{self.level}-{self.number:016}.jsonl.gz"


class Dropped(NamedTuple):
    """A row that the catalog no longer has, and that must not be brought back."""

    kind: str
    id: str


class _Line(NamedTuple):
    """A line of an object, and its JSON value. A merge copies lines as they are."""

    data: bytes
    value: dict[str, Any]


_NOTHING = _Line(b"", {})


def files(store: ContentStore) -> list[RecordFile]:
    """Return the objects of records, oldest first."""
    found = (_NAME.fullmatch(name) for name in store.names(FOLDER))
    return sorted(RecordFile(int(match[2]), int(match[1])) for match in found if match)


def last_event_in(store: ContentStore, file: RecordFile) -> str:
    """Return the identifier of the last event of the catalog's log that an object includes, which its header has.

    Raises KeyError when it is gone, and GatewayError when it is damaged.
    """
    return _header(next(_lines(store, file), _NOTHING), file)


def write(store: ContentStore, file: RecordFile, event: str, rows: Iterable[Row | Dropped]) -> None:
    """Write a whole object of records, each row once. `event` identifies the last event that it includes."""
    values = (
        {"kind": DROPPED, "of": row.kind, "id": row.id}
        if isinstance(row, Dropped)
        else {"kind": kind_of(row), "row": to_json(row)}
        for row in rows
    )
    _write(store, file, event, map(to_line, values))


def rows(store: ContentStore, on_damage: Callable[[GatewayError], None] | None = None) -> Iterator[Row | Dropped]:
    """Yield the newest record of each row. Objects that are merged meanwhile are found again.

    A damaged object is skipped and given to `on_damage`; without that, it raises GatewayError.
    """
    seen: set[tuple[str, str]] = set()
    done: set[RecordFile] = set()
    for _ in range(_ATTEMPTS):
        try:
            for file in reversed([file for file in files(store) if file not in done]):
                try:
                    check(store, file)
                except GatewayError as damage:
                    if on_damage is None:
                        raise
                    on_damage(damage)
                else:
                    yield from (_row(line.value) for line in _once(store, [file], seen))
                done.add(file)
        except KeyError:  # merged meanwhile
            continue
        return
    raise GatewayError("the catalog's records are rewritten faster than they can be read; try again")


def merge(store: ContentStore) -> int:
    """Merge each `MERGED` objects of one level into one of the next; return how many objects were removed."""
    removed = 0
    for level in range(_HIGHEST):
        alike = [file for file in files(store) if file.level == level]
        if len(alike) < MERGED:
            break
        newest = alike[-1]
        lines = _once(store, reversed(alike), set())
        event = last_event_in(store, newest)
        _write(store, RecordFile(newest.number, level + 1), event, (line.data for line in lines))
        for file in alike:
            store.delete(file.name)
        removed += len(alike)
    return removed


def check(store: ContentStore, file: RecordFile) -> None:
    """Read an object to its end. Raises KeyError when it is gone, and GatewayError when it is damaged."""
    lines = _lines(store, file)
    _header(next(lines, _NOTHING), file)
    for line in lines:
        if line.value["kind"] != DROPPED:
            _row(line.value)


def _once(store: ContentStore, found: Iterable[RecordFile], seen: set[tuple[str, str]]) -> Iterator[_Line]:
    for file in found:
        lines = _lines(store, file)
        _header(next(lines, _NOTHING), file)
        for line in lines:
            value = line.value
            key = (value["of"], value["id"]) if value["kind"] == DROPPED else (value["kind"], value["row"]["id"])
            if key not in seen:
                seen.add(key)
                yield line


def _row(line: dict[str, Any]) -> Row | Dropped:
    try:
        return Dropped(line["of"], line["id"]) if line["kind"] == DROPPED else from_json(line["kind"], line["row"])
    except (KeyError, TypeError, ValueError) as error:
        raise GatewayError(f"the catalog's records hold a row that cannot be read: {error}") from error


def _write(store: ContentStore, file: RecordFile, event: str, lines: Iterable[bytes]) -> None:
    write_gzip_lines(store, file.name, chain((to_line({"format": RECORDS.number, "event": event}),), lines))


def write_gzip_lines(store: ContentStore, name: str, lines: Iterable[bytes]) -> None:
    """Write an object of compressed lines."""
    deflate = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    with store.create(name) as target:
        for line in lines:
            if packed := deflate.compress(line):
                target.write(packed)
        target.write(deflate.flush())


def gzip_lines(store: ContentStore, name: str) -> Iterator[bytes]:
    """Yield the lines of an object, without their ends. Raises zlib.error or ValueError when it is damaged."""
    inflate = zlib.decompressobj(_GZIP)
    rest = b""
    for piece in store.read(name):
        *whole, rest = (rest + inflate.decompress(bytes(piece))).split(b"\n")
        yield from whole
    if rest or not inflate.eof:
        raise ValueError("it ends too early")


def _header(line: _Line, file: RecordFile) -> str:
    """Return the event in the header of an object. Raises GatewayError for another format."""
    value = line.value
    RECORDS.require_known(value.get("format"), f"the records of the catalog in {file.name}")
    if value.get("format") != RECORDS.number or not isinstance(value.get("event"), str | int):
        raise GatewayError(f"{file.name} is of format {value.get('format')}, expected {RECORDS.number}")
    return str(value["event"])


def _lines(store: ContentStore, file: RecordFile) -> Iterator[_Line]:
    try:
        for line in gzip_lines(store, file.name):
            value: dict[str, Any]
            try:
                value = orjson.loads(line)
            except ValueError:  # also for lone surrogates, which names may hold
                value = json.loads(line)
            yield _Line(line + b"\n", value)
    except (zlib.error, ValueError) as error:
        raise GatewayError(f"{file.name} is damaged: {error}") from error


def last_recorded_event(store: ContentStore) -> str | None:
    """Return the identifier of the last event in the newest object that can be read; None when there is none. Raises
    NewerFormat."""
    for file in reversed(files(store)):
        try:
            return last_event_in(store, file)
        except NewerFormat:
            raise
        except (KeyError, GatewayError):
            continue
    return None
