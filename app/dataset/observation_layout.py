"""Find the position of each variable's values in an observation.

The definition states the length of each variable and of the observation, but no offsets. If the lengths add up, the
variables are packed in the order of their definition. If the observation is longer, programs lay out records in several
ways. The values must then show which one it is: by numbers of usual size and texts without control characters.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset import missing, numeric
from app.dataset.numeric import ByteOrder, Bytes, Doubles, FloatFormat
from app.dataset.schema import ALIGNMENT
from app.model.errors import InvalidInputError

LayoutName = Literal["packed", "padded", "numerics-first", "aligned"]
"""The name of a row layout.

Packed; packed with padding at the end; all numerics, then all characters, then padding, as in SAS's own files; each
numeric at a multiple of its 8 bytes, as a compiler lays out a structure.
"""

SAMPLE_ROWS = 512
"""The number of observations in a sample."""

_USUAL = (1e-12, 1e18)
"""The range in which the absolute value of a number is plausible."""

_TEXT_CONTROLS = b"\t\n\r"


class Representation(NamedTuple):
    """The representation of the values of a data set. `charset` is the name of a Python codec."""

    order: ByteOrder
    float_format: FloatFormat = "ieee"
    charset: str = "utf-8"


class RowLayout(NamedTuple):
    """The offset in an observation at which each variable begins.

    `is_only` says that no other layout has the length of the observation; `others` are those that the values suit as
    well.
    """

    name: LayoutName
    offsets: tuple[int, ...]
    is_only: bool = True
    others: tuple[LayoutName, ...] = ()


def row_layout(
    definition: DataSetDefinition, variables: Sequence[Variable], sample: Bytes, how: Representation
) -> RowLayout:
    """Return the most plausible layout of observations (`sample`: rows by bytes of some of them).

    Raises InvalidInputError if the observation's length fits no layout.
    """
    possible = list(_candidates(definition.obs_length, variables))
    if not possible:
        needed = sum(variable.length for variable in variables)
        why = f"the variables need {needed} bytes, but an observation has {definition.obs_length}"
        raise InvalidInputError("observation-length", "observation length", -1, why)
    if len(possible) == 1:
        return possible[0]
    shares = [plausibility(sample, variables, layout.offsets, how) if len(sample) else 1.0 for layout in possible]
    best = max(shares)
    name, *others = [layout.name for layout, share in zip(possible, shares, strict=True) if share == best]
    return next(layout for layout in possible if layout.name == name)._replace(is_only=False, others=tuple(others))


def only_layout(definition: DataSetDefinition, variables: Sequence[Variable]) -> RowLayout | None:
    """Return the layout that follows from the lengths alone; None if there is none, or if the values decide."""
    possible = list(_candidates(definition.obs_length, variables))
    return possible[0] if len(possible) == 1 else None


def plausibility(cells: Bytes, variables: Sequence[Variable], offsets: Sequence[int], how: Representation) -> float:
    """Return the share of values, from 0 to 1, that look plausible; 1 if there are no values."""
    controls = np.zeros(256, np.bool_)
    controls[: 0x40 if missing.is_ebcdic(how.charset) else 0x20] = True
    if not missing.is_ebcdic(how.charset):
        controls[list(_TEXT_CONTROLS)] = False
    shares = [
        _usual(column, how) if variable.is_numeric else 1 - controls[column].mean()
        for variable, at in zip(variables, offsets, strict=True)
        if (column := cells[:, at : at + variable.length]).size
    ]
    return float(np.mean(shares)) if shares else 1.0


def doubts(cells: Bytes, variables: Sequence[Variable], offsets: Sequence[int], how: Representation) -> str | None:
    """Return a warning if numbers of some observations contradict the byte order and float format, else None.

    They prove nothing: many numbers of one format are also plausible in another.
    """
    by_length: dict[int, list[Bytes]] = {}
    for variable, at in zip(variables, offsets, strict=True):
        if variable.is_numeric:
            by_length.setdefault(variable.length, []).append(cells[:, at : at + variable.length])
    numbers = [np.concatenate(columns) for columns in by_length.values()]
    if not numbers or _share(numbers, how) >= 0.5:
        return None
    others = (other._replace(charset=how.charset) for other in _REPRESENTATIONS)
    likely = next((other for other in others if _share(numbers, other) > 0.95), None)
    if likely is None:
        return None
    return f"the numbers look as if they were {likely.float_format} floats with the {_FIRST[likely.order]} byte first"


def may_doubt(columns: Sequence[Bytes], starts: Sequence[int], how: Representation) -> bool:
    """Tell whether `doubts` may have a warning about one of several data sets, whose observations follow each other.

    `columns` are the bytes of their numeric columns, and `starts` the first row of each data set.
    """
    if not columns:
        return False
    rows = len(columns[0])
    usual = np.zeros(rows, np.int64)
    for column in columns:
        found = numeric.read(column, how.order, how.float_format, how.charset)
        usual += _is_usual(np.abs(found.doubles))
        if found.absent is not None and not found.odd:
            usual += found.absent & ~np.isfinite(found.doubles)
    counts = np.diff([*starts, rows]) * len(columns)
    return bool((np.add.reduceat(usual, starts) * 2 < counts).any())


def _share(numbers: Sequence[Bytes], how: Representation) -> float:
    """Return the share of plausible values among all numbers, which are grouped by length."""
    return sum(_usual(cells, how) * len(cells) for cells in numbers) / sum(map(len, numbers))


_FIRST = {"little": "low", "big": "high"}
_REPRESENTATIONS = (Representation("little"), Representation("big"), Representation("big", "ibm"))


def _candidates(obs_length: int, variables: Sequence[Variable]) -> Iterator[RowLayout]:
    lengths = [variable.length for variable in variables]
    packed = tuple(accumulate(lengths, initial=0))[:-1]
    spare = obs_length - sum(lengths)
    if not spare:
        yield RowLayout("packed", packed)
    elif 0 < spare < ALIGNMENT:
        yield RowLayout("padded", packed)
        offsets = [0] * len(variables)
        at = 0
        for index in sorted(range(len(variables)), key=lambda index: not variables[index].is_numeric):
            offsets[index] = at
            at += variables[index].length
        if (first := tuple(offsets)) != packed:
            yield RowLayout("numerics-first", first)

    offsets = []
    at = 0
    for variable in variables:
        if variable.is_numeric and variable.length == 8:
            at += -at % 8
        offsets.append(at)
        at += variable.length
    if spare > 0 and at + -at % 8 == obs_length and (aligned := tuple(offsets)) != packed:
        yield RowLayout("aligned", aligned)


def _usual(cells: Bytes, how: Representation) -> float:
    found = numeric.read(cells, how.order, how.float_format, how.charset)
    sizes = np.abs(found.doubles if found.absent is None else found.doubles[~found.absent])
    return (int(np.count_nonzero(_is_usual(sizes))) + len(cells) - len(sizes) - found.odd) / len(cells)


def _is_usual(sizes: Doubles) -> NDArray[np.bool_]:
    usual: NDArray[np.bool_] = (sizes == 0) | ((sizes >= _USUAL[0]) & (sizes <= _USUAL[1]))
    return usual
