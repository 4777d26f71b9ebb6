"""Commit of results to the tables and then to the catalog: a batch is visible as a whole or not at all.

A batch is identified by the packed journal position that it ends at, which only grows. It is the number of the tables'
transaction, and the catalog's progress; neither accepts a number that it has reached. A job that is killed at any
moment runs the same batch again (`app.pipeline.intent`). Then content objects are written again under the same names
with the same bytes, tables that have the batch ignore it, and the catalog, which comes last, records that it is done.
Only one process may commit: a catalog that has changed meanwhile refuses the batch.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa

from app.assembly.parts import Parts
from app.assembly.states import DONE
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import (
    DAMAGED_MESSAGE,
    DAMAGED_PART,
    AttachmentRecord,
    Checkpoint,
    Finished,
    MessageRecord,
    NewEvent,
    changed,
)
from app.pipeline import tables
from app.pipeline.finishing import Result, with_content
from app.pipeline.gaps import Gaps
from app.pipeline.intent import Intent, begin, end, journal_name
from app.pipeline.job import Opened
from app.pipeline.tables import Committed as TableCommitted
from app.pipeline.tables import DataSet, TableTask, Written
from app.ports import Catalog, Clock
from app.service.assembling import closing
from app.service.events import complete_messages, finished_event, quarantine_event, refusal_event
from app.service.tables import APPLICATION
from app.service.tracing import begun, ratio_of
from app.spans import Added
from app.tables.quality import Increment, hour_of, increments

AT_ONCE = 5000
"""The number of finished attachments that the catalog takes in one transaction."""

WriteTables = Callable[[Sequence[TableTask]], Iterable[Written]]
"""A function that runs table tasks, in this process or in others."""


class Committed(NamedTuple):
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
    tables: tuple[TableCommitted, ...] = ()
    was_known: bool = False
    damaged: tuple[int, ...] = ()
    missing: Gaps = ()
    quality: tuple[Increment, ...] = ()
    received: tuple[Increment, ...] = ()
    traced: tuple[Added, ...] = ()
    began_at: int = 0
    ended_at: int = 0


class Committer:
    """Commits the batches of one job, one after the other, in the driver's process.

    `progress` is the packed position that the catalog has reached.
    """

    def __init__(self, opened: Opened, catalog: Catalog, clock: Clock, write_tables: WriteTables) -> None:
        self._opened, self._catalog, self._clock, self._write_tables = opened, catalog, clock, write_tables
        self.progress = catalog.progress()
        self._journal: str | None = None

    def commit(self, results: Sequence[Result], left_behind: Collection[str] | None = None) -> Committed | None:
        """Commit the results of a batch. Return None for a batch without messages.

        Attachments that are complete in the catalog are finished too, of these only `left_behind` if it is given.

        Raises GatewayError when another process has committed since the last batch, or since this object was made.
        """
        if not results:
            return None
        reached = max(result.reached for result in results)
        progress = self._catalog.progress()
        if progress is not None and progress >= reached:
            self._drop_unfinished(results)
            self._complete_messages(results)
            return Committed(reached, was_known=True)
        if progress != self.progress:
            raise GatewayError(
                "another process commits to this catalog: stop the other pipeline, or the gateway that assembles"
            )
        others = list(self._left_behind(results, reached, left_behind))
        results = [*results, *others]
        now = self._clock.now()
        results = [self._begun(dated(result, now)) for result in results]
        store = self._opened.stores.store
        begin(store, self._intent(reached, [other.record.id for other in others if other.record is not None]))
        quality = quality_of(results)
        news = list(self._news(results))
        added = self._commit_tables(news, quality, reached)
        complete = self._commit_catalog(results, ids_of(news), reached, now)
        self.progress = reached
        self._complete_messages(results, complete)
        end(store)
        found = summary(results, quality, reached, added)
        return found._replace(traced=traced(news, added), began_at=now, ended_at=self._clock.now())

    def _begun(self, result: Result) -> Result:
        ratio = ratio_of(self._opened.stores.settings.traces)
        if not ratio or result.record is None:
            return result
        return result._replace(record=begun(result.record, ratio))

    def _intent(self, reached: int, left_behind: Sequence[str]) -> Intent:
        if self._journal is None:
            self._journal = journal_name(self._opened.archive, self._opened.place)
        return Intent(self._journal, Position.unpack(reached).segment, self.progress, tuple(left_behind))

    # --- tables -------------------------------------------------------------------------------------------------------

    def _commit_tables(self, news: Sequence[Result], quality: pa.Table, transaction: int) -> tuple[TableCommitted, ...]:
        store = self._opened.tables
        if store is None:
            return ()
        plans = tables.plan(store, data_sets(news), APPLICATION, transaction)
        written = list(self._write_tables([task for each in plans for task in each.tasks]))
        committed = tables.commit(plans, written, store, APPLICATION, transaction)
        own: tuple[tuple[str, pa.Table], ...] = (
            (tables.FILES, tables.file_rows(files(news))),
            (tables.QUALITY, quality),
        )
        appended = [tables.append(store, name, rows, APPLICATION, transaction) for name, rows in own]
        return (*committed, *(each for each in appended if each is not None))

    def _news(self, results: Sequence[Result]) -> Iterator[Result]:
        """Return the finished attachments that no earlier batch has finished and that have not been deleted
        meanwhile."""
        over = {record.id for record in self._known(results) if record.state in DONE}
        finished = (result for result in results if result.finished is not None and result.record is not None)
        return (result for result in finished if result.record is not None and result.record.id not in over)

    def _known(self, results: Iterable[Result]) -> list[AttachmentRecord]:
        """Return the catalog's records of the finished attachments."""
        return self._catalog.attachments_by_id(
            [result.finished.id for result in results if result.finished is not None]
        )

    # --- the catalog --------------------------------------------------------------------------------------------------

    def _commit_catalog(self, results: Sequence[Result], news: set[str], reached: int, now: int) -> set[str]:
        """Save the results in the catalog, many finished attachments in several transactions beforehand.

        They change nothing for a batch that is run again. Return the messages that this completes: those of which all
        attachments are among the `news`.
        """
        finished = [result for result in results if result.finished is not None]
        split = len(finished) - len(finished) % AT_ONCE if len(finished) > AT_ONCE else 0
        for start in range(0, split, AT_ONCE):
            news = news - self._take(checkpoint_of(finished[start : start + AT_ONCE], now))
        rest = [result for result in results if result.finished is None]
        checkpoint = checkpoint_of([*finished[split:], *rest], now)
        checkpoint.progress = reached
        complete = closing.complete(checkpoint, news, now)
        self._take(checkpoint)
        return complete

    def _take(self, checkpoint: Checkpoint) -> set[str]:
        """Save a checkpoint. Return the attachments that could not be finished."""
        objects = {finished.id: finished.object_name for finished in checkpoint.finished}
        missed = self._catalog.checkpoint(checkpoint)
        for attachment_id in missed:
            record = self._catalog.attachment(attachment_id)
            name = objects.get(attachment_id)
            if name is not None and record is not None and record.state is AttachmentState.DELETED:
                self._opened.stores.store.delete(name)
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
                self._opened.stores.store.delete(name)

    def _left_behind(self, results: Sequence[Result], reached: int, only: Collection[str] | None) -> Iterator[Result]:
        """Yield results of attachments that are complete in the catalog and not in this batch.

        An operator has requested another attempt, or the gateway assembled them and had no time to finish them.
        """
        found = {each.id for result in results for each in (result.finished, result.refused) if each is not None}
        for record in self._catalog.complete_attachments():
            if record.id in found or (only is not None and record.id not in only):
                continue
            quality = Increment(record.source, hour_of(record.first_received_at))
            parts = Parts(self._catalog.part_runs(record.id))
            yield with_content(Result(reached, quality, record), record, parts, self._opened.stores)

    def _complete_messages(self, results: Sequence[Result], complete: Container[str] = ()) -> None:
        """Complete the messages that these results leave without anything missing, apart from those that are."""
        rest = [result for result in results if result.finished is not None and _message(result) not in complete]
        finished = [result.finished.id for result in sorted(rest, key=_message) if result.finished is not None]
        messages = (message for result in results for message in result.messages if message.id not in complete)
        answered = [message for message in messages if _is_answered(message)]
        listed = [attachment for message in answered for attachment in message.attachments]
        alone = [message.id for message in answered if not message.attachments]
        complete_messages(self._catalog, [*finished, *listed], self._clock.now(), alone)


