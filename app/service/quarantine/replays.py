"""Quarantined messages that are processed again, and what becomes of them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic, sleep
from typing import Final, Literal, NamedTuple, Protocol

from app.assembly.states import Input, follow
from app.codecs.sas.correlid import SIZE
from app.framing.message_events import as_framed_now
from app.framing.registry import find_framing
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, InvalidInputError
from app.model.identity import attachment_id, message_id
from app.model.message import PhysicalMessage, Position
from app.model.records import DAMAGED_PART, AttachmentRecord, QuarantineRecord
from app.observe import logger
from app.ports import Catalog
from app.service.context import ServiceContext
from app.service.quarantine.quarantine_records import is_lost_batch, messages_of_batch, quarantined_message

WAIT_SECONDS = 5.0
"""How long a replay waits for assembly, and for the content of attachments that have become complete."""
REQUESTS_AT_ONCE: Final = 100
_LOOK_SECONDS = 0.02
_EVENTS_AT_ONCE = 1000

log = logger(__name__)

Replayed = Callable[[], "ReplayOutcome"]
"""A function that waits until messages that are processed again are assembled, and returns what became of them."""

Result = Literal["quarantined", "processed", "pending"]


class ReplayOutcome(NamedTuple):
    """What became of a replayed message, or of the messages of a journal batch.

    - `quarantined`: one cannot be read this time either; `entry` is its new entry, or with the code `other-framing` its
      present one, which stays.
    - `processed`: all were read; `attachments` are the attachments that they belong to, if known. A message that waits
      for its header is not known to belong to one.
    - `pending`: assembly has not reached them yet, or leaves them to a job on Spark; or another process receives.
    """

    result: Result
    entry: QuarantineRecord | None = None
    attachments: tuple[AttachmentRecord, ...] = ()


class Replays(Protocol):
    """Has quarantined messages processed again, in this process or in another one."""

    def replay(self, quarantine_id: str) -> Replayed | None:
        """Process a quarantined message, or the attachment whose content it spoilt, again. Return a function that waits
        for the outcome, or None when there is no such entry.

        Raises KeyError when its segment is gone, and JournalFull when it cannot be processed at present.
        """


class RequestedReplays:
    """Asks the process that receives. The outcome is not awaited: that process may be away."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def replay(self, quarantine_id: str) -> Replayed | None:
        """Request a replay. Return None when there is no such entry."""
        if self._catalog.quarantine_entry(quarantine_id) is None:
            return None
        self._catalog.request_replay(quarantine_id)
        return lambda: ReplayOutcome("pending")


