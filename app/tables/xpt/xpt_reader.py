"""Read transport files as tables."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import BinaryIO, Final, NamedTuple

import pyarrow as pa

from app.codecs.sas.constants import MessageKind
from app.codecs.sas.data_set_messages import DataSetDefinition
from app.dataset import decode
from app.dataset.decode import DecodingPlan, Unforeseen
from app.dataset.observation_layout import Representation
from app.model.errors import InvalidInputError
from app.model.names import folded
from app.tables.xpt import observation_bytes, xpt_charsets
from app.tables.xpt.record_reader import Records
from app.tables.xpt.value_survey import surveyed
from app.tables.xpt.xpt_members import Member, decoded, read_members

MOST_NAMES: Final = 20
"""The maximum number of data set names in an error."""


class XptDataSet(NamedTuple):
    """A data set: its schema with `sas.*` metadata, and a function that yields its rows anew at each call.

    `latin_1` is its description with all texts read as Latin-1, which keeps their bytes. `nuls` is the number of rows
    of NULs at the end that are taken as observations, or, if it is negative, as padding.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    latin_1: Member
    nuls: int


def members(file: BinaryIO, *, charset: str = xpt_charsets.DEFAULT) -> list[str]:
    """Return the names of the data sets in a file. Raises InvalidInputError."""
    charset = xpt_charsets.checked(charset)
    return [decoded(member, charset).name for member in read_members(Records(file))]


def read(file: BinaryIO, *, member: str | None = None, charset: str = xpt_charsets.DEFAULT) -> XptDataSet:
    """Return a data set of a transport file of either version.

    The file must stay open and unchanged while rows are read. `member` is the data set's name, in any case; a file with
    one data set needs none. `charset` is a Python codec's name. Columns, types and side columns are those of
    `app.dataset`: special missing values are kept. The observations are surveyed first to determine the columns.

    Raises InvalidInputError, with the byte, for a file that is not a transport file, is cut off or contradicts itself,
    and for an unknown data set.
    """
    opened = _opened(file, member, charset)
    plan = surveyed(opened.plan, opened.blocks)
    return XptDataSet(
        plan.schema,
        lambda: decode.batches(plan, opened.blocks(), observation_bytes.BATCH_ROWS),
        opened.latin_1,
        opened.nuls,
    )


def read_whole(file: BinaryIO, *, member: str | None = None, charset: str = xpt_charsets.DEFAULT) -> pa.Table:
    """Return the same data set in memory. For usual values, this takes half the time: one pass."""
    opened = _opened(file, member, charset)
    try:
        return _whole(opened.plan, opened.blocks)
    except Unforeseen as found:
        return _whole(found.plan, opened.blocks)


class _Opened(NamedTuple):
    plan: DecodingPlan
    blocks: Callable[[], Iterator[bytes]]
    latin_1: Member
    nuls: int


def _opened(file: BinaryIO, member: str | None, charset: str) -> _Opened:
    records = Records(file)
    charset = xpt_charsets.checked(charset)
    latin_1, chosen = _chosen(read_members(records), member, charset)
    count, nuls = observation_bytes.row_count(records, chosen)
    blocks = partial(observation_bytes.blocks, records, chosen, count)
    how = Representation("big", "ibm", charset)
    plan = decode.first_plan(_definition(chosen, count), chosen.variables, how, blocks, {"sas.member": chosen.name})
    return _Opened(plan, blocks, latin_1, nuls)


def _whole(plan: DecodingPlan, blocks: Callable[[], Iterator[bytes]]) -> pa.Table:
    return pa.Table.from_batches(decode.batches(plan, blocks(), observation_bytes.BATCH_ROWS), plan.schema)


def _chosen(found: Iterable[Member], name: str | None, charset: str) -> tuple[Member, Member]:
    """Return a data set with its texts as Latin-1, and with those in the character set."""
    names: list[str] = []
    wanted: list[tuple[Member, Member]] = []
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


def _definition(member: Member, count: int) -> DataSetDefinition:
    return DataSetDefinition(
        MessageKind.DEFINITION,
        data_set_type=member.type,
        label=member.label,
        observations=count,
        variables=len(member.variables),
        obs_length=member.row_size,
    )
