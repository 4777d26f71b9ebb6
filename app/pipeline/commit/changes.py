"""The changes of one commit, to the tables and to the catalog."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.pipeline.commit.commit_intent import IntendedBatch
from app.pipeline.commit.packages import Package
from app.pipeline.commit.tables import DataSet
from app.pipeline.finish.finish_outcomes import Result
from app.span_names import Added
from app.tables.quality import Increment


class TableChanges(NamedTuple):
    """The rows for the tables of data sets, of files, and of quality.

    Rows of new messages are added, once for each transaction. Rows of messages that are processed again take the place
    of the rows in `replaced`, by table; other tables stay as they are.
    """

    data_sets: Sequence[DataSet]
    files: pa.Table
    quality: pa.Table
    replaced: Mapping[str, pc.Expression] | None = None


class Changes(NamedTuple):
    """What the commit of a batch changes.

    `reached` is the packed position that the catalog has after it. `results` and `packages` go to the catalog.
    `finished` are the attachments whose rows the tables get. `counted` are the results that the outcome counts, with
    this `quality`, and `damaged` the segments with damaged messages. `traced` are finished attachments with a trace.

    Messages that are processed again change attachments that the catalog has: those `reprocessed` begin anew, and those
    `removed` are none. The quarantine entries that are `healed` become replayed. `received` is what the quality gains.
    """

    batch: IntendedBatch
    reached: int
    results: Sequence[Result]
    tables: TableChanges
    counted: Sequence[Result]
    quality: pa.Table
    damaged: tuple[int, ...]
    finished: frozenset[str] = frozenset()
    packages: Sequence[Package] = ()
    traced: Sequence[Added] = ()
    changed: frozenset[str] = frozenset()
    reprocessed: frozenset[str] = frozenset()
    removed: Sequence[str] = ()
    healed: Sequence[str] = ()
    received: tuple[Increment, ...] = ()

    @property
    def is_again(self) -> bool:
        """Return whether the messages were processed before."""
        return self.batch.again is not None
