"""The number of observations of a data set, and their bytes."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from app.dataset.decode import BATCH_BYTES
from app.model.errors import InvalidInputError
from app.tables.xpt.record_reader import Records
from app.tables.xpt.xpt_layouts import RECORD
from app.tables.xpt.xpt_members import Member

BATCH_ROWS = 8192
"""The number of observations read at once: few enough for a column's results to stay in the processor's cache."""

_NUL: Final = b"\0"


class ObservationCount(NamedTuple):
    """A number of observations; `nuls` is the number of rows of NULs that were counted (positive) or not (negative).

    Both are readings of the same bytes: zeros as values, or padding.
    """

    rows: int
    nuls: int = 0


def row_count(records: Records, member: Member) -> ObservationCount:
    """Return the number of observations. Raises InvalidInputError if the last one is incomplete.

    If the file does not state it, it follows from the bytes: after the last observation there is less than a record of
    blanks, or, from some programs, of NULs. Observations of blanks only in that place cannot be distinguished from
    padding, and do not count.
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
        return ObservationCount(0)
    if member.count is not None:
        return ObservationCount(member.count)
    certain = -(-max(0, size - RECORD + 1) // length)
    behind = min(certain * length, size)
    rest = records.take(member.at + behind, size - behind, "observations")
    rows = certain + -(-len(rest.rstrip(b" ")) // length)
    if rest.endswith(_NUL):
        return _beside_nuls(member, rest, certain, size)
    if rows * length > size:
        raise _torn(member, size)
    return ObservationCount(rows)


def _beside_nuls(member: Member, rest: bytes, certain: int, size: int) -> ObservationCount:
    """Return the number of observations of a file that ends with NULs.

    They are padding if they are a part of an observation only, or of one with texts, which are padded with blanks.
    Whole observations of numbers may be zeros.
    """
    length = member.row_size
    with_values = -(-len(rest.rstrip(_NUL)) // length)
    whole, part = divmod(len(rest), length)
    if with_values > whole:
        raise _torn(member, size)
    is_padded = part or not all(variable.is_numeric for variable in member.variables)
    nuls = whole - with_values
    return ObservationCount(certain + with_values, -nuls) if is_padded else ObservationCount(certain + whole, nuls)


def _torn(member: Member, size: int) -> InvalidInputError:
    torn = size - size % member.row_size
    why = f"the last observation has {size - torn} of {member.row_size} bytes"
    return InvalidInputError("xpt-truncated", "observations", member.at + torn, why)


def blocks(records: Records, member: Member, rows: int) -> Iterator[bytes]:
    """Yield the bytes of a number of observations, in pieces of BATCH_ROWS, or of fewer whole ones if they are long."""
    length = member.row_size
    if not length:
        return iter(())
    a_piece = max(1, min(BATCH_ROWS, BATCH_BYTES // length))
    return records.chunks(member.at, member.at + rows * length, a_piece * length)
