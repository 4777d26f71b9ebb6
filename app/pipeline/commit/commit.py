"""Commit of results to the tables and then to the catalog: a batch is visible as a whole or not at all.

A batch is identified by the packed journal position that it ends at, which only grows. It is the number of the tables'
transaction, and the catalog's progress; neither accepts a number that it has reached. A job that is killed at any
moment runs the same batch again (`app.pipeline.commit.commit_intent`). Then content objects are written again under the
same names with the same bytes, tables that have the batch ignore it, and the catalog, which comes last, records that it
is done. Only one process may commit: a catalog that has changed meanwhile refuses the batch.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from app.assembly.states import DONE
from app.model.attachment import AttachmentState
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import AttachmentRecord, Checkpoint, MessageRecord
from app.pipeline.commit import tables
from app.pipeline.commit.archive_ownership import claim
from app.pipeline.commit.changes import Changes, TableChanges
from app.pipeline.commit.commit_intent import IntendedBatch, begin, end
from app.pipeline.commit.packages import Package, TaskResults, finished_in, results_in, without
from app.pipeline.commit.reprocessing import Reprocessing, replace_rows
from app.pipeline.commit.result_changes import (
    begun,
    checkpoint_of,
    damaged_segments,
    data_sets,
    dated,
    files,
    ids_of,
    qualities,
    traces,
)
from app.pipeline.commit.tables import CommittedTable, TableTask, Written
from app.pipeline.finish.finish_outcomes import Result, with_content
from app.pipeline.job.job import OpenRun
from app.pipeline.read.segment_gaps import Gaps
from app.ports import PACKED_AT_ONCE
from app.service.assembling import finished_in_checkpoint
from app.service.assembling.finished_in_checkpoint import lacks_only_attachments
from app.service.events.event_entries import complete_messages, lone_message_events
from app.service.events.event_spans import ratio_of
from app.service.finishing.finished_contents import read_or_reject
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.tables.table_reader import application
from app.span_names import Added
from app.tables.quality import Increment, hour_of, increments, quality_rows

AT_ONCE = 5000
"""The number of finished attachments that the catalog takes in one transaction."""

WriteTables = Callable[[Sequence[TableTask]], Iterable[Written]]
"""A function that runs table tasks, in this process or in others."""


class CommittedBatch(NamedTuple):
    """The outcome of a batch.

    `reached` is the packed position that it ended at. It `was_known` when an earlier run had committed it. `damaged`
    are the numbers of segments with damaged messages, and `missing` the gaps in the archive's numbers. `quality` has
    its facts about receiving, by source and hour. `received` are those among them that no earlier run has counted.
    `traced` are the attachments with a trace whose rows it has added, between two times (µs).
    """

    reached: int
    finished: int = 0
    refused: int = 0
    quarantined: int = 0
    duplicates: int = 0
    conflicts: int = 0
    tables: tuple[CommittedTable, ...] = ()
    was_known: bool = False
    damaged: tuple[int, ...] = ()
    missing: Gaps = ()
    quality: tuple[Increment, ...] = ()
    received: tuple[Increment, ...] = ()
    traced: tuple[Added, ...] = ()
    began_at: int = 0
    ended_at: int = 0


class Committer:
    """Commits the batches of a run, one after the other, in the driver's process.

    `progress` is the packed position that the catalog has reached.
    """

    def __init__(self, run: OpenRun, write_tables: WriteTables) -> None:
        self._run, self._catalog, self._clock, self._write_tables = run, run.catalog, run.clock, write_tables
        self.progress = run.catalog.progress()
        self._journal: str | None = None

    def commit(self, found: TaskResults, batch: IntendedBatch | None = None) -> CommittedBatch | None:
        """Commit what a batch has found. Return None for new messages if there are none.

        Without `batch`, it is all messages after the last commit. Attachments that are complete in the catalog are
        finished with new messages, unless `batch.left_behind` limits them.

        Raises GatewayError when another process has committed since the last batch, or since this object was made.
        """
        again = None if batch is None else batch.again
        if again is None and not found:
            return None
        if self._journal is None:
            self._journal = claim(self._run)
        now = self._clock.now()
        if batch is not None and again is not None:
            self._require_alone()
            return self._commit(Reprocessing(self._run, batch, again).changes(found.results, now), now)
        reached = max(*(each.reached for each in found.results), *(each.reached for each in found.packages), 0)
        progress = self._catalog.progress()
        if progress is not None and progress >= reached:
            results = [*found.results, *results_in(found.packages, self._catalog)]
            self._drop_unfinished(results)
            # The run that committed the batch may have ended before it completed its messages.
            waiting = filter(lacks_only_attachments, self._catalog.incomplete_messages())
            complete_messages(self._catalog, [*chain.from_iterable(each.attachments for each in waiting)], now)
            return CommittedBatch(reached, was_known=True)
        self._require_alone()
        return self._commit(self._new(found, reached, None if batch is None else batch.left_behind, now), now)

    def _require_alone(self) -> None:
        if self._catalog.progress() != self.progress:
            raise GatewayError(
                "another process commits to this catalog: stop the other pipeline, or the gateway that assembles"
            )

    def _commit(self, changes: Changes, now: int) -> CommittedBatch:
        store = self._run.stores.store
        begin(store, changes.batch)
        added = self._commit_tables(changes)
        self._require_alone()
        self._place(changes.results)
        complete = self._commit_catalog(changes, now)
        if not changes.is_again:
            self.progress = changes.reached
        self._complete_messages(changes.results, complete, changes.packages)
        if staged := [result.staged_object for result in changes.results if result.staged_object is not None]:
            store.delete_all(staged)
        end(store)
        return outcome(changes, added, now, self._clock.now())

    # --- new messages -------------------------------------------------------------------------------------------------

    def _new(self, found: TaskResults, reached: int, left_behind: Collection[str] | None, now: int) -> Changes:
        known, packages = self._apart(found.packages)
        results = [*found.results, *known]
        others = list(self._left_behind(results, reached, left_behind))
        results = self._completed([*results, *others], now)
        left = tuple(other.record.id for other in others if other.record is not None)
        quality = quality_rows(chain(qualities(results), *(package.quality for package in packages)))
        # An earlier batch has finished these, or they have been deleted meanwhile.
        over = {record.id for record in self._known(results) if record.state in DONE}
        finished = [result for result in results if result.finished is not None and result.record is not None]
        news = [result for result in finished if result.record is not None and result.record.id not in over]
        packaged = (tables.with_finished_at(package.files, now) for package in packages)
        return Changes(
            IntendedBatch(self._journal or "", Position.unpack(reached).segment, self.progress, left),
            reached,
            results,
            TableChanges(
                [*data_sets(news), *chain.from_iterable(package.data_sets for package in packages)],
                pa.concat_tables([tables.file_rows(files(news)), *packaged]),
                quality,
            ),
            counted=results,
            quality=quality,
            damaged=damaged_segments(results),
            finished=frozenset(ids_of(news)),
            traced=tuple(chain(traces(news), *(package.traces for package in packages))),
            packages=packages,
            received=tuple(increments(quality)),
        )

    def _apart(self, packages: Sequence[Package]) -> tuple[list[Result], list[Package]]:
        """Return the results of attachments that the catalog has, and the packages without them."""
        asked = [*chain.from_iterable(package.attachments for package in packages)]
        known = {record.id for record in self._catalog.attachments_by_id(asked)}
        results: list[Result] = []
        others: list[Package] = []
        for package in packages:
            some = known.intersection(package.attachments)
            results += finished_in(package, self._catalog, some)
            others.append(without(package, some))
        return results, others

    def _completed(self, results: Iterable[Result], now: int) -> list[Result]:
        """Return results with the time (µs) of finishing, and with the traces that begin here."""
        ratio = ratio_of(self._run.stores.settings.traces)
        return [begun(dated(result, now), ratio) for result in results]

    def _known(self, results: Iterable[Result]) -> list[AttachmentRecord]:
        """Return the catalog's records of the finished attachments."""
        return self._catalog.attachments_by_id(
            [result.finished.id for result in results if result.finished is not None]
        )

    # --- tables and catalog -------------------------------------------------------------------------------------------

    def _commit_tables(self, changes: Changes) -> tuple[CommittedTable, ...]:
        store, rows = self._run.tables, changes.tables
        if store is None:
            return ()
        transaction = application(changes.batch.journal), changes.reached
        plans = (
            tables.plan(store, rows.data_sets, *transaction)
            if rows.replaced is None
            else tables.plan_again(store, rows.data_sets)
        )
        written = list(self._write_tables([task for plan in plans for task in plan.tasks]))
        if rows.replaced is not None:
            return tuple(replace_rows(store, rows, plans, written))
        committed = tables.commit(plans, written, store, *transaction)
        own = ((tables.FILES, rows.files), (tables.QUALITY, rows.quality))
        appended = [tables.append(store, name, each, *transaction) for name, each in own]
        return (*committed, *(each for each in appended if each is not None))

    def _place(self, results: Iterable[Result]) -> None:
        """Give staged content the name of its attachment's object."""
        store = self._run.stores.store
        for result in results:
            name = None if result.finished is None else result.finished.object_name
            if result.staged_object is not None and name is not None:
                with store.create(name) as target:
                    for piece in store.read(result.staged_object):
                        target.write(piece)

    def _commit_catalog(self, changes: Changes, now: int) -> set[str]:
        """Save changes in the catalog, most of them in transactions before the last one.

        Those change nothing if the batch is run again. Return the messages that new ones complete, of which all
        attachments are finished with this batch.
        """
        added, refused = self._add_finished(changes.packages, now)
        complete = self._add_messages(added, now)
        finished = changes.finished.union(*(package.attachments for package in added))
        results = [*changes.results, *self._completed(results_in(refused, self._catalog), now)]
        *earlier, last = _transactions(results, changes)
        for some in earlier:
            finished -= self._take(_checkpoint(some, changes, now))
        checkpoint = _checkpoint(last, changes, now)
        checkpoint.removed_attachments += changes.removed
        if not changes.is_again:
            checkpoint.progress = changes.reached
            messages = chain.from_iterable(result.messages for result in results)
            checkpoint.events += lone_message_events(filter(_is_answered, messages), now)
            complete |= finished_in_checkpoint.complete(checkpoint, finished, now)
        self._take(checkpoint)
        for entry in changes.healed:
            self._catalog.set_quarantine_state(entry, "replayed")
        return complete

    def _add_finished(self, packages: Iterable[Package], now: int) -> tuple[list[Package], list[Package]]:
        """Add the attachments of packages to the catalog. Return the packages that it has taken, and those with
        attachments that have come to it meanwhile."""
        added: list[Package] = []
        refused: list[Package] = []
        for some in _groups([package for package in packages if package.attachments]):
            if self._adds_finished(some, now):
                added += some
                continue
            for package in some:
                is_added = len(some) > 1 and self._adds_finished([package], now)
                (added if is_added else refused).append(package)
        return added + [package for package in packages if not package.attachments], refused

    def _adds_finished(self, packages: Sequence[Package], now: int) -> bool:
        left_out = frozenset().union(*(package.left_out for package in packages))
        return self._catalog.add_finished([package.finished_rows for package in packages], now, left_out)

    def _add_messages(self, packages: Sequence[Package], now: int) -> set[str]:
        """Add the messages of packages. Return the complete ones: all of their attachments are in packages."""
        finished = set().union(*(package.attachments for package in packages))
        complete: set[str] = set()
        for some in _groups([package for package in packages if package.messages]):
            messages = [*chain.from_iterable(package.messages.items() for package in some)]
            done = {each for each, attachments in messages if finished.issuperset(attachments)}
            incomplete = [each for each, _ in messages if each not in done]
            self._catalog.add_messages([package.message_rows for package in some], incomplete, now)
            complete |= done
        return complete

    def _take(self, checkpoint: Checkpoint) -> set[str]:
        """Save a checkpoint. Return the attachments that could not be finished."""
        objects = {finished.id: finished.object_name for finished in checkpoint.finished}
        missed = self._catalog.checkpoint(checkpoint)
        for attachment_id in missed:
            record = self._catalog.attachment(attachment_id)
            name = objects.get(attachment_id)
            if name is not None and record is not None and record.state is AttachmentState.DELETED:
                self._run.stores.store.delete(name)
        return missed

    def _drop_unfinished(self, results: Sequence[Result]) -> None:
        """Delete the content of attachments that are not finished, although an earlier run committed the batch: this
        run has written it.

        They were deleted meanwhile, or the archive has segments now that it had not then.
        """
        objects = {result.finished.id: result.finished.object_name for result in results if result.finished is not None}
        finished = {record.id for record in self._known(results) if record.state is AttachmentState.FINISHED}
        for attachment_id, name in objects.items():
            if name is not None and attachment_id not in finished:
                self._run.stores.store.delete(name)

    def _left_behind(self, results: Sequence[Result], reached: int, only: Collection[str] | None) -> Iterator[Result]:
        """Yield results of attachments that are complete in the catalog and not in this batch.

        An operator has requested another attempt, or the gateway assembled them and had no time to finish them.
        """
        found = {each.id for result in results for each in (result.finished, result.refused) if each is not None}
        for record in self._catalog.complete_attachments():
            if record.id in found or (only is not None and record.id not in only):
                continue
            quality = Increment(record.source, hour_of(record.first_received_at))
            complete, stores = CompleteAttachment(record, self._catalog.part_runs(record.id)), self._run.stores
            yield with_content(Result(reached, quality, record), read_or_reject(complete, stores), stores)

    def _complete_messages(
        self, results: Sequence[Result], complete: Container[str] = (), packages: Sequence[Package] = ()
    ) -> None:
        """Complete the messages that these results leave without anything missing, apart from those that are."""
        finished = [
            ((each.record and each.record.message_id) or "", each.finished.id)
            for each in results
            if each.finished is not None
        ]
        finished += [(message or "", each) for package in packages for each, message in package.attachments.items()]
        # The catalog asks once for attachments of one message that are together.
        waiting = [each for message, each in sorted(pair for pair in finished if pair[0] not in complete)]
        messages = (message for result in results for message in result.messages if message.id not in complete)
        answered = [message for message in messages if _is_answered(message)]
        listed = [attachment for message in answered for attachment in message.attachments]
        for package in packages:
            listed += chain.from_iterable(found for each, found in package.messages.items() if each not in complete)
        complete_messages(self._catalog, [*waiting, *listed], self._clock.now())


