"""A journal that processes open one after the other, while an earlier one may go on at any moment."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from errno import ENOSPC
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapters.arrow_journal import ArrowJournal
from app.model.errors import GatewayError, JournalTaken
from app.model.message import PhysicalMessage, Position
from app.ports import Journal

CALLS = ("open", "pwrite", "fdatasync", "ftruncate", "link", "rename", "unlink")
"""The calls of the system before which another process may take over."""


def message(body: bytes) -> PhysicalMessage:
    return PhysicalMessage("here", "sas_queue", body=body)


def opened(folder: Path, epoch: int, **given: Any) -> ArrowJournal:
    return ArrowJournal(folder, epoch=epoch, **given)


def kept(journal: Journal) -> dict[Position, bytes]:
    found: dict[Position, bytes] = {}
    for positions, messages in journal.replay(None):
        assert all(each.framing == "sas_queue" for each in messages)
        found |= {at: bytes(each.body) for at, each in zip(positions, messages, strict=True)}
    return found


class Moment:
    """Calls `act` before the call number `at` of the system."""

    def __init__(self, act: Callable[[], None], at: int) -> None:
        self._act, self._left = act, at
        self.came = False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in CALLS:
            patch.setattr(os, name, partial(self._call, getattr(os, name)))

    def _call(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left < 0 and not self.came:
            self.came = True
            self._act()
        return real(*given, **named)


def appending(journal: ArrowJournal) -> Iterator[bytes]:
    """Do what a gateway does. Yield the bodies that it acknowledges."""
    journal.append([message(b"second")])
    yield b"second"
    journal.seal()
    journal.append([message(b"third")])
    yield b"third"


def test_whenever_another_process_takes_over_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """The one before is paused at each call of the system in turn. The other one opens, writes and reads meanwhile."""
    for at in range(1000):
        folder = tmp_path / str(at)
        acknowledged = [b"first"]
        before = opened(folder, 1, segment_bytes=1 << 16)
        before.append([message(b"first")])
        taken: list[ArrowJournal] = []
        seen: dict[Position, bytes] = {}

        def take_over(folder: Path = folder, taken: list[ArrowJournal] = taken, seen: Any = seen) -> None:
            after = opened(folder, 2)
            taken.append(after)
            (place,) = after.append([message(b"new")])
            seen |= kept(after)
            assert seen[place] == b"new"

        moment = Moment(take_over, at)
        with pytest.MonkeyPatch.context() as patch:
            moment.install(patch)
            with suppress(GatewayError):
                acknowledged.extend(appending(before))
            before.close()
        if not moment.came:
            assert at > 20
            return
        (after,) = taken
        assert kept(after) == seen
        assert set(seen.values()) >= {*acknowledged, b"new"}
        assert len(set(seen.values())) == len(seen)
        assert after.verify(min(position.segment for position in seen)) == []
        after.append([message(b"newer")])
        everything = kept(after)
        after.close()
        with closing(opened(folder, 3)) as third:
            assert kept(third).items() >= everything.items()
    raise AssertionError("it never ended")


def test_an_opening_that_fails_or_is_killed_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path, 1).close()
    files = {path.name for path in tmp_path.iterdir()}

    def open_with(error: BaseException, epoch: int) -> None:
        def fail(*_: object) -> int:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", fail)
            with pytest.raises((GatewayError, KeyboardInterrupt)):
                opened(tmp_path, epoch)

    open_with(OSError(ENOSPC, "No space left on device"), 2)
    assert {path.name for path in tmp_path.iterdir()} == files
    open_with(KeyboardInterrupt(), 3)  # nothing is caught, as if it were killed
    assert {path.name for path in tmp_path.iterdir()} > files
    opened(tmp_path, 4).close()
    assert {path.name for path in tmp_path.iterdir()} == files


def test_an_earlier_process_gets_an_error(tmp_path: Path) -> None:
    with closing(opened(tmp_path, 4)) as before:
        before.append([message(b"a")])
        before.seal()
        with closing(opened(tmp_path, 7)) as after:
            for refused in (partial(before.append, [message(b"b")]), partial(before.retire, 1)):
                with pytest.raises(JournalTaken, match="epoch 7, and this process has epoch 4"):
                    refused()
            assert after.identity() == before.identity()._replace(epoch=7)
            assert list(kept(after).values()) == [b"a"]
            for epoch in (3, 7):
                with pytest.raises(JournalTaken, match=f"opened with epoch 7, and this process has epoch {epoch}"):
                    opened(tmp_path, epoch)
            after.append([message(b"c")])
    assert ArrowJournal.last_epoch(tmp_path) == 7
    assert ArrowJournal.last_epoch(tmp_path / "none") == 0


@pytest.mark.parametrize("content", [None, b"", b"damaged" * 2000])
def test_a_process_that_cannot_know_its_epoch_says_so(tmp_path: Path, content: bytes | None) -> None:
    with closing(opened(tmp_path, 4)) as before:
        before.append([message(b"a")])
        (tmp_path / "identity").unlink()
        if content is not None:
            (tmp_path / "identity").write_bytes(content)
        with pytest.raises(JournalTaken, match="identity is missing or cannot be read"):
            before.append([message(b"b")])
        with closing(opened(tmp_path, 5)) as after:
            assert after.identity() == before.identity()._replace(epoch=5)
            assert next(iter(kept(after).values())) == b"a"
            with pytest.raises(JournalTaken, match="with epoch 5, and this process has epoch 4"):
                before.append([message(b"c")])


def test_a_process_that_wants_the_folder_for_itself_waits_for_all_others(tmp_path: Path) -> None:
    with closing(opened(tmp_path, 1)), pytest.raises(GatewayError, match="in use"):
        ArrowJournal(tmp_path)
    with closing(ArrowJournal(tmp_path)) as alone:
        assert alone.identity().epoch == 2
        with pytest.raises(GatewayError, match="in use"):
            opened(tmp_path, 3)


def test_an_interrupted_opening_is_repeated(tmp_path: Path) -> None:
    """At each call of the system, an opening ends as if it had been killed."""
    first = opened(tmp_path, 1)
    first.append([message(b"a")])
    for at in range(1000):
        moment = Moment(_end, at)
        with pytest.MonkeyPatch.context() as patch:
            moment.install(patch)
            with suppress(_Killed):
                opened(tmp_path, 2 + at)
        if not moment.came:
            break
    with closing(opened(tmp_path, 2000)) as last:
        assert list(kept(last).values()) == [b"a"]
        last.append([message(b"b")])
    names = {each.name for each in tmp_path.iterdir()}
    assert not [name for name in names if name.endswith((".copy", ".open.arrows", ".damaged"))]


class _Killed(BaseException):
    """The end of a process."""


def _end() -> None:
    raise _Killed
