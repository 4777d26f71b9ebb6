"""The audit log's files: written in order, rotated by size, read backwards in pages."""

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any
from unittest.mock import Mock

import orjson
import pytest

from app.ports import BadCursor
from app.service.access import audit
from app.service.access.audit import CURRENT, AuditLog, add_at_once, append
from app.testing.waiting import until


def entry(number: int) -> dict[str, Any]:
    time = datetime.fromtimestamp(number, UTC).isoformat()
    return {"time": time, "action": "send", "result": "done", "path": "x" * 5, "n": number}


def everything(log: AuditLog, limit: int = 7) -> list[int]:
    found, cursor = [], None
    while True:
        page = log.page(lambda each: True, cursor, limit)
        found += [each["n"] for each in page.items]
        cursor = page.next
        if cursor is None:
            return found


def test_entries_are_read_newest_first_over_all_files(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit", 1000, 5)
    for number in range(50):
        log.add(entry(number))
        assert log.flush()
    assert everything(log) == [*range(49, -1, -1)]
    assert 2 < len(list((tmp_path / "audit").iterdir())) <= 5
    chosen = log.page(lambda each: each["n"] % 10 == 0, None, 2)
    assert [each["n"] for each in chosen.items] == [40, 30]
    assert [each["n"] for each in log.page(lambda each: each["n"] % 10 == 0, chosen.next, 9).items] == [20, 10, 0]
    assert (tmp_path / "audit" / CURRENT).stat().st_mode & 0o777 == 0o600
    log.close()


def test_a_cursor_holds_when_files_are_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 1000, 3)
    for number in range(30):
        log.add(entry(number))
        log.flush()
    page = log.page(lambda each: True, None, 5)
    assert [each["n"] for each in page.items] == [29, 28, 27, 26, 25]
    for number in range(30, 45):
        log.add(entry(number))
        log.flush()
    further = log.page(lambda each: True, page.next, 3)
    assert [each["n"] for each in further.items] == [24, 23, 22]
    assert len(list(tmp_path.iterdir())) == 3
    assert 0 < min(everything(log)) < 22, "the oldest are gone"
    log.close()


def test_a_line_that_was_cut_spoils_no_other(tmp_path: Path) -> None:
    add_at_once(tmp_path, entry(1))
    with (tmp_path / CURRENT).open("ab") as file:
        file.write(b'{"time": "2", "act')
    log = AuditLog(tmp_path, 1000, 3)
    log.add(entry(3))
    log.close()
    assert everything(log) == [3, 1]


