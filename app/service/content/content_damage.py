"""Finished content that differs from what was received: it is reported once, marked in the catalog and never served.

A mark can be removed. Content loses it once it reads well from its first byte to its last, because a disk works again
or the content was rebuilt.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

from app.model.attachment import AttachmentState
from app.model.errors import CatalogError, DamagedError
from app.model.records import DAMAGED_CONTENT, AttachmentRecord, EventRecord
from app.model.trace_context import trace_fields
from app.observe import logger
from app.service.content.compared_blocks import ComparedBlocks
from app.service.content.stored_content import MAY_WAIT, Content, FilePiece, StoredContent
from app.service.context import ReceiverContext, ServiceContext
from app.service.events.event_entries import damage_event

log = logger(__name__)

SHOWN = 10

P = TypeVar("P", memoryview, memoryview | FilePiece)


class Damages:
    """The finished attachments whose content this process has found damaged. The lock guards `_found` and `_marked`."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._found: dict[str, str] = {}
        self._marked: set[str] = set()
        self._lock = Lock()
        context.metrics.damaged_attachments.set_function(lambda: len(self._found))

    def found(self, record: AttachmentRecord, error: DamagedError, where: str) -> None:
        """Report damage. The first report for an attachment is a log line, an event and a mark in the catalog.

        If the catalog fails, the next report makes event and mark.
        """
        self._context.metrics.damage.labels(where).inc()
        with self._lock:
            is_new, is_marked = record.id not in self._found, record.id in self._marked
            self._found[record.id] = str(error)
        if is_new:
            log.error(
                "content_damaged",
                attachment=record.id,
                where=where,
                reason=str(error),
                **trace_fields(record.trace_parent),
            )
        if is_marked:
            return
        catalog, event = self._context.catalog, damage_event(record, str(error), self._context.clock.now())
        with suppress(CatalogError):  # a damaged disk may be the catalog's, too
            if not catalog.mark_damaged(record.id, str(error), [event]):
                now = catalog.attachment(record.id)
                if now is None or now.state is not AttachmentState.FINISHED:  # it was deleted meanwhile
                    self._forget(record.id)
                    return
            with self._lock:
                if record.id in self._found:
                    self._marked.add(record.id)
            self._context.notifier.notify()

    def take(self, events: Iterable[EventRecord]) -> None:
        """Forget the damage of attachments that were deleted, according to these events. The process that has the
        journal, which can heal, learns from them what others have found damaged."""
        for event in events:
            if event.type == "attachment.deleted":
                self._forget(event.subject)
            elif event.type == "attachment.damaged" and isinstance(self._context, ReceiverContext):
                with self._lock:
                    self._found.setdefault(event.subject, str(event.data.get("reason", "")))
                    self._marked.add(event.subject)

    def known(self) -> list[AttachmentRecord]:
        """Return the attachments whose content was found damaged, and forget those whose mark another process has
        removed from the catalog. Raises CatalogError."""
        with self._lock:
            found, marked = [*self._found], {*self._marked}  # what is marked later may be read without its mark
        records = self._context.catalog.attachments_by_id(found)
        over = {record.id for record in records if record.id in marked and record.reason_code != DAMAGED_CONTENT}
        for each in over:
            self._forget(each)
        return [record for record in records if record.id not in over]

    def _forget(self, attachment_id: str) -> str | None:
        with self._lock:
            self._marked.discard(attachment_id)
            return self._found.pop(attachment_id, None)

    def require_deleted(self, record: AttachmentRecord, gone: KeyError) -> None:
        """Report content that is gone, unless it was deleted or copied after `record` was read. Raises DamagedError."""
        if (error := self.lost(record, gone)) is not None:
            self.found(record, error, "serving")
            raise error from gone

    def lost(self, record: AttachmentRecord, gone: KeyError) -> DamagedError | None:
        """Return the damage of content that is gone; None when it was deleted or copied after `record` was read."""
        now = self._context.catalog.attachment(record.id)
        if now is None or now.state is not AttachmentState.FINISHED or now.storage != record.storage:
            return None
        return missing(record, gone)

    def sound(self, record: AttachmentRecord) -> None:
        """Remove the mark of content that has just been read completely and without damage."""
        if self.knows(record):
            self._forget(record.id)
            with suppress(CatalogError):
                self._context.catalog.mark_damaged(record.id, None)
            log.info("content_recovered", attachment=record.id, **trace_fields(record.trace_parent))

    def knows(self, record: AttachmentRecord) -> bool:
        """Tell whether content was found damaged, by this process or before."""
        return record.id in self._found or record.reason_code == DAMAGED_CONTENT

    def check(self) -> dict[str, Any]:
        """Return the damaged attachments for the health report."""
        with self._lock:
            some = [{"attachment": each, "reason": why} for each, why in [*self._found.items()][:SHOWN]]
            return {"ok": not self._found, "damaged": len(self._found), "attachments": some}


