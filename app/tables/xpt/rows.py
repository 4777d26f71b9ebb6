"""How many observations a data set has, and their bytes."""

from collections.abc import Iterator

from app.dataset.decode import BATCH_BYTES
from app.model.errors import TheirError
from app.tables.xpt.layouts import RECORD
from app.tables.xpt.members import Member
from app.tables.xpt.records import Records

BATCH_ROWS = 8192
"""Observations that are read at once: few enough for what is made of a column to stay in the processor's cache."""


def row_count(records: Records, member: Member) -> int:
    """The number of observations. Raises TheirError where the last one is torn.

    Where the file does not tell it, it follows from the bytes: behind the last observation there is less than a record
    of blanks. Observations that are all blank and lie there cannot be told from that padding, and are none.
    """
    size, length = member.end - member.at, member.row_size
    if not length:
        if size or member.count:
            raise TheirError(
                "xpt-observations", "observations", member.at, "an observation has no bytes, yet some came"
            )
        return 0
    if member.count is not None:
        return member.count
    certain = -(-max(0, size - RECORD + 1) // length)
    behind = min(certain * length, size)
    rest = records.take(member.at + behind, size - behind, "observations").rstrip(b" ")
    rows = certain + -(-len(rest) // length)
    if rows * length > size:
        torn = size - size % length
        why = f"the last observation has {size - torn} of {length} bytes"
        raise TheirError("xpt-truncated", "observations", member.at + torn, why)
    return rows


def blocks(records: Records, member: Member, rows: int) -> Iterator[bytes]:
    """The bytes of so many observations, in pieces of BATCH_ROWS of them, or of fewer whole ones if they are long."""
    length = member.row_size
    if not length:
        return iter(())
    a_piece = max(1, min(BATCH_ROWS, BATCH_BYTES // length))
    return records.chunks(member.at, member.at + rows * length, a_piece * length)
