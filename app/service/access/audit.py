"""The audit log: what clients did and what they were refused, as JSON lines in files of their own.

A thread writes entries in batches, so that no request waits for a disk. The newest file is `audit.jsonl`. When it has
reached its size it becomes `audit-NNNNNNNN.jsonl`, and the oldest file beyond the limit is deleted.
"""

import mmap
import os
import re
import sys
from bisect import bisect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import orjson

from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.ports import BadCursor, Page

CURRENT = "audit.jsonl"
FILE_BYTES = 16 << 20
"""About the size at which the gateway begins another file."""
MOST_WAITING = 100_000
"""The maximum number of entries in memory while they cannot be written. Further ones are counted."""
GATHERING_SECONDS = 0.05
"""The time for which entries are gathered for one write, unless somebody waits for them: a write for each would take as
much of a core as a short request."""
RETRY_SECONDS = 1.0
STOP_SECONDS = 5.0

_ROTATED = re.compile(r"audit-(\d{8})\.jsonl")
_TEXTS = ("from", "method", "path", "reason", "key")
"""What entries may have, and is a text or null."""
_CURSOR = re.compile(r"(\d{1,8})\.(\d{1,15})\.([0-9a-f]{8})")

log = logger(__name__)

Entry = Mapping[str, Any]


def entry(action: str, result: str, **facts: Any) -> Entry:
    """Return an entry of this moment. `result` is `done`, `refused`, `failed` or `abandoned`."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    return {"time": now, "action": action, "result": result, **facts}


class _File(NamedTuple):
    """A file of the log; its number does not change when it is renamed."""

    number: int
    path: Path


class AuditLog:
    """The audit log in a folder: at most `files` files of about `file_bytes` each. The lock of `_changed` guards all
    fields but the settings."""

    def __init__(self, folder: Path, file_bytes: int, files: int) -> None:
        self._folder, self._file_bytes, self._files = folder, file_bytes, files
        self._changed = Condition()
        self._waiting: list[bytes] = []
        self._added = self._written = self._wanted = self._lost = 0
        self._closed = False
        self._writer: Thread | None = None
        self._fault = Recurring(log, "audit_log")

    # --- writing --------------------------------------------------------------------------------------------------

    def add(self, new: Entry) -> None:
        """Add an entry. Returns before it is written."""
        line = _line(new)
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._lost += 1
                return
            self._waiting.append(line)
            self._added += 1
            if len(self._waiting) > 1:
                return  # the writer knows that something waits
            if self._writer is None:
                self._writer = Thread(target=self._run, name="audit log", daemon=True)
                self._writer.start()
            self._changed.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until every entry that was added is in a file. Return False if that took longer (None: STOP_SECONDS)."""
        seconds = STOP_SECONDS if timeout is None else timeout
        with self._changed:
            wanted = self._wanted = self._added
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._written >= wanted, seconds)

    def close(self) -> None:
        """Write what waits, and end."""
        self.flush()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._writer is not None:
            self._writer.join(STOP_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                self._changed.wait_for(lambda: self._written < self._wanted or self._closed, GATHERING_SECONDS)
                lines, self._waiting = self._waiting, []
                lost, self._lost = self._lost, 0
            if lost:
                lines.append(_line(entry("audit", "failed", reason=f"{lost} entries were lost")))
            count = len(lines) - bool(lost)
            self._attempt(lines)
            with self._changed:
                self._written += count
                self._changed.notify_all()

    def _attempt(self, lines: list[bytes]) -> None:
        while True:
            try:
                self._rotate()
                append(self._folder, lines)
            except OSError as error:
                self._fault.failed(f"the audit log cannot be written: {error}")
                with self._changed:
                    if self._changed.wait_for(lambda: self._closed, RETRY_SECONDS):
                        return
            else:
                self._fault.worked()
                return

    def _rotate(self) -> None:
        current = self._folder / CURRENT
        with suppress(FileNotFoundError):
            if current.stat().st_size < self._file_bytes:
                return
            *older, newest = self._listed()
            current.rename(self._folder / f"audit-{newest.number:08}.jsonl")
            for oldest in older[: max(0, len(older) + 2 - self._files)]:
                oldest.path.unlink(missing_ok=True)

    # --- reading --------------------------------------------------------------------------------------------------

    def page(
        self,
        matches: Callable[[Entry], bool],
        cursor: str | None,
        limit: int,
        *,
        texts: Sequence[str] = (),
        since: datetime | None = None,
    ) -> Page[Entry]:
        """Return a page of the entries that match, newest first. Raises BadCursor.

        Entries that match have all these `texts` as values. Only lines that have them are parsed, which are found by
        the first text, best the rarest. Files that were not written to since `since` are left out.
        """
        before: _Cursor | None = None
        if cursor is not None:
            if (match := _CURSOR.fullmatch(cursor)) is None:
                raise BadCursor(cursor)
            before = _Cursor(cursor, int(match[1]), int(match[2]), match[3])
        found: list[Entry] = []
        last = ""
        sought = [orjson.dumps(text) for text in texts]
        for number, each in self._backwards(before, sought, since):
            if not matches(each.entry):
                continue
            if len(found) == limit:
                return Page(found, last)
            found.append(each.entry)
            last = f"{number}.{each.begin}.{_checksum(each.line)}"
        return Page(found, None)

    def about(self, text: str, since: datetime, most_bytes: int) -> Iterator[Entry]:
        """Yield the entries with a text, newest first, of the newest `most_bytes` of the log.

        Only lines that have the text are parsed. Files that were not written to since `since` are left out.
        """
        return (each.entry for _, each in self._backwards(None, [text.encode()], since, most_bytes))

    def _backwards(
        self,
        before: "_Cursor | None",
        sought: Sequence[bytes],
        since: datetime | None = None,
        most_bytes: int = sys.maxsize,
    ) -> Iterator[tuple[int, "_Line"]]:
        """Yield the lines before a cursor that have the `sought` bytes, newest first, each with the number of its file.
        They are of the last `most_bytes`, and of files that were written to since `since`. Raises BadCursor."""
        for number, path in reversed(self._listed()):
            if most_bytes <= 0:
                return
            if before is not None and number > before.number:
                continue
            with suppress(FileNotFoundError), path.open("rb") as file:
                state = os.fstat(file.fileno())
                if since is not None and state.st_mtime < since.timestamp():
                    return
                if not state.st_size:
                    continue
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    is_last = before is not None and number == before.number
                    end = before.end_in(data) if before and is_last else len(data)
                    first = max(0, end - most_bytes)
                    most_bytes -= end
                    yield from ((number, each) for each in _lines_backwards(data, end, sought, first))

    def _listed(self) -> list[_File]:
        """Return the files, oldest first; the last one is the current file."""
        rotated = _rotated(self._folder)
        return [*rotated, _File(rotated[-1].number + 1 if rotated else 1, self._folder / CURRENT)]


def _rotated(folder: Path) -> list[_File]:
    """Return the files of a log that are full, oldest first."""
    matched = ((_ROTATED.fullmatch(path.name), path) for path in folder.glob("audit-*.jsonl"))
    return sorted(_File(int(match[1]), path) for match, path in matched if match)


@contextmanager
def opened_files(folder: Path) -> Iterator[dict[str, BinaryIO]]:
    """Yield the files of a log by their names, opened at one moment, while another process writes it.

    The newest file is opened first. If it becomes full before the others are listed, it is among them and left out.
    """
    with ExitStack() as opened:
        files: dict[str, BinaryIO] = {}
        with suppress(FileNotFoundError):
            files[CURRENT] = opened.enter_context((folder / CURRENT).open("rb"))
        for each in _rotated(folder):
            with suppress(FileNotFoundError):  # it was the oldest and has been deleted
                file = opened.enter_context(each.path.open("rb"))
                if CURRENT not in files or not os.path.sameopenfile(file.fileno(), files[CURRENT].fileno()):
                    files[each.path.name] = file
        yield files


def new_file(folder: Path, name: str) -> BinaryIO:
    """Return a new file of a log, to be written. Raises GatewayError for a name that no file of a log has."""
    if name != CURRENT and not _ROTATED.fullmatch(name):
        raise GatewayError(f"an audit log has no file {name!r}")
    folder.mkdir(parents=True, exist_ok=True)
    return os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def append(folder: Path, lines: list[bytes]) -> None:
    """Append lines to the newest file, each as a whole. Other processes may do so at the same time.

    Raises OSError. The lines that are in the file then are taken out of `lines`. Of the next one, a part may be there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / CURRENT, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
        data = memoryview((b"\n" if torn else b"") + b"".join(lines))
        written = 0
        try:
            while written < len(data):
                written += os.write(descriptor, data[written:])
        except OSError:
            ends = accumulate(map(len, lines), initial=bool(torn))
            del lines[: bisect(list(ends)[1:], written + 1)]  # the next call adds a line end that is missing
            raise
    finally:
        os.close(descriptor)


def add_at_once(folder: Path, new: Entry) -> None:
    """Append one entry, from another process than the gateway. Raises OSError."""
    append(folder, [_line(new)])


def _line(new: Entry) -> bytes:
    return orjson.dumps(new, default=str, option=orjson.OPT_APPEND_NEWLINE)


class _Cursor(NamedTuple):
    """The place of the last entry of a page: the number of its file, its first byte, and the checksum of its line.

    A log that was restored from an older copy may have other lines there.
    """

    text: str
    number: int
    begin: int
    checksum: str

    def end_in(self, data: mmap.mmap) -> int:
        """Return where the entries before this one end in its file. Raises BadCursor if it is not there."""
        line = data[self.begin : data.find(b"\n", self.begin) + 1]
        if not line or _checksum(line) != self.checksum:
            raise BadCursor(self.text)
        return self.begin


def _checksum(line: bytes) -> str:
    return f"{crc32(line):08x}"


class _Line(NamedTuple):
    """A line of a file, its first byte there, and the entry that it is."""

    begin: int
    line: bytes
    entry: Entry


def _lines_backwards(data: mmap.mmap, end: int, sought: Sequence[bytes], first: int) -> Iterator[_Line]:
    """Yield the lines before the byte `end` that have all the `sought` bytes, the first of them at or behind the byte
    `first`. Lines that are no entries are left out. Only lines that have what is sought are read."""
    rarest = sought[0] if sought else b"\n"
    while (found := data.rfind(rarest, first, end)) >= 0:
        end = data.rfind(b"\n", 0, found) + 1
        line = data[end : data.find(b"\n", found) + 1]
        if all(each in line for each in sought):
            parsed = _entry_of(line)
            if parsed is not None:
                yield _Line(end, line, parsed)


def _entry_of(line: bytes) -> Entry | None:
    """Return the entry that a line is; None if the line is torn or damaged, so that a reader cannot rely on it."""
    try:
        found = orjson.loads(line)
        has_time = datetime.fromisoformat(found["time"]).tzinfo is not None
        said = [found["action"], found["result"], *(found[name] for name in _TEXTS if found.get(name) is not None)]
        if (who := found.get("who")) is not None:
            said += [who["kind"], who["name"], *who.values()]
        has_status = isinstance(found.get("status"), int | None)
    except (KeyError, TypeError, ValueError):
        return None
    return found if has_time and has_status and all(isinstance(each, str) for each in said) else None


WINDOW_SECONDS = 60.0
MOST = 500
"""The maximum number of entries of one address in a window. Further ones are counted in one entry at its end."""
ADDRESSES = 10_000
"""The maximum number of addresses in memory."""


@dataclass(slots=True)
class _Window:
    since: float
    added: int = 0
    left_out: int = 0


class Repeats:
    """Adds the failed sign-ins to the audit log, through `add`. The lock guards `_windows`."""

    def __init__(self, add: Callable[[Entry], None]) -> None:
        self._add = add
        self._windows: OrderedDict[object, _Window] = OrderedDict()
        self._lock = Lock()

    def add(self, failed: Entry) -> None:
        """Add the entry of a failed sign-in, or count it."""
        with self._lock:
            address = failed.get("from")
            now = monotonic()
            window = self._windows.get(address)
            if window is None or now - window.since >= WINDOW_SECONDS:
                if window is not None:
                    self._tell(address, self._windows.pop(address))
                if len(self._windows) >= ADDRESSES:
                    self._tell(*self._windows.popitem(last=False))
                window = self._windows[address] = _Window(now)
            if window.added < MOST:
                window.added += 1
                self._add(failed)
            else:
                window.left_out += 1

    def flush(self) -> None:
        """Add entries for what was only counted so far."""
        with self._lock:
            for address, window in self._windows.items():
                self._tell(address, window)

    def _tell(self, address: object, window: _Window) -> None:
        if window.left_out:
            count, window.left_out = window.left_out, 0
            reason = f"{count} more failed sign-ins from this address"
            told = entry("sign-in", "refused", who=None, count=count, reason=reason)
            self._add({**told, "from": address})
