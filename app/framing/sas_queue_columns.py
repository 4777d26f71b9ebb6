"""Parts and unsequenced messages of the framing `sas_queue` in the columns of a batch, found by NumPy over all rows."""

import numpy as np
import numpy.typing as npt

from app.codecs.sas import correlid
from app.codecs.sas.constants import SUBORDINATE_MSG_TYPE
from app.framing.descriptors import Descriptors
from app.framing.protocol import Columns

_BLANK_SEQUENCE = int.from_bytes(b"    ", "big")


def read_columns(batch: Descriptors, framed: npt.NDArray[np.bool_]) -> Columns:
    """Return the sequenced parts and the unsequenced messages among the `framed` rows of a batch."""
    types, starts, lengths = batch.msg_types, batch.offsets[:-1], np.diff(batch.offsets)
    rows = np.flatnonzero(framed & (types == SUBORDINATE_MSG_TYPE) & (lengths >= correlid.COMPARED_SIZE))
    correl_ids = batch.correl_ids[starts[rows, None] + np.arange(correlid.COMPARED_SIZE)]
    sequences = correl_ids[:, correlid.KEY_SIZE :].copy().view(">u4")[:, 0].astype(np.int64)
    numbered = (sequences != 0) & (sequences != _BLANK_SEQUENCE)
    return Columns(
        rows[numbered],
        correl_ids[numbered, : correlid.KEY_SIZE],
        sequences[numbered],
        rows[~numbered],
        correl_ids[~numbered, : correlid.KEY_SIZE],
    )
