"""Opening of a journal's folder: sealed segments are listed; unsealed ones of a killed process are verified and sealed.

- Damage never prevents a journal from opening. A damaged sealed segment stays as it is, and readers find its whole
  batches.
- The torn tail of an unsealed segment was never acknowledged and is removed. Whole rows of its last batch are kept; the
  broker may deliver them again, which does no harm. Bytes that the disk cannot read are damage and no torn tail.
- Damage before the tail loses the messages in it. The damaged bytes are copied to a file, and each lost batch is
  replaced by one without rows, so that all others keep their places.
- An unsealed segment without a whole batch is set aside if it may have held acknowledged messages; its number is not
  used again. Otherwise it was only begun, and its number is used again.

`take_over` opens a folder in which an earlier process may still be running, or may go on after a pause. It changes no
file that such a process may have open: unsealed segments are copied, and the copies are sealed. The file `identity` is
replaced first. A writer looks at that file after each write and before the acknowledgement. So each acknowledged
message was on disk before the replacement, and is in the copy.
"""

import os
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import structlog

from adapters.arrow_journal import ipc
from adapters.arrow_journal.header import OLD_FORMAT, BadHeader, SegmentHeader, format_of, header_of
from adapters.arrow_journal.identity import Known, load, new_id, replace_file
from adapters.arrow_journal.mending import mend
from adapters.arrow_journal.pieces import RUN
from adapters.arrow_journal.scanning import find_batches
from adapters.arrow_journal.segments import (
    SegmentState,
    damaged_numbers,
    damaged_path,
    segment_files,
    segment_path,
)
from adapters.arrow_journal.writing import seal_file
from adapters.disk import NO_SPACE, ReadFile, sync_folder
from app.model.errors import GatewayError, JournalTaken
from app.model.records import JournalIdentity
from app.model.segment_names import segment_name

_COPY = ".copy"

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
    header: SegmentHeader | None
    why: str = ""
    foreign: bool = False


class Recovered(NamedTuple):
    """A journal's segments by number, and its identity file's new content. `set_aside` are the numbers of segments that
    are entirely lost."""

    states: dict[int, SegmentState]
    known: Known
    set_aside: set[int]


def recover(folder: Path, now: int) -> Recovered:
    """Verify and seal the segments of a journal's folder.

    `now` (µs) is the time at which unsealed segments are sealed. The epoch is a new one. The caller has to save
    `known`.

    Raises GatewayError when files belong to another journal, or are segments that this version cannot read.
    """
    found = [_look_at(*each) for each in segment_files(folder)]
    known = load(folder)
    journal = _known(folder, known, found)
    states: dict[int, SegmentState] = {}
    for each in found:
        state = _state(each, journal.id)
        if not each.sealed:
            was_used = each.size > ipc.BLOCK if known is None else each.number < known.following
            state = _unsealed(folder, each, state, journal.identity, now, was_used=was_used)
        if state is not None:
            states[each.number] = state
    set_aside = set(damaged_numbers(folder)) - states.keys()
    begun = [each.number for each in found]
    following = max([journal.following, *begun, *(number + 1 for number in {*states, *set_aside})])
    return Recovered(states, replace(journal, following=following), set_aside)


def last_epoch(folder: Path) -> int:
    """Return the epoch of the process that opened the folder last; 0 for a new folder."""
    found = [_look_at(*each) for each in segment_files(folder)]
    return _known(folder, load(folder), found).epoch - 1


def take_over(folder: Path, now: int, epoch: int) -> tuple[Recovered, int]:
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
        return _taken_over(folder, known, now), own
    except BaseException:
        os.close(own)
        raise


def _taken_over(folder: Path, known: Known, now: int) -> Recovered:
    for left in folder.glob(f"*{_COPY}"):
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
            _keep(states, _copied(folder, number, path, known, now))
    set_aside = set(damaged_numbers(folder)) - states.keys()
    following = max([known.following, *(number + 1 for number in {*(each[0] for each in files), *set_aside})])
    return Recovered(states, replace(known, following=following), set_aside)


def _keep(states: dict[int, SegmentState], state: SegmentState | None) -> None:
    if state is not None:
        states[state.number] = state


