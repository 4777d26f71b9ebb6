"""The results of tasks, in rows of which the driver reads one column at a time: what a batch has found.

Most results are of finished attachments that are new, and of their messages. They differ only in their values. Tasks
turn them into packages: rows for the catalog and for the tables, which the driver adds without an object for each. All
other results are committed one by one.

The driver goes through these rows in passes (`Findings`), each over one column. However many attachments a batch has,
the driver holds one row at a time. Rows stay where they are between passes: with Spark's workers, or in the driver if
they are small.
"""

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app import plugins
from app.pipeline.commit import tables
from app.pipeline.commit.result_changes import (
    begun,
    checkpoint_of,
    damaged_segments,
    data_sets,
    files,
    qualities,
    traces,
)
from app.pipeline.commit.tables import DataSet
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job
from app.ports import Catalog, Packed
from app.service.assembling.finished_in_checkpoint import lacks_only_attachments
from app.service.events.event_entries import message_event
from app.service.events.event_spans import ratio_of
from app.span_names import Added
from app.tables.quality import Increment, increments

AT_ONCE = 8192
"""The largest number of results in a package."""

LEAST = 64
"""The number of results for which a package takes less time than the results one by one."""

RESULTS_A_ROW = 256
"""The number of other results that go to the driver together."""

PARTS = ("summary", "files", "data_sets", "finished", "messages", "results")
RESULTS = pa.schema(
    [
        pa.field("reached", pa.int64(), nullable=False),
        pa.field("damaged", pa.bool_(), nullable=False),
        pa.field("state", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        *(pa.field(name, pa.binary()) for name in PARTS),
    ]
)
"""Results that were found together, a package or others. The parts are pickled and compressed: the job that reads them
has written them, and they wait in Spark's memory.

`reached`, `damaged` and `state` are as in `Result`: the highest, whether any is, the sum. `size` is that of the parts,
in bytes. `summary` is a `Summary`, `files` are rows of the table of files without the time of finishing, `data_sets`
are `DataSet`s. `finished` is a `FinishedPackage`, and `messages` are the packed rows of messages that lack nothing but
attachments. `results` are those that are in no package."""

_CODEC = "lz4"
_SIZE_BYTES = 8
_NOTHING = Increment("", 0)


class Summary(NamedTuple):
    """What is counted of results: the quality, the finished and refused attachments, the entries of quarantine.

    `damaged` are the numbers of segments with damaged messages, `traced` the finished attachments with a trace.
    """

    quality: tuple[Increment, ...] = ()
    finished: int = 0
    refused: int = 0
    quarantined: int = 0
    damaged: tuple[int, ...] = ()
    traced: tuple[Added, ...] = ()


class FinishedPackage(NamedTuple):
    """Finished attachments that are new, as rows for the catalog."""

    reached: int
    attachments: tuple[str, ...]
    rows: Packed


# --- in tasks ---------------------------------------------------------------------------------------------------------


def rows_of(found: Iterable[Result], job: Job, known: int | None) -> Iterator[pa.RecordBatch]:
    """Yield results in rows of `RESULTS`, in packages as far as the job's catalog takes them.

    An attachment that has messages up to the packed position `known` is in the catalog already.
    """
    ratio = ratio_of(job.settings.traces)
    plain: list[Result] = []
    others: list[Result] = []
    for result in found:
        if job.packing is not None and _is_plain(result, known):
            plain.append(begun(result, ratio))
        else:
            others.append(begun(result, ratio))
        if len(plain) == AT_ONCE:
            yield _package(plain, job)
            plain = []
        if len(others) == RESULTS_A_ROW:
            yield _one_by_one(others)
            others = []
    if len(plain) >= LEAST:
        yield _package(plain, job)
        plain = []
    if others or plain:
        yield _one_by_one([*others, *plain])


def rows_again(found: Iterable[Result]) -> Iterator[pa.RecordBatch]:
    """Yield results of messages that are processed again, one by one in rows of `RESULTS`. Nothing is counted yet: the
    driver compares them with the catalog first."""
    some: list[Result] = []
    for result in found:
        some.append(result)
        if len(some) == RESULTS_A_ROW:
            yield _row(some, results=some)
            some = []
    if some:
        yield _row(some, results=some)


def _is_plain(result: Result, known: int | None) -> bool:
    """Tell whether a result is nothing but a new finished attachment, or new messages that lack only attachments."""
    if result.dialects is not None or result.quarantine or result.removed is not None or result.refused is not None:
        return False
    begins = [message.header_position for message in result.messages]
    begins += [] if result.record is None else [result.record.first_position]
    is_new = known is None or min(begins, default=known) > known
    if result.record is None:
        return bool(result.messages) and is_new and all(map(lacks_only_attachments, result.messages))
    is_alone = not (result.messages or result.fresh or result.has_less or result.staged_object)
    return result.finished is not None and is_new and is_alone


def _package(results: Sequence[Result], job: Job) -> pa.RecordBatch:
    """Return the row of plain results."""
    finished = [result for result in results if result.finished is not None]
    messages = [result for result in results if result.finished is None]
    attachments = tuple(result.record.id for result in finished if result.record is not None)
    reached = max(result.reached for result in results)
    return _row(
        results,
        **_table_rows(results),
        finished=FinishedPackage(reached, attachments, _packed(finished, job)) if finished else None,
        messages=_packed(messages, job) if messages else None,
    )


def _one_by_one(results: Sequence[Result]) -> pa.RecordBatch:
    """Return the row of results that are committed one by one."""
    return _row(results, **_table_rows(results), results=results)


def _table_rows(results: Sequence[Result]) -> dict[str, Any]:
    """Return the summary of results and what they add to tables."""
    rows = tables.file_rows(files(results))
    summary = Summary(
        tuple(increments(tables.quality_rows(qualities(results)))),
        sum(result.finished is not None for result in results),
        sum(result.refused is not None for result in results),
        sum(len(result.quarantine) for result in results),
        damaged_segments(results),
        tuple(traces(result for result in results if result.finished is not None)),
    )
    return {
        "summary": summary,
        "files": rows if rows.num_rows else None,
        "data_sets": tuple(data_sets(results)) or None,
    }


def _packed(results: Sequence[Result], job: Job) -> Packed:
    """Return the rows of results for the catalog. It sets all times when it takes them."""
    checkpoint = checkpoint_of(results, 0)
    checkpoint.events += [message_event(message.id, message.source, 0) for message in checkpoint.messages]
    return plugins.catalog().pack(job.packing or "", checkpoint)


def _row(found: Sequence[Result], **parts: Any) -> pa.RecordBatch:
    """Return the row of results that were found together, with these of the `PARTS`."""
    packed: dict[str, bytes] = {}
    for name, part in parts.items():
        if part is not None:
            pickled = pickle.dumps(part)
            compressed = pa.compress(pickled, codec=_CODEC, asbytes=True)
            packed[name] = len(pickled).to_bytes(_SIZE_BYTES, "little") + compressed
    row = {
        "reached": max(result.reached for result in found),
        "damaged": any(result.damaged for result in found),
        "state": sum(result.state for result in found),
        "size": sum(map(len, packed.values())),
    }
    return pa.RecordBatch.from_pylist([row | packed], RESULTS)


# --- in the driver ----------------------------------------------------------------------------------------------------

Rows = Callable[[str], Iterable[bytes]]
"""A function that returns what the rows have in a column of `PARTS`, without None."""


class Findings(NamedTuple):
    """The rows of `RESULTS` of a batch.

    `reached` is the highest packed position, None without any row. If `damaged`, a task has found a damaged body that
    was not checked before (`Result.damaged`). `state` is the size in bytes of the state kept for unfinished
    attachments, as far as it was counted. Each call of a method is a pass over the `rows`.
    """

    reached: int | None
    damaged: bool
    state: int
    rows: Rows

    def __bool__(self) -> bool:
        """Tell whether anything was found."""
        return self.reached is not None

    def summaries(self) -> Iterator[Summary]:
        """Yield what is counted of the results."""
        return self._each("summary")

    def files(self) -> Iterator[pa.Table]:
        """Yield rows of the table of files, without the time of finishing."""
        return self._each("files")

    def data_sets(self) -> Iterator[Sequence[DataSet]]:
        """Yield the finished data sets."""
        return self._each("data_sets")

    def finished(self) -> Iterator[FinishedPackage]:
        """Yield the packages of finished attachments."""
        return self._each("finished")

    def messages(self) -> Iterator[Packed]:
        """Yield the packages of messages that lack nothing but attachments."""
        return self._each("messages")

    def results(self) -> Iterator[Sequence[Result]]:
        """Yield the results that are in no package."""
        return self._each("results")

    def also(self, results: Iterable[Result], job: Job) -> "Findings":
        """Return these findings with further results, which are committed one by one."""
        more = held(pa.Table.from_batches(rows_of(results, replace(job, packing=None), None), RESULTS))
        return self._replace(rows=lambda part: chain(self.rows(part), more.rows(part)))

    def _each(self, part: str) -> Iterator[Any]:
        return map(unpacked, self.rows(part))


def held(rows: pa.Table) -> Findings:
    """Return the findings in rows that this process holds."""

    def of(part: str) -> Iterator[bytes]:
        return (value.as_buffer() for value in rows.column(part) if value.is_valid)

    return Findings(
        pc.max(rows["reached"]).as_py(),
        pc.any(rows["damaged"]).as_py() or False,
        pc.sum(rows["state"]).as_py() or 0,
        of,
    )


def unpacked(part: bytes | pa.Buffer) -> Any:
    """Return a part of a row."""
    view = memoryview(part)
    size = int.from_bytes(view[:_SIZE_BYTES], "little")
    return pickle.loads(pa.decompress(view[_SIZE_BYTES:], size, _CODEC))  # noqa: S301 - of this job


def finished_in(package: FinishedPackage, catalog: Catalog, attachments: Collection[str]) -> list[Result]:
    """Return the results of these attachments of a package, without what is counted of them or added to tables."""
    if not attachments:
        return []
    checkpoint = catalog.unpacked(package.rows)
    return [
        Result(package.reached, _NOTHING, record, finished=finished)
        for record, finished in zip(checkpoint.attachments, checkpoint.finished, strict=True)
        if record.id in attachments
    ]
