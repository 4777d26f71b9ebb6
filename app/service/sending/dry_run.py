"""Dry runs: what a message would be, without sending or keeping anything."""

from collections import Counter
from collections.abc import Generator, Mapping
from typing import NamedTuple

from app.model.message import PhysicalMessage
from app.model.records import Cut, DeliveryRecord
from app.ports import ContentStore
from app.service.sending.framer import Cutter
from app.service.sending.upload_conversion import ConvertedFile

_CORREL_ID = 16


class DryRun(NamedTuple):
    """A message as it would be sent: its delivery, the part of each attachment, the data sets by part, and how many
    physical messages all of it takes, and each attachment by its correlid."""

    delivery: DeliveryRecord
    parts: list[str]
    data_sets: Mapping[str, ConvertedFile]
    messages: int
    attachment_messages: Mapping[bytes, int]


def count_messages(
    how: Cut, store: ContentStore, delivery: DeliveryRecord
) -> Generator[bytes, None, tuple[int, dict[bytes, int]]]:
    """Count the physical messages of a delivery, and of each of its attachments by its correlid. Raises CannotSend.

    It is a generator function, so that a process for conversions can run it.
    """
    counts = Counter(map(_attachment_of, Cutter(how, store).cut(delivery)))
    yield b""
    return counts.total(), {each.correl_id: counts[each.correl_id] for each in delivery.attachments}


def _attachment_of(message: PhysicalMessage) -> bytes:
    """Return the correlid of the attachment that a message is a part of."""
    return (message.group_id or message.correl_id)[:_CORREL_ID]
