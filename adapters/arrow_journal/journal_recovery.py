"""Opening of a journal's folder: sealed segments are listed; unsealed ones of a killed process are verified and sealed.

- Damage never prevents a journal from opening. A damaged sealed segment stays as it is, and readers find its whole
  batches.
- The torn tail of an unsealed segment was never acknowledged and is removed. Whole rows of its last batch are kept; the
  broker may deliver them again, which does no harm.
- A batch that was durable once is no torn tail: the first one of a segment whose number is used up, each one that the
  catalog includes (`Durable`), and each one behind which another was begun. Nor is one that was written whole, or that
  the disk cannot read. Damage of these loses the messages in it. The damaged bytes are copied to a file, and each lost
  batch is replaced by one without rows, so that all others keep their places.
- An unsealed segment that never had a durable batch was only begun, and its number is used again.

`take_over` opens a folder in which an earlier process may still run, or may continue after a pause. It changes no
file that such a process may have open: unsealed segments are copied, and the copies are sealed. The file `identity` is
replaced first. A writer looks at that file after each write and before the acknowledgement. So each acknowledged
message was on disk before the replacement, and is in the copy.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import structlog

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.journal_identity import COPY, Known, load, new_id, replace_file
from adapters.arrow_journal.segment_files import SegmentState, damaged_numbers, segment_files, segment_path
from adapters.arrow_journal.segment_header import BadHeader, JournalSegmentHeader, header_of, seed_of
from adapters.arrow_journal.segment_repair import mend
from adapters.arrow_journal.segment_scan import find_batches
from adapters.arrow_journal.segment_writer import seal_file
from adapters.disk import NO_SPACE, ReadFile, sync_folder, write_whole
from app.model.errors import GatewayError, JournalTaken
from app.model.message import Position, segment_name
from app.model.records import JournalIdentity

Durable = Callable[[str], Position | None]
"""A function from a journal's id to the last position in it that others know to have been durable."""

_log = structlog.get_logger(__name__)


class _Found(NamedTuple):
    """A segment's file.

    Without a header, `why` is the reason, and `foreign` says that the file is of another kind.
    """

    number: int
    sealed: bool
    path: Path
    size: int
    modified_at: int
    header: JournalSegmentHeader | None
    why: str = ""
    foreign: bool = False


class _Sure:
    """What is known to have been durable in unsealed segments: the first batch of each number below `following`, and
    everything up to the position that `durable` returns."""

    def __init__(self, following: int | None, durable: Callable[[], Position | None]) -> None:
        self._following, self._durable = following, cache(durable)

    def last(self, segment: int) -> int:
        """Return the last batch of an unsealed segment that was durable, or -1."""
        reached = self._durable()
        if reached is not None and reached.segment == segment:
            return reached.batch
        return 0 if self._following is not None and segment < self._following else -1


class Recovered(NamedTuple):
    """A journal's segments by number, and its identity file's new content. `set_aside` are the numbers of segments that
    are entirely lost."""

    states: dict[int, SegmentState]
    known: Known
    set_aside: set[int]


def recover(folder: Path, now: int, durable: Durable) -> Recovered:
    """Verify and seal the segments of a journal's folder.

    `now` (µs) is the time at which unsealed segments are sealed. `durable` is asked only if there are any. The epoch is
    a new one. The caller has to save `known`.

    Raises GatewayError when files belong to another journal, or are segments that this version cannot read.
    """
    found = [_look_at(*each) for each in segment_files(folder)]
    known = load(folder)
    journal = _known(folder, known, found)
    sure = _Sure(None if known is None else known.following, partial(durable, journal.id))
    states: dict[int, SegmentState] = {}
    for each in found:
        state = _state(each, journal.id)
        if not each.sealed and not _sealed(folder, each, state, journal.identity, now, sure.last(each.number)):
            continue
        states[each.number] = state
    set_aside = set(damaged_numbers(folder)) - states.keys()
    begun = [each.number + (known is None and each.size > arrow_ipc.BLOCK) for each in found]
    following = max([journal.following, *begun, *(number + 1 for number in {*states, *set_aside})])
    return Recovered(states, replace(journal, following=following), set_aside)


def last_epoch(folder: Path) -> int:
    """Return the epoch of the process that opened the folder last; 0 for a new folder."""
    found = [_look_at(*each) for each in segment_files(folder)]
    return _known(folder, load(folder), found).epoch - 1


def take_over(folder: Path, now: int, epoch: int, durable: Durable) -> tuple[Recovered, int]:
    """Open a folder that other processes may have open, as the process of this epoch.

    Returns what `recover` does, and the descriptor of the file `identity`. Raises JournalTaken when a process with this
    epoch or a later one has opened the folder, and the errors of `recover`.
    """
    found = [_look_at(*each) for each in segment_files(folder)]
    journal = _known(folder, load(folder), found)
    if journal.epoch > epoch:
        raise JournalTaken(
            f"the journal in {folder} was opened with epoch {journal.epoch - 1}, and this process has epoch {epoch}: "
            "another gateway has taken over"
        )
    known, own = replace_file(folder, replace(journal, epoch=epoch))
    try:
        return _taken_over(folder, known, now, _Sure(known.following, partial(durable, known.id))), own
    except BaseException:
        os.close(own)
        raise


