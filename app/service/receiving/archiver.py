"""Copies of sealed journal segments in an archive, which is a folder or an object store: one object for each segment.

Segments are copied in the order of their numbers. An object gets its name only when it is whole. A segment counts as
copied when its object has the same size. A failed copy stops nothing else: brokers are served, and segments stay in the
journal until copying works. An archive of another journal makes copying fail, since segment numbers start again with
every journal. The object `journal-id` names the journal of an archive. A damaged segment is copied as it is, so that
readers of the copy find the same damage.

The object `journal-epoch` names the epoch of the gateway that copied last. One of an earlier epoch copies nothing more.
"""

from contextlib import suppress
from typing import Any

from app.model.errors import GatewayError, JournalTaken
from app.model.message import segment_name
from app.observe import Recurring, logger
from app.ports import ContentStore, Segment
from app.service.context import ReceiverContext

log = logger(__name__)

HEAD = 4096
"""Bytes at the start of a segment that no other segment has: they hold its creation time in microseconds."""
SHORT = 64
OWNER = "journal-id"
EPOCH = "journal-epoch"


class Archiver:
    """Copies sealed segments to the archive. One call of `archive` copies those that are not there yet."""

    def __init__(self, context: ReceiverContext, target: ContentStore) -> None:
        self._context, self._target = context, target
        self._copied: dict[int, int] = {}
        self._is_ours = False
        self._fault = Recurring(log, "archiving", consequence="sealed segments stay in the journal")
        context.metrics.archive_waiting_segments.set_function(self.waiting)

    def archive(self) -> None:
        """Copy the oldest segments first, so that readers who follow the order miss none."""
        sealed = {segment.number: segment for segment in self._segments()}
        self._copied = {number: size for number, size in self._copied.items() if number in sealed}
        try:
            if not self._is_ours and sealed:
                self._require_ours()
            for segment in sealed.values():
                if not self.has(segment):
                    self._take(segment)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()

    def has(self, segment: Segment) -> bool:
        """Tell whether a segment has been copied, as far as this process knows."""
        return self._copied.get(segment.number) == segment.size

    def waiting(self) -> int:
        """Return the number of sealed segments that have not been copied."""
        return sum(not self.has(segment) for segment in self._segments())

    def check(self) -> dict[str, Any]:
        """Return the state of archiving for the health report."""
        return {"ok": self._fault.error is None, "waiting": self.waiting(), "error": self._fault.error}

    def _segments(self) -> list[Segment]:
        return [segment for segment in self._context.journal.segments() if segment.sealed_at is not None]

    def _take(self, segment: Segment) -> None:
        name = segment_name(segment.number)
        self._require_last()
        there = 0
        with suppress(KeyError):
            there = self._target.size(name)
        if there:
            length = min(there, segment.size, HEAD)
            begins = next(self._context.journal.segment_bytes(segment.number))[:length]
            if b"".join(self._target.read(name, 0, length)) != begins:
                raise GatewayError(
                    f"{name} in the archive is from another journal: every journal needs an archive of its own"
                )
        if there != segment.size:
            self._copy(segment.number)
            log.info("segment_archived", segment=segment.number, bytes=segment.size)
        self._copied[segment.number] = segment.size

    def copy_again(self, segment: int) -> None:
        """Replace the copy of a sealed segment. Raises GatewayError when the archive belongs to another journal."""
        self._require_ours()
        self._copy(segment)

    def _copy(self, segment: int) -> None:
        with self._target.create(segment_name(segment)) as copy:
            for view in self._context.journal.segment_bytes(segment):
                copy.write(view)

    def _require_ours(self) -> None:
        """Raise GatewayError when the archive belongs to another journal. An archive without an owner gets this
        journal as owner."""
        mine, epoch = self._context.journal.identity()
        if (owner := self._read(OWNER)) is None:
            self._write(OWNER, mine)
            owner = mine
        if owner != mine:
            raise GatewayError(
                f"the archive belongs to the journal {owner}, but this is the journal {mine}: "
                "every journal needs an archive of its own"
            )
        if self._require_last() != epoch:
            self._write(EPOCH, str(epoch))
        self._is_ours = True

    def _require_last(self) -> int:
        """Return the epoch of the gateway that copied last. Raises JournalTaken if it is later than the epoch
        of this gateway.

        What two gateways copy at the same moment is the same, since a sealed segment never changes.
        """
        mine, last = self._context.journal.identity().epoch, self._read(EPOCH) or "0"
        if not last.isdigit() or int(last) > mine:
            raise JournalTaken(
                f"the archive was written with epoch {last!r}, and this gateway has epoch {mine}: it has an older copy "
                "of the journal, or another gateway has taken over"
            )
        return int(last)

    def _read(self, name: str) -> str | None:
        """Return a short text of the archive; None if there is none."""
        try:
            return b"".join(self._target.read(name, 0, SHORT)).decode("ascii", "replace")
        except KeyError:
            return None

    def _write(self, name: str, text: str) -> None:
        with self._target.create(name) as object_:
            object_.write(text.encode())
