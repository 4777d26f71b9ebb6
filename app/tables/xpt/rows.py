"""The number of observations of a data set, and their bytes."""

from collections.abc import Iterator

from app.dataset.decode import BATCH_BYTES
from app.model.errors import InvalidInputError
from app.tables.xpt.layouts import RECORD
from app.tables.xpt.members import Member
from app.tables.xpt.records import Records

BATCH_ROWS = 8192
"""The number of observations read at once: few enough for a column's results to stay in the processor's cache."""


def row_count(records: Records, member: Member) -> int:
    """Return the number of observations. Raises InvalidInputError if the last one is incomplete.

    If the file does not state it, it follows from the bytes: after the last observation there is less than a record of
    blanks. Observations of blanks only in that place cannot be distinguished from padding, and do not count.
    """
    size, length = member.end - member.at, member.row_size
    if not length:
        if size or member.count:
            raise InvalidInputError(
                "xpt-observations",
                "observations",
                member.at,
                "the observation length is 0, but observations have bytes",
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
        raise InvalidInputError("xpt-truncated", "observations", member.at + torn, why)
    return rows


def blocks(records: Records, member: Member, rows: int) -> Iterator[bytes]:
    """Yield the bytes of a number of observations, in pieces of BATCH_ROWS, or of fewer whole ones if they are long."""
    length = member.row_size
    if not length:
        return iter(())
    a_piece = max(1, min(BATCH_ROWS, BATCH_BYTES // length))
    return records.chunks(member.at, member.at + rows * length, a_piece * length)
