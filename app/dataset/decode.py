"""Convert observations to Arrow record batches, a column at a time.

A plan states the Arrow type of each variable. The first plan of a data set assumes the usual: no special missing
values, dates that are whole days, texts that decode. If the bytes contain something else, no more batches follow. The
remaining bytes are surveyed, and `Unforeseen` carries a second plan with which all observations are read from the
start. So every data set takes at most two passes, and most take one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset import character_columns, checks, missing, numeric, observation_layout, schema, temporal_columns
from app.dataset.conversion_error import first_wrong
from app.dataset.description import contents
from app.dataset.numeric import Bytes, Numbers
from app.dataset.observation_layout import Representation, RowLayout
from app.dataset.schema import MOMENTS, Column
from app.model.errors import InvalidInputError

BATCH_BYTES = 2 << 20
"""The maximum number of observation bytes in a batch, whatever number of rows is wanted (at least one row)."""

BATCH_ROWS = 16_384

Blocks = Iterable[bytes | bytearray | memoryview]
"""Observations in pieces of any size, which need not end at the end of a row."""


@dataclass(frozen=True)
class DecodingPlan:
    """The way to read the observations of a data set, laid out as `rows`. `observations` is negative if their number is
    unknown."""

    columns: tuple[Column, ...]
    rows: RowLayout
    observations: int
    obs_length: int
    how: Representation
    metadata: Mapping[str, str]
    surveyed: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        return schema.arrow_schema(self.columns, self.metadata)

    def of(self, definition: DataSetDefinition, metadata: Mapping[str, str]) -> "DecodingPlan":
        """Return the same plan for a data set with this number of observations and this metadata."""
        if (self.observations, self.metadata) == (definition.observations, metadata):
            return self
        plan = replace(self, observations=definition.observations, metadata=metadata)
        vars(plan)["schema"] = self.schema.with_metadata(metadata)  # the fields are not made again
        return plan

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is in doubt about the data set, and about each of its variables."""
        if "sas.warnings" in self.metadata or any(
            column.inexact or column.odd or (column.has_side and not column.variable.is_numeric)
            for column in self.columns
        ):
            return tuple(contents(self.schema, max(self.observations, 0)).remarks)
        return ()

    @property
    def has_damaged_texts(self) -> bool:
        return any(column.has_side and not column.variable.is_numeric for column in self.columns)

    def in_charset(self, charset: str, why: str) -> "DecodingPlan":
        """Return the same plan for a character set that should decode all bytes, with the reason as a warning."""
        columns = tuple(
            column if column.variable.is_numeric else replace(column, has_side=False) for column in self.columns
        )
        metadata = _warned(self.metadata, why) | {"sas.encoding": charset}
        how = self.how._replace(charset=charset)
        return replace(self, columns=columns, how=how, metadata=metadata, surveyed=False)


class PlannedColumn(NamedTuple):
    """The plan that follows from a definition and its variables alone, and the last one made of it for a data set."""

    own: DecodingPlan
    last: DecodingPlan


Plans = dict[tuple[Representation, RowLayout], PlannedColumn]
"""The plans of data sets that have the same definition and variables."""


class Unforeseen(Exception):
    """The data set has values that its plan does not allow for. `plan` is one that does, for all of them."""

    def __init__(self, plan: DecodingPlan) -> None:
        super().__init__("values that the plan does not allow for")
        self.plan = plan


def first_plan(
    definition: DataSetDefinition,
    variables: Sequence[Variable],
    how: Representation,
    blocks: Callable[[], Blocks],
    metadata: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    plans: Plans | None = None,
) -> DecodingPlan:
    """Return the plan to begin with, based on the definition and the first observations.

    `metadata` are additional `sas.*` entries; `warnings` are added to the metadata, too. `plans` belong to earlier
    data sets that differ from this one in nothing but their observations; the plan is added to them. Raises
    InvalidInputError for an invalid definition or variables (see `schema.check`, `layout.row_layout`).
    """
    if not plans:
        schema.check(definition, variables)
    sample = _sample(blocks(), definition.obs_length)
    rows = observation_layout.row_layout(definition, variables, sample, how)
    doubt = observation_layout.doubts(sample, variables, rows.offsets, how) if len(sample) else None
    all_warnings = [*warnings, *filter(None, [doubt])]
    return _planned(definition, variables, how, rows, metadata or {}, all_warnings, {} if plans is None else plans)


