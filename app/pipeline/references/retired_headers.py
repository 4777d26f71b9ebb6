"""Headers whose journal segments are gone, from the catalog: what they announced and what has not come yet.

Retention keeps the segments of parts that are still needed, not those of headers: the catalog has what these said. A
stream has it in Spark's state, too. A batch only reads the archive, so it gets the references to these headers' content
from here. Without them, the rest of an attachment would belong to no message, have no name, and never be finished.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from app.assembly.header_checks import Announcement, Claim, message_address, waiting_key
from app.model.attachment import AttachmentDefinition
from app.model.message import Position
from app.model.records import AttachmentRecord, MessageRecord
from app.pipeline.read.segment_gaps import missing_segments
from app.pipeline.references.header_pass import Remembered
from app.pipeline.references.message_references import Reference, What
from app.ports import Catalog

_DEFINITION = tuple(each.name for each in fields(AttachmentDefinition))


class Retired(NamedTuple):
    """References to the content of headers that the archive has no longer, and the dialects of the sources."""

    references: tuple[Reference, ...] = ()
    dialects: Mapping[str, int] = {}

    def remembered(self, source: str) -> Remembered:
        """Return what is remembered of a source before the first header that the archive still has."""
        memory = Remembered(self.dialects.get(source))
        for each in self.references:
            if each.source == source and each.what == What.ADDRESS:
                memory.keep_address(message_address(each.detail), each.detail.id, each.position)
            elif each.source == source:
                entry = each.detail.definition
                said = Announcement(each.detail.message, entry.kind, entry.qualifier_1, entry.qualifier_2)
                memory.keep_announcement((source, entry.correl_id), said)
        return memory


NOTHING_RETIRED = Retired()


def retired_headers(catalog: Catalog, present: Collection[int]) -> Retired:
    """Return what the catalog knows of headers in segments that are not present."""
    progress = catalog.progress()
    if progress is None or not missing_segments(sorted(present)):
        return NOTHING_RETIRED
    messages = [
        message
        for message in catalog.incomplete_messages()
        if Position.unpack(message.header_position).segment not in present
    ]
    return Retired((*_addresses(messages), *_claims(catalog, messages)), catalog.source_dialects())


def _addresses(messages: Iterable[MessageRecord]) -> Iterator[Reference]:
    for message in messages:
        (_, key), _ = waiting_key(message_address(message))
        yield _of(message, key, What.ADDRESS, message)


def _claims(catalog: Catalog, messages: Sequence[MessageRecord]) -> Iterator[Reference]:
    """Yield the claims of the announced attachments, also of closed ones: a commit that had closed them may be
    repeated."""
    by_id = {message.id: message for message in messages}
    for record in catalog.attachments_by_id([each for message in messages for each in message.attachments]):
        message = by_id.get(record.message_id or "")
        if message is not None and record.kind is not None:
            yield _of(message, record.correl_id, What.CLAIM, _claim(message, record))


def _claim(message: MessageRecord, record: AttachmentRecord) -> Claim:
    definition = AttachmentDefinition(*(getattr(record, name) for name in _DEFINITION))
    return Claim(message.id, record.ordinal, definition, record.dialects, record.trace_parent)


def _of(message: MessageRecord, key: bytes, what: What, detail: object) -> Reference:
    """Return a reference that adds no message to those that were received."""
    return Reference(message.source, key, message.header_position, what, 0, (), (message.received_at,), detail)
