"""A batch: messages of a journal archive on their way into the tables and the catalog.

`process` has the steps of a batch in their order. `run` processes all batches that are due: what was begun is ended
first, then comes what is new.

Tables that are ahead of the catalog belong to a commit that was interrupted. It ends at the end of a segment, whose
position is in the tables. So the commit is repeated over the messages up to there, with the same number, before
anything else is committed. The tables ignore what they have of it.

Bodies are read once, after assembly. A damaged one must not take the place of an undamaged copy. So if there is one,
everything is read again, and all bodies are compared with their checksums before assembly.

This module does not depend on Spark: `Steps` is the work that many processes share.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

import structlog

from app.model.errors import GatewayError
from app.model.message import Position
from app.pipeline.assemble.earlier_state import (
    NOTHING_EARLIER,
    EarlierState,
    Keys,
    of_earlier_batches,
    of_gone_headers,
)
from app.pipeline.commit import commit_intent as intents
from app.pipeline.commit.archive_ownership import claim, marked, warn_of_lacking_rows
from app.pipeline.commit.commit import CommittedBatch, Committer
from app.pipeline.commit.commit_intent import IntendedBatch, ReprocessingWindow
from app.pipeline.commit.packages import Findings
from app.pipeline.commit.tables import TableTask, Written
from app.pipeline.job.job import OpenJob, OpenRun
from app.pipeline.read.journal_archives import Gaps, first_received_at, missing_segments, spoken
from app.pipeline.read.segment_shares import admitted
from app.pipeline.watch.run_records import recording
from app.ports import Segment, TableStore
from app.service.tables.table_reader import application

Rows = TypeVar("Rows")

log = structlog.stdlib.get_logger(__name__)


class Steps(Protocol[Rows]):
    """The steps that many processes share. `Rows` is how they hold references between two steps."""

    def read_references(self, run: OpenRun, batch: IntendedBatch, *, checked: bool) -> AbstractContextManager[Rows]:
        """Read the segments of a batch, and provide the references of its messages for the block.

        Bodies are `checked` here, or else read once, when they are needed.
        """

    def keys(self, run: OpenRun, references: Rows) -> Keys:
        """Return the keys of the references, and those that the headers among them announce."""

    def read_headers(self, run: OpenRun, references: Rows, earlier: EarlierState) -> Rows:
        """Read the headers among the references. Return the references to what they announce, and to what is known
        from earlier."""

    def assemble_and_finish(
        self, run: OpenRun, references: Rows, headers: Rows, batch: IntendedBatch, *, checked: bool
    ) -> AbstractContextManager[Findings]:
        """Assemble the attachments of a batch, finish their content, and provide the results for the block.

        If bodies were not `checked`, the results may be `damaged`.
        """

    def write_tables(self, opened: OpenJob, tasks: Sequence[TableTask]) -> Iterable[Written]:
        """Write the files of tables, in the order of the tasks."""


class ReprocessingScope(NamedTuple):
    """The messages to process again: in segments from `from_segment` on, and in all that may have messages received
    from `since` (µs) on; of one source or of all."""

    from_segment: int | None = None
    since: int | None = None
    source: str | None = None


def run(
    steps: Steps[Rows], run: OpenRun, again: ReprocessingScope | None = None, *, until: int | None = None
) -> CommittedBatch | None:
    """Process everything in an archive, in batches of at most `commit_bytes` of its job. Return None when it has no
    segment.

    With `until` (µs), new messages are processed up to the last segment that begins with one received before. With
    `again`, messages that were processed before are processed once more, and everything that differs is committed.

    The catalog has a record of the run. Raises GatewayError.
    """
    with recording(run.catalog, run.clock, "batch") as record:
        record.begin()
        done = [process(steps, run, batch) for batch in unfinished(run)]
        segments = run.archive.segments()
        if missing := missing_segments([segment.number for segment in segments]):
            log.warning("segments_not_found", segments=spoken(missing), journal=run.job.journal)
        if segments:
            done += [process(steps, run, batch) for batch in _new(run, segments, again, until)]
            done = done or [CommittedBatch(run.catalog.progress() or 0, was_known=True)]
        committed = _together(done, missing)
        record.end(committed)
        return committed


def process(steps: Steps[Rows], run: OpenRun, batch: IntendedBatch, *, checked: bool = False) -> CommittedBatch | None:
    """Take a batch through all steps. Return None for a batch without messages.

    Unless bodies are `checked` before assembly from the start, the steps are repeated so when one is damaged.
    """
    if batch.again is not None:
        intents.begin(run.stores.store, batch)  # from here on, there are objects that only this commit deletes
    committer = Committer(run, partial(steps.write_tables, run))
    checked = checked or batch.again is not None
    while True:
        with steps.read_references(run, batch, checked=checked) as references:
            earlier = earlier_state(run, batch, partial(steps.keys, run, references))
            headers = steps.read_headers(run, references, earlier)
            with steps.assemble_and_finish(run, references, headers, batch, checked=checked) as found:
                if checked or not found.damaged:
                    return committer.commit(found, batch)
        log.warning("damage_found", journal=run.job.journal, last_segment=batch.last_segment)
        checked = True


def earlier_state(run: OpenRun, batch: IntendedBatch, keys: Callable[[], Keys]) -> EarlierState:
    """Return what the catalog has of the keys of a batch. The keys are asked for only if it may have any."""
    if batch.known is not None:
        return of_earlier_batches(run.catalog, run.archive, batch.known, keys())
    present = {segment.number for segment in run.archive.segments()}
    if run.catalog.progress() is not None and missing_segments(sorted(present)):
        return of_gone_headers(run.catalog, present, keys())
    return NOTHING_EARLIER


# --- which batches are due --------------------------------------------------------------------------------------------


def _new(
    run: OpenRun, segments: Sequence[Segment], again: ReprocessingScope | None, until: int | None
) -> Iterator[IntendedBatch]:
    """Yield the batches of the segments that are new, and the batch of messages to process again."""
    journal, progress = intents.journal_name(run.archive, run.job.journal), run.catalog.progress()
    reached = 0 if progress is None else Position.unpack(progress).segment
    later = [] if until is None else [some[count] for some, count in _begun_before(run, until) if count < len(some)]
    coming = [segment for segment in segments if not later or segment.number < min(later)]
    while (end := admitted((each for each in coming if each.number > reached), run.job.commit_bytes, None)) is not None:
        yield IntendedBatch(journal, end, run.catalog.progress())
        reached = end
    if again is not None:
        begun = () if again.since is None else _begun_before(run, again.since)
        since = min((some[max(count - 1, 0)] for some, count in begun), default=1)
        first = max(again.from_segment or 1, since)
        yield IntendedBatch(journal, segments[-1].number, again=ReprocessingWindow(first, again.source))


def _begun_before(run: OpenRun, time: int) -> Iterator[tuple[list[int], int]]:
    """Yield the segments of each journal, and how many of them there are up to the last one that begins with a message
    received before a time (µs).

    A segment whose first message cannot be read counts as one that begins later.
    """
    for numbers in run.archive.sequences():
        count = len(numbers)
        while count:
            received_at = first_received_at(run.archive, numbers[count - 1])
            if received_at is not None and received_at < time:
                break
            count -= 1
        yield numbers, count


def unfinished(run: OpenRun) -> Iterator[IntendedBatch]:
    """Yield the batch whose commit an earlier run has begun. It is committed before the next one is asked for.

    Raises GatewayError when the results are of another journal, and when tables stay ahead of the catalog, because the
    archive lacks the segments of that commit.
    """
    journal, store = claim(run), run.stores.store
    begun = intents.begun(store)
    if begun is not None:
        log.info("commit_resumed", last_segment=begun.last_segment, again=begun.again is not None)
        known, progress = begun.known, run.catalog.progress()
        # A run that had reached its end is repeated as a whole: it may have been killed right after.
        if known is None and progress is not None and Position.unpack(progress).segment < begun.last_segment:
            known = progress
        yield begun._replace(journal=journal, known=known)
        intents.end(store)
    progress = run.catalog.progress()
    ahead = _ahead(run.tables, journal, progress)
    if ahead is not None:
        last = Position.unpack(ahead).segment
        log.warning("unrecorded_commit_found", last_segment=last, progress=progress)
        yield IntendedBatch(journal, last, progress, left_behind=())
        if _ahead(run.tables, journal, run.catalog.progress()) is not None:
            raise GatewayError(
                f"the tables have rows of messages up to journal segment {last}, which the catalog does not have, and "
                f"{run.job.journal} lacks these messages: put the missing segments back"
            )
    elif run.tables is not None:
        warn_of_lacking_rows(run.tables, journal, progress)


def _ahead(tables: TableStore | None, journal: str, progress: int | None) -> int | None:
    """Return the last transaction of the tables if the catalog has not reached it.

    Other tables are not asked than those that show all transactions: a run takes as long however many there are.
    """
    if tables is None:
        return None
    ours = application(journal)
    reached = [number for name in marked(tables) if (number := tables.reached(name, ours)) is not None]
    return max((number for number in reached if progress is None or number > progress), default=None)


def _together(done: Sequence[CommittedBatch | None], missing: Gaps) -> CommittedBatch | None:
    """Return the outcome of all batches of a run; None if there was nothing to process."""
    batches = [each for each in done if each is not None]
    if not batches:
        return None
    return CommittedBatch(
        reached=max(each.reached for each in batches),
        finished=sum(each.finished for each in batches),
        refused=sum(each.refused for each in batches),
        quarantined=sum(each.quarantined for each in batches),
        duplicates=sum(each.duplicates for each in batches),
        conflicts=sum(each.conflicts for each in batches),
        tables=tuple(chain.from_iterable(each.tables for each in batches)),
        was_known=all(each.was_known for each in batches),
        damaged=tuple(sorted(set(chain.from_iterable(each.damaged for each in batches)))),
        missing=missing,
        quality=tuple(chain.from_iterable(each.quality for each in batches)),
        received=tuple(chain.from_iterable(each.received for each in batches)),
        traced=tuple(chain.from_iterable(each.traced for each in batches)),
        began_at=min((each.began_at for each in batches if each.began_at), default=0),
        ended_at=max(each.ended_at for each in batches),
    )
