"""Building of tables from data sets: one process plans and commits, many write.

A plan skips the tables that have reached its transaction, so that an interrupted transaction is only completed. The
process that plans goes through the data sets twice, and never holds all of them: a table's columns follow from their
schemas, of which few differ, and then its tasks are made some at a time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from app.model.names import table_name
from app.pipeline.commit.tables.schema_evolution import FIXED, ColumnMapping, evolve
from app.ports import FILES_BY_SOURCE, ContentStore, TableFile, TableStore
from app.service.content.stored_content import opened
from app.service.threads import together

TASK_BYTES = 128 << 20
"""The size of the stored data sets that one task reads and writes to one file. A larger data set is a task by
itself."""
TASK_DATA_SETS = 1000
DATA_SETS_AT_ONCE = 50_000
"""The number of data sets that are divided into tasks together, some 25 MB of descriptions. The more, the fewer files a
table gets."""
ROWS_A_FILE = 1 << 20
"""The number of rows of a file of the pipeline's own tables."""
ROWS_A_BATCH = 16_384
CELLS_A_BATCH = 4 << 20
"""The limit of cells in a batch. Tables with many columns have fewer rows in it, to bound the memory."""


class DataSet(NamedTuple):
    """A finished data set attachment: the names that its sender gave it, and the stored object, its size and its
    schema.

    `received_at` is when its first message was received (µs).
    """

    attachment: str
    message: str | None
    source: str
    received_at: int
    library: str
    member: str
    object_name: str
    size: int
    schema: pa.Schema


class TablePart(NamedTuple):
    """A data set in a task: the values of the fixed columns, its object, and the number of its mapping in the task."""

    attachment: str
    message: str | None
    source: str
    received_at: int
    object_name: str
    mapping: int


class TableTask(NamedTuple):
    """The data sets that go to one file of a table. `schema` is the table's, in the form of Arrow IPC. `size` is that
    of the stored data sets, in bytes."""

    table: str
    schema: bytes
    mappings: tuple[ColumnMapping, ...]
    parts: tuple[TablePart, ...]
    size: int = 0


class TablePlan(NamedTuple):
    """The part of a transaction that changes one table: its new schema, in the form of Arrow IPC, how the columns of
    each schema of a data set are mapped to it, and warnings for people."""

    table: str
    schema: bytes
    mappings: Mapping[bytes, ColumnMapping]
    warnings: list[str]


class Written(NamedTuple):
    """A file that a task has written, which no reader sees yet."""

    table: str
    file: TableFile


class CommittedTable(NamedTuple):
    """A table that a transaction has changed, the number of rows, warnings for people, and the new version."""

    table: str
    rows: int
    warnings: list[str]
    version: int


def plan(tables: TableStore, data_sets: Iterable[DataSet], application: str, transaction: int) -> list[TablePlan]:
    """Return the plans, by table, that add these data sets to the tables."""
    shapes = _shapes(data_sets)

    def planned(table: str) -> TablePlan | None:
        if _has_reached(tables, table, application, transaction):
            return None
        return _planned(tables, table, shapes[table])

    return [each for each in together(planned, sorted(shapes)) if each is not None]


def plan_again(tables: TableStore, data_sets: Iterable[DataSet]) -> list[TablePlan]:
    """Return the plans, by table, that add these data sets to the tables even if these have reached the transaction.

    For `TableStore.replace`, which adds the same rows only once.
    """
    shapes = _shapes(data_sets)
    return together(lambda table: _planned(tables, table, shapes[table]), sorted(shapes))


class _Shape(NamedTuple):
    """A schema that data sets of a table have, and the first and the last of these in the order of their reception."""

    schema: pa.Schema
    first: tuple[int, str]
    last: tuple[int, str]


def _shapes(data_sets: Iterable[DataSet]) -> dict[str, dict[bytes, _Shape]]:
    """Return the schemas of data sets by table, each with its serialized form."""
    by_table: dict[str, dict[bytes, _Shape]] = {}
    for each in data_sets:
        shapes = by_table.setdefault(table_name(each.library, each.member), {})
        key, place = _key(each), (each.received_at, each.attachment)
        known = shapes.get(key)
        first, last = (place, place) if known is None else (min(known.first, place), max(known.last, place))
        shapes[key] = _Shape(each.schema, first, last)
    return by_table


def _key(data_set: DataSet) -> bytes:
    key: bytes = data_set.schema.serialize().to_pybytes()
    return key


def _planned(tables: TableStore, table: str, shapes: Mapping[bytes, _Shape]) -> TablePlan:
    try:
        current = tables.schema(table)
    except KeyError:
        current = None
    places = sorted((place, key) for key, shape in shapes.items() for place in {shape.first, shape.last})
    evolution = evolve(current, [shapes[key].schema for _, key in places])
    mappings = dict(zip((key for _, key in places), evolution.mappings, strict=True))
    return TablePlan(table, evolution.schema.serialize().to_pybytes(), mappings, evolution.warnings)


def tasks(plans: Iterable[TablePlan], data_sets: Iterable[DataSet]) -> Iterator[list[TableTask]]:
    """Yield the tasks that write those data sets whose tables have a plan, some of them at a time.

    The data sets are those of the plans. Their order does not matter as long as they are at most `DATA_SETS_AT_ONCE`.
    """
    planned = {each.table: each for each in plans}
    coming = (each for each in data_sets if table_name(each.library, each.member) in planned)
    while some := list(islice(coming, DATA_SETS_AT_ONCE)):
        by_table: dict[str, list[DataSet]] = {}
        for each in sorted(some, key=attrgetter("received_at", "attachment")):
            by_table.setdefault(table_name(each.library, each.member), []).append(each)
        yield [_task(planned[table], part) for table in sorted(by_table) for part in _files(by_table[table])]


