"""Packages: results that differ only in their values, as rows of the catalog and of the tables.

Most results are of finished attachments that are new, and of their messages. The tasks turn them into rows, so that the
driver adds them to the catalog and to the tables without an object for each. It still needs the identifiers: what the
catalog has already is taken out of the rows again and committed one by one, and so is everything else.
"""

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app import plugins
from app.pipeline.commit import tables
from app.pipeline.commit.result_changes import begun, checkpoint_of, data_sets, files, qualities, traces
from app.pipeline.commit.tables import DataSet
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job
from app.ports import Catalog, Packed
from app.service.assembling.finished_in_checkpoint import lacks_only_attachments
from app.service.events.event_entries import message_event
from app.service.events.event_spans import ratio_of
from app.span_names import Added
from app.tables.quality import Increment, increments

AT_ONCE = 32_768
"""The largest number of results in a package."""

LEAST = 64
"""The number of results for which a package takes less time than the results one by one."""

RESULTS_A_ROW = 64
"""The number of other results that go to the driver together."""

RESULTS = pa.schema([pa.field("packed", pa.binary(), nullable=False), pa.field("size", pa.int64(), nullable=False)])
"""Pickled `TaskResults`: the job that reads them has written them. They are compressed, because the driver holds all of
them and Spark limits it to `spark.driver.maxResultSize`; `size` is the number of bytes before."""

_CODEC = "lz4"
_NOTHING = Increment("", 0)


class Package(NamedTuple):
    """Results as rows.

    `attachments` are those that are finished, each with its message, and `messages` those that lack nothing but
    attachments, each with these. `finished_rows` and `message_rows` are for the catalog. `files` are rows of the table
    of files, without the time of finishing. `state` is the sum of what the results say. `left_out` are attachments that
    only the rows for the catalog still have.
    """

    reached: int
    attachments: dict[str, str | None]
    messages: dict[str, tuple[str, ...]]
    finished_rows: Packed
    message_rows: Packed
    files: pa.Table
    data_sets: tuple[DataSet, ...]
    quality: tuple[Increment, ...]
    traces: tuple[Added, ...]
    state: int
    left_out: frozenset[str] = frozenset()


class TaskResults(NamedTuple):
    """What tasks have found: results one by one, and packages of others."""

    results: Sequence[Result] = ()
    packages: Sequence[Package] = ()

    def __bool__(self) -> bool:
        """Tell whether anything was found."""
        return bool(self.results or self.packages)

    @property
    def damaged(self) -> bool:
        """Return whether a task has found a damaged body that was not checked before (`Result.damaged`)."""
        return any(result.damaged for result in self.results)


# --- in tasks ---------------------------------------------------------------------------------------------------------


def rows_of(found: Iterable[Result], job: Job, known: int | None) -> Iterator[pa.RecordBatch]:
    """Yield results in rows of `RESULTS`, in packages as far as the job's catalog takes them.

    An attachment that has messages up to the packed position `known` is in the catalog already.
    """
    plain: list[Result] = []
    others: list[Result] = []
    for result in found:
        if job.packing is not None and _is_plain(result, known):
            plain.append(result)
        else:
            others.append(result)
        if len(plain) == AT_ONCE:
            yield _row(TaskResults(packages=[_package(plain, job)]))
            plain = []
        if len(others) == RESULTS_A_ROW:
            yield _row(TaskResults(others))
            others = []
    if len(plain) >= LEAST:
        yield _row(TaskResults(packages=[_package(plain, job)]))
        plain = []
    if others or plain:
        yield _row(TaskResults([*others, *plain]))


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


def _package(results: Sequence[Result], job: Job) -> Package:
    ratio = ratio_of(job.settings.traces)
    results = [begun(result, ratio) for result in results]
    finished = [result for result in results if result.finished is not None]
    messages = [result for result in results if result.finished is None]
    return Package(
        reached=max(result.reached for result in results),
        attachments={result.record.id: result.record.message_id for result in finished if result.record is not None},
        messages={message.id: message.attachments for result in messages for message in result.messages},
        finished_rows=_packed(finished, job),
        message_rows=_packed(messages, job),
        files=tables.file_rows(files(finished)),
        data_sets=tuple(data_sets(finished)),
        quality=tuple(increments(tables.quality_rows(qualities(results)))),
        traces=tuple(traces(finished)),
        state=sum(result.state for result in results),
    )


def _packed(results: Sequence[Result], job: Job) -> Packed:
    """Return the rows of results for the catalog. It sets all times when it takes them."""
    if not results or job.packing is None:
        return ()
    checkpoint = checkpoint_of(results, 0)
    checkpoint.events += [message_event(message.id, message.source, 0) for message in checkpoint.messages]
    return plugins.catalog().pack(job.packing, checkpoint)


def _row(found: TaskResults) -> pa.RecordBatch:
    pickled = pickle.dumps(found)
    packed = pa.compress(pickled, codec=_CODEC, asbytes=True)
    return pa.RecordBatch.from_pylist([{"packed": packed, "size": len(pickled)}], RESULTS)


# --- in the driver ----------------------------------------------------------------------------------------------------


def found_in(table: pa.Table) -> TaskResults:
    """Return what came to the driver in rows of `RESULTS`."""
    results: list[Result] = []
    packages: list[Package] = []
    for packed, size in zip(*(table.column(name) for name in RESULTS.names), strict=True):
        found = pickle.loads(pa.decompress(packed.as_buffer(), size.as_py(), _CODEC))  # noqa: S301 - of this job
        results += found.results
        packages += found.packages
    return TaskResults(results, packages)


def without(package: Package, attachments: Collection[str]) -> Package:
    """Return a package without these attachments. Their messages stay, and so does what is counted of them."""
    if not attachments:
        return package
    left_out = package.left_out.union(attachments)
    is_out = pc.is_in(package.files.column("attachment"), pa.array([*left_out], pa.string()))
    return package._replace(
        attachments={each: message for each, message in package.attachments.items() if each not in left_out},
        files=package.files.filter(pc.invert(is_out)),
        data_sets=tuple(each for each in package.data_sets if each.attachment not in left_out),
        traces=tuple(each for each in package.traces if each.attachment not in left_out),
        left_out=left_out,
    )


def finished_in(package: Package, catalog: Catalog, attachments: Collection[str]) -> list[Result]:
    """Return the results of these attachments of a package, without what is counted of them."""
    if not attachments:
        return []
    checkpoint = catalog.unpacked(package.finished_rows)
    schemas = {each.attachment: each.schema.serialize().to_pybytes() for each in package.data_sets}
    return [
        Result(package.reached, _NOTHING, record, finished=finished, schema=schemas.get(record.id))
        for record, finished in zip(checkpoint.attachments, checkpoint.finished, strict=True)
        if record.id in attachments
    ]


def results_in(packages: Iterable[Package], catalog: Catalog) -> list[Result]:
    """Return the results of packages one by one, without what is counted of them."""
    results: list[Result] = []
    for package in packages:
        results += finished_in(package, catalog, package.attachments)
        messages = catalog.unpacked(package.message_rows).messages if package.messages else []
        results += (Result(package.reached, _NOTHING, messages=(message,)) for message in messages)
    return results
