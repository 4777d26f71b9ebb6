"""What the tasks of a batch have found, as the driver reads it: in passes, each over one part of the rows.

However many attachments a batch has, the driver holds one row at a time. Rows stay where they are between passes: with
Spark's workers, or in the driver if they are small.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.pipeline.commit.packages import RESULTS, FinishedPackage, Summary, rows_of, unpacked
from app.pipeline.commit.tables import DataSet
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job
from app.ports import Packed

Rows = Callable[[str], Iterable[bytes]]
"""A function that returns what the rows have in a column of `app.pipeline.commit.packages.PARTS`, without None."""


class Findings(NamedTuple):
    """The rows of `app.pipeline.commit.packages.RESULTS` of a batch.

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
