"""Finishing of outcomes: it reads from the journal what assembly only refers to.

It reads and finishes complete attachments, compares repeated messages with the first, and fetches application messages
and messages for quarantine. Many processes run it at the same time, where the outcomes are. It writes only to the
content store, under names that follow from the attachment.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from app.assembly.collecting import Identification, Refused, Repeated, Warned, contradicted
from app.assembly.interpretation import Rejected, answered, interpret, is_same
from app.model.attachment import AttachmentKind
from app.model.errors import DamagedError, InvalidInputError
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    DAMAGED_MESSAGE,
    DAMAGED_PART,
    AttachmentRecord,
    Damage,
    Extent,
    Finished,
    MessageRecord,
    PartRun,
    QuarantineCopy,
    QuarantineRecord,
    RefusedContent,
)
from app.pipeline.assemble.assemble_key import NOT_FETCHED, KeyOutcome
from app.ports import ContentStore, JournalArchive, JournalReader, ObjectFile, ObjectWriter, Segment, is_damaged
from app.service.content.stored_content import opened
from app.service.context import Stores
from app.service.finishing.complete_content import HELD_BYTES
from app.service.finishing.finished_contents import Rejection, read_or_reject
from app.service.finishing.plain_files import plain_files
from app.service.finishing.stored_parts import (
    CompleteAttachment,
    by_batch,
    messages_at,
    neighbours,
    places_of,
)
from app.service.quarantine.quarantine_records import quarantine_entry, quarantine_record
from app.tables.quality import Increment

AT_ONCE = 16_384
"""The number of outcomes whose messages are fetched together, in the journal's order. The more, the fewer batches are
read twice."""

RUNS_AT_ONCE = 200_000
"""The largest number of part runs that these outcomes hold together, some 30 MiB. Interleaved parts have a run each."""

AHEAD_BYTES, AHEAD_PARTS = 4 << 20, 1024
"""The largest size and number of the parts of small attachments that are read together."""

STAGED = "pipeline/again/"
"""The beginning of the names of staged objects."""

log = structlog.stdlib.get_logger(__name__)


class Result(NamedTuple):
    """The changes for the catalog and the tables.

    `fresh` are part runs of an unfinished attachment, and all of its runs if it `has_less` than before. `schema` is the
    serialized schema of a finished data set. `state` is the size in bytes of the state kept for unfinished ones, if it
    is counted. `staged_object` is the object with the content, if it has another name than the attachment's. If
    `damaged`, the references were made before a damaged body was found: nothing of the job may be committed.
    `identified` are the attachments and application messages that waited for a header that has come.
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
    staged_object: str | None = None
    damaged: bool = False
    warned: Warned | None = None
    identified: tuple[Identification, ...] = ()


def finish(
    outcomes: Iterable[KeyOutcome], stores: Stores, archive: JournalArchive, *, checked: bool = True
) -> Iterator[Result]:
    """Yield the results of outcomes, in any order. `archive` is the journal of `stores`.

    If bodies were not `checked` before, all bodies that the outcomes refer to are read here.
    """
    waiting: list[KeyOutcome] = []
    runs = 0
    for outcome in outcomes:
        waiting.append(outcome)
        runs += len(outcome.fresh) + len(outcome.complete or ())
        if len(waiting) >= AT_ONCE or runs >= RUNS_AT_ONCE:
            yield from _finish(waiting, stores, archive, checked)
            waiting, runs = [], 0
    yield from _finish(waiting, stores, archive, checked)


def _finish(outcomes: list[KeyOutcome], stores: Stores, archive: JournalArchive, checked: bool) -> list[Result]:
    """Return the results of these outcomes, whose content is durable."""
    outcomes.sort(key=attrgetter("position"))
    outcomes, equal = compared(outcomes, archive)
    complete = [
        CompleteAttachment(outcome.record, outcome.complete)
        for outcome in outcomes
        if outcome.record is not None and outcome.complete is not None
    ]
    repeated = (pair for outcome in outcomes for pair in outcome.repeated if pair not in equal)
    places = {place for pair in repeated for place in pair if place is not None}
    places |= {refusal.position for outcome in outcomes for refusal in outcome.refused}
    places |= {place for outcome in outcomes for _, place in outcome.applications}
    with stores.store.batch() as store:
        writing = replace(stores, store=store)
        contents: dict[str, Finished | Rejection] = {**plain_files(complete, archive, writing)}
        firsts = {each.record.id: each.first_place() for each in complete if each.record.id not in contents}
        fetched = messages_at(archive, places.union(place for place in firsts.values() if place is not None))
        contents.update(_read_alone(complete, firsts, fetched, writing))
        results = [_result(outcome, fetched, contents, writing) for outcome in outcomes]
    has_damage = any(result.refused is not None and result.refused.code == DAMAGED_PART for result in results)
    if not checked and (has_damage or _has_damage(outcomes, places, fetched, archive)):
        results.append(Result(outcomes[0].reached, Increment("", 0), damaged=True))
    return results


