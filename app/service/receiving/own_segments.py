"""The end of segments in a receiver's own journal: each is removed when the shared journal has its messages.

That is certain of a segment that this process has added to the archive. Of any other, the catalog says only that its
number is published. An earlier process with this journal may have done that, and was killed before it removed the
segment; or a process with a copy of this journal, which has given the same number to other messages.

So each message of such a segment is looked for in the archive, by all its fields and the bytes of its body. What is not
there is journalled again, as part of a new segment, which is published as any other. Only then is the old one removed.
Messages that come twice change nothing, as with a broker that delivers them again.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from threading import Event
from typing import Any

from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.observe import Recurring, logger
from app.ports import JournalArchive, ReplayReader, Segment
from app.service.context import WriterContext
from app.service.receiving.publishing import Publisher

CLOCKS_DIFFER = 86_400_000_000
"""The most, in µs, by which the clocks of receivers and of the archive's store are taken to differ."""
DIGEST_BYTES = 16

log = logger(__name__)


class OwnSegments:
    """The segments of `context.journal` that are published by `publisher`, or by others with the same journal.

    `journal_again` writes messages to that journal and returns when they are there. What takes long ends when `stop` is
    set.
    """

    def __init__(
        self,
        context: WriterContext,
        archive: JournalArchive,
        publisher: Publisher,
        journal_again: Callable[[Sequence[PhysicalMessage]], None],
        stop: Event,
    ) -> None:
        self._journal, self._catalog, self._archive = context.journal, context.catalog, archive
        self._publisher, self._journal_again, self._stop = publisher, journal_again, stop
        self._uncompared: list[int] = []
        self._fault = Recurring(log, "retiring", consequence="published segments stay in the receiver's own journal")

    def retire(self) -> None:
        """Remove what is published: the own journal is not read again."""
        published = self._publisher.published_segments()
        certain = {each.number for each in published if self._publisher.is_certain(each)}
        uncertain = [each for each in published if each.number not in certain]
        self._uncompared = [each.number for each in uncertain]
        try:
            self._remove(sorted(certain))
            if uncertain:
                self._compare(uncertain)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()

    def check(self) -> dict[str, Any]:
        """Return the part of the health report: `uncompared` are segments whose messages are not found yet."""
        error = self._fault.error
        return {"ok": error is None, "uncompared": self._uncompared, "error": error}

    def _remove(self, numbers: Sequence[int]) -> None:
        if numbers:
            self._journal.retire(*numbers)
            self._publisher.added.difference_update(numbers)
            log.info("segments_retired", first=numbers[0], last=numbers[-1], count=len(numbers))

    def _compare(self, segments: Sequence[Segment]) -> None:
        """Remove segments when the shared journal, or else the own one, has each of their messages again."""
        copies = self._copies(segments)
        for copy, found in groupby(segments, lambda each: copies.get(each.number)):
            known: set[bytes] = set()
            if copy is not None:
                known.update(_digest(message) for messages in _messages(self._archive, copy) for message in messages)
            for each in found:
                if self._stop.is_set():
                    return
                lacking = 0
                for messages in _messages(self._journal, each.number):
                    if missing := [message for message in messages if _digest(message) not in known]:
                        if not lacking:  # a number that is published would have to be compared, too
                            self._journal.reserve(self._publisher.last_published())
                        self._journal_again(missing)
                        lacking += len(missing)
                self._remove([each.number])
                self._uncompared.remove(each.number)
                if lacking:
                    log.warning(
                        "segment_recovered",
                        segment=each.number,
                        messages=lacking,
                        reason="the shared journal has other messages under its number: a process with a copy of this "
                        "journal has published them, or its segment there is lost or damaged",
                    )
                    self._journal.seal()

    def _copies(self, segments: Sequence[Segment]) -> dict[int, int]:
        """Return the segments of the shared journal that have these numbers of the own one. Raises GatewayError if the
        archive cannot tell."""
        own, shared = self._journal.identity(), self._archive.identity()
        first, begun_at = segments[0].number, min(each.created_at for each in segments)
        last = Position.unpack(self._catalog.published()).segment  # before the archive is listed
        listed = self._archive.segments()
        if not any(each.number == last for each in listed):
            raise GatewayError(
                f"{self._archive.path(last)} is missing, which receivers have published last: put it back"
            )
        found: dict[int, int] = {}
        for each in reversed(listed):
            if each.created_at < begun_at - CLOCKS_DIFFER:
                break  # whatever is in it came before
            try:
                origin = self._archive.origin(each.number)
            except KeyError:
                continue
            if origin is None:  # a gateway that received alone has archived its own segments
                if shared is not None and shared.id == own.id:
                    found[each.number] = each.number
            elif origin.journal == own.id:
                if origin.segment < first:
                    break
                found |= {mine.number: each.number for mine in segments if mine.number <= origin.segment}
        return found


def _messages(journal: ReplayReader, segment: int) -> Iterator[list[PhysicalMessage]]:
    """Yield the messages of a segment, batch by batch; what is damaged comes as unreadable."""
    for positions, messages in journal.replay(Position(segment, 0, -1)):
        if positions[0].segment != segment:
            return
        yield messages


def _digest(message: PhysicalMessage) -> bytes:
    described = message._replace(body=b"", properties=dict(sorted(message.properties.items())))
    digest = blake2b(repr(described).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES)
    digest.update(message.body)
    return digest.digest()
