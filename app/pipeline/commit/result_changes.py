"""What results change in the catalog and in the tables."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter

from app.model.attachment import AttachmentKind
from app.model.message import Position
from app.model.names import table_with_rows
from app.model.records import (
    ABORTED,
    DAMAGED_MESSAGE,
    DAMAGED_PART,
    AttachmentRecord,
    Checkpoint,
    Finished,
    NewEvent,
    changed,
)
from app.pipeline.commit.tables import DataSet, read_schema
from app.pipeline.finish.finish_outcomes import Result
from app.service.events import event_spans
from app.service.events.event_entries import (
    deletion_event,
    finished_events,
    identified_event,
    quarantine_event,
    refusal_event,
    warned_event,
)
from app.span_names import Added
from app.tables.quality import Increment

# Data sets that have the same schema share it, also when they are pickled together.
_shared_schema = lru_cache(maxsize=256)(read_schema)


def ids_of(results: Iterable[Result]) -> set[str]:
    """Return the attachments of results."""
    return {result.record.id for result in results if result.record is not None}


def dated(result: Result, now: int) -> Result:
    """Return the result with the time (µs) at which its attachment is finished."""
    return result if result.finished is None else result._replace(finished=changed(result.finished, finished_at=now))


def begun(result: Result, ratio: float) -> Result:
    """Return the result whose attachment has a trace of its own, if it is among the share `ratio`."""
    if not ratio or result.record is None:
        return result
    return result._replace(record=event_spans.begun(result.record, ratio))


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
        checkpoint.identified += [identified_event(result.quality.source, found, now) for found in result.identified]
    checkpoint.warned = [
        warned_event(each.quality.source, each.warned, now) for each in results if each.warned is not None
    ]
    for result in sorted(results, key=attrgetter("reached")):
        if result.dialects is not None:
            checkpoint.source_dialects[result.quality.source] = result.dialects
    return checkpoint


def _events(record: AttachmentRecord, result: Result, now: int) -> Iterator[NewEvent]:
    if result.finished is not None:
        yield from finished_events(record, result.finished)
    if result.refused is not None:
        yield refusal_event(record, result.refused, now)
    if result.has_less and record.reason_code == ABORTED:  # in this batch
        yield deletion_event(record, now, reason=ABORTED)


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
                result.staged_object or finished.object_name,
                finished.size,
                _shared_schema(result.schema),
            )


def files(results: Iterable[Result]) -> Iterator[tuple[AttachmentRecord, Finished]]:
    """Yield the finished files of results."""
    for result in results:
        record, finished = result.record, result.finished
        if record is not None and finished is not None and record.kind is not AttachmentKind.DATA_SET:
            yield record, finished


def traces(results: Iterable[Result]) -> Iterator[Added]:
    """Yield the attachments of results that have a trace, with the table for their rows."""
    for record in (result.record for result in results):
        if record is not None and record.trace_parent is not None:
            table = table_with_rows(record.kind, record.qualifier_1, record.qualifier_2)
            yield Added(record.id, record.trace_parent, table)


def qualities(results: Iterable[Result]) -> Iterator[Increment]:
    """Yield what results add to the table of quality."""
    return (result.quality for result in results if any(result.quality[2:]))


def damaged_segments(results: Iterable[Result]) -> tuple[int, ...]:
    """Return the numbers of segments that results have found damage in."""
    damaged = {
        Position.unpack(entry.position).segment
        for result in results
        for entry in result.quarantine
        if entry.code in (DAMAGED_MESSAGE, DAMAGED_PART)
    }
    return tuple(sorted(damaged))