def plan_by_definition(
    definition: DataSetDefinition,
    variables: Sequence[Variable],
    how: Representation,
    metadata: Mapping[str, str],
    warnings: Sequence[str],
    plans: Plans,
) -> DecodingPlan | None:
    """Return the plan that `first_plan` makes if the observations raise no doubts; None if it needs them for it.

    Raises InvalidInputError for an invalid definition or variables.
    """
    if not plans:
        schema.check(definition, variables)
    rows = observation_layout.only_layout(definition, variables)
    return None if rows is None else _planned(definition, variables, how, rows, metadata, warnings, plans)


def _planned(
    definition: DataSetDefinition,
    variables: Sequence[Variable],
    how: Representation,
    rows: RowLayout,
    metadata: Mapping[str, str],
    warnings: Sequence[str],
    plans: Plans,
) -> DecodingPlan:
    known = plans.get((how, rows))
    if known is not None:
        own = known.own
    else:  # what follows from the definition and the variables alone
        described = schema.data_set_metadata(definition, variables, how.charset) | {
            "sas.byte_order": how.order,
            "sas.float": how.float_format,
            "sas.encoding": how.charset,
        }
        columns = schema.columns(variables, rows.offsets)
        own = DecodingPlan(columns, rows, definition.observations, definition.obs_length, how, described)
    entries = {**own.metadata, **metadata}
    if rows.name != "packed":
        entries["sas.layout"] = rows.name
    labels = {"the data set": definition.label} | {variable.name: variable.label for variable in variables}
    if odd := [name for name, label in labels.items() if checks.has_controls(label)]:
        more = f" and {len(odd) - 5} more" if odd[5:] else ""
        warnings = [*warnings, f"labels with control characters: of {', '.join(odd[:5])}{more}"]
    entries = _warned(entries, *warnings)
    plan = (own if known is None else known.last).of(definition, entries)
    plans[how, rows] = PlannedColumn(own, plan)
    return plan


def _warned(metadata: Mapping[str, str], *warnings: str) -> dict[str, str]:
    lines = [*filter(None, [metadata.get("sas.warnings")]), *warnings]
    return {**metadata, **({"sas.warnings": "\n".join(lines)} if lines else {})}


