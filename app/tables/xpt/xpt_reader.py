"""Read transport files as tables."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa

from app.codecs.sas.constants import MessageKind
from app.codecs.sas.data_set_messages import DataSetDefinition
from app.dataset import character_columns, decode
from app.dataset.decode import BATCH_BYTES, DecodingPlan, Unforeseen
from app.dataset.numeric import Bytes
from app.dataset.observation_layout import Representation
from app.dataset.schema import Column
from app.model.errors import InvalidInputError
from app.model.names import folded
from app.tables.xpt import xpt_limits
from app.tables.xpt.xpt_layouts import RECORD
from app.tables.xpt.xpt_members import Records, TransportMember, decoded, read_members

MOST_NAMES: Final = 20
"""The maximum number of data set names in an error."""


class XptDataSet(NamedTuple):
    """A data set: its schema with `sas.*` metadata, and a function that yields its rows anew at each call.

    `latin_1` is its description with all texts read as Latin-1, which keeps their bytes. `nuls` is the number of rows
    of NULs at the end that are taken as observations, or, if it is negative, as padding.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    latin_1: TransportMember
    nuls: int


def read(file: BinaryIO, *, member: str | None = None, charset: str = xpt_limits.DEFAULT_CHARSET) -> XptDataSet:
    """Return a data set of a transport file of either version.

    The file must stay open and unchanged while rows are read. `member` is the data set's name, in any case; a file with
    one data set needs none. `charset` is a Python codec's name. Columns, types and side columns are as in
    `app.dataset`: special missing values are kept. The observations are surveyed first to determine the columns.

    Raises InvalidInputError, with the byte, for a file that is not a transport file, is cut off or contradicts itself,
    and for an unknown data set.
    """
    records = Records(file)
    charset = xpt_limits.checked_charset(charset)
    latin_1, chosen = _chosen(read_members(records), member, charset)
    count, nuls = row_count(records, chosen)
    blocks = partial(row_blocks, records, chosen, count)
    how = Representation("big", "ibm", charset)
    definition = DataSetDefinition(
        MessageKind.DEFINITION,
        data_set_type=chosen.type,
        label=chosen.label,
        observations=count,
        variables=len(chosen.variables),
        obs_length=chosen.row_size,
    )
    first_plan = decode.first_plan(definition, chosen.variables, how, blocks, {"sas.member": chosen.name})
    plan = surveyed(first_plan, blocks)
    return XptDataSet(plan.schema, lambda: decode.batches(plan, blocks(), BATCH_ROWS), latin_1, nuls)


def _chosen(
    found: Iterable[TransportMember], name: str | None, charset: str
) -> tuple[TransportMember, TransportMember]:
    """Return a data set with its texts as Latin-1, and with its texts in the character set."""
    names: list[str] = []
    wanted: list[tuple[TransportMember, TransportMember]] = []
    for latin_1 in found:
        member = decoded(latin_1, charset)
        names.append(member.name)
        if len(wanted) < 2 and (name is None or folded(member.name) == folded(name)):
            wanted.append((latin_1, member))
    if len(wanted) == 1:
        return wanted[0]
    listed = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if names[MOST_NAMES:] else "")
    problem = "choose one" if name is None else f"{'more than one' if wanted else 'no'} {name}"
    raise InvalidInputError("xpt-member", "data set", -1, f"{problem}; the file has {listed or 'none'}")


BATCH_ROWS = 8192
"""The number of observations read at once: few enough for a column's results to stay in the processor's cache."""

_NUL: Final = b"\0"


class ObservationCount(NamedTuple):
    """A number of observations; `nuls` is the number of rows of NULs that were counted (positive) or not (negative).

    Both are readings of the same bytes: zeros as values, or padding.
    """

    rows: int
    nuls: int = 0


def row_count(records: Records, member: TransportMember) -> ObservationCount:
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
        return _count_with_nuls(member, rest, certain, size)
    if rows * length > size:
        raise _torn(member, size)
    return ObservationCount(rows)


def _count_with_nuls(member: TransportMember, rest: bytes, certain: int, size: int) -> ObservationCount:
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


def _torn(member: TransportMember, size: int) -> InvalidInputError:
    torn = size - size % member.row_size
    why = f"the last observation has {size - torn} of {member.row_size} bytes"
    return InvalidInputError("xpt-truncated", "observations", member.at + torn, why)


def row_blocks(records: Records, member: TransportMember, rows: int) -> Iterator[bytes]:
    """Yield the bytes of a number of observations, in pieces of BATCH_ROWS, or of fewer whole ones if they are long."""
    length = member.row_size
    if not length:
        return iter(())
    a_piece = max(1, min(BATCH_ROWS, BATCH_BYTES // length))
    return records.chunks(member.at, member.at + rows * length, a_piece * length)


Blocks = Callable[[], Iterable[bytes]]

_ORDINARY_MISSING: Final = np.uint64(ord("."))
_TOP_BYTE: Final = np.uint64(0x100)
_BEYOND_ASCII: Final = 0x80


def surveyed(plan: DecodingPlan, blocks: Blocks) -> DecodingPlan:
    """Return the plan that fits all observations (big-endian IBM floats). `blocks` are pieces of whole observations.

    Most data sets need no change, and a quick test shows it for most columns: a missing value is a number whose
    fraction is zero, and a text is ASCII. Only columns of dates and times, and columns that fail the quick test, are
    read completely.
    """
    counted = [column for column in plan.columns if column.kind is not None]
    plain = [column for column in plan.columns if column.kind is None]
    doubtful: set[int] = set()

    def watched() -> Iterator[bytes]:
        """Yield the blocks, and find the columns that fail the quick test."""
        for block in blocks():
            cells = np.frombuffer(block, np.uint8).reshape(-1, plan.obs_length)
            doubtful.update(
                column.position for column in plain if column.position not in doubtful and _is_doubtful(column, cells)
            )
            yield block

    suited = _suited(plan, counted, watched())
    if doubtful:
        suited |= _suited(plan, [column for column in plain if column.position in doubtful], blocks())
    columns = tuple(suited.get(column.position, column) for column in plan.columns)
    return replace(plan, columns=columns, surveyed=True)


def _suited(plan: DecodingPlan, columns: Sequence[Column], blocks: Iterable[bytes]) -> dict[int, Column]:
    """Return these columns as their values require them, by position."""
    try:
        for _ in decode.batches(replace(plan, columns=tuple(columns)), blocks, BATCH_ROWS):
            pass
    except Unforeseen as found:
        columns = found.plan.columns
    return {column.position: column for column in columns}


def _is_doubtful(column: Column, cells: Bytes) -> bool:
    values = cells[:, column.at : column.at + column.variable.length]
    if not column.variable.is_numeric:
        return bool(character_columns.side_by_side(values).max() >= _BEYOND_ASCII)
    rows, length = values.shape
    if length < 8:
        padded = np.zeros((rows, 8), np.uint8)
        padded[:, :length] = values
        values = padded
    # The low byte of each number is the first of its cell.
    words = values.view("<u8").reshape(rows).astype(np.uint64, copy=False)
    fractionless = words < _TOP_BYTE
    if not fractionless.any():
        return False
    tops = words[fractionless]
    return bool(((tops != 0) & (tops != _ORDINARY_MISSING)).any())
