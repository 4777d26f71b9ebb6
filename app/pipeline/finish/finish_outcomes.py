"""Finishing of outcomes: it reads from the journal what assembly only refers to.

It reads and finishes complete attachments, compares repeated messages with the first, and fetches application messages
and messages for quarantine. Many processes run it at the same time, where the outcomes are. It writes only to the
content store, under names that follow from the attachment.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from app.assembly.collecting import Identification, Refused, Repeated, Warned
from app.assembly.interpretation import Rejected, answered, interpret, is_same
from app.assembly.part_places import Parts
from app.model.attachment import AttachmentKind
from app.model.errors import DamagedError, InvalidInputError
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    DAMAGED_MESSAGE,
    DAMAGED_PART,
    AttachmentRecord,
    Finished,
    MessageRecord,
    PartRun,
    QuarantineCopy,
    QuarantineRecord,
    RefusedContent,
)
from app.pipeline.assemble.assemble_key import NOT_FETCHED, Outcome
from app.pipeline.read.part_prefetch import PartsAhead
from app.ports import JournalArchive, is_damaged
from app.service.content.stored_content import opened
from app.service.context import Stores
from app.service.finishing.complete_content import HELD_BYTES
from app.service.finishing.finished_contents import Spoilt, first_place, read_content, spoilt_entries
from app.service.finishing.plain_files import WholeFile, plain_files
from app.service.finishing.stored_parts import by_batch, messages_at, places_of, segments_of
from app.service.quarantine.quarantine_records import Entry, quarantine_entry, quarantine_record
from app.tables.quality import Increment

AT_ONCE = 16_384
"""The number of outcomes whose messages are fetched together, in the journal's order. The more, the fewer batches are
read twice."""

RUNS_AT_ONCE = 200_000
"""The largest number of part runs that these outcomes hold together, some 30 MiB. Interleaved parts have a run each."""

AHEAD_BYTES, AHEAD_PARTS = 4 << 20, 1024
"""The largest size and number of the parts of small attachments that are read together."""

log = structlog.stdlib.get_logger(__name__)


class Result(NamedTuple):
    """The changes for the catalog and the tables.

    `fresh` are part runs of an unfinished attachment, and all of its runs if it `has_less` than before. `schema` is the
    serialized schema of a finished data set. `state` is the size in bytes of the state kept for unfinished ones, if it
    is counted. `beside` is the object with the content, if it is not the one that has the attachment's name. `damaged`
    says that the references were made before a damaged body was found: nothing of the job may be committed.
    `identified` is what headers tell of what waited.
    """

    reached: int
    quality: Increment
    record: AttachmentRecord | None = None
    fresh: tuple[PartRun, ...] = ()
    removed: str | None = None
    messages: tuple[MessageRecord, ...] = ()
    finished: Finished | None = None
    refused: RefusedContent | None = None
    quarantine: tuple[QuarantineRecord, ...] = ()
    copies: tuple[QuarantineCopy, ...] = ()
    dialects: int | None = None
    schema: bytes | None = None
    has_less: bool = False
    state: int = 0
    beside: str | None = None
    damaged: bool = False
    warned: Warned | None = None
    identified: tuple[Identification, ...] = ()


def finish(
    outcomes: Iterable[Outcome], stores: Stores, archive: JournalArchive, *, checked: bool = True
) -> Iterator[Result]:
    """Yield the results of outcomes, in any order. `archive` is the journal of `stores`.

    If bodies were not `checked` before, all bodies that the outcomes refer to are read here.
    """
    waiting: list[Outcome] = []
    runs = 0
    for outcome in outcomes:
        waiting.append(outcome)
        runs += len(outcome.fresh) + len(outcome.complete or ())
        if len(waiting) >= AT_ONCE or runs >= RUNS_AT_ONCE:
            yield from _finish(waiting, stores, archive, checked)
            waiting, runs = [], 0
    yield from _finish(waiting, stores, archive, checked)


def _finish(outcomes: list[Outcome], stores: Stores, archive: JournalArchive, checked: bool) -> list[Result]:
    """Return the results of these outcomes, whose content is durable."""
    outcomes.sort(key=lambda outcome: outcome.position)
    with stores.store.batch() as store:
        writing = replace(stores, store=store)
        plain = plain_files(_complete(outcomes), archive, writing)
        wholes = [_whole(outcome, plain) for outcome in outcomes]
        equal = _equal(outcomes, archive)
        places = {place for outcome in outcomes for place in _asked_for(outcome, equal)}
        fetched = messages_at(archive, places | {whole.first for whole in wholes if whole and whole.first is not None})
        results = []
        ahead = PartsAhead(stores.journal)
        writing = replace(writing, journal=ahead)
        for some in _near(zip(outcomes, wholes, strict=True)):
            ahead.hold(position for _, whole in some if whole and _is_small(whole) for position in _positions(whole))
            for outcome, whole in some:
                result = _result(outcome, fetched)
                if whole is not None:
                    first = None if whole.first is None else fetched.get(whole.first)
                    readable = None if first is None or is_damaged(first) else first
                    result = with_content(result, whole.record, whole.parts, writing, readable)
                elif outcome.record is not None and (finished := plain.get(outcome.record.id)) is not None:
                    result = result._replace(finished=finished, fresh=())
                results.append(result)
    if not checked and (any(map(_is_spoilt, results)) or _has_damage(outcomes, places, fetched, archive)):
        results.append(Result(outcomes[0].reached, Increment("", 0), damaged=True))
    return results


def _is_spoilt(result: Result) -> bool:
    return result.refused is not None and result.refused.code == DAMAGED_PART


def _has_damage(
    outcomes: Iterable[Outcome], places: Iterable[int], fetched: Mapping[int, PhysicalMessage], archive: JournalArchive
) -> bool:
    """Tell whether a message at one of these places, or a part of an unfinished attachment, cannot be read back."""
    unread = {place for place in places if (message := fetched.get(place)) is None or is_damaged(message)}
    if unread and not segments_of(archive).isdisjoint(Position.unpack(place).segment for place in unread):
        return True
    unfinished = [outcome for outcome in outcomes if outcome.record is not None and outcome.complete is None]
    pending = [outcome.record.pending_position for outcome in unfinished if outcome.record is not None]
    runs = [run for outcome in unfinished for run in outcome.fresh]
    runs += [PartRun(0, 1, place) for place in pending if place is not None]
    for segment, batch, rows, _ in by_batch(places_of(runs)):
        try:
            archive.placed_bodies(segment, batch, rows)
        except DamagedError:
            return True
        except KeyError:
            continue
    return False


def _complete(outcomes: Iterable[Outcome]) -> Iterator[WholeFile]:
    for outcome in outcomes:
        if outcome.complete is not None and outcome.record is not None:
            yield WholeFile(outcome.record, outcome.complete)


class _Whole(NamedTuple):
    """A complete attachment, its parts, and the packed position of the first of them."""

    record: AttachmentRecord
    parts: Parts
    first: int | None


def _near(pairs: Iterable[tuple[Outcome, _Whole | None]]) -> Iterator[list[tuple[Outcome, _Whole | None]]]:
    """Yield outcomes in pieces whose small attachments are read together."""
    gathered: list[tuple[Outcome, _Whole | None]] = []
    size = parts = 0
    for outcome, whole in pairs:
        gathered.append((outcome, whole))
        if whole is not None and _is_small(whole):
            size += whole.record.bytes_received
            parts += whole.parts.count
        if size >= AHEAD_BYTES or parts >= AHEAD_PARTS or len(gathered) >= AHEAD_PARTS:
            yield gathered
            gathered, size, parts = [], 0, 0
    if gathered:
        yield gathered


def _is_small(whole: _Whole) -> bool:
    return whole.record.bytes_received <= HELD_BYTES and whole.parts.count <= AHEAD_PARTS


def _positions(whole: _Whole) -> Iterator[Position]:
    """Yield the positions of an attachment's parts."""
    for _, length, position in whole.parts.runs:
        segment, batch, row = Position.unpack(position)
        yield from (Position(segment, batch, row + number) for number in range(length))


