"""The descriptor columns of a batch of messages, by which framings find sequenced parts with NumPy."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.model.message import PhysicalMessage


class Descriptors(NamedTuple):
    """Two columns of a batch: the message types, and the bytes of all correlids, one after the other.

    The correlid of a row begins at its offset. There is one offset more than there are rows.
    """

    msg_types: npt.NDArray[np.int64]
    correl_ids: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]


def descriptors_of_batch(batch: pa.RecordBatch) -> Descriptors:
    """Return the columns of a journal batch."""
    column = batch.column("correl_id")
    _, offsets, data = column.buffers()
    return Descriptors(
        batch.column("msg_type").to_numpy(),
        np.frombuffer(data or b"", np.uint8),
        np.frombuffer(offsets, "<i4", len(column) + 1, 4 * column.offset).astype(np.int64),
    )


def descriptors_of(messages: Sequence[PhysicalMessage]) -> Descriptors:
    """Return the columns of messages."""
    correl_ids = [message.correl_id for message in messages]
    return Descriptors(
        np.array([message.msg_type for message in messages], np.int64),
        np.frombuffer(b"".join(correl_ids), np.uint8),
        np.fromiter(accumulate(map(len, correl_ids), initial=0), np.int64, len(messages) + 1),
    )
