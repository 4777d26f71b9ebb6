"""Finished attachments that are sent again: the parts that have come again, put together by a machine of their own.

The parts of a finished attachment are forgotten, so that each message of it is a duplicate. But its content may be
damaged since. So the places of the repeated parts are kept, in memory only, until all of them have come again: then the
content can be compared, and replaced by the repetition where it is damaged (`app.service.repair.healing`).
"""

from typing import Final

from app.assembly.collecting import Completed, TrackedAttachment
from app.assembly.machine import Assembly, AssemblyLimits
from app.assembly.part_places import Parts
from app.model.event import GroupPart, PartArrived, RangePart
from app.model.records import AttachmentRecord
from app.service.finishing.stored_parts import CompleteAttachment, begun

ATTACHMENTS: Final = 1000
"""The most attachments whose repetitions are kept. The one that got a part longest ago is dropped first."""


class Repetitions:
    """The repetitions that are not complete yet."""

    def __init__(self, limits: AssemblyLimits) -> None:
        self._assembly = Assembly(limits)

    def take(
        self, record: AttachmentRecord, part: PartArrived | GroupPart | RangePart, position: int, received_at: int
    ) -> CompleteAttachment | None:
        """Take a part of a finished attachment that came again at this packed position. Return the repetition when it
        is complete."""
        held, key = self._assembly.attachments, (record.source, record.correl_id)
        if key not in held and (known := begun(record)) is not None:
            held[key] = TrackedAttachment(known, Parts())
        effects = self._assembly.apply(record.source, part, position, received_at)
        parts = held[key].parts
        checkpoint = self._assembly.take_changes()
        self._assembly.forget_beyond(ATTACHMENTS)
        if not any(isinstance(effect, Completed) for effect in effects):
            return None
        (again,) = checkpoint.attachments
        return CompleteAttachment(again, list(parts.runs))