def test_a_full_disk_repeats_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the disk becomes full within a batch, also behind a line that was cut."""
    real, left = os.write, 0

    def write(descriptor: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, "no space left on device")
        written = real(descriptor, data[:left])
        left -= written
        return written

    wanted = [entry(number) for number in range(3)]
    batch = [json.dumps(each).encode() + b"\n" for each in wanted]
    for begun, room in product((b"", b'{"time": "2", "act'), range(len(b"".join(batch)) + 1)):
        (tmp_path / CURRENT).write_bytes(begun)
        lines, left = [*batch], room
        with monkeypatch.context() as disk, suppress(OSError):
            disk.setattr("os.write", write)
            append(tmp_path, lines)
            lines.clear()
        append(tmp_path, lines)
        assert everything(AuditLog(tmp_path, 1 << 20, 3)) == [2, 1, 0], (begun, room)


def test_a_damaged_line_spoils_no_other(tmp_path: Path) -> None:
    """Each member of an entry is missing or of another type: the readers of entries rely on them."""
    who = {"kind": "key", "name": "a", "id": ""}
    whole = entry(1) | {"who": who, "from": "::1", "method": "GET", "reason": None, "status": 200}
    lines: list[Any] = [whole, 7, None, [], "time", {"time": 3}]
    lines += [{name: whole[name] for name in whole if name != left} for left in ("time", "action", "result")]
    lines += [whole | {name: [1]} for name in (*whole, "key") if name != "n"]
    lines += [whole | {"time": time} for time in ("", "2026-1I-30T18:42:18.265796+00:00", "2026-11-30T18:42:18")]
    lines += [whole | {"who": damaged} for damaged in ("a", {}, {"kind": "key"}, who | {"id": 1}, who | {"name": None})]
    append(tmp_path, [orjson.dumps(each) + b"\n" for each in [*lines, entry(2)]])
    log = AuditLog(tmp_path, 1 << 20, 3)
    assert everything(log) == [2, 1]
    assert [each["n"] for each in log.about("time", datetime.fromtimestamp(0, UTC), 1 << 20)] == [2, 1]


@pytest.mark.process
def test_several_processes_write_whole_lines(tmp_path: Path) -> None:
    children = []
    for process in range(3):
        child = os.fork()
        if not child:
            for number in range(100):
                append(tmp_path, [json.dumps(entry(process * 100 + number)).encode() + b"\n"])
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert sorted(everything(AuditLog(tmp_path, 1 << 20, 3), 50)) == [*range(300)]


def test_entries_wait_while_they_cannot_be_written_and_lost_ones_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(audit, "MOST_WAITING", 5)
    folder = tmp_path / "audit"
    folder.write_text("no folder")
    log = AuditLog(folder, 1000, 3)
    log.add(entry(0))
    until(lambda: not log._waiting)
    for number in range(1, 9):
        log.add(entry(number))
    assert not log.flush(0.05)
    folder.unlink()
    assert log.flush()
    log.add(entry(9))
    assert log.flush()
    items = log.page(lambda each: True, None, 20).items
    assert [each.get("n", each.get("reason")) for each in items] == [9, "3 entries were lost", 5, 4, 3, 2, 1, 0]
    log.close()


def test_nothing_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "STOP_SECONDS", 0.01)
    folder = tmp_path / "audit"
    folder.write_text("no folder")
    log = AuditLog(folder, 1000, 3)
    adding = Thread(target=lambda: log.add(entry(1)))
    adding.start()
    adding.join(10)
    assert not adding.is_alive()
    log.close()


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.2.3", "-1.5", "1.99999999999999999"])
def test_a_cursor_of_somewhere_else(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(BadCursor):
        AuditLog(tmp_path, 1000, 3).page(lambda each: True, cursor, 5)


def test_a_cursor_beyond_the_end_and_an_empty_log(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 1000, 3)
    assert log.page(lambda each: True, None, 5) == ([], None)
    add_at_once(tmp_path, entry(1))
    with pytest.raises(BadCursor):
        log.page(lambda each: True, "1.999999.00000000", 5)
    assert log.page(lambda each: True, "0.5.00000000", 5).items == []


def test_only_lines_with_the_texts_are_parsed_and_only_files_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same entries are found as without texts, in pages of any size."""
    random = Random(1)
    log = AuditLog(tmp_path, 2000, 50)
    names = ['"', "\\", "Åsa", "\n", "a", "refused", "done", "sign-in"]
    for number in range(300):
        result = "refused" if number % 50 == 7 else "done"
        log.add(entry(number) | {"result": result, "who": {"kind": "key", "name": random.choice(names)}})
        if number % 9 == 0:
            assert log.flush()
    assert log.flush()
    with (tmp_path / CURRENT).open("ab") as file:
        file.write(b'{"torn": "refused"')
    loads = Mock(wraps=orjson.loads)
    monkeypatch.setattr("app.service.access.audit.orjson.loads", loads)

    def found(texts: list[str], matches: Callable[[Any], bool], limit: int = 7, **how: Any) -> list[int]:
        numbers, cursor = [], None
        while True:
            page = log.page(matches, cursor, limit, texts=texts, **how)
            numbers += [each["n"] for each in page.items]
            if (cursor := page.next) is None:
                return numbers

    for wanted in product([None, *names], [None, "done", "refused"]):

        def matches(each: Any, wanted: tuple[str | None, str | None] = wanted) -> bool:
            return all(
                one in (None, value) for one, value in zip(wanted, (each["who"]["name"], each["result"]), strict=True)
            )

        texts = [text for text in wanted if text is not None]
        assert found(texts, matches) == found(texts[::-1], matches) == found([], matches), wanted
    loads.reset_mock()
    assert found(["refused"], lambda each: each["result"] == "refused", 50) == [257, 207, 157, 107, 57, 7]
    assert loads.call_count < 100
    oldest, *others = sorted(tmp_path.glob("audit-*"))
    os.utime(oldest, (1, 1))
    since = datetime.fromtimestamp(2, UTC)
    assert len(others) > 5
    assert 0 < min(found([], lambda each: True, since=since)) < 50
    assert min(found([], lambda each: True)) == 0
    log.close()


def test_a_cursor_of_another_copy_of_the_log_is_refused(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 1 << 20, 3)
    for number in range(9):
        add_at_once(tmp_path, entry(number))
    page = log.page(lambda each: True, None, 4)
    assert page.next is not None
    assert [each["n"] for each in log.page(lambda each: True, page.next, 9).items] == [4, 3, 2, 1, 0]
    (tmp_path / "audit.jsonl").unlink()
    for number in range(100, 120):
        add_at_once(tmp_path, entry(number))
    with pytest.raises(BadCursor):
        log.page(lambda each: True, page.next, 9)