def _taken_over(folder: Path, known: Known, now: int, sure: "_Sure") -> Recovered:
    for left in folder.glob(f"*{COPY}"):
        left.unlink(missing_ok=True)
    files = list(segment_files(folder))  # once more: what came before the replacement counts
    sealed = {number for number, is_sealed, _ in files if is_sealed}
    states: dict[int, SegmentState] = {}
    for number, is_sealed, path in files:
        if is_sealed:
            _keep(states, _state(_look_at(number, is_sealed, path), known.id))
        elif number in sealed:
            path.unlink(missing_ok=True)
        else:
            _keep(states, _copied(folder, number, path, known, now, sure))
    set_aside = set(damaged_numbers(folder)) - states.keys()
    following = max([known.following, *(number + 1 for number in {*(each[0] for each in files), *set_aside})])
    return Recovered(states, replace(known, following=following), set_aside)


def _keep(states: dict[int, SegmentState], state: SegmentState | None) -> None:
    if state is not None:
        states[state.number] = state


def _copied(folder: Path, number: int, path: Path, known: Known, now: int, sure: "_Sure") -> SegmentState | None:
    """Seal a copy of an unsealed segment; None if it has no durable batch."""
    copy = folder / segment_name(number, f".{token_hex(8)}{COPY}")
    try:
        file = ReadFile(path)
        write_whole(copy, file.pieces_as_is(0, file.size()))
        found = _look_at(number, False, copy)
        state = _state(found, known.id)
        if mend(folder, copy, state, None if found.header else known.identity, sure.last(number)):
            seal_file(folder, state, now, shared=True, path=copy)
            return state
    except (FileExistsError, FileNotFoundError):  # the process before has just sealed it
        there = segment_path(folder, number, sealed=True)
        return _state(_look_at(number, True, there), known.id) if there.exists() else None
    finally:
        copy.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    return None


def _look_at(number: int, sealed: bool, path: Path) -> _Found:
    status = path.stat()
    found = _Found(number, sealed, path, status.st_size, status.st_mtime_ns // 1000, None)
    try:
        return found._replace(header=header_of(ReadFile(path), status.st_size, path))
    except BadHeader as error:
        return found._replace(why=str(error), foreign=error.foreign)
    except OSError as error:
        return found._replace(why=str(error))


def _known(folder: Path, known: Known | None, found: list[_Found]) -> Known:
    """Return the journal's identity from its file or from its segments. Raises GatewayError when segments belong to
    another."""
    by_id = {each.header.journal.id: each for each in found if each.header}
    mine = known.id if known else next(iter(by_id), None)
    for other, each in by_id.items():
        if other != mine:
            raise GatewayError(
                f"{each.path} belongs to the journal {other}, and this folder to the journal {mine}: move the "
                "segments of one of them to another folder"
            )
    epoch = max((each.header.journal.epoch for each in found if each.header), default=0)
    if known is not None:
        return replace(known, epoch=max(epoch, known.epoch) + 1)
    if mine is not None:
        _log.warning("identity_recovered", journal=mine, folder=str(folder))
    # A number whose segment has no batch yet is not counted: it is used again.
    following = max((each.number + each.sealed for each in found), default=1)
    return Known(mine or new_id(), epoch + 1, following)


def _state(found: _Found, journal: str) -> SegmentState:
    """Return the state of a segment. Raises GatewayError for a file of another program or version."""
    number, size, header = found.number, found.size, found.header
    sealed_at = found.modified_at if found.sealed else None
    if header is not None:
        return SegmentState(number, size, header.created_at, sealed_at, seed=seed_of(header.journal.id, number))
    state = SegmentState(number, size, found.modified_at, sealed_at, seed=seed_of(journal, number))
    if size:
        find_batches(ReadFile(found.path), state, seed_of(journal, number))
    if state.batches:
        _log.error("segment_damaged", segment=number, lost="the header", reason=found.why)
        return replace(state, batches=None)
    if found.foreign:
        raise GatewayError(f"{found.path} cannot be read: {found.why}")
    if found.sealed:
        _log.error("segment_damaged", segment=number, lost="the whole segment", reason=found.why)
    return replace(state, batches=None)


def _sealed(folder: Path, found: _Found, state: SegmentState, journal: JournalIdentity, now: int, durable: int) -> bool:
    """Mend and seal an unsealed segment. Delete it and return False if it has no durable batch."""
    if not mend(folder, found.path, state, None if found.header else journal, durable):
        found.path.unlink()
        sync_folder(folder)
        return False
    try:
        seal_file(folder, state, now)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise GatewayError(f"{found.path} cannot be sealed: {error}") from error
    return True