def _whole(outcome: Outcome, plain: Container[str]) -> _Whole | None:
    if outcome.complete is None or outcome.record is None or outcome.record.id in plain:
        return None
    parts = Parts(list(outcome.complete))
    return _Whole(outcome.record, parts, first_place(outcome.record, parts))


def _equal(outcomes: Iterable[Outcome], archive: JournalArchive) -> set[tuple[int | None, int]]:
    """Return the pairs of a message and its repetition whose bodies can be read and are the same: nothing else of them
    is needed."""
    pairs = {pair for outcome in outcomes for pair in outcome.repeated if pair[0] is not None}
    places = np.unique(np.array([*pairs], np.int64))
    bodies: dict[int | None, memoryview] = {}
    for segment, batch, rows, numbers in by_batch(places):
        with suppress(KeyError, DamagedError):
            bodies.update(
                zip(places[numbers].tolist(), archive.placed_bodies(segment, batch, rows).bodies, strict=True)
            )
    return {pair for pair in pairs if bodies.keys() >= {*pair} and is_same(*(bodies[place] for place in pair))}


def _asked_for(outcome: Outcome, equal: Container[tuple[int | None, int]]) -> Iterator[int]:
    """Yield the positions of single messages that an outcome refers to, except a first part and `equal` pairs."""
    yield from (refusal.position for refusal in outcome.refused)
    yield from (place for pair in outcome.repeated if pair not in equal for place in pair if place is not None)
    yield from (place for _, place in outcome.applications)