def _read_alone(
    complete: Iterable[CompleteAttachment],
    firsts: Mapping[str, int | None],
    fetched: Mapping[int, PhysicalMessage],
    stores: Stores,
) -> Iterator[tuple[str, Finished | Rejection]]:
    """Yield the contents of the attachments that `firsts` has, with the place of their first part, by identifier. Only
    the parts of small neighbours are read together."""
    ahead = PartsAhead(stores.journal)
    stores = replace(stores, journal=ahead)
    for some in neighbours(
        (each for each in complete if each.record.id in firsts), AHEAD_BYTES, AHEAD_PARTS, HELD_BYTES
    ):
        small = [
            each
            for each in some
            if each.record.bytes_received <= HELD_BYTES and each.record.parts_received <= AHEAD_PARTS
        ]
        ahead.hold(Position.unpack(place) for each in small for place in each.places())
        for each in some:
            place = firsts[each.record.id]
            first = None if place is None else fetched.get(place)
            readable = None if first is None or is_damaged(first) else first
            yield each.record.id, read_or_reject(each, stores, readable)


class PartsAhead:
    """A `JournalReader` that holds the bodies of some messages.

    Reading the parts of one small attachment is more preparation than reading. Those of attachments that lie beside
    each other are read together.
    """

    def __init__(self, journal: JournalReader) -> None:
        self._journal = journal
        self._held: dict[Position, memoryview] = {}

    def hold(self, positions: Iterable[Position]) -> None:
        """Read these bodies and hold them, in place of those before.

        If one of them cannot be read, none is held. Who asks for a body then gets it, or the error, from the journal.
        """
        self._held = {}
        wanted = sorted(positions)
        try:
            self._held = dict(zip(wanted, self._journal.bodies(wanted), strict=True))
        except (KeyError, DamagedError):
            return

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        wanted = list(positions)
        if all(position in self._held for position in wanted):
            return iter([self._held[position] for position in wanted])
        return self._journal.bodies(wanted)

    def read(self, position: Position) -> PhysicalMessage:
        return self._journal.read(position)

    def messages(self, segment: int, batch: int, rows: Sequence[int]) -> list[PhysicalMessage]:
        return self._journal.messages(segment, batch, rows)

    def descriptors(self, segment: int, batch: int) -> pa.RecordBatch:
        return self._journal.descriptors(segment, batch)

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        return self._journal.extents(positions)

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        return self._journal.views(extents)

    def segment_bytes(self, segment: int) -> Iterator[memoryview]:
        return self._journal.segment_bytes(segment)

    def verify(self, segment: int) -> list[Damage]:
        return self._journal.verify(segment)

    def segments(self) -> list[Segment]:
        return self._journal.segments()

    def has(self, segment: int) -> bool:
        return self._journal.has(segment)


def _has_damage(
    outcomes: Iterable[KeyOutcome],
    places: Iterable[int],
    fetched: Mapping[int, PhysicalMessage],
    archive: JournalArchive,
) -> bool:
    """Tell whether a message at one of these places, or a part of an unfinished attachment, cannot be read back."""
    unread = {place for place in places if (message := fetched.get(place)) is None or is_damaged(message)}
    if any(archive.has(segment) for segment in {Position.unpack(place).segment for place in unread}):
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


def compared(
    outcomes: Sequence[KeyOutcome], archive: JournalArchive
) -> tuple[list[KeyOutcome], Container[tuple[int | None, int]]]:
    """Compare repeated messages with the first ones. Return the outcomes, with a note where they contradict each other,
    and the pairs that are the same."""
    equal = _equal(outcomes, archive)
    return [_with_contradiction(outcome, equal) for outcome in outcomes], equal


def _equal(outcomes: Iterable[KeyOutcome], archive: JournalArchive) -> set[tuple[int | None, int]]:
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


def _with_contradiction(outcome: KeyOutcome, equal: Container[tuple[int | None, int]]) -> KeyOutcome:
    """Return an outcome with the note that two messages contradict each other, if they came before it was complete."""
    record = outcome.record
    if not outcome.repeated or record is None:
        return outcome
    before = outcome.repeated[: outcome.repeated_before]
    if any(pair[0] is not None and pair not in equal for pair in before):
        return outcome._replace(record=contradicted(record))
    return outcome


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