def batches(plan: DecodingPlan, blocks: Blocks, rows_a_batch: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield the observations of a data set as record batches.

    Raises Unforeseen instead of the first batch that does not fit the plan. Raises InvalidInputError if the bytes are
    not whole rows, or not as many as the definition states.
    """
    arrow_schema = plan.schema
    columns = list(plan.columns)
    suits = True
    rows = 0
    most = min(rows_a_batch, BATCH_BYTES // max(plan.obs_length, 1))
    if plan.observations > 0:
        most = min(most, plan.observations)
    for cells in _whole_rows(blocks, plan.obs_length, max(1, most)):
        arrays: list[pa.Array] = []
        for index, column in enumerate(columns):
            made, suited = read_column(column, cells, plan.how, rows)
            arrays += made
            if suited is not column and not plan.surveyed:
                columns[index], suits = suited, False
        rows += len(cells)
        if suits:
            yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)
    if plan.obs_length and 0 <= plan.observations != rows:
        why = f"the definition states {plan.observations} observations, but {rows} were received"
        raise InvalidInputError("observation-count", "number of observations", -1, why)
    if not suits:
        raise Unforeseen(replace(plan, columns=tuple(columns), surveyed=True))


def read_column(column: Column, cells: Bytes, how: Representation, first: int) -> tuple[list[pa.Array], Column]:
    """Return the column's array, its side column's array if it has one, and the column as these values require it.

    `cells` are observations as rows by bytes, and `first` is the number of those before them.
    """
    values = cells[:, column.at : column.at + column.variable.length]
    if not column.variable.is_numeric:
        texts = character_columns.read(values, how.charset)
        if not column.has_side:
            return [texts.strings], column if texts.damaged is None else replace(column, has_side=True)
        damaged = pa.nulls(len(cells), pa.binary()) if texts.damaged is None else texts.damaged
        return [texts.strings, damaged], column
    numbers = numeric.read(values, how.order, how.float_format, how.charset)
    if numbers.odd:
        column = replace(column, odd=column.odd + numbers.odd)
    if numbers.tags is not None and not column.has_side:
        column = replace(column, has_side=True)
    array, column = counted(column, numbers, first)
    return [array, missing.to_arrow(numbers.tags, len(cells))] if column.has_side else [array], column


def counted(column: Column, numbers: Numbers, first: int) -> tuple[pa.Array, Column]:
    """Return numbers as dates or times if that is exact, and the column as these values require it.

    `first` is the number of observations before them.
    """
    while column.moment is not None and column.kind is not None:
        array = temporal_columns.to_arrow(numbers, column.moment)
        if array is not None:
            return array, column
        tried = MOMENTS[column.kind]
        following = dict(pairwise(tried)).get(column.moment)
        column = replace(column, moment=following, inexact="" if following else _inexact(numbers, column, first))
    return numeric.column(numbers), column


def _inexact(numbers: Numbers, column: Column, first: int) -> str:
    """Return which observation's value has no exact counterpart, as a sentence."""
    moment = column.moment
    assert moment is not None

    def is_inexact(low: int, high: int) -> bool:
        absent = None if numbers.absent is None else numbers.absent[low:high]
        some = numbers._replace(doubles=numbers.doubles[low:high], absent=absent)
        return temporal_columns.to_arrow(some, moment) is None

    row = first_wrong(len(numbers.doubles), is_inexact)
    return f"observation {first + row + 1}: {numbers.doubles[row]} is not an exact {column.kind}"


def _sample(blocks: Blocks, length: int) -> Bytes:
    wanted = max(length, min(length * observation_layout.SAMPLE_ROWS, BATCH_BYTES))
    taken = bytearray()
    for block in blocks if wanted else ():
        taken += block[: wanted - len(taken)]
        if len(taken) == wanted:
            break
    whole = len(taken) // max(length, 1)
    return np.frombuffer(bytes(taken[: whole * length]), np.uint8).reshape(whole, length)


def _whole_rows(blocks: Blocks, length: int, rows_a_batch: int) -> Iterator[Bytes]:
    """Yield the blocks' bytes as rows by bytes, at most `rows_a_batch` rows; an array is valid until the next one."""
    room = np.empty(length * rows_a_batch, np.uint8)
    filled = total = 0
    for block in blocks:
        left = np.frombuffer(block, np.uint8)
        if left.size and not length:
            raise InvalidInputError(
                "observation-length", "observations", 0, "the observation length is 0, but observations have bytes"
            )
        while left.size:
            if not filled and left.size >= room.size:
                yield left[: room.size].reshape(-1, length)
                total += room.size
                left = left[room.size :]
                continue
            taken = left[: room.size - filled]
            room[filled : filled + taken.size] = taken
            left = left[taken.size :]
            filled += taken.size
            total += taken.size
            if filled == room.size:
                yield room.reshape(-1, length)
                filled = 0
    if filled % max(length, 1):
        why = f"the last row has {filled % length} of {length} bytes"
        raise InvalidInputError("observation-torn", "observations", total - filled % length, why)
    if filled:
        yield room[:filled].reshape(-1, length)


class SmallDataSet(NamedTuple):
    """A data set of few rows: its plan, and the bytes of its observations, at least one."""

    plan: DecodingPlan
    observations: bytes

    @property
    def rows(self) -> int:
        return len(self.observations) // self.plan.obs_length


def decode_together(several: Sequence[SmallDataSet]) -> list[pa.RecordBatch] | None:
    """Return the observations of data sets whose plans differ in nothing but metadata.

    Return None if values of one of them do not fit its plan, or raise doubts about it: then each has to be decoded by
    itself.
    """
    plan = several[0].plan
    joined = b"".join(each.observations for each in several)
    cells = np.frombuffer(joined, np.uint8).reshape(-1, plan.obs_length)
    ends = list(accumulate(each.rows for each in several))
    starts = [0, *ends[:-1]]
    variables = [(column.at, column.variable) for column in plan.columns]
    numbers = [cells[:, at : at + variable.length] for at, variable in variables if variable.is_numeric]
    if observation_layout.may_doubt(numbers, starts, plan.how):
        return None
    arrays: list[pa.Array] = []
    for column in plan.columns:
        made, suited = read_column(column, cells, plan.how, 0)
        if suited is not column:
            return None
        arrays += made
    return [
        pa.RecordBatch.from_arrays([array.slice(start, each.rows) for array in arrays], schema=each.plan.schema)
        for each, start in zip(several, starts, strict=True)
    ]
