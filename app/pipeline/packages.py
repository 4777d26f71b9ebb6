"""Packages: results that differ only in their values, as rows of the catalog and of the tables.

Most results are of finished attachments that are new, and of their messages. The tasks turn them into rows, so that the
driver adds them to the catalog and to the tables without an object for each. It still needs the identifiers: what the
catalog has already is committed one by one, and so is everything else.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from app import plugins
from app.pipeline import tables
from app.pipeline.changes import begun, checkpoint_of, data_sets, files, qualities, traces
from app.pipeline.finishing import Result
from app.pipeline.job import Job
from app.pipeline.tables import DataSet
from app.ports import Packed
from app.service.assembling.closing import lacks_only_attachments
from app.service.events import message_event
from app.service.tracing import ratio_of
from app.spans import Added
from app.tables.quality import Increment, increments

AT_ONCE = 16_384
"""The largest number of results in a package: its attachments go to the catalog in one transaction, and so do its
messages. Each transaction writes most pages of the catalog's indexes once, since identifiers have no order."""

LEAST = 64
"""The number of results for which a package takes less time than the results one by one."""

RESULTS_A_ROW = 64
"""The number of other results that go to the driver together."""

RESULTS = pa.schema([pa.field("results", pa.binary(), nullable=False), pa.field("package", pa.binary())])
"""Pickled lists of `Result`, and the `Package` with the same results if there is one: the job that reads them has
written them. Both are compressed, because the driver holds all of them and Spark limits it to
`spark.driver.maxResultSize`."""

_CODEC = "zstd"


class Package(NamedTuple):
    """Results as rows.

    `attachments` are those that are finished, each with its message, and `messages` those that lack nothing but
    attachments, each with these. `finished_rows` and `message_rows` are for the catalog. `files` are rows of the table
    of files, without the time of finishing. `state` is the sum of what the results say. `results` are the results.
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
    results: pa.Buffer | None = None


class Found(NamedTuple):
    """What tasks have found: results one by one, and packages of others."""

    results: Sequence[Result] = ()
    packages: Sequence[Package] = ()

    def __bool__(self) -> bool:
        """Tell whether anything was found."""
        return bool(self.results or self.packages)


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
            yield _row(plain, _package(plain, job))
            plain = []
        if len(others) == RESULTS_A_ROW:
            yield _row(others)
            others = []
    if len(plain) >= LEAST:
        yield _row(plain, _package(plain, job))
        plain = []
    if others or plain:
        yield _row([*others, *plain])


def _is_plain(result: Result, known: int | None) -> bool:
    """Tell whether a result is nothing but a new finished attachment, or messages that lack only attachments."""
    if result.dialects is not None or result.quarantine or result.removed is not None or result.refused is not None:
        return False
    if result.record is None:
        return bool(result.messages) and all(map(lacks_only_attachments, result.messages))
    is_new = known is None or result.record.first_position > known
    is_alone = not (result.messages or result.fresh or result.has_less or result.beside)
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
    checkpoint.events += [message_event(message, 0) for message in checkpoint.messages]
    return plugins.catalog().pack(job.packing, checkpoint)


def _row(results: Sequence[Result], package: Package | None = None) -> pa.RecordBatch:
    packed = [_compressed(results)], [None if package is None else _compressed(package)]
    return pa.RecordBatch.from_arrays([pa.array(each, pa.binary()) for each in packed], schema=RESULTS)


def _compressed(value: Any) -> bytes:
    compressed: bytes = pa.compress(pickle.dumps(value), codec=_CODEC, asbytes=True)
    return compressed


# --- in the driver ----------------------------------------------------------------------------------------------------


def found_in(table: pa.Table) -> Found:
    """Return what came to the driver in rows of `RESULTS`."""
    results: list[Result] = []
    packages: list[Package] = []
    for packed, package in zip(table.column("results"), table.column("package"), strict=True):
        if package.is_valid:
            packages.append(_unpacked(package.as_buffer())._replace(results=packed.as_buffer()))
        else:
            results += _unpacked(packed.as_buffer())
    return Found(results, packages)


def results_in(packages: Iterable[Package]) -> list[Result]:
    """Return the results of packages one by one."""
    return [*chain.from_iterable(_unpacked(package.results) for package in packages)]


def _unpacked(packed: pa.Buffer) -> Any:
    with pa.input_stream(packed, compression=_CODEC) as stream:
        return pickle.loads(stream.read())  # noqa: S301 - of this job
