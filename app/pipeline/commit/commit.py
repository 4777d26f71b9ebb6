"""Commit of results to the tables and then to the catalog: a batch is visible as a whole or not at all.

A batch is identified by the packed journal position that it ends at, which only grows. It is the number of the tables'
transaction, and the catalog's progress; neither accepts a number that it has reached. A job that is killed at any
moment runs the same batch again (`app.pipeline.commit.commit_intent`). Then content objects are written again under the
same names with the same bytes, tables that have the batch ignore it, and the catalog, which comes last, records that it
is done. Only one process may commit: a catalog that has changed meanwhile refuses the batch.
"""

import pickle
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from io import SEEK_END
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from app.assembly.states import DONE
from app.model.attachment import AttachmentState
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import Checkpoint, MessageRecord, NewEvent
from app.pipeline.commit import tables
from app.pipeline.commit.archive_ownership import claim
from app.pipeline.commit.changes import Changes, TableChanges
from app.pipeline.commit.commit_intent import IntendedBatch, begin, end
from app.pipeline.commit.packages import Findings, FinishedPackage, Summary, finished_in
from app.pipeline.commit.reprocessing import Reprocessing, replace_rows
from app.pipeline.commit.result_changes import checkpoint_of, dated
from app.pipeline.commit.tables import CommittedTable, DataSet, TableTask, Written
from app.pipeline.finish.finish_outcomes import Result, with_content
from app.pipeline.job.job import OpenRun
from app.pipeline.read.journal_archives import Gaps
from app.ports import PACKED_AT_ONCE
from app.service.assembling import finished_in_checkpoint
from app.service.events.event_entries import complete_messages, lone_message_events
from app.service.finishing.finished_contents import read_or_reject
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.tables.table_reader import application
from app.span_names import Added
from app.tables.quality import Increment, hour_of, increments, quality_rows

AT_ONCE = 5000
"""The number of finished attachments that the catalog takes in one transaction."""

WAITING_BYTES = 16 << 20
"""The size of the results for the last transaction that wait in memory. More of them wait in a temporary file."""

