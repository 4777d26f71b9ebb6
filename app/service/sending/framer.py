"""The physical messages of a delivery, as the framing of its destination writes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq

from app.framing.registry import framing
from app.model.attachment import AttachmentKind
from app.model.errors import DamagedError, GatewayError, InvalidInputError
from app.model.message import PhysicalMessage, footprint
from app.model.records import DeliveryRecord, FramingOptions, OutgoingAttachment
from app.model.trace_context import TRACE_PARENT
from app.ports import ContentStore
from app.service.content.stored_content import opened
from app.service.sending.sending_errors import CannotSend
from app.wire import WireError


class Framer:
    """Cuts deliveries with the same framing options."""

    def __init__(self, how: FramingOptions, store: ContentStore) -> None:
        self._how, self._store = how, store

    def frame(self, delivery: DeliveryRecord) -> Iterator[PhysicalMessage]:
        """Yield all physical messages of a delivery. Raises CannotSend, and what reading its content raises."""
        how = framing(self._how.framing)
        for attachment in delivery.attachments:
            if attachment.kind not in how.kinds:
                raise CannotSend(f"the framing {how.traits.name} carries no {_PLURALS[attachment.kind]}")
        if delivery.application_body is not None and not how.application_message:
            raise CannotSend(f"the framing {how.traits.name} carries no application message")
        try:
            yield from how.write(delivery, self._how, StoredContents(self._store))
        except (InvalidInputError, WireError, UnicodeEncodeError, pa.ArrowException) as error:
            raise CannotSend(str(error)) from error
        except KeyError as gone:
            raise CannotSend(f"its content {gone} is gone") from gone


def traced(messages: Iterator[PhysicalMessage], trace_parent: str | None) -> Iterator[PhysicalMessage]:
    """Yield messages, of which the first one, and the first of each group, carries a `traceparent`."""
    if trace_parent is None:
        yield from messages
        return
    group: bytes | None = None
    for message in messages:
        if message.group_id == group:
            yield message
        else:
            group = message.group_id
            yield message._replace(properties={**message.properties, TRACE_PARENT: trace_parent})


BATCH_MESSAGES = 64
BATCH_BYTES = 2 << 20
"""The most messages that are given to a sender at once, and about the most bytes."""


def batches(messages: Iterator[PhysicalMessage], most: int) -> Iterator[list[PhysicalMessage]]:
    """Yield messages in batches for a sender that takes at most this number at once."""
    batch: list[PhysicalMessage] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += footprint(message)
        if len(batch) >= most or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


_PLURALS = {
    AttachmentKind.DATA_SET: "data sets",
    AttachmentKind.TEXT_FILE: "text files",
    AttachmentKind.BINARY_FILE: "binary files",
}


class StoredContents:
    """The contents of attachments as objects of the content store; see `app.framing.protocol.DeliveryContents`."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store

    def pieces(self, attachment: OutgoingAttachment) -> Iterator[memoryview]:
        if not attachment.size:
            return iter(())
        self._require_size(attachment)
        return self._compared(attachment)

    @contextmanager
    def table(self, attachment: OutgoingAttachment) -> Iterator[pq.ParquetFile]:
        self._require_size(attachment)
        name = attachment.object_name
        try:
            for _ in self._compared(attachment):  # Parquet would show wrong values for some damaged bytes
                pass
            with opened(self._store, name) as file:
                yield pq.ParquetFile(file)
        except OSError as error:
            why = f"the object {name} cannot be read: {error}"
            if error.errno in (None, EIO):  # pyarrow's errors for damaged bytes have no number
                raise DamagedError(why, name=name) from error
            raise GatewayError(why) from error

    def _compared(self, attachment: OutgoingAttachment) -> Iterator[memoryview]:
        """Yield the bytes of an object, the last ones only if all of them have the digest of what was stored.

        So an attachment with damaged bytes is never sent to its end. Raises DamagedError.
        """
        name, digest = attachment.object_name, sha256()
        held: memoryview | None = None
        for piece in self._store.read(name):
            if held is not None:
                yield held
            digest.update(piece)
            held = piece
        if digest.hexdigest() != attachment.sha256:
            raise DamagedError(f"the object {name} does not have the SHA-256 of what was stored", name=name)
        if held is not None:
            yield held

    def _require_size(self, attachment: OutgoingAttachment) -> None:
        name = attachment.object_name
        if (size := self._store.size(name)) != attachment.size:
            raise DamagedError(f"the object {name} has {size} bytes, not {attachment.size}", name=name)
