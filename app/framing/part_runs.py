"""Runs of sequenced parts in a batch of messages, so that most messages need not be read one by one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.framing.protocol import KEY_SIZE, NO_COLUMNS, Columns, Descriptors, descriptors_of
from app.framing.registry import find_framing
from app.model.message import PhysicalMessage


class MessageRun(NamedTuple):
    """Sequenced parts of one attachment with consecutive numbers from `first` on, in these rows, which ascend."""

    source: str
    correl_id: bytes
    first: int
    rows: Sequence[int]


def runs_and_others(messages: Sequence[PhysicalMessage]) -> list[MessageRun | int]:
    """Return the runs of parts, and between them the rows of all other messages.

    Parts change places only with parts of other attachments: all messages before another one stay before it.
    """
    sources, framings = _numbered([each.source for each in messages]), _numbered([each.framing for each in messages])
    descriptors = descriptors_of(messages)
    found = [columns_of(descriptors, framings.values == at, name) for at, name in enumerate(framings.names)]
    rows, keys, sequences, *_ = map(np.concatenate, zip(*found, strict=True))
    is_other = np.ones(len(messages), np.bool_)
    is_other[rows] = False
    others = np.flatnonzero(is_other)
    merged: list[MessageRun | int] = []
    done = 0
    all_others: list[int] = others.tolist()
    for before, run in _runs(rows, keys, sequences, sources, others):
        merged += all_others[done:before]
        merged.append(run)
        done = before
    return merged + all_others[done:]


class _Numbered(NamedTuple):
    """The different values of a column, and the number of each row's value."""

    names: list[str]
    values: npt.NDArray[np.int64]


def _numbered(column: list[str]) -> _Numbered:
    numbers = {name: at for at, name in enumerate(dict.fromkeys(column))}
    if len(numbers) == 1:
        return _Numbered([*numbers], np.zeros(len(column), np.int64))
    return _Numbered([*numbers], np.array([numbers[name] for name in column], np.int64))


def columns_of(descriptors: Descriptors, framed: npt.NDArray[np.bool_], name: str) -> Columns:
    """Return the columns that the framing of this name finds for its rows. An unknown framing finds none."""
    framing = find_framing(name)
    return (framing and framing.read_columns(descriptors, framed & ~descriptors.may_be_segments)) or NO_COLUMNS


def _runs(
    rows: npt.NDArray[np.int64],
    keys: npt.NDArray[np.uint8],
    sequences: npt.NDArray[np.int64],
    sources: _Numbered,
    others: npt.NDArray[np.int64],
) -> list[tuple[int, MessageRun]]:
    """Return the runs, each with the number of other messages before it, and in the order of that."""
    if not len(rows):
        return []
    before, whose = np.searchsorted(others, rows), sources.values[rows]
    halves = np.ascontiguousarray(keys).view(np.uint64)
    order = np.lexsort((rows, halves[:, 1], halves[:, 0], whose, before))
    rows, sequences, before, whose, halves = rows[order], sequences[order], before[order], whose[order], halves[order]
    continues = (
        (np.diff(sequences) == 1)
        & (np.diff(before) == 0)
        & (np.diff(whose) == 0)
        & (halves[1:] == halves[:-1]).all(axis=1)
    )
    begins = np.flatnonzero(np.concatenate(([True], ~continues)))
    bounds = [*begins.tolist(), len(rows)]
    all_rows, packed = rows.tolist(), halves[begins].tobytes()
    return [
        (
            at,
            MessageRun(
                sources.names[source],
                packed[number * KEY_SIZE : (number + 1) * KEY_SIZE],
                first,
                all_rows[bounds[number] : bounds[number + 1]],
            ),
        )
        for number, (at, source, first) in enumerate(
            zip(before[begins].tolist(), whose[begins].tolist(), sequences[begins].tolist(), strict=True)
        )
    ]
