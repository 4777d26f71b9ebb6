"""Quarantined messages are copied out of journal segments that are to go."""

from app.model.errors import DamagedError
from app.model.message import PhysicalMessage, Position
from app.model.records import QuarantineCopy, QuarantineRecord
from app.observe import logger
from app.service.quarantine import copy_name, pack_descriptor, small_copy
from app.service.surroundings import Surroundings

log = logger(__name__)

AT_ONCE = 200
"""Messages that one call copies: each large one is an object, on disk before its segment goes."""


def copy_quarantined(around: Surroundings, segment: int) -> None:
    """Copies messages of up to `limits.quarantine_body` from segments before this one, the oldest first. Larger ones
    keep their segment until retention removes their entries."""
    below = Position(segment, 0, 0).pack()
    entries = around.catalog.uncopied_quarantine(below, around.settings.limits.quarantine_body, AT_ONCE)
    if not entries:
        return
    copies: list[QuarantineCopy] = []
    objects: dict[str, str] = {}
    gone: list[str] = []
    for entry in entries:
        try:
            message = around.journal.read(Position.unpack(entry.position))
        except (KeyError, DamagedError):
            gone.append(entry.id)
            continue
        copies.append(_copy(around, entry, message, objects))
    around.catalog.copied_quarantine(copies, objects, gone)
    log.info("quarantine_copied", count=len(copies), objects=len(objects), gone=len(gone))


def _copy(
    around: Surroundings, entry: QuarantineRecord, message: PhysicalMessage, objects: dict[str, str]
) -> QuarantineCopy:
    if (small := small_copy(entry.id, message)) is not None:
        return small
    name = objects[entry.id] = copy_name(entry.id)
    with around.store.create(name) as target:
        target.write(message.body)
    return QuarantineCopy(entry.id, pack_descriptor(message), None)