T = TypeVar("T")

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

    def commit(self, found: Findings, batch: IntendedBatch | None = None) -> CommittedBatch | None:
        """Commit what a batch has found. Return None for new messages if there are none.

        Without `batch`, it is all messages after the last commit. Attachments that are complete in the catalog are
        finished with new messages, unless `batch.left_behind` limits them.

        Raises GatewayError when another process has committed since the last batch, or since this object was made.
        """
        again = None if batch is None else batch.again
        if again is None and found.reached is None:
            return None
        if self._journal is None:
            self._journal = claim(self._run)
        now = self._clock.now()
        if batch is not None and again is not None:
            self._require_alone()
            asked = [*chain.from_iterable(found.results())]
            return self._commit(Reprocessing(self._run, batch, again).changes(asked, now), now)
        reached = found.reached or 0
        progress = self._catalog.progress()
        if progress is not None and progress >= reached:
            self._drop_unfinished(found)
            # The run that committed the batch may have ended before it completed its messages.
            complete_messages(self._catalog, self._catalog.left_to_complete(), now)
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
        if self._catalog.receipt_log() is not None and (versions := self._versions(changes, added)):
            self._catalog.save_receipt_tables(now, versions)
        self._place(changes.staged)
        self._commit_catalog(changes, now)
        if not changes.is_again:
            self.progress = changes.reached
        if staged := [result.staged_object for result in changes.staged if result.staged_object is not None]:
            store.delete_all(staged)
        end(store)
        return outcome(changes, added, now, self._clock.now())

    # --- new messages -------------------------------------------------------------------------------------------------

    def _new(self, found: Findings, reached: int, only: Collection[str] | None, now: int) -> Changes:
        if others := [*self._left_behind(found, reached, only)]:
            found = found.also(others, self._run.job)
        counted, quality = _summed(found.summaries())
        left = tuple(other.record.id for other in others if other.record is not None)
        return Changes(
            IntendedBatch(self._journal or "", Position.unpack(reached).segment, self.progress, left),
            reached,
            lambda: ([dated(result, now) for result in some] for some in found.results()),
            TableChanges(lambda: self._new_data_sets(found), lambda: self._new_files(found, now), quality),
            counted,
            quality,
            tuple(increments(quality)),
            finished=found.finished,
            messages=found.messages,
        )

    def _new_data_sets(self, found: Findings) -> Iterator[DataSet]:
        for some in found.data_sets():
            over = self._over([each.attachment for each in some])
            yield from (each for each in some if each.attachment not in over)

    def _new_files(self, found: Findings, now: int) -> Iterator[pa.RecordBatch]:
        for rows in found.files():
            attachments = rows.column("attachment")
            if over := self._over(attachments.to_pylist()):
                is_over = pc.is_in(attachments, pa.array([*over], pa.string()))
                yield from tables.with_finished_at(rows.filter(pc.invert(is_over)), now).to_batches()
            else:
                yield from tables.with_finished_at(rows, now).to_batches()

    def _over(self, attachments: Sequence[str]) -> set[str]:
        """Return the attachments that an earlier batch has finished, or that have been deleted meanwhile."""
        return {record.id for record in self._catalog.attachments_by_id(attachments) if record.state in DONE}

    # --- tables and catalog -------------------------------------------------------------------------------------------

    def _commit_tables(self, changes: Changes) -> tuple[CommittedTable, ...]:
        store, rows = self._run.tables, changes.tables
        if store is None:
            return ()
        if rows.replaced is not None:
            plans = tables.plan_again(store, rows.data_sets())
            return tuple(replace_rows(store, rows, plans, self._written(tables.tasks(plans, rows.data_sets()))))
        to = application(changes.batch.journal), changes.reached
        batches = rows.quality.to_batches()
        added = [tables.append(store, tables.QUALITY, rows.quality.schema, batches, *to, marks=True)]
        plans = tables.plan(store, rows.data_sets(), *to)
        if plans:
            added += tables.commit(plans, self._written(tables.tasks(plans, rows.data_sets())), store, *to)
        added.append(tables.append(store, tables.FILES, tables.FILES_SCHEMA, rows.files(), *to))
        return tuple(each for each in added if each is not None)

    def _versions(self, changes: Changes, added: Iterable[CommittedTable]) -> dict[str, int]:
        """Return the versions of tables with the rows of a batch: they are in receipts. `added` lacks those tables that
        an interrupted commit of the batch has changed, and that of quality is the first of these."""
        versions = {each.table: each.version for each in added}
        store = self._run.tables
        if store is None or changes.is_again or tables.QUALITY in versions:
            return versions
        names = {tables.table_name(each.library, each.member) for each in changes.tables.data_sets()} | {tables.FILES}
        for name in names - versions.keys():
            version = store.version_with(name, application(changes.batch.journal), changes.reached)
            if version is not None:
                versions[name] = version
        return versions

    def _written(self, tasks: Iterable[Sequence[TableTask]]) -> Iterator[Written]:
        return chain.from_iterable(map(self._write_tables, tasks))

    def _place(self, results: Iterable[Result]) -> None:
        """Give staged content the name of its attachment's object."""
        store = self._run.stores.store
        for result in results:
            name = None if result.finished is None else result.finished.object_name
            if result.staged_object is not None and name is not None:
                with store.create(name) as target:
                    for piece in store.read(result.staged_object):
                        target.write(piece)

    def _commit_catalog(self, changes: Changes, now: int) -> None:
        """Save changes in the catalog, most of them in transactions before the last one.

        Those change nothing if the batch is run again. Finished attachments come before messages: the catalog knows
        then which of these are complete. Whatever comes later completes the others.
        """
        self._add_finished(changes.finished(), now)
        for some in _groups(changes.messages()):
            self._catalog.add_messages(some, now)
        with SpooledTemporaryFile(WAITING_BYTES) as waiting:
            early: list[Result] = []
            for result in chain.from_iterable(changes.results()):
                if not changes.is_again and (result.finished is None or result.messages):
                    pickle.dump(result, waiting)
                    continue
                early.append(result)
                if len(early) == AT_ONCE:
                    self._take([_checkpoint(early, changes, now)])
                    self._complete_messages(early)
                    early = []
            self._take_last(early, waiting, changes, now)
        for entry in changes.healed:
            self._catalog.set_quarantine_state(entry, "replayed")

    def _add_finished(self, packages: Iterable[FinishedPackage], now: int) -> None:
        """Add the attachments of packages to the catalog. Those that it has already are changed one by one."""
        for some in _groups(packages):
            known: set[str] = set()
            while not self._catalog.add_finished([package.rows for package in some], now, known):
                asked = [*chain.from_iterable(package.attachments for package in some)]
                known = {record.id for record in self._catalog.attachments_by_id(asked)}
            for package in some if known else ():
                found = finished_in(package, self._catalog, known)
                for at in range(0, len(found), AT_ONCE):
                    results = [dated(result, now) for result in found[at : at + AT_ONCE]]
                    self._take([checkpoint_of(results, now)])
                    self._complete_messages(results)

    def _take_last(self, early: Sequence[Result], waiting: IO[bytes], changes: Changes, now: int) -> None:
        """Save these results and those that wait, in one transaction, with the progress. Complete their messages."""
        complete: set[str] = set()

        def checkpoints() -> Iterator[Checkpoint]:
            results = _waiting(waiting)
            some = [*early, *islice(results, AT_ONCE)]
            checkpoint = _checkpoint(some, changes, now)
            checkpoint.removed_attachments += changes.removed
            if not changes.is_again:
                checkpoint.progress = changes.reached
                checkpoint.events += _lone_messages(some, now)
                finished = {each.id for each in checkpoint.finished}
                complete.update(finished_in_checkpoint.complete(checkpoint, finished, now))
            yield checkpoint
            while some := [*islice(results, AT_ONCE)]:
                checkpoint = _checkpoint(some, changes, now)
                checkpoint.events += _lone_messages(some, now)
                yield checkpoint

        self._take(checkpoints())
        results = chain(early, _waiting(waiting))
        while some := [*islice(results, AT_ONCE)]:
            self._complete_messages(some, complete)

    def _take(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Save checkpoints in one transaction. Delete the content of attachments that were deleted meanwhile."""
        objects: dict[str, str | None] = {}

        def noted() -> Iterator[Checkpoint]:
            for checkpoint in checkpoints:
                objects.update((finished.id, finished.object_name) for finished in checkpoint.finished)
                yield checkpoint

        for attachment_id in self._catalog.checkpoints(noted()):
            record = self._catalog.attachment(attachment_id)
            name = objects.get(attachment_id)
            if name is not None and record is not None and record.state is AttachmentState.DELETED:
                self._run.stores.store.delete(name)

    def _drop_unfinished(self, found: Findings) -> None:
        """Delete the content of attachments that are not finished, although an earlier run committed the batch: this
        run has written it.

        They were deleted meanwhile, or the archive has segments now that it had not then.
        """
        for package in found.finished():
            finished = self._finished(package.attachments)
            others = [each for each in package.attachments if each not in finished]
            self._drop(_objects(finished_in(package, self._catalog, others)).values())
        for results in found.results():
            objects = _objects(results)
            finished = self._finished([*objects])
            self._drop(name for each, name in objects.items() if each not in finished)

    def _finished(self, attachments: Sequence[str]) -> set[str]:
        records = self._catalog.attachments_by_id(attachments)
        return {record.id for record in records if record.state is AttachmentState.FINISHED}

    def _drop(self, objects: Iterable[str | None]) -> None:
        for name in objects:
            if name is not None:
                self._run.stores.store.delete(name)

    def _left_behind(self, found: Findings, reached: int, only: Collection[str] | None) -> Iterator[Result]:
        """Yield results of attachments that are complete in the catalog and not in this batch.

        An operator has requested another attempt, or the gateway assembled them and had no time to finish them.
        """
        complete = self._catalog.complete_attachments() if only is None or only else []
        left = {record.id: record for record in complete if only is None or record.id in only}
        if not left:
            return
        for package in found.finished():
            for attachment in package.attachments:
                left.pop(attachment, None)
        for result in chain.from_iterable(found.results()):
            for each in (result.finished, result.refused):
                if each is not None:
                    left.pop(each.id, None)
        for record in left.values():
            quality = Increment(record.source, hour_of(record.first_received_at))
            parts, stores = CompleteAttachment(record, self._catalog.part_runs(record.id)), self._run.stores
            yield with_content(Result(reached, quality, record), read_or_reject(parts, stores), stores)

    def _complete_messages(self, results: Sequence[Result], complete: Container[str] = ()) -> None:
        """Complete the messages that these results leave without anything missing, apart from those that are."""
        finished = (
            ((each.record and each.record.message_id) or "", each.finished.id)
            for each in results
            if each.finished is not None
        )
        # The catalog asks once for attachments of one message that are together.
        waiting = [each for message, each in sorted(pair for pair in finished if pair[0] not in complete)]
        messages = (message for result in results for message in result.messages if message.id not in complete)
        listed = [
            attachment
            for message in messages
            if finished_in_checkpoint.lacks_only_attachments(message)
            for attachment in message.attachments
        ]
        complete_messages(self._catalog, [*waiting, *listed], self._clock.now())


def _groups(packages: Iterable[T]) -> Iterator[list[T]]:
    """Yield packages that one transaction takes. Each of these writes most pages of the catalog's indexes once, since
    identifiers have no order."""
    coming = iter(packages)
    while some := [*islice(coming, PACKED_AT_ONCE)]:
        yield some


def _waiting(results: IO[bytes]) -> Iterator[Result]:
    """Yield the results in a temporary file from its beginning."""
    end = results.seek(0, SEEK_END)
    results.seek(0)
    while results.tell() < end:
        yield pickle.load(results)  # noqa: S301 - of this process


def _objects(results: Iterable[Result]) -> dict[str, str | None]:
    """Return the objects with the content of finished results."""
    return {each.finished.id: each.finished.object_name for each in results if each.finished is not None}


def _summed(summaries: Iterable[Summary]) -> tuple[Summary, pa.Table]:
    """Return the sum of summaries without their quality, and the rows of that."""
    total = Summary()
    damaged: set[int] = set()
    traced: list[Added] = []

    def qualities() -> Iterator[Increment]:
        nonlocal total
        for each in summaries:
            damaged.update(each.damaged)
            traced.extend(each.traced)
            total = total._replace(
                finished=total.finished + each.finished,
                refused=total.refused + each.refused,
                quarantined=total.quarantined + each.quarantined,
            )
            yield from each.quality

    quality = quality_rows(qualities())
    return total._replace(damaged=tuple(sorted(damaged)), traced=tuple(traced)), quality


def _checkpoint(results: Sequence[Result], changes: Changes, now: int) -> Checkpoint:
    checkpoint = checkpoint_of(results, now)
    checkpoint.reprocessed = [each.id for each in checkpoint.attachments if each.id in changes.reprocessed]
    return checkpoint


def _lone_messages(results: Iterable[Result], now: int) -> list[NewEvent]:
    """Return the events of messages without attachments, which their application message has completed."""
    messages: Iterable[MessageRecord] = chain.from_iterable(result.messages for result in results)
    return lone_message_events((message for message in messages if message.application_body is not None), now)


def outcome(changes: Changes, added: tuple[CommittedTable, ...], began_at: int, ended_at: int) -> CommittedBatch:
    """Return the outcome of committed changes, which have `added` rows to these tables."""
    quality, counted = tuple(increments(changes.quality)), changes.counted
    changed_tables = {each.table for each in added}
    is_same = not (changes.changed or changes.removed or changes.healed or added or counted.quarantined)
    return CommittedBatch(
        changes.reached,
        finished=counted.finished,
        refused=counted.refused,
        quarantined=counted.quarantined,
        duplicates=sum(each.duplicates for each in quality),
        conflicts=sum(each.conflicts for each in quality),
        tables=added,
        was_known=changes.is_again and is_same,
        damaged=counted.damaged,
        quality=quality,
        received=changes.received,
        traced=tuple(each for each in counted.traced if each.table in changed_tables),
        began_at=began_at,
        ended_at=ended_at,
    )
