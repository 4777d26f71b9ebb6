"""The headers and parts of the framing `sas_queue` in the columns of a journal batch, found by NumPy over all rows."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.codecs.sas import correlid
from app.codecs.sas.constants import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.framing.protocol import Columns

_BLANK_SEQUENCE = int.from_bytes(b"    ", "big")


def read_columns(batch: pa.RecordBatch, framed: npt.NDArray[np.bool_]) -> Columns:
    """Return the headers and the sequenced parts among the `framed` rows of a batch."""
    types = batch.column("msg_type").to_numpy()
    starts, lengths = _places(batch.column("correl_id"))
    rows = np.flatnonzero(framed & (types == SUBORDINATE_MSG_TYPE) & (lengths >= correlid.COMPARED_SIZE))
    correl_ids = _correl_ids(batch.column("correl_id"), starts[rows])
    sequences = correl_ids[:, correlid.KEY_SIZE :].copy().view(">u4")[:, 0].astype(np.int64)
    numbered = (sequences != 0) & (sequences != _BLANK_SEQUENCE)
    return Columns(
        np.flatnonzero(framed & (types == HEADER_MSG_TYPE)),
        rows[numbered],
        correl_ids[numbered, : correlid.KEY_SIZE],
        sequences[numbered],
    )


def _places(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each value of a binary column begins in its data, and its length."""
    offsets = np.frombuffer(column.buffers()[1], "<i4", len(column) + 1, 4 * column.offset).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _correl_ids(column: pa.Array, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the first 20 bytes of the values that begin at these places, a row for each."""
    data = column.buffers()[2]
    if data is None or not len(starts):
        return np.zeros((0, correlid.COMPARED_SIZE), np.uint8)
    picked: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(correlid.COMPARED_SIZE)]
    return picked