def _copied(folder: Path, number: int, path: Path, known: Known, now: int) -> SegmentState | None:
    """Seal a copy of an unsealed segment; None if it has no whole batch."""
    copy = folder / segment_name(number, f".{token_hex(8)}{_COPY}")
    try:
        _copy(path, copy)
        found = _look_at(number, False, copy)
        state = _state(found, known.id)
        if state is not None and mend(folder, copy, state, None if found.header else known.identity):
            seal_file(folder, state, now, shared=True, path=copy)
            return state
        if found.size > ipc.BLOCK:
            aside = damaged_path(folder, number)
            copy.rename(aside)
            _log.error("segment_damaged", segment=number, lost="the whole segment", kept=aside.name)
    except (FileExistsError, FileNotFoundError):  # the process before has just sealed it
        there = segment_path(folder, number, sealed=True)
        return _state(_look_at(number, True, there), known.id) if there.exists() else None
    finally:
        copy.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    return None


def _copy(path: Path, copy: Path) -> None:
    file = ReadFile(path)
    size = file.size()
    with copy.open("xb") as target:
        for at in range(0, size, RUN):
            target.write(file.read_as_is(at, min(at + RUN, size)))
        target.flush()
        os.fsync(target.fileno())


def _look_at(number: int, sealed: bool, path: Path) -> _Found:
    status = path.stat()
    found = _Found(number, sealed, path, status.st_size, status.st_mtime_ns // 1000, None)
    try:
        return found._replace(header=header_of(ReadFile(path), status.st_size))
    except BadHeader as error:
        return found._replace(why=str(error), foreign=error.foreign)
    except OSError as error:
        return found._replace(why=str(error))


def _known(folder: Path, known: Known | None, found: list[_Found]) -> Known:
    """Return the journal's identity from its file or from its segments. Raises GatewayError when segments belong to
    another."""
    by_id = {each.header.journal.id: each for each in found if each.header and each.header.journal}
    mine = known.id if known else next(iter(by_id), None)
    for other, each in by_id.items():
        if other != mine:
            raise GatewayError(
                f"{each.path} belongs to the journal {other}, and this folder to the journal {mine}: move the "
                "segments of one of them to another folder"
            )
    epoch = max((each.header.journal.epoch for each in found if each.header and each.header.journal), default=0)
    if known is not None:
        return replace(known, epoch=max(epoch, known.epoch) + 1)
    if mine is not None:
        _log.warning("identity_recovered", journal=mine, folder=str(folder))
    # A number whose segment has no batch yet is not counted: it is used again.
    following = max((each.number + each.sealed for each in found), default=1)
    return Known(mine or new_id(), epoch + 1, following)


def _state(found: _Found, journal: str) -> SegmentState | None:
    """Return the readable part of a segment; None for an unsealed one without a whole batch.

    Raises GatewayError for a file of another program or version.
    """
    number, size, header = found.number, found.size, found.header
    sealed_at = found.modified_at if found.sealed else None
    if header is not None:
        state = SegmentState(number, size, header.created_at, sealed_at, format=header.format(number))
        return state if found.sealed or _has_batches(found, state) else None
    for format_ in (format_of(journal, number), OLD_FORMAT):
        state = SegmentState(number, size, found.modified_at, sealed_at, format=format_)
        if size and _has_batches(found, state):
            _log.error("segment_damaged", segment=number, lost="the header", reason=found.why)
            return replace(state, batches=None)
    if found.foreign:
        raise GatewayError(f"{found.path} cannot be read: {found.why}")
    if not found.sealed:
        return None
    _log.error("segment_damaged", segment=number, lost="the whole segment", reason=found.why)
    return SegmentState(number, size, found.modified_at, sealed_at, format=format_of(journal, number))


def _has_batches(found: _Found, state: SegmentState) -> bool:
    assert state.format is not None
    find_batches(ReadFile(found.path), state, state.format)
    return bool(state.batches)


def _unsealed(
    folder: Path, found: _Found, state: SegmentState | None, journal: JournalIdentity, now: int, *, was_used: bool
) -> SegmentState | None:
    path = found.path
    if state is None or not mend(folder, path, state, None if found.header else journal):
        if was_used:
            aside = damaged_path(folder, found.number)
            path.rename(aside)
            _log.error("segment_damaged", segment=found.number, lost="the whole segment", kept=aside.name)
        else:
            path.unlink()
        sync_folder(folder)
        return None
    try:
        seal_file(folder, state, now)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise GatewayError(f"{path} cannot be sealed: {error}") from error
    return state
