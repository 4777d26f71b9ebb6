"""The header pass: it turns a source's header references, in order, into references to the headers' content.

A header may depend on the headers before it (`app.assembly.header_checks`), and its dialect on the dialects that its
source has used. This is the only step of assembly that needs an order over many attachments, and there are few headers.
After this pass every attachment is assembled by itself.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from app.assembly.collecting import Address, Key, Refused, Repeated
from app.assembly.header_checks import Announcement, EarlierHeaders, claims, judge, message_address, waiting_key
from app.codecs.sas import dialect
from app.framing.message_events import read_event
from app.model.errors import InvalidInputError
from app.model.event import Announced, OtherHeader
from app.model.message import PhysicalMessage
from app.model.records import MessageRecord
from app.pipeline.references.message_references import (
    AttachmentClaim,
    CommonDialects,
    MessageBegun,
    MessageEvent,
    Reference,
    RefusedMessage,
    RepeatedHeader,
)


class Memory(EarlierHeaders, Protocol):
    """The content of the headers of one source so far, in the storage of a host."""

    def dialects(self) -> int | None:
        """Return the dialects that they have in common, None before the first."""

    def keep_dialects(self, dialects: int) -> None: ...

    def keep_address(self, address: Address, message: str, position: int) -> None: ...

    def keep_announcement(self, key: Key, announcement: Announcement) -> None: ...


class Remembered:
    """A `Memory` that lasts as long as the process."""

    def __init__(self, dialects: int | None = None) -> None:
        self._dialects = dialects
        self._addressed: dict[Address, tuple[str, int]] = {}
        self._announced: dict[Key, Announcement] = {}

    def dialects(self) -> int | None:
        return self._dialects

    def keep_dialects(self, dialects: int) -> None:
        self._dialects = dialects

    def addressed(self, address: Address) -> tuple[str, int] | None:
        return self._addressed.get(address)

    def keep_address(self, address: Address, message: str, position: int) -> None:
        self._addressed[address] = message, position

    def announced(self, key: Key) -> Announcement | None:
        return self._announced.get(key)

    def keep_announcement(self, key: Key, announcement: Announcement) -> None:
        self._announced[key] = announcement


class HeaderPass:
    """Reads the headers of one source in the journal's order.

    `described` adds the source's configured values to a message that does not contain them. `configured` are the
    dialects in the source's configuration. `most` is the largest number of attachments of a header.
    """

    def __init__(
        self,
        memory: Memory,
        described: Callable[[PhysicalMessage], PhysicalMessage],
        most: int,
        configured: int | None = None,
    ) -> None:
        self._memory, self._described, self._most, self._configured = memory, described, most, configured

    def read(self, position: int, message: PhysicalMessage) -> Iterator[Reference]:
        """Yield references to the content of the header at a packed position, or its refusal."""
        known = self._configured or self._memory.dialects() or dialect.ALL
        place = message.source, b"", position, (len(message.body),), (message.received_at,)
        try:
            event = read_event(self._described(message), known)
        except InvalidInputError as error:
            yield RefusedMessage(*place, error.code, error.row, error.at, error.why)
            return
        assert isinstance(event, Announced)
        if self._configured is None and (common := dialect.narrow(known, event.dialects)) != known:
            self._memory.keep_dialects(common)
            yield CommonDialects(message.source, b"", position, (), (), common)
        judged = judge(message.source, event.header, position, message.received_at, self._most, self._memory)
        if not isinstance(judged, MessageRecord):
            for effect in judged:
                if isinstance(effect, Refused):
                    yield RefusedMessage(*place, effect.code, effect.row, -1, effect.why)
                    for correl_id in effect.contradicted:
                        other = message.source, correl_id, position, (), (message.received_at,)
                        yield MessageEvent(*other, OtherHeader(correl_id))
                else:
                    assert isinstance(effect, Repeated)
                    yield RepeatedHeader(*place, effect.first)
            return
        source, address, received_at = message.source, message_address(judged), (message.received_at,)
        if self._memory.addressed(address) is None:
            self._memory.keep_address(address, judged.id, position)
        (_, key), _ = waiting_key(address)
        yield MessageBegun(source, key, position, (len(message.body),), received_at, judged)
        for claim in claims(judged.id, event):
            entry = claim.definition
            if (announced := Announcement.of(judged.id, entry)) is not None:
                self._memory.keep_announcement((source, entry.correl_id), announced)
            yield AttachmentClaim(source, entry.correl_id, position, (), received_at, claim)
