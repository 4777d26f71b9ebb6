"""The arguments and results of readers of file formats, and of the definition of a data set from what they read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pyarrow as pa

from app.codecs.sas.dialect import Dialect
from app.dataset import side_columns
from app.dataset.numeric import FloatFormat
from app.dataset.schema import LONGEST_CHARACTER, MOST_VARIABLES
from app.framing.registry import framing
from app.model.attachment import DataSetVersion
from app.model.errors import InvalidInputError
from app.model.names import folded
from app.model.records import FramingOptions

VariableType = Literal["numeric", "character"]
Origin = Literal["given", "file", "inferred"]
NameRule = Literal["strict", "literal", "rename"]
ROWS_A_BATCH = 16_384
CELLS_A_BATCH = 4 << 20

MOST_COLUMNS = 2 * MOST_VARIABLES
"""The maximum number of columns of a file: its variables, each with a side column."""

MISSING_SUFFIX = "__missing"
"""The suffix of a column that holds the special missing values of another."""

MOST_NAMES = 10
"""The maximum number of names in a remark."""

FREE_EXPANSION = 64 << 20
"""Observations with up to this many bytes are always accepted: small files of one repeated value are common."""

NO_LINE_END = "the last line has no line end; if the file was cut off there, it or rows after it are not complete"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The sender's options for a file; None leaves the choice to its content. Most apply to text formats only.

    `encoding` is a Python codec's name, `decimal` the character before a number's fraction. With `tags`, a cell `.A`
    among numbers is a special missing value. `member` chooses among the data sets of a transport file. `types` are the
    requested types of columns by name, folded.
    """

    encoding: str | None = None
    delimiter: str | None = None
    decimal: Literal[".", ","] = "."
    header: bool = True
    tags: bool = False
    member: str | None = None
    types: Mapping[str, VariableType] = field(default_factory=dict)

    def type_of(self, column: str) -> VariableType | None:
        return self.types.get(folded(column))


def rows_a_batch(columns: int) -> int:
    """Return the number of rows with this number of columns that are held at once."""
    return max(1, min(ROWS_A_BATCH, CELLS_A_BATCH // max(columns, 1)))


def check_columns(columns: int) -> None:
    """Raise InvalidInputError for more columns than any data set has, before anything is read with them."""
    if columns > MOST_COLUMNS:
        raise unreadable(f"it has {columns:,} columns; at most {MOST_COLUMNS:,} are read")


def schema_with_sides(columns: Iterable[tuple[str, pa.DataType, bool]]) -> pa.Schema:
    """Return the schema of columns: each has a name, a type, and whether a column of its missing values follows it."""
    columns = list(columns)
    taken = {name.casefold() for name, _, _ in columns}
    fields = []
    for name, data_type, has_side in columns:
        fields.append(pa.field(name, data_type))
        if has_side:
            fields.append(side_columns.missing_field(name, taken))
    return pa.schema(fields)


def listed(names: Sequence[str]) -> str:
    """Return the first names as text, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


class Remark(NamedTuple):
    """A reader's remark on a column (None: on the whole file), for people; `row` counts observations from 1.

    `wrong` states that it cannot be sent like this. `code` is that of the fault.
    """

    column: str | None
    why: str
    row: int | None = None
    wrong: bool = False
    code: str = "reading"


class FileTable(NamedTuple):
    """A file as a table: columns of any Arrow types, `sas.*` metadata if the file has them, and its rows.

    `batches` yields the rows anew at each call. The file must stay open while rows are read.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    remarks: tuple[Remark, ...] = ()


def unreadable(why: str, row: int | None = None) -> InvalidInputError:
    """Return the error of an unreadable file.

    `row` counts rows of data from 1, in every format: not the row of names of CSV, and not lines that are no rows.
    """
    return InvalidInputError("unreadable-table", "" if row is None else f"row {row}", -1, why)


class ExpansionLimit(Exception):
    """A file that would become too many times its own size as observations."""


@dataclass(frozen=True, slots=True)
class DataSetTarget:
    """The limits of the destination.

    These are a Python codec's name, a format of floats, a version of data sets, the maximum number of bytes of all
    observations, and the dialect by name. Observations of more than FREE_EXPANSION bytes may have at most `expansion`
    times `source_bytes`, the size of their file (None: no limit). A destination that `keeps_types` takes integers,
    decimals, booleans, bytes, and texts that are null as they are; SAS lacks these. `extras` are the properties of a
    data set that its framing carries (`app.framing.protocol.Framing.extras`). Values must have a place in the messages
    that are `sent_as` these options say, together with the message's other attachments: its `files`, by their names.
    """

    charset: str = "utf-8"
    float_format: FloatFormat = "ieee"
    version: DataSetVersion = "V9"
    most_bytes: int = 1 << 40
    dialect: str = Dialect().name
    expansion: int | None = None
    source_bytes: int = 0
    keeps_types: bool = False
    extras: frozenset[str] = frozenset({"version", "sort_variables", "indexes", "constraints"})
    sent_as: FramingOptions | None = None
    files: tuple[str, ...] = ()

    @property
    def longest_text(self) -> int:
        """The most bytes of a character value."""
        room = None if self.sent_as is None else framing(self.sent_as.framing).longest_text(self.sent_as)
        return LONGEST_CHARACTER if room is None else min(room, LONGEST_CHARACTER)

    def check_values(self, field: pa.Field, values: pa.Array, damaged: pa.Array | None) -> None:
        """Raise BadValueError for the first value of a variable that messages have no place for."""
        if self.sent_as is not None:
            framing(self.sent_as.framing).check_values(field, values, damaged, self.files)


@dataclass(frozen=True, slots=True)
class VariableOverrides:
    """The options that a sender gives for a variable with the column `column`; None leaves the choice to the file."""

    column: str = ""
    name: str | None = None
    type: VariableType | None = None
    length: int | None = None
    format: str | None = None
    informat: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class DataSetOverrides:
    """The options that a sender gives for a data set; `variables` are by column, casefolded.

    If neither a sender nor the file names the data set, it is `WORK.` and `file_stem`. `names` decides on columns with
    names that SAS does not accept: they are refused, sent as name literals, or renamed.
    """

    library: str | None = None
    member: str | None = None
    file_stem: str = ""
    label: str | None = None
    names: NameRule = "strict"
    variables: Mapping[str, VariableOverrides] = field(default_factory=dict)


class Defined(NamedTuple):
    """One variable as it will be sent; `origins` states the origin of each of its attributes."""

    column: str
    name: str
    type: VariableType
    length: int
    format: str
    informat: str
    label: str
    origins: Mapping[str, Origin]
