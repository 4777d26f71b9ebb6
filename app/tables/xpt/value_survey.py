"""Find the values in a data set's observations that its first plan does not allow for, before they are read.

Most data sets have none, and a quick test shows it for most columns: a missing value is a number whose fraction is
zero, and a text is ASCII. Only the columns of dates and times, and those that fail the quick test, are read completely.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from app.dataset import character_columns, decode
from app.dataset.decode import DecodingPlan, Unforeseen
from app.dataset.numeric import Bytes, Words
from app.dataset.schema import Column
from app.tables.xpt.observation_bytes import BATCH_ROWS

Blocks = Callable[[], Iterable[bytes]]

_ORDINARY_MISSING: Final = np.uint64(ord("."))
_TOP_BYTE: Final = np.uint64(0x100)
_BEYOND_ASCII: Final = 0x80


def surveyed(plan: DecodingPlan, blocks: Blocks) -> DecodingPlan:
    """Return the plan that fits all observations (big-endian IBM floats). `blocks` are pieces of whole observations."""
    counted = [column for column in plan.columns if column.kind is not None]
    plain = [column for column in plan.columns if column.kind is None]
    doubtful: set[int] = set()
    suited = _suited(plan, counted, _watched(plan, plain, blocks(), doubtful))
    if doubtful:
        suited |= _suited(plan, [column for column in plain if column.position in doubtful], blocks())
    columns = tuple(suited.get(column.position, column) for column in plan.columns)
    return replace(plan, columns=columns, surveyed=True)


def _suited(plan: DecodingPlan, columns: Sequence[Column], blocks: Iterable[bytes]) -> dict[int, Column]:
    """Return these columns as their values require them, by position."""
    try:
        for _ in decode.batches(replace(plan, columns=tuple(columns)), blocks, BATCH_ROWS):
            pass
    except Unforeseen as found:
        columns = found.plan.columns
    return {column.position: column for column in columns}


def _watched(
    plan: DecodingPlan, columns: Sequence[Column], blocks: Iterable[bytes], doubtful: set[int]
) -> Iterator[bytes]:
    """Yield the same blocks. Add the positions of columns that fail the quick test to `doubtful`."""
    for block in blocks:
        cells = np.frombuffer(block, np.uint8).reshape(-1, plan.obs_length)
        doubtful |= {
            column.position for column in columns if column.position not in doubtful and _is_doubtful(column, cells)
        }
        yield block


def _is_doubtful(column: Column, cells: Bytes) -> bool:
    values = cells[:, column.at : column.at + column.variable.length]
    if not column.variable.is_numeric:
        return bool(character_columns.side_by_side(values).max() >= _BEYOND_ASCII)
    words = _words(values)
    fractionless = words < _TOP_BYTE
    if not fractionless.any():
        return False
    tops = words[fractionless]
    return bool(((tops != 0) & (tops != _ORDINARY_MISSING)).any())


def _words(values: Bytes) -> Words:
    """Return each cell as a number whose low byte is the cell's first."""
    rows, length = values.shape
    if length == 8:
        return values.view("<u8").reshape(rows).astype(np.uint64, copy=False)
    padded = np.zeros((rows, 8), np.uint8)
    padded[:, :length] = values
    return padded.view("<u8").reshape(rows).astype(np.uint64, copy=False)
