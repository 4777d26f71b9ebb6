"""The content of finished attachments, as REST serves it: opened wherever it lies, watched for damage, and verified."""

from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache, partial
from math import inf
from time import monotonic

from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, LimitExceeded
from app.model.records import DAMAGED_CONTENT, AttachmentRecord
from app.service.content.archived import require_archived
from app.service.content.compared_blocks import ComparedBlocks
from app.service.content.content_damage import Damages, WatchedContent, missing
from app.service.content.stored_content import (
    Content,
    HeldContent,
    JournalContent,
    MovingContent,
    StoredContent,
    open_content,
)
from app.service.context import ServiceContext

OPENED = 8
"""The most attachments in the journal whose extents are cached, since a client often reads range after range."""
VERIFIED = 1000
VERIFIED_SECONDS = 600.0
"""The time for which verified content is not verified again when it is converted to other formats, in seconds."""
HANDED_OVER_SHARE = 4
"""Content from the journal may take this fraction of the memory of a conversion: one part in `HANDED_OVER_SHARE`."""

_Version = tuple[str, str | None]
"""An attachment and the digest of its content: what is processed again may have other content."""


class Contents:
    """Access to the content of finished attachments. Threads may share it."""

    def __init__(self, context: ServiceContext, damages: Damages) -> None:
        self._catalog, self._store, self._journal = context.catalog, context.store, context.journal
        self._limits, self._damages, self._context = context.settings.limits, damages, context
        self._opened = lru_cache(maxsize=OPENED)(self._in_journal)
        self._compared = ComparedBlocks()
        self._verified: OrderedDict[_Version, float] = OrderedDict()

    def open(self, record: AttachmentRecord) -> WatchedContent:
        """Return a finished attachment's content.

        Raises KeyError when it is gone, and NotArchived when not all of it can be read here yet. Raises DamagedError
        when it is not what was received; so does reading it.
        """
        try:
            content = self._opened(record) if record.storage == "journal" else self._found(record)
        except DamagedError as error:
            self._damages.found(record, error, "serving")
            raise
        except KeyError as gone:
            self._damages.require_deleted(record, gone)
            raise
        watched = WatchedContent(content, record, self._damages, self._compared)
        if record.reason_code == DAMAGED_CONTENT:
            watched.verify()
        return watched

    def verified(self, record: AttachmentRecord) -> WatchedContent:
        """Return content as `open` does, verified with its digest, unless that was done lately."""
        content = self.open(record)
        version, now = _version(record), monotonic()
        if self._verified.get(version, -inf) < now - VERIFIED_SECONDS:
            content.verify()
            self._verified[version] = now
            if len(self._verified) > VERIFIED:
                self._verified.popitem(last=False)
        return content

    def for_conversion(self, record: AttachmentRecord) -> Content:
        """Return verified content for a conversion, whose process has no journal and cannot report damage.

        Raises what `open` does, and LimitExceeded for content of the journal that is too large to be handed over.
        """
        content, most = self.verified(record), self._limits.conversion_memory // HANDED_OVER_SHARE
        if isinstance(content.unwatched, StoredContent):
            return content.unwatched
        if content.size > most:
            why = f"{content.size:,} bytes are still in the journal, from where a conversion takes at most {most:,}"
            raise LimitExceeded("conversion_memory", f"{why}; try again when they are in the content store")
        return HeldContent(b"".join(content.read(0, content.size)))

    def compared(self, record: AttachmentRecord) -> Iterator[memoryview]:
        """Yield all bytes and compare them with the digest. Raises what `open` does."""
        return self.open(record).compared()

    def _in_journal(self, record: AttachmentRecord) -> Content:
        """Return content that is in the journal, according to `record`, and may have been copied since it was read."""
        copied = partial(self._copied, record)
        try:
            content = self._found(record)
        except KeyError as gone:
            return copied(gone)
        assert isinstance(content, JournalContent)
        require_archived(content.extents, self._context)  # not when the first pieces have been sent
        return MovingContent(content, copied)

    def _copied(self, record: AttachmentRecord, gone: KeyError) -> Content:
        """Return the copy in the store of content that the journal no longer has.

        One look at the catalog decides, so a copy that is made meanwhile is never taken for a deletion. Raises
        `gone` when the attachment was deleted, and DamagedError when the content is nowhere.
        """
        now = self._catalog.attachment(record.id)
        if now is None or now.state is not AttachmentState.FINISHED or _version(now) != _version(record):
            raise gone
        if now.storage == record.storage:
            raise missing(now, gone)
        try:
            return self._found(now)
        except KeyError as error:
            raise missing(now, error) from error

    def _found(self, record: AttachmentRecord) -> Content:
        return open_content(record, self._catalog, self._store, self._journal)


def _version(record: AttachmentRecord) -> _Version:
    return record.id, record.sha256