def ids_of(results: Iterable[Result]) -> set[str]:
    """Return the attachments of results."""
    return {result.record.id for result in results if result.record is not None}


def _message(result: Result) -> str:
    """Return the message of a result's attachment. The catalog asks once for attachments of one message that are
    together."""
    return (result.record and result.record.message_id) or ""


def dated(result: Result, now: int) -> Result:
    """Return the result with the time (µs) at which its attachment is finished."""
    return result if result.finished is None else result._replace(finished=changed(result.finished, finished_at=now))


def _is_answered(message: MessageRecord) -> bool:
    return message.application_body is not None


def checkpoint_of(results: Sequence[Result], now: int) -> Checkpoint:
    """Return the changes of results for the catalog, without its progress."""
    checkpoint = Checkpoint()
    for result in results:
        record = result.record
        if record is not None:
            checkpoint.attachments.append(record)
            checkpoint.events += _events(record, result, now)
            if result.has_less:
                checkpoint.without_parts.append(record.id)
            if result.fresh:
                checkpoint.part_runs[record.id] = list(result.fresh)
        if result.finished is not None:
            checkpoint.finished.append(result.finished)
        if result.refused is not None:
            checkpoint.refused.append(result.refused)
        if result.removed is not None:
            checkpoint.removed_attachments.append(result.removed)
        checkpoint.messages += result.messages
        checkpoint.quarantine += result.quarantine
        checkpoint.quarantine_copies += result.copies
        checkpoint.events += map(quarantine_event, result.quarantine)
    for result in sorted(results, key=attrgetter("reached")):
        if result.dialects is not None:
            checkpoint.source_dialects[result.quality.source] = result.dialects
    return checkpoint


