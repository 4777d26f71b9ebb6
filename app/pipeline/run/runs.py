"""The runs of a pipeline over an archive: what was begun is ended first, then comes what is new.

Tables that are ahead of the catalog belong to a commit that was interrupted. It ends at the end of a segment, whose
position is in the tables. So the commit is repeated over the messages up to there, with the same number, before
anything else is committed. The tables ignore what they have of it.

Bodies are read once, after assembly. A damaged one must not take the place of an undamaged copy. So if there is one,
everything is read again, and all bodies are compared with their checksums before assembly.

This module does not depend on Spark: `Passes` is the work that many processes share.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, Protocol

import structlog

from app.model.errors import GatewayError
from app.model.message import Position
from app.pipeline.commit import commit_intent as intents
from app.pipeline.commit.archive_ownership import claim, warn_of_lacking_rows
from app.pipeline.commit.commit import CommittedBatch, Committer, WriteTables
from app.pipeline.commit.commit_intent import Intent, ReprocessingWindow
from app.pipeline.commit.packages import TaskResults
from app.pipeline.commit.reprocessing import Reprocessor
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job, Opened, open_job
from app.pipeline.read.segment_gaps import missing_segments, spoken
from app.pipeline.references.retired_headers import Retired, retired_headers
from app.pipeline.watch.run_records import recording
from app.ports import Catalog, Clock, TableStore
from app.service.tables.table_reader import application

log = structlog.stdlib.get_logger(__name__)


class Passes(Protocol):
    """The work over all messages of an archive, up to and including the segment `last`.

    `retired` is what the catalog knows of headers that the archive no longer has.
    """

    def news(self, job: Job, last: int, known: int | None, retired: Retired, *, checked: bool) -> TaskResults:
        """Return the results of the messages after the packed position `known`; of all messages if it is None.

        Bodies are `checked` before assembly, or else read once, when they are needed. Then what is found may be
        `damaged`.
        """

    def again(self, job: Job, last: int, window: ReprocessingWindow, retired: Retired) -> Sequence[Result]:
        """Return the results of the messages in a window, and the quality of all others."""

    def table_writer(self, job: Job) -> WriteTables:
        """Return the function that runs table tasks."""


class ReprocessingScope(NamedTuple):
    """The messages to process again: in segments from `from_segment` on, and in all that may have messages received
    from `since` (µs) on; of one source or of all."""

    from_segment: int | None = None
    since: int | None = None
    source: str | None = None


def run(
    passes: Passes, job: Job, catalog: Catalog, clock: Clock, again: ReprocessingScope | None = None
) -> CommittedBatch | None:
    """Assemble, finish and commit everything in a job's archive. Return None when it has no segment.

    With `again`, messages that were processed before are processed once more, and everything that differs is committed.

    The catalog has a record of the run. Raises GatewayError and PluginError.
    """
    with recording(catalog, clock, "batch") as record:
        record.begin()
        committed = _run(passes, job, catalog, clock, again)
        record.end(committed)
        return committed


def _run(
    passes: Passes, job: Job, catalog: Catalog, clock: Clock, again: ReprocessingScope | None
) -> CommittedBatch | None:
    job = job.anew(catalog.packing())
    done = resolve(passes, job, catalog, clock)
    opened = open_job(job)
    numbers = [segment.number for segment in opened.archive.segments()]
    if not numbers:
        return _together(done)
    missing = missing_segments(numbers)
    if missing:
        log.warning("segments_not_found", segments=spoken(missing), journal=job.journal)
    progress = catalog.progress()
    if progress is None or Position.unpack(progress).segment < numbers[-1]:
        done.append(_commit(passes, job, catalog, clock, numbers[-1], progress))
    if again is not None:
        window = ReprocessingWindow(
            max(again.from_segment or 1, first_segment_since(opened, numbers, again.since)), again.source
        )
        done.append(_reprocess(passes, job, catalog, clock, numbers[-1], window))
    if not done:
        done.append(CommittedBatch(progress or 0, was_known=True))
    together = _together(done)
    return together and together._replace(missing=missing)


def resolve(passes: Passes, job: Job, catalog: Catalog, clock: Clock) -> list[CommittedBatch | None]:
    """End the commit that an earlier run has begun. Return what this changes.

    Raises GatewayError when the results are of another journal, and when tables stay ahead of the catalog, because the
    archive lacks the segments of that commit.
    """
    opened = open_job(job)
    journal = claim(opened, catalog)
    done: list[CommittedBatch | None] = []
    begun = intents.begun(opened.stores.store)
    if begun is not None:
        log.info("commit_resumed", last_segment=begun.last_segment, again=begun.again is not None)
        if begun.again is not None:
            done.append(_reprocess(passes, job, catalog, clock, begun.last_segment, begun.again))
        else:
            known = begun.known if begun.known is not None else _before(catalog.progress(), begun.last_segment)
            done.append(_commit(passes, job, catalog, clock, begun.last_segment, known, begun.left_behind))
        intents.end(opened.stores.store)
    progress = catalog.progress()
    ahead = _ahead(opened.tables, journal, progress)
    if ahead is not None:
        last = Position.unpack(ahead).segment
        log.warning("unrecorded_commit_found", last_segment=last, progress=progress)
        done.append(_commit(passes, job, catalog, clock, last, progress, ()))
        if _ahead(opened.tables, journal, catalog.progress()) is not None:
            raise GatewayError(
                f"the tables have rows of messages up to journal segment {last}, which the catalog does not have, and "
                f"{job.journal} lacks these messages: put the missing segments back"
            )
    elif opened.tables is not None:
        warn_of_lacking_rows(opened.tables, journal, progress)
    return done


def first_segment_since(opened: Opened, numbers: Sequence[int], since: int | None) -> int:
    """Return the first segment that may have messages received from a time (µs) on, 1 without a time.

    Messages are journalled in the order of their reception. A segment whose first batch cannot be read counts as one
    that has such messages.
    """
    if since is None:
        return 1
    first = numbers[-1]
    for number in reversed(numbers):
        first = number
        try:
            received_at = opened.archive.record_batch(number, 0).column("received_at")[0].value
        except (GatewayError, KeyError, IndexError):
            continue
        if received_at < since:
            break
    return first


def _commit(
    passes: Passes,
    job: Job,
    catalog: Catalog,
    clock: Clock,
    last: int,
    known: int | None,
    left_behind: Sequence[str] | None = None,
) -> CommittedBatch | None:
    """Commit the messages after a packed position, up to and including a segment."""
    opened = open_job(job)
    committer = Committer(opened, catalog, clock, passes.table_writer(job))
    retired = _retired(opened, catalog)
    found = passes.news(job, last, known, retired, checked=False)
    if found.damaged:
        log.warning("damage_found", journal=job.journal, last_segment=last)
        found = passes.news(job, last, known, retired, checked=True)
    return committer.commit(found.results, found.packages, left_behind=left_behind)


def _retired(opened: Opened, catalog: Catalog) -> Retired:
    return retired_headers(catalog, {segment.number for segment in opened.archive.segments()})


def _reprocess(
    passes: Passes, job: Job, catalog: Catalog, clock: Clock, last: int, window: ReprocessingWindow
) -> CommittedBatch:
    opened = open_job(job)
    name = intents.journal_name(opened.archive, job.journal)
    intents.begin(opened.stores.store, Intent(name, last, again=window))
    reprocessor = Reprocessor(opened, catalog, clock, passes.table_writer(job))
    committed = reprocessor.commit(passes.again(job, last, window, _retired(opened, catalog)), window)
    intents.end(opened.stores.store)
    return committed


def _before(progress: int | None, last: int) -> int | None:
    """Return the catalog's progress if it is before a segment.

    A run that had reached its end is repeated as a whole: it may have been killed right after.
    """
    return progress if progress is not None and Position.unpack(progress).segment < last else None


def _ahead(tables: TableStore | None, journal: str, progress: int | None) -> int | None:
    """Return the last transaction of the tables if the catalog has not reached it."""
    if tables is None:
        return None
    ours = application(journal)
    reached = [number for name in tables.names() if (number := tables.reached(name, ours)) is not None]
    return max((number for number in reached if progress is None or number > progress), default=None)


def _together(done: Sequence[CommittedBatch | None]) -> CommittedBatch | None:
    runs = [each for each in done if each is not None]
    if not runs:
        return None
    return CommittedBatch(
        reached=max(each.reached for each in runs),
        finished=sum(each.finished for each in runs),
        refused=sum(each.refused for each in runs),
        quarantined=sum(each.quarantined for each in runs),
        duplicates=sum(each.duplicates for each in runs),
        conflicts=sum(each.conflicts for each in runs),
        tables=tuple(chain.from_iterable(each.tables for each in runs)),
        was_known=all(each.was_known for each in runs),
        damaged=tuple(sorted(set(chain.from_iterable(each.damaged for each in runs)))),
        quality=tuple(chain.from_iterable(each.quality for each in runs)),
        received=tuple(chain.from_iterable(each.received for each in runs)),
        traced=tuple(chain.from_iterable(each.traced for each in runs)),
        began_at=min((each.began_at for each in runs if each.began_at), default=0),
        ended_at=max(each.ended_at for each in runs),
    )
