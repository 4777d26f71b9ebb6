"""The settler: it copies finished content from the journal to the content store, so that segments may be retired.

Many attachments are copied together: small objects by themselves would cost two flushes of a disk each. One that fails
(its segment is missing, its bytes are damaged) is skipped, and tried again after a pause that doubles. So a failure
does not stop the other attachments. If the store does not take all of them together, they are copied one by one. A
store that then takes nothing (a full disk) ends the round. Each copy is compared with the digest that finishing
recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from threading import Event
from typing import Any

from app.model.errors import DamagedError, StoreFull
from app.model.records import AttachmentRecord, Extent, StoredObject
from app.observe import Recurring, logger
from app.ports import ContentStore
from app.service.content.archived import is_archived, newest_readable
from app.service.content.content_damage import Damages
from app.service.content.retries import Retries
from app.service.content.stored_content import Measured, content_at, object_name
from app.service.context import ServiceContext
from app.settings import microseconds

log = logger(__name__)

AT_ONCE = 100
"""Attachments that are copied together, and settled in one transaction."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0
"""The shortest and the longest pause after a failure, in seconds."""


class Settler:
    """Copies finished content, round by round."""

    def __init__(self, context: ServiceContext, damages: Damages | None = None, stop: Event | None = None) -> None:
        self._context = context
        self._damages = damages or Damages(context)
        self._stop = stop or Event()
        self._retries = Retries(FIRST_PAUSE, LONGEST_PAUSE)
        self._fault = Recurring(log, "settling")
        context.metrics.settling_failing.set_function(lambda: len(self._retries))

    def settle(self) -> None:
        """Copy the content that was finished long enough ago and does not wait for a retry."""
        try:
            for page in self._pages():
                self._copy_all(page)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            if not self._retries:
                self._fault.worked()

    def check(self) -> dict[str, Any]:
        """Return the state of settling for the health report."""
        return {"ok": self._fault.error is None, "failing": len(self._retries), "error": self._fault.error}

    def _pages(self) -> Iterator[list[AttachmentRecord]]:
        now = self._context.clock.now()
        before = now - microseconds(self._context.settings.content.settle_after)
        last: AttachmentRecord | None = None
        seen: set[str] = set()
        while not self._stop.is_set():
            page = self._context.catalog.unsettled_attachments(before, AT_ONCE, last, latest=now)
            if page:
                yield page
            seen.update(record.id for record in page if record.id in self._retries)
            if len(page) < AT_ONCE:
                # Attachments that were deleted or repaired are no longer unsettled, so they are not failed either.
                self._retries.keep(seen)
                return
            last = page[-1]

    def _copy_all(self, page: Sequence[AttachmentRecord]) -> None:
        store = self._context.store
        try:
            with store.batch() as pending:
                copied = self._copied(page, pending)
        except Exception:  # noqa: BLE001 - each fails by itself then
            for record in page:
                self._settle(self._copied([record], store))
        else:
            self._settle(copied)

    def _copied(self, page: Sequence[AttachmentRecord], store: ContentStore) -> dict[str, StoredObject]:
        """Copy the attachments of a page that do not wait for a retry. Return their objects."""
        due = [each for each in page if self._retries.is_due(each.id)]
        extents = self._context.catalog.extents_of([record.id for record in due])
        copied: dict[str, StoredObject] = {}
        newest = newest_readable(self._context)
        for record in due:
            if self._stop.is_set():
                break
            if not is_archived(own := extents.get(record.id, ()), newest):
                continue
            try:
                stored = self._copy(record, own, store)
            except StoreFull:
                raise
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._retries.add(record.id)
                if isinstance(error, DamagedError):
                    self._damages.found(record, error, "settling")
                self._fault.failed(error, attachment=record.id)
                continue
            self._retries.remove(record.id)
            if stored is not None:
                copied[record.id] = stored
        return copied

    def _settle(self, copied: Mapping[str, StoredObject]) -> None:
        """Save that these attachments are in the store, whose objects are durable."""
        if copied:
            settled = self._context.catalog.settle(copied, self._context.clock.now())
            for deleted in copied.keys() - settled:
                self._context.store.delete(copied[deleted].name)

    def _copy(self, record: AttachmentRecord, extents: Sequence[Extent], store: ContentStore) -> StoredObject | None:
        """Copy one attachment's content. Return None when it was deleted or copied by another process meanwhile."""
        name = object_name(record.id)
        try:
            content = content_at(extents, record, self._context.journal)
            with store.create(name) as target:
                measured = Measured(target)
                for piece in content.read(0, content.size):
                    measured.write(piece)
                if record.sha256 is not None and measured.sha256 != record.sha256:
                    raise DamagedError("the bytes in the journal are not the received ones", name=record.id)
            return measured.object(name)
        except KeyError as gone:
            if (lost := self._damages.lost(record, gone)) is not None:
                raise lost from gone
            return None