def _events(record: AttachmentRecord, result: Result, now: int) -> Iterator[NewEvent]:
    if result.finished is not None:
        yield finished_event(record, result.finished)
    if result.refused is not None:
        yield refusal_event(record, result.refused, now)


def data_sets(results: Iterable[Result]) -> Iterator[DataSet]:
    """Yield the finished data sets of results."""
    for result in results:
        record, finished = result.record, result.finished
        if record is not None and finished is not None and finished.object_name and result.schema is not None:
            yield DataSet(
                record.id,
                record.message_id,
                record.source,
                record.first_received_at,
                record.qualifier_1,
                record.qualifier_2,
                result.beside or finished.object_name,
                finished.size,
                pa.ipc.read_schema(pa.py_buffer(result.schema)),
            )


def files(results: Iterable[Result]) -> Iterator[tuple[AttachmentRecord, Finished]]:
    """Yield the finished files of results."""
    for result in results:
        record, finished = result.record, result.finished
        if record is not None and finished is not None and record.kind is not AttachmentKind.DATA_SET:
            yield record, finished


def traced(results: Iterable[Result], added: Collection[TableCommitted]) -> tuple[Added, ...]:
    """Return the attachments of results that have a trace, with those of the `added` tables that have their rows."""
    changed_tables = {each.table for each in added}
    found: list[Added] = []
    for record in (result.record for result in results):
        if record is not None and record.trace_parent is not None:
            is_data_set = record.kind is AttachmentKind.DATA_SET
            table = tables.table_name(record.qualifier_1, record.qualifier_2) if is_data_set else tables.FILES
            if table in changed_tables:
                found.append(Added(record.id, record.trace_parent, table))
    return tuple(found)


def quality_of(results: Iterable[Result]) -> pa.Table:
    """Return the rows of the table of quality to which results add."""
    return tables.quality_rows(result.quality for result in results if any(result.quality[2:]))


def damaged_segments(results: Iterable[Result]) -> tuple[int, ...]:
    """Return the numbers of segments that results have found damage in."""
    damaged = {
        Position.unpack(entry.position).segment
        for result in results
        for entry in result.quarantine
        if entry.code in (DAMAGED_MESSAGE, DAMAGED_PART)
    }
    return tuple(sorted(damaged))


def summary(results: Sequence[Result], quality: pa.Table, reached: int, added: tuple[TableCommitted, ...]) -> Committed:
    """Return the outcome of committed results with this quality."""
    facts = tuple(increments(quality))
    return Committed(
        reached,
        finished=sum(result.finished is not None for result in results),
        refused=sum(result.refused is not None for result in results),
        quarantined=sum(len(result.quarantine) for result in results),
        duplicates=sum(result.quality.duplicates for result in results),
        conflicts=sum(result.quality.conflicts for result in results),
        tables=added,
        damaged=damaged_segments(results),
        quality=facts,
        received=facts,
    )