def missing(record: AttachmentRecord, gone: KeyError) -> DamagedError:
    """Return the damage of finished content that is nowhere."""
    return DamagedError(f"its object or journal segment is missing ({gone})", name=record.object_name)


class WatchedContent:
    """A finished attachment's content. Reading damaged content reports the damage and raises DamagedError.

    Content that is read whole is compared with the digest before its last piece is returned, unless reading it compares
    each part with a checksum (`Content.is_checked`). A range that lacks bytes is damaged. `unwatched` is the same
    content without all that.
    """

    def __init__(self, content: Content, record: AttachmentRecord, damages: Damages, compared: ComparedBlocks) -> None:
        self.unwatched, self._record, self._damages, self._compared_blocks = content, record, damages, compared
        self.size, self.is_checked = content.size, content.is_checked
        if record.size is not None and content.size != record.size:
            error = DamagedError(f"it has {content.size} bytes, but {record.size} were received")
            damages.found(record, error, "serving")
            raise error

    def read(self, offset: int, length: int) -> Iterator[memoryview]:
        """Yield bytes, as `Content.read`. Raises DamagedError."""
        if offset or length != self.size:
            return self._watched(self._counted(self.unwatched.read, offset, length))
        if not self.is_checked:
            return self.compared()
        return self._watched(self._whole(self._counted(self.unwatched.read, 0, self.size)))

    def sendable(self, offset: int, length: int) -> Iterator[memoryview | FilePiece]:
        """Yield bytes as `read` does, some as pieces of their file (`StoredContent.sendable`). Raises DamagedError."""
        if not (isinstance(self.unwatched, StoredContent) and self.is_checked):
            return self.read(offset, length)
        pieces = self._counted(partial(self.unwatched.sendable, self._compared_blocks), offset, length)
        return self._watched(pieces if offset or length != self.size else self._whole(pieces))

    def compared(self) -> Iterator[memoryview]:
        """Yield all bytes and compare them with the digest, whether they have other checksums or not.

        Raises DamagedError.
        """
        return self._watched(self._whole(self._compared()))

    def _watched(self, pieces: Iterator[P]) -> Iterator[P | memoryview]:
        try:
            yield from pieces
        except DamagedError as error:
            yield MAY_WAIT
            self._damages.found(self._record, error, "serving")
            raise
        except KeyError as gone:
            yield MAY_WAIT
            self._damages.require_deleted(self._record, gone)
            raise

    def verify(self) -> None:
        """Read all of it. Raises DamagedError."""
        for _ in self.read(0, self.size):
            pass

    def _whole(self, pieces: Iterator[P]) -> Iterator[P | memoryview]:
        """Yield these pieces, which are all and checked. Remove the content's mark before the last one, after which a
        reader does not come back."""
        left = self.size
        for piece in pieces:
            left -= len(piece)
            if not left:
                yield from self._sound()
            yield piece
        if not self.size:
            yield from self._sound()

    def _sound(self) -> Iterator[memoryview]:
        if self._damages.knows(self._record):
            yield MAY_WAIT
            self._damages.sound(self._record)

    def _compared(self) -> Iterator[memoryview]:
        """Yield all pieces, the last one only after the digest was compared."""
        digest, held = sha256(), None
        for piece in self._counted(self.unwatched.read, 0, self.size):
            digest.update(piece)
            if held is not None:
                yield held
            held = piece
        if self._record.sha256 is not None and digest.hexdigest() != self._record.sha256:
            raise DamagedError("its SHA-256 is not the one of the received content", name=self._record.object_name)
        if held is not None:
            yield held

    def _counted(self, read: Callable[[int, int], Iterator[P]], offset: int, length: int) -> Iterator[P]:
        left = length
        for piece in read(offset, length):
            left -= len(piece)
            yield piece
        if left:
            raise DamagedError(f"{left} bytes of it are missing", name=self._record.object_name)
