"""The options of a sender and a destination for a data set, and the variables that result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from app.codecs.sas.dialect import Dialect
from app.dataset.numeric import FloatFormat
from app.model.attachment import DataSetVersion
from app.tables.read.read_request import VariableType

Origin = Literal["given", "file", "inferred"]
NameRule = Literal["strict", "literal", "rename"]


FREE_EXPANSION = 64 << 20
"""Observations with up to this many bytes are always accepted: small files of one repeated value are common."""


class ExpansionLimit(Exception):
    """A file that would become too many times its own size as observations."""


@dataclass(frozen=True, slots=True)
class DataSetTarget:
    """The limits of the destination.

    These are a Python codec's name, a format of floats, a version of data sets, the maximum number of bytes of all
    observations, and the dialect by name. Observations of more than FREE_EXPANSION bytes may have at most `expansion`
    times `source_bytes`, the size of their file (None: no limit).
    """

    charset: str = "utf-8"
    float_format: FloatFormat = "ieee"
    version: DataSetVersion = "V9"
    most_bytes: int = 1 << 40
    dialect: str = Dialect().name
    expansion: int | None = None
    source_bytes: int = 0


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
