"""Dry runs: the messages that a submission would give, without sending or keeping anything."""

from collections import Counter
from collections.abc import Generator, Mapping
from typing import NamedTuple

from app.framing.protocol import Framing
from app.framing.registry import framing
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions
from app.ports import ContentStore
from app.service.sending.framer import Framer
from app.service.sending.upload_conversion import ConvertedFile

_CORREL_ID = 16


class DryRun(NamedTuple):
    """A message as it would be sent.

    It has its delivery, the part of each attachment, the data sets by part, and the number of physical messages: of
    all, and of each attachment by its correlid.
    """

    delivery: DeliveryRecord
    parts: list[str]
    data_sets: Mapping[str, ConvertedFile]
    messages: int
    attachment_messages: Mapping[bytes, int]


def count_messages(
    how: FramingOptions, store: ContentStore, delivery: DeliveryRecord
) -> Generator[bytes, None, tuple[int, dict[bytes, int]]]:
    """Count the physical messages of a delivery, and of each of its attachments by its correlid. Raises CannotSend.

    It is a generator function, so that a conversion process can run it.
    """
    cut_by = framing(how.framing)
    counts = Counter(_attachment_of(message, cut_by) for message in Framer(how, store).frame(delivery))
    yield b""
    return counts.total(), {each.correl_id: counts[each.correl_id] for each in delivery.attachments}


def _attachment_of(message: PhysicalMessage, cut_by: Framing) -> bytes:
    """Return the correlid of the attachment that a message is a part of; empty if it is a part of none."""
    try:
        return cut_by.attachment_key(message)[:_CORREL_ID]
    except InvalidInputError:
        return b""
