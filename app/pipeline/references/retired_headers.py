"""Headers whose journal segments are gone, from the catalog: what they announced and what has not come yet.

Retention keeps the segments of parts that are still needed, but not of headers: the catalog has their content. A
stream has it in Spark's state, too. A batch only reads the archive, so it gets the references to these headers' content
from here. Without them, the rest of an attachment would belong to no message, have no name, and never be finished.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import NamedTuple

from app.assembly.header_checks import Announcement, Claim, message_address, waiting_key
from app.model.attachment import AttachmentDefinition
from app.model.message import Position
from app.model.records import MessageRecord
from app.pipeline.read.segment_gaps import missing_segments
from app.pipeline.references.header_pass import Remembered
from app.pipeline.references.message_references import AttachmentClaim, MessageBegun
from app.ports import Catalog

_DEFINITION = tuple(each.name for each in fields(AttachmentDefinition))


class Retired(NamedTuple):
    """References to the content of headers that the archive lacks, and the dialects of the sources."""

    references: tuple[MessageBegun | AttachmentClaim, ...] = ()
    dialects: Mapping[str, int] = {}

    def remembered(self, source: str) -> Remembered:
        """Return what is remembered of a source before the first header that the archive still has."""
        memory = Remembered(self.dialects.get(source))
        for each in self.references:
            if each.source != source:
                continue
            if isinstance(each, MessageBegun):
                memory.keep_address(message_address(each.record), each.record.id, each.position)
            else:
                entry = each.claim.definition
                announced = Announcement(each.claim.message, entry.kind, entry.qualifier_1, entry.qualifier_2)
                memory.keep_announcement((source, entry.correl_id), announced)
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
    begun = [MessageBegun(*_place(each, waiting_key(message_address(each))[0][1]), each) for each in messages]
    claims = []
    by_id = {message.id: message for message in messages}
    # Closed attachments are among them: a commit that had closed them may be repeated.
    for record in catalog.attachments_by_id([each for message in messages for each in message.attachments]):
        message = by_id.get(record.message_id or "")
        if message is not None and record.kind is not None:
            definition = AttachmentDefinition(*(getattr(record, name) for name in _DEFINITION))
            claim = Claim(message.id, record.ordinal, definition, record.dialects, record.trace_parent)
            claims.append(AttachmentClaim(*_place(message, record.correl_id), claim))
    return Retired((*begun, *claims), catalog.source_dialects())


def _place(message: MessageRecord, key: bytes) -> tuple[str, bytes, int, tuple[int, ...], tuple[int, ...]]:
    """Return the fields of a reference that adds no message to those that were received."""
    return message.source, key, message.header_position, (), (message.received_at,)