def _result(
    outcome: KeyOutcome,
    fetched: dict[int, PhysicalMessage],
    contents: Mapping[str, Finished | Rejection],
    stores: Stores,
) -> Result:
    result = Result(
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
    if outcome.refused or outcome.repeated or outcome.messages:
        result = _with_messages(result, outcome, fetched)
    content = None if outcome.complete is None or outcome.record is None else contents.get(outcome.record.id)
    return result if content is None else with_content(result, content, stores)


def _with_messages(result: Result, outcome: KeyOutcome, fetched: dict[int, PhysicalMessage]) -> Result:
    """Return the result with the messages that the outcome refers to."""
    applications = dict(outcome.applications)
    messages = _Fetched(fetched)
    refused = _rejected(outcome.refused, messages)
    conflicts = _rejected((Repeated(None, first, again) for first, again in outcome.repeated), messages)
    quarantine = [quarantine_entry(*each[:3]) for each in (*refused, *conflicts)]
    for each in outcome.refused:
        if each.position not in fetched and each.code == DAMAGED_MESSAGE:  # others are merely gone
            error = InvalidInputError(each.code, each.row, each.at, each.why)
            message = PhysicalMessage(outcome.quality.source, "")
            quarantine.append((quarantine_record(each.position, message, error), None))
    return result._replace(
        quality=outcome.quality._replace(duplicates=len(outcome.repeated) - len(conflicts), conflicts=len(conflicts)),
        messages=tuple(_answered(message, applications.get(message.id), fetched) for message in outcome.messages),
        quarantine=tuple(entry for entry, _ in quarantine),
        copies=tuple(copy for _, copy in quarantine if copy is not None),
    )


def with_content(result: Result, content: Finished | Rejection, stores: Stores) -> Result:
    """Return the result of a complete attachment with its content, or with its refusal."""
    if isinstance(content, Rejection):
        return result._replace(
            refused=content.refusal,
            quarantine=(*result.quarantine, *(entry for entry, _ in content.entries)),
            copies=(*result.copies, *(copy for _, copy in content.entries if copy is not None)),
            quality=result.quality._replace(attachments_quarantined=1),
        )
    schema: bytes | None = None
    is_data_set = result.record is not None and result.record.kind is AttachmentKind.DATA_SET
    if is_data_set and content.object_name is not None:
        with opened(stores.store, content.object_name) as file:
            schema = pq.read_schema(file).serialize().to_pybytes()
    return result._replace(finished=content, fresh=(), schema=schema)


def _rejected(effects: Iterable[Repeated | Refused], messages: _Fetched) -> list[Rejected]:
    """Return the messages that effects send to quarantine. A message that is no longer in the journal counts as
    equal."""
    found = (interpret(effect, messages) for effect in effects)
    return [each for each in found if isinstance(each, Rejected)]


def _answered(message: MessageRecord, application: int | None, fetched: dict[int, PhysicalMessage]) -> MessageRecord:
    """Return the message with its application message, if that has come and is not in the record already."""
    if message.application_body is None or message.application_body != NOT_FETCHED.body:
        return message
    if application is None or (answer := fetched.get(application)) is None:
        return replace(message, application_body=None, application_position=None)
    return answered(message, answer, application)


class StagingStore:
    """A `ContentStore` that stages an object under another name if its name is taken, and finds it by either name.

    It never overwrites an object, so that a reader never sees content change.
    """

    def __init__(self, store: ContentStore) -> None:
        self._store = store
        self._staged: dict[str, str] = {}

    def staged_name(self, name: str) -> str | None:
        """Return the other name under which an object was staged; None if it has its own."""
        return self._staged.get(name)

    def create(self, name: str) -> AbstractContextManager[ObjectWriter]:
        with suppress(KeyError):
            self._store.size(name)
            self._staged[name] = STAGED + name
        return self._store.create(self._staged.get(name, name))

    @contextmanager
    def batch(self) -> Iterator["StagingStore"]:
        with self._store.batch() as store:
            inside = StagingStore(store)
            inside._staged = self._staged
            yield inside

    def size(self, name: str) -> int:
        return self._store.size(self._staged.get(name, name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        return self._store.read(self._staged.get(name, name), offset, length)

    def local_path(self, name: str) -> str | None:
        return self._store.local_path(self._staged.get(name, name))

    def open_file(self, name: str) -> ObjectFile | None:
        return self._store.open_file(self._staged.get(name, name))

    def delete(self, name: str) -> None:
        self._store.delete(self._staged.get(name, name))

    def delete_all(self, names: Sequence[str]) -> None:
        self._store.delete_all([self._staged.get(name, name) for name in names])

    def names(self, prefix: str = "") -> Iterator[str]:
        return self._store.names(prefix)