def _files(data_sets: Sequence[DataSet]) -> Iterator[list[DataSet]]:
    """Yield the data sets of each file. Neighbours in the order of reception are divided among sources, unless that
    makes more files."""
    by_time = list(_cut(data_sets))
    for at in range(0, len(by_time), FILES_BY_SOURCE):
        window = by_time[at : at + FILES_BY_SOURCE]
        by_source = list(_cut(sorted(chain.from_iterable(window), key=attrgetter("source"))))
        yield from by_source if len(by_source) <= len(window) else window


def _cut(data_sets: Iterable[DataSet]) -> Iterator[list[DataSet]]:
    gathered: list[DataSet] = []
    size = 0
    for each in data_sets:
        if gathered and (size + each.size > TASK_BYTES or len(gathered) == TASK_DATA_SETS):
            yield gathered
            gathered, size = [], 0
        gathered.append(each)
        size += each.size
    yield gathered


def _task(plan: TablePlan, data_sets: Sequence[DataSet]) -> TableTask:
    mapped = [plan.mappings[_key(each)] for each in data_sets]
    numbers = {mapping: number for number, mapping in enumerate(dict.fromkeys(mapped))}
    parts = tuple(
        TablePart(each.attachment, each.message, each.source, each.received_at, each.object_name, numbers[mapping])
        for each, mapping in zip(data_sets, mapped, strict=True)
    )
    return TableTask(plan.table, plan.schema, tuple(numbers), parts, sum(each.size for each in data_sets))


def write(task: TableTask, tables: TableStore, content: ContentStore) -> Written:
    """Run a task, in any process. It holds one row group in memory, however large the data sets are."""
    schema = read_schema(task.schema)
    return Written(task.table, tables.write(task.table, schema, _batches(task, schema, content)))


def commit(
    plans: Iterable[TablePlan], written: Iterable[Written], tables: TableStore, application: str, transaction: int
) -> list[CommittedTable]:
    """Make the files of the tasks visible, table by table. Return the tables that had not reached the transaction
    before."""
    files: dict[str, list[TableFile]] = {}
    for each in written:
        if each.file.rows:
            files.setdefault(each.table, []).append(each.file)

    def committed(plan: TablePlan) -> CommittedTable | None:
        added = files.get(plan.table, [])
        version = tables.commit(plan.table, read_schema(plan.schema), added, application, transaction)
        if version is None:
            return None
        return CommittedTable(plan.table, sum(file.rows for file in added), plan.warnings, version)

    return [each for each in together(committed, list(plans)) if each is not None]


def append(
    tables: TableStore,
    table: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    application: str,
    transaction: int,
    *,
    marks: bool = False,
) -> CommittedTable | None:
    """Add rows to a table of the pipeline's own, in files of bounded size and in one step.

    Return None if there are no rows, or if the table has reached the transaction, which is asked before any row. A
    table that `marks` the transaction takes it also without rows.
    """
    if _has_reached(tables, table, application, transaction):
        return None
    files = [tables.write(table, schema, some) for some in _in_files(batches)]
    if not files and not marks:
        return None
    version = tables.commit(table, schema, files, application, transaction)
    if version is None or not files:
        return None
    return CommittedTable(table, sum(file.rows for file in files), [], version)


def _in_files(batches: Iterable[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Return the batches of each file. Those of one are taken before those of the next one."""
    coming = (batch for batch in batches if batch.num_rows)

    def file_from(first: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield first
        rows = first.num_rows
        while rows < ROWS_A_FILE and (batch := next(coming, None)) is not None:
            yield batch
            rows += batch.num_rows

    return map(file_from, coming)


def _has_reached(tables: TableStore, table: str, application: str, transaction: int) -> bool:
    reached = tables.reached(table, application)
    return reached is not None and reached >= transaction


def _batches(task: TableTask, schema: pa.Schema, content: ContentStore) -> Iterator[pa.RecordBatch]:
    rows_a_batch = max(1, min(ROWS_A_BATCH, CELLS_A_BATCH // len(schema)))
    for part in task.parts:
        mapping = task.mappings[part.mapping]
        places = {source.target: at for at, source in enumerate(mapping) if source.target is not None}
        first = 1
        with opened(content, part.object_name) as file:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups):  # a batch could otherwise span any number of row groups
                for batch in parquet.iter_batches(rows_a_batch, [group], use_threads=False):
                    yield _in_table(batch, schema, places, part, first)
                    first += batch.num_rows


def _in_table(
    batch: pa.RecordBatch, schema: pa.Schema, places: dict[str, int], part: TablePart, first: int
) -> pa.RecordBatch:
    rows = batch.num_rows
    arrays = {
        "message": pa.repeat(pa.scalar(part.message, pa.string()), rows),
        "attachment": pa.repeat(pa.scalar(part.attachment, pa.string()), rows),
        "source": pa.repeat(pa.scalar(part.source, pa.string()), rows),
        "received_at": pa.repeat(pa.scalar(part.received_at, FIXED.field("received_at").type), rows),
        "row": pa.array(range(first, first + rows), pa.int64()),
    }
    for target, at in places.items():
        array, data_type = batch.column(at), schema.field(target).type
        # Times of day may have become durations in the table.
        arrays[target] = array if array.type == data_type else array.view(pa.int64()).view(data_type)
    columns = [arrays[field.name] if field.name in arrays else pa.nulls(rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_schema(serialized: bytes) -> pa.Schema:
    """Return a schema that was serialized."""
    return pa.ipc.read_schema(pa.py_buffer(serialized))
