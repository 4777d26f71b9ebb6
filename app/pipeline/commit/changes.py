"""The changes of one commit, to the tables and to the catalog."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.pipeline.commit.commit_intent import IntendedBatch
from app.pipeline.commit.packages import FinishedPackage, Summary
from app.pipeline.commit.tables import DataSet
from app.pipeline.finish.finish_outcomes import Result
from app.ports import Packed
from app.tables.quality import Increment


class TableChanges(NamedTuple):
    """The rows for the tables of data sets, of files, and of quality. Each call of a function is a pass over them.

    Rows of new messages are added, once for each transaction. Rows of messages that are processed again take the place
    of the rows in `replaced`, by table; other tables stay as they are.
    """

    data_sets: Callable[[], Iterable[DataSet]]
    files: Callable[[], Iterable[pa.RecordBatch]]
    quality: pa.Table
    replaced: Mapping[str, pc.Expression] | None = None


class Changes(NamedTuple):
    """What the commit of a batch changes.

    `reached` is the packed position that the catalog has after it. The packages `finished` and `messages` go to the
    catalog, and `results` one by one. The outcome counts what is `counted`; its quality, summed, is `quality`.

    Messages that are processed again change attachments that the catalog has: those `reprocessed` begin anew, and those
    `removed` are none. The quarantine entries that are `healed` become replayed. `received` is what the quality gains.
    Results in `staged` have their content under another name than the attachment's.
    """

    batch: IntendedBatch
    reached: int
    results: Callable[[], Iterable[Sequence[Result]]]
    tables: TableChanges
    counted: Summary
    quality: pa.Table
    received: tuple[Increment, ...]
    finished: Callable[[], Iterable[FinishedPackage]] = tuple
    messages: Callable[[], Iterable[Packed]] = tuple
    changed: frozenset[str] = frozenset()
    reprocessed: frozenset[str] = frozenset()
    removed: Sequence[str] = ()
    healed: Sequence[str] = ()
    staged: Sequence[Result] = ()

    @property
    def is_again(self) -> bool:
        """Return whether the messages were processed before."""
        return self.batch.again is not None
