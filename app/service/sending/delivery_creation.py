"""Deliveries: a message whose parts are stored becomes a delivery, and an outbox sends it."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from app.dataset.value_labels import Catalog
from app.framing.registry import framing
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import CatalogError, InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions
from app.observe import Recurring, logger
from app.ports import ContentStore, IdempotencyConflict, Sender
from app.service.context import ServiceContext
from app.service.conversion import finished
from app.service.events.event_entries import delivery_event
from app.service.sending.drafts import DraftedMessage, check_names, find_destination, new_delivery
from app.service.sending.framer import Framer, traced
from app.service.sending.outbox import CANCELLED, OPEN, RETRIED, Outbox, can_be_retried, framing_options
from app.service.sending.preparation import Preparation, prepare
from app.service.sending.sending_errors import DeliveryOver, KeyReused, MessageFault
from app.service.sending.upload_conversion import (
    ConversionRequest,
    ConvertedFile,
    Runner,
    convert_and_store,
    convert_catalog,
    run_here,
    store_converted,
    target_of,
)
from app.service.sending.upload_parts import Companions, StoredPart
from app.settings import Destination

FOLDER = "outgoing/"
LONGEST_UPLOAD = 24 * 3600.0
"""Seconds after which no request that began to upload may still be at work."""
_CORREL_ID = 16


log = logger(__name__)


class DryRun(NamedTuple):
    """A message as it would be sent.

    It has its delivery, the part of each attachment, the data sets by part, and the number of physical messages: of
    all, and of each attachment by its correlid.
    """

    delivery: DeliveryRecord
    parts: list[str]
    data_sets: Mapping[str, ConvertedFile]
    messages: int
    attachment_messages: Mapping[bytes, int]


def count_messages(
    how: FramingOptions, store: ContentStore, delivery: DeliveryRecord
) -> Generator[bytes, None, tuple[int, dict[bytes, int]]]:
    """Count the physical messages of a delivery, and of each of its attachments by its correlid. Raises CannotSend.

    It is a generator function, so that a conversion process can run it.
    """
    cut_by = framing(how.framing)
    counts: Counter[bytes] = Counter()
    for message in Framer(how, store).frame(delivery):
        attachment = b""  # of a message that is a part of none
        with suppress(InvalidInputError):
            attachment = cut_by.attachment_key(message)[:_CORREL_ID]
        counts[attachment] += 1
    yield b""
    return counts.total(), {each.correl_id: counts[each.correl_id] for each in delivery.attachments}


class Submission(NamedTuple):
    """A client's message to send. `parts` are stored, by the names that the message uses.

    With an idempotency `key`, repeating the submission is safe. `fingerprint` tells whether another one with the key is
    the same. `uploads` are the identifiers of the resumable uploads of which parts are copies. The delivery continues
    the trace of `trace_parent`.
    """

    delivery_id: str
    message: DraftedMessage
    parts: Mapping[str, StoredPart]
    key: str | None = None
    fingerprint: str = ""
    uploads: tuple[str, ...] = ()
    trace_parent: str | None = None


class Accepted(NamedTuple):
    """A submission as a queued delivery. `is_replayed` if an earlier submission with the same key was queued."""

    delivery: DeliveryRecord
    warnings: list[MessageFault]
    is_replayed: bool = False


class Deliveries:
    """The outgoing messages of all destinations. `check_room` raises StoreFull if there is no room for that many bytes
    more."""

    def __init__(
        self, context: ServiceContext, senders: Mapping[str, Sender], check_room: Callable[[int], None]
    ) -> None:
        self._context, self._check_room = context, check_room
        self._catalog, self._store, self._clock = context.catalog, context.store, context.clock
        self._fault = Recurring(log, "dropping_of_parts")
        self.outboxes: Mapping[str, Outbox] = {
            name: Outbox(name, sender, self._frame, context) for name, sender in senders.items()
        }

    def _frame(self, how: FramingOptions, delivery: DeliveryRecord) -> Iterator[PhysicalMessage]:
        return traced(Framer(how, self._store).frame(delivery), self._context.traces.onward(delivery))

    @property
    def destinations(self) -> Mapping[str, Destination]:
        """Return the settings of every destination by name."""
        return self._context.settings.destinations

    def submit(self, submission: Submission, run: Runner = run_here) -> Accepted:
        """Queue a message. `run` converts its data sets. If the message is not queued, its objects are removed.

        Raises what `enqueue` raises, CannotSend, UnsuitableDataSets, KeyReused and what storing raises.
        """
        delivery_id = submission.delivery_id
        try:
            prepared = self._prepare(submission, run)
            delivery = self._new_delivery(submission, prepared)
        except BaseException:
            self.discard(delivery_id)
            raise
        try:
            self.enqueue(delivery)
        except IdempotencyConflict as conflict:
            if not conflict.same_request:
                raise KeyReused(f"it was used for delivery {conflict.delivery.id}") from None
            return Accepted(_as_queued(conflict.delivery), list(prepared.warnings()), is_replayed=True)
        sent = {attachment.object_name for attachment in delivery.attachments}
        # The files that data sets were converted from. Removing them must not fail a message that is queued.
        names = (part.object_name for part in submission.parts.values() if part.object_name not in sent)
        try:
            self._store.delete_all(list(names))
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()
        return Accepted(delivery, list(prepared.warnings()))

    def dry_run(self, submission: Submission, run: Runner = run_here) -> DryRun:
        """Return the delivery that a message would be, and remove its objects. Raises CannotSend and
        UnsuitableDataSets."""
        try:
            prepared = self._prepare(submission, run)
            delivery = self._new_delivery(submission, prepared)
            destination = self.destinations[delivery.destination]
            how = framing_options(destination, destination.body_limit)
            total, counts = finished(run(count_messages, how, self._store, delivery))
        finally:
            self.discard(submission.delivery_id)
        parts = [attachment.part for attachment in prepared.message.attachments]
        return DryRun(delivery, parts, prepared.data_sets, total, counts)

    def discard(self, delivery_id: str) -> None:
        """Remove every object of a submission that is not queued."""
        self._store.delete_all(list(self._store.names(f"{folder_of(delivery_id)}/")))

    def enqueue(self, delivery: DeliveryRecord) -> None:
        """Queue a delivery whose content is stored. If it is not queued, its objects are removed.

        Raises IdempotencyConflict. Raises CatalogError if it is not queued, or if that is not known: its objects stay
        then, and the next start removes them if they belong to no delivery.
        """
        try:
            self._catalog.add_delivery(delivery, [delivery_event(delivery)])
        except CatalogError:  # the connection may have broken after the commit, or during it
            if not self._catalog.is_delivery_recorded(delivery.id):
                self.discard(delivery.id)
                raise
        except BaseException:
            self.discard(delivery.id)
            raise
        self._context.metrics.deliveries.labels(delivery.state).inc()
        self.outboxes[delivery.destination].wake()
        self._context.notifier.notify()

    def cancel(self, delivery: DeliveryRecord) -> DeliveryRecord:
        """Cancel a delivery that has not been sent, and return it.

        One that is being sent keeps its state until its next batch, and is sent if there is none. A restart meanwhile
        changes nothing. Raises DeliveryOver.
        """
        is_sent = delivery.destination in self.destinations
        waiting = (DeliveryState.QUEUED,) if is_sent else OPEN
        reason, now = CANCELLED, self._clock.now()
        cancelled = replace(delivery, state=DeliveryState.CANCELLED, reason=reason, updated_at=now)
        event = delivery_event(cancelled, attempts=cancelled.attempts, reason=reason)
        try:
            self._catalog.update_delivery(cancelled, [event], waiting)
        except KeyError:
            if is_sent:  # right now: who sends it cancels it
                with suppress(KeyError):
                    self._catalog.request_cancel(delivery.id)
                    return self._catalog.delivery(delivery.id) or delivery
            newest = self._catalog.delivery(delivery.id) or delivery
            raise DeliveryOver(newest.state, f"it is {newest.state} and cannot be cancelled") from None
        self._context.metrics.deliveries.labels(cancelled.state).inc()
        self._context.notifier.notify()
        return cancelled

    def retry(self, delivery: DeliveryRecord) -> DeliveryRecord:
        """Queue a delivery again that failed or was cancelled, and return it.

        It continues after the messages that the broker has confirmed, with the same correlids, and has all its attempts
        again. Raises DeliveryOver and UnknownDestination.
        """
        find_destination(self.destinations, delivery.destination)
        if delivery.state not in RETRIED:
            raise DeliveryOver(delivery.state, f"it is {delivery.state}; only a failed or cancelled one is sent again")
        if not can_be_retried(delivery):
            raise DeliveryOver(delivery.state, "its content is gone")
        queued = replace(
            delivery,
            state=DeliveryState.QUEUED,
            attempts=0,
            reason=None,
            next_attempt_at=0,
            updated_at=self._clock.now(),
        )
        try:
            self._catalog.update_delivery(queued, [delivery_event(queued)], RETRIED)
        except KeyError:
            raise DeliveryOver(delivery.state, "it was changed meanwhile") from None
        self._context.metrics.deliveries.labels(queued.state).inc()
        self.outboxes[delivery.destination].wake()
        self._context.notifier.notify()
        return queued

    def repeats(self, destination: str) -> str | None:
        """Return which messages may arrive twice at a destination; None if none can, or if it is not configured."""
        outbox = self.outboxes.get(destination)
        return None if outbox is None else outbox.sender.repeats()

    def _prepare(self, submission: Submission, run: Runner) -> Preparation:
        destination = find_destination(self.destinations, submission.message.destination)
        most_bytes = self._context.settings.limits.upload_bytes
        attachments = submission.message.attachments
        files = tuple(each.name or "" for each in attachments if each.kind is not AttachmentKind.DATA_SET)

        def check_room() -> None:
            self._check_room(0)

        def convert(
            part: StoredPart, request: ConversionRequest, companions: Companions, object_name: str
        ) -> ConvertedFile:
            target = target_of(destination, most_bytes, self._context.settings.limits.expansion, files)
            return convert_and_store(self._store, part, request, target, object_name, run, check_room, companions)

        def store_catalog(catalog: Catalog, library: str, object_name: str) -> ConvertedFile:
            pieces = convert_catalog(catalog, library, target_of(destination, most_bytes))
            return store_converted(self._store, pieces, object_name, check_room)

        folder = folder_of(submission.delivery_id)
        return prepare(submission.message, submission.parts, folder, convert, store_catalog)

    def _new_delivery(self, submission: Submission, prepared: Preparation) -> DeliveryRecord:
        destination = self.destinations[submission.message.destination]
        delivery = new_delivery(
            submission.delivery_id,
            prepared.message,
            prepared.parts,
            destination,
            now=self._clock.now(),
            key=submission.key,
            fingerprint=submission.fingerprint,
            trace_parent=submission.trace_parent,
        )
        check_names(delivery, framing_options(destination, destination.body_limit))
        return delivery


def folder_of(delivery_id: str) -> str:
    """Return the folder of the content store with the objects of a delivery."""
    return f"{FOLDER}{delivery_id}"


def drop_abandoned_uploads(context: ServiceContext) -> None:
    """Remove the objects of deliveries that were never queued, because the process that received them was killed. Call
    it before uploads begin, and only where no other process takes any.

    Raises CatalogTaken when another gateway has taken over, whose uploads may be among those that were found.
    """
    found = list(context.store.names(FOLDER))
    if found:
        context.catalog.flush()
    for name in _abandoned(context, found):
        context.store.delete(name)


class AbandonedUploads:
    """Removes such objects while other processes receive uploads: what belonged to no delivery for a day, as this
    process has seen."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._seen: dict[str, float] = {}

    def step(self) -> None:
        """Look through all uploads, and remove what is due."""
        now = self._context.clock.monotonic()
        found = [*_abandoned(self._context, list(self._context.store.names(FOLDER)))]
        self._seen = {name: self._seen.get(name, now) for name in found}
        over = [name for name, since in self._seen.items() if now - since > LONGEST_UPLOAD]
        if over:
            self._context.catalog.flush()  # raises LeaseLost when another process is the keeper
            self._context.store.delete_all(over)


def _abandoned(context: ServiceContext, names: list[str]) -> Iterator[str]:
    return (name for name in names if context.catalog.delivery(name.split("/")[1]) is None)


def _as_queued(delivery: DeliveryRecord) -> DeliveryRecord:
    """Return a delivery as the answer to its first submission has it."""
    return replace(
        delivery,
        state=DeliveryState.QUEUED,
        messages_sent=0,
        messages_total=None,
        attempts=0,
        next_attempt_at=0,
        reason=None,
        subscribers=None,
        updated_at=delivery.created_at,
    )