def _groups(packages: Sequence[Package]) -> Iterator[Sequence[Package]]:
    """Yield packages that one transaction takes. Each of these writes most pages of the catalog's indexes once, since
    identifiers have no order."""
    return (packages[at : at + PACKED_AT_ONCE] for at in range(0, len(packages), PACKED_AT_ONCE))


def _transactions(results: Sequence[Result], changes: Changes) -> list[list[Result]]:
    """Return the results of each transaction. Those of new messages that are unfinished are in the last one, with its
    progress."""
    finished = [result for result in results if result.finished is not None]
    rest = [result for result in results if result.finished is None]
    beforehand = [*finished, *rest] if changes.is_again else finished
    split = len(beforehand) - len(beforehand) % AT_ONCE
    last = beforehand[split:] if changes.is_again else [*beforehand[split:], *rest]
    return [*(beforehand[start : start + AT_ONCE] for start in range(0, split, AT_ONCE)), last]


def _checkpoint(results: Sequence[Result], changes: Changes, now: int) -> Checkpoint:
    checkpoint = checkpoint_of(results, now)
    checkpoint.reprocessed = [each.id for each in checkpoint.attachments if each.id in changes.reprocessed]
    return checkpoint


def _is_answered(message: MessageRecord) -> bool:
    return message.application_body is not None


def outcome(changes: Changes, added: tuple[CommittedTable, ...], began_at: int, ended_at: int) -> CommittedBatch:
    """Return the outcome of committed changes, which have `added` rows to these tables."""
    quality = tuple(increments(changes.quality))
    quarantined = sum(len(result.quarantine) for result in changes.counted)
    changed_tables = {each.table for each in added}
    is_same = not (changes.changed or changes.removed or changes.healed or added or quarantined)
    packaged = sum(len(package.attachments) for package in changes.packages)
    return CommittedBatch(
        changes.reached,
        finished=sum(result.finished is not None for result in changes.counted) + packaged,
        refused=sum(result.refused is not None for result in changes.counted),
        quarantined=quarantined,
        duplicates=sum(each.duplicates for each in quality),
        conflicts=sum(each.conflicts for each in quality),
        tables=added,
        was_known=changes.is_again and is_same,
        damaged=changes.damaged,
        quality=quality,
        received=changes.received,
        traced=tuple(each for each in changes.traced if each.table in changed_tables),
        began_at=began_at,
        ended_at=ended_at,
    )