class _Fetched(NamedTuple):
    """Messages that were fetched together for many effects."""

    messages: dict[int, PhysicalMessage]

    def message(self, position: int) -> PhysicalMessage | None:
        """Return a message, as `app.assembly.interpretation.Messages` specifies."""
        return self.messages.get(position)

    def body(self, position: int) -> bytes | memoryview:
        """Return a body, as `app.assembly.interpretation.Messages` specifies."""
        if (message := self.messages.get(position)) is None:
            raise DamagedError("the message is no longer in the journal")
        if is_damaged(message):
            raise DamagedError("the message cannot be read back")
        return message.body


def _result(outcome: Outcome, fetched: dict[int, PhysicalMessage]) -> Result:
    if not (outcome.refused or outcome.repeated or outcome.messages):  # as most outcomes of small attachments
        return Result(
            outcome.reached,
            outcome.quality,
            outcome.record,
            outcome.fresh,
            outcome.removed,
            dialects=outcome.dialects,
            has_less=outcome.has_less,
            state=outcome.state,
            warned=outcome.warned,
            identified=outcome.identified,
        )
    applications = dict(outcome.applications)
    messages = _Fetched(fetched)
    refused = _rejected(outcome.refused, messages)
    conflicts = _rejected((Repeated(None, first, again) for first, again in outcome.repeated), messages)
    lost = [_lost(outcome, each) for each in outcome.refused if each.position not in fetched]
    quarantine = [*(quarantine_entry(*each) for each in (*refused, *conflicts)), *filter(None, lost)]
    quality = outcome.quality._replace(duplicates=len(outcome.repeated) - len(conflicts), conflicts=len(conflicts))
    return Result(
        outcome.reached,
        quality,
        outcome.record,
        outcome.fresh,
        outcome.removed,
        tuple(_answered(message, applications.get(message.id), fetched) for message in outcome.messages),
        quarantine=tuple(entry for entry, _ in quarantine),
        copies=tuple(copy for _, copy in quarantine if copy is not None),
        dialects=outcome.dialects,
        has_less=outcome.has_less,
        state=outcome.state,
        warned=outcome.warned,
        identified=outcome.identified,
    )


def with_content(
    result: Result,
    record: AttachmentRecord,
    parts: Parts,
    stores: Stores,
    first: PhysicalMessage | None = None,
) -> Result:
    """Return the result with the content of a complete attachment. Its `first` message may have been read before."""
    try:
        finished = read_content(record, parts, stores, first)
    except Spoilt as spoilt:
        entries = spoilt_entries(record, spoilt, stores.journal)
        return result._replace(
            refused=spoilt.refused(record),
            quarantine=(*result.quarantine, *(entry for entry, _ in entries)),
            copies=(*result.copies, *(copy for _, copy in entries if copy is not None)),
            quality=result.quality._replace(attachments_quarantined=1),
        )
    return result._replace(finished=finished, fresh=(), schema=_schema(record, finished, stores))


def _schema(record: AttachmentRecord, finished: Finished, stores: Stores) -> bytes | None:
    if record.kind is not AttachmentKind.DATA_SET or finished.object_name is None:
        return None
    with opened(stores.store, finished.object_name) as file:
        schema: pa.Schema = pq.read_schema(file)
    serialised: bytes = schema.serialize().to_pybytes()
    return serialised


def _rejected(effects: Iterable[Repeated | Refused], messages: _Fetched) -> list[Rejected]:
    """Return the messages that effects send to quarantine. A message that is no longer in the journal counts as
    equal."""
    found = (interpret(effect, messages) for effect in effects)
    return [each for each in found if isinstance(each, Rejected)]


def _lost(outcome: Outcome, refused: Refused) -> Entry | None:
    """Return the quarantine entry of messages that cannot be read back; None for messages that are merely gone."""
    if refused.code != DAMAGED_MESSAGE:
        return None
    error = InvalidInputError(refused.code, refused.row, refused.at, refused.why)
    return quarantine_record(refused.position, PhysicalMessage(outcome.quality.source, ""), error), None


def _answered(message: MessageRecord, application: int | None, fetched: dict[int, PhysicalMessage]) -> MessageRecord:
    """Return the message with its application message, if that has come and is not in the record already."""
    if message.application_body is None or message.application_body != NOT_FETCHED.body:
        return message
    answer = fetched.get(application) if application is not None else None
    if answer is None:
        return replace(message, application_body=None)
    return answered(message, answer)