class Replayer:
    """Has quarantined messages processed again, as the present settings of their sources say.

    `journal_again` writes messages of the journal to it again, and then calls a function; it raises JournalFull.
    `finish_again` has the content of a complete attachment read again. `end` is the last position of the journal.
    """

    def __init__(
        self,
        context: ServiceContext,
        journal_again: Callable[[Sequence[PhysicalMessage], Callable[[], object]], None],
        finish_again: Callable[[str], None],
        end: Callable[[], Position | None],
    ) -> None:
        self._context, self._journal_again, self._finish_again = context, journal_again, finish_again
        self._end = end

    def replay(self, quarantine_id: str) -> Replayed | None:
        """Do what `Replays.replay` says."""
        context, catalog = self._context, self._context.catalog
        entry = catalog.quarantine_entry(quarantine_id)
        if entry is None:
            return None
        mark = partial(catalog.set_quarantine_state, quarantine_id, "replayed")
        if entry.code == DAMAGED_PART:  # the disk may be able to read the part now
            mark()
            return self._finish(catalog.attachment(attachment_id(entry.source, entry.correl_id)))
        if is_lost_batch(entry):
            messages = messages_of_batch(entry, context.journal)
        else:
            message, source = quarantined_message(entry, context), context.settings.sources.get(entry.source)
            try:
                messages = [message if source is None else as_framed_now(message, source.framing)]
            except InvalidInputError as error:
                log.warning("replay_failed", entry=quarantine_id, reason=error.why)
                return partial(ReplayOutcome, "quarantined", replace(entry, code=error.code, why=error.why))
            spoilt = attachment_of(messages[0], catalog)
            if _may_finish(spoilt):
                mark()
                return self._finish(spoilt)
        since = catalog.last_event()
        self._journal_again(messages, mark)
        return partial(self._outcome, messages, since)

    def carry_out(self) -> None:
        """Process the entries that other processes have requested. Raises JournalFull, after which they wait."""
        for quarantine_id in self._context.catalog.replay_requests(REQUESTS_AT_ONCE):
            try:
                self.replay(quarantine_id)
            except KeyError:
                log.warning("replay_failed", entry=quarantine_id, reason="its journal segment is gone")
            except DamagedError as error:
                log.warning("replay_failed", entry=quarantine_id, reason=str(error))
            self._context.catalog.drop_replay_request(quarantine_id)

    def _finish(self, attachment: AttachmentRecord | None) -> Replayed:
        if attachment is not None and _may_finish(attachment):
            self._context.catalog.set_state([attachment.id], AttachmentState.COMPLETE)
            self._finish_again(attachment.id)
        return partial(settled, self._context, [] if attachment is None else [attachment.id])

    def _outcome(self, messages: Sequence[PhysicalMessage], since: int) -> ReplayOutcome:
        """Wait until messages that have just been journalled again are assembled, and return what became of them.

        `since` is the number of the last event before.
        """
        catalog, end = self._context.catalog, self._end()
        reached = -1 if end is None else end.pack()
        if not _wait_until(lambda: (catalog.progress() or -1) >= reached):
            return ReplayOutcome("pending")
        entry = _new_entry(catalog, messages, since)
        if entry is not None:
            return ReplayOutcome("quarantined", entry)
        found: dict[str, None] = {}
        for message in messages:
            announcing = catalog.message(message_id(message.source, message.correl_id.ljust(SIZE, b"\0")))
            of_part = None if announcing is not None else attachment_of(message, catalog)
            if announcing is not None:
                found |= dict.fromkeys(announcing.attachments)
            elif of_part is not None and of_part.kind is not None:
                found[of_part.id] = None
        return settled(self._context, list(found))


def _may_finish(attachment: AttachmentRecord | None) -> bool:
    return attachment is not None and follow(attachment.state, Input.REPLAY) is AttachmentState.COMPLETE


def attachment_of(message: PhysicalMessage, catalog: Catalog) -> AttachmentRecord | None:
    """Return the attachment that a message is a part of; None if there is none."""
    framing = find_framing(message.framing)
    if framing is None:
        return None
    with suppress(InvalidInputError):
        return catalog.attachment(attachment_id(message.source, framing.attachment_key(message)))
    return None


def settled(context: ServiceContext, attachment_ids: list[str]) -> ReplayOutcome:
    """Wait until no content of these attachments is still to be read, and return the outcome with them."""

    def records() -> tuple[AttachmentRecord, ...]:
        return tuple(context.catalog.attachments_by_id(attachment_ids))

    _wait_until(lambda: all(each.state is not AttachmentState.COMPLETE for each in records()))
    return ReplayOutcome("processed", None, records())


def _new_entry(catalog: Catalog, messages: Sequence[PhysicalMessage], since: int) -> QuarantineRecord | None:
    """Return the first entry that one of the messages has got since an event."""
    replayed = {(each.source, each.received_at, each.correl_id, each.msg_type, len(each.body)) for each in messages}
    while events := catalog.events_after(since, _EVENTS_AT_ONCE):
        for event in events:
            if event.type != "message.quarantined":
                continue
            entry = catalog.quarantine_entry(event.subject)
            if entry is None:
                continue
            if (entry.source, entry.received_at, entry.correl_id, entry.msg_type, entry.size) in replayed:
                return entry
        since = events[-1].number
    return None


def _wait_until(is_so: Callable[[], bool]) -> bool:
    """Wait up to `WAIT_SECONDS` for a condition, and tell whether it is true."""
    deadline = monotonic() + WAIT_SECONDS
    while not is_so():
        if monotonic() > deadline:
            return False
        sleep(_LOOK_SECONDS)
    return True
