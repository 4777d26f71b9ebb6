"""Define a variable of a data set from a column of a file."""

from collections.abc import Container, Iterator, Mapping
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import character_columns, checks, numeric, sas_columns, side_columns
from app.dataset.checks import Fault
from app.dataset.conversion_error import BadValueError, first_wrong, refuse_any
from app.dataset.description import sas_metadata
from app.dataset.format_names import Kind, SasFormat, kind_of
from app.dataset.numeric import FloatFormat
from app.dataset.sapdb import column_types
from app.dataset.sapdb.column_types import TYPE, sapdb_metadata
from app.dataset.schema import LONGEST_CHARACTER
from app.model.names import in_capitals
from app.tables.read import shared_values
from app.tables.read.converting import conversion, is_bytes, kept
from app.tables.read.read_request import DataSetTarget, Defined, Origin, VariableOverrides

DOUBLE = 8
SHORTEST_NUMERIC: Mapping[FloatFormat, int] = {"ieee": 3, "ibm": 2}

_ORDINARY = character_columns.constants(["", "."])
_MOMENT_FORMATS: Mapping[pa.DataType, SasFormat] = {
    pa.date32(): SasFormat("DATE", 9),
    pa.timestamp("us"): SasFormat("DATETIME", 20),
    pa.time64("us"): SasFormat("TIME", 8),
    pa.duration("us"): SasFormat("TIME", 8),
}
_MOMENT_KINDS: Mapping[pa.DataType, frozenset[Kind]] = {
    pa.date32(): frozenset({"date"}),
    pa.timestamp("us"): frozenset({"datetime", "time-of-day"}),
    pa.time64("us"): frozenset({"time", "time-of-day"}),
    pa.duration("us"): frozenset({"time", "time-of-day"}),
}
_LEAST_YEAR, _GREATEST_YEAR = 1582, 19_900
"""The years of SAS dates."""

_DATE_RANGE = tuple(np.datetime64(f"{year}-01-01", "us") for year in (_LEAST_YEAR, _GREATEST_YEAR + 1))
_BEYOND_DATES = (
    f"SAS has dates from {_LEAST_YEAR} to {_GREATEST_YEAR}; it keeps this value but does not show it as a date"
)
_CONTROLS = "control characters in the label are sent as blanks"
_BLANKS = "blanks at the end of a text are not sent"
_UNDECODED = "bytes that are not in the file's character set {} are sent unchanged"
_NO_ROOM = "and a message of the destination has no room for more"
_MOMENT_WORDS: Mapping[pa.DataType, str] = {
    pa.date32(): "dates",
    pa.timestamp("us"): "datetimes",
    pa.time64("us"): "times",
    pa.duration("us"): "spans of time",
}


class VariableBuilder:
    """The definition of a variable from a column. Pass it all batches of the column, then read the result."""

    def __init__(
        self, at: int, field: pa.Field, override: VariableOverrides, target: DataSetTarget, data_set: Mapping[str, str]
    ) -> None:
        """Prepare for the column at position `at` of the file; `data_set` is the metadata of the whole data set."""
        self.at, self.column, self._type = at, str(field.name), field.type
        self._override, self._target, self._attributes = override, target, sas_metadata(field.metadata)
        self._of_sapdb = sapdb_metadata(field)
        self._origins: dict[str, Origin] = {}
        as_text = override.type == "character"
        retyped = as_text and not sas_columns.is_text(field.type)
        self.name = self._chosen("name", override.name, self._attributes.get("name"), self.column)
        self._label = self._chosen("label", override.label, self._attributes.get("label"))
        self._format, self._informat = (
            checks.reference(self._chosen(word, given, None if retyped else self._attributes.get(word)))
            for word, given in (("format", override.format), ("informat", override.informat))
        )
        if as_text or sas_columns.is_text(field.type):
            # Transport files of SAS also have `8.` for `$8.`.
            self._format, self._informat = (
                reference._replace(name="$")
                if self._origins[word] == "file" and reference.width and not reference.name
                else reference
                for word, reference in (("format", self._format), ("informat", self._informat))
            )
        kind, of_sapdb = kind_of(self._format.name), self._of_sapdb.get(TYPE, "")
        unchanged = kept(field.type, kind, of_sapdb) if target.keeps_types and not retyped else None
        self._conversion = unchanged or conversion(field.type, kind, as_text=as_text)
        self._origins["type"] = "given" if override.type else "file" if "type" in self._attributes else "inferred"
        if self._origins["format"] == "inferred" and self._conversion is not None:
            self._format = _MOMENT_FORMATS.get(self._conversion.data_type, SasFormat())
        self._length = self._known_length(data_set)
        self._charset = data_set.get("encoding", "")
        self._needed = 0
        self._former_name: str | None = None
        self._value_error: Fault | None = None
        self._value_warning: Fault | None = None
        self._first_value: int | None = None
        self.has_side = False

    @property
    def is_numeric(self) -> bool:
        return self._conversion is not None and self._conversion.is_numeric

    @property
    def length(self) -> int:
        """A length that holds every value seen."""
        return max(self._length or (DOUBLE if self.is_numeric else 1), self._needed)

    @property
    def known_as(self) -> str:
        """The variable's name in the file."""
        return self._attributes.get("name") or self.column

    @property
    def format_name(self) -> str:
        """The name of the variable's format in a catalog; empty if it has none."""
        return in_capitals(self._format.name)

    @property
    def value_labels(self) -> str:
        """The value labels that the file states, as metadata."""
        return self._attributes.get("value_labels", "")

    @property
    def sort_place(self) -> int:
        """The place in the sort key that the file states: negative if it descends, 0 for none."""
        return int(self._nsort or 0)

    def rename(self, name: str) -> None:
        """Set another name, and keep the old one as the label if there is none."""
        if name != self.name:
            self._label = self._label or " ".join(self.name.split())
            self._former_name, self.name = self.name, name
            self._origins["name"] = "inferred"

    def _chosen(self, word: str, given: str | None, stated: str | None, otherwise: str = "") -> str:
        """Return an attribute's value, and record its origin."""
        self._origins[word] = "inferred" if given is None and stated is None else "file" if given is None else "given"
        return given if given is not None else stated if stated is not None else otherwise

    def _known_length(self, data_set: Mapping[str, str]) -> int | None:
        """Return the valid given length or the file's length, or None if the values determine it."""
        stated = self._stated_length
        if self._override.length is not None or not (checks.is_short(stated) and int(stated) > 0):
            given = self._override.length if self._length_fault() is None else None
            self._origins["length"] = "inferred" if given is None else "given"
            return given
        self._origins["length"] = "file"
        if not self.is_numeric:
            return int(stated)
        # An IBM float has up to 4 bits more fraction than an IEEE one of the same length.
        widened = data_set.get("float") == "ibm" and self._target.float_format == "ieee"
        return min(max(int(stated) + widened, SHORTEST_NUMERIC[self._target.float_format]), DOUBLE)

    @property
    def _stated_length(self) -> str:
        """The length that the file states for a variable of this type; empty for none."""
        return self._attributes.get("length", "") if self._attributes.get("type", self._word) == self._word else ""

    @property
    def _word(self) -> Literal["numeric", "character"]:
        return "numeric" if self.is_numeric else "character"

    # --- values ---------------------------------------------------------------------------------------------------

    def see(self, batch: pa.RecordBatch, side: int | None, first: int) -> None:
        """Check the next batch.

        `side` is the position of the side column, and `first` the number of rows before the batch.

        After an error, no further values are checked. Batches with only missing values, common in wide tables, are
        skipped.
        """
        if self._conversion is None or self._value_error is not None or self._length_fault() is not None:
            return
        column = batch.column(self.at)
        if side is None and column.null_count == len(column):
            return
        try:
            self._see(batch, column, side, first)
        except MemoryError:
            raise
        except pa.ArrowException as error:
            self._value_error = Fault(self.name, "value", f"a value cannot be converted: {error}")

    def _see(self, batch: pa.RecordBatch, column: pa.Array, side: int | None, first: int) -> None:
        assert self._conversion is not None
        try:
            values, held = self._conversion.convert(column), self._held(batch, side)
            self.has_side = self.has_side or (held is not None and held.null_count < len(held))
            self._needed = max(self._needed, self._room(values, held))
            field = pa.field(self.name, values.type, metadata=self._of_sapdb)
            self._target.check_values(field, values, None if self.is_numeric else held)
        except BadValueError as bad:
            self._value_error = Fault(self.name, "value", bad.why, first + bad.row + 1)
            return
        if self._first_value is None and self._conversion.warning:
            self._first_value = first + pc.index(column.is_valid(), pa.scalar(value=True)).as_py() + 1 or None
        if self._value_warning is not None:
            return
        if not self._target.keeps_types and (row := _first_beyond_dates(values)) is not None:
            self._value_warning = Fault(self.name, "range", _BEYOND_DATES, first + row + 1)
        elif (row := self._conversion.loses(column)) is not None:
            self._value_warning = Fault(self.name, "rounded", self._conversion.loss, first + row + 1)
        elif self._target.keeps_types and (row := _first_with_blanks(column)) is not None:
            self._value_warning = Fault(self.name, "blanks", _BLANKS, first + row + 1)
        elif held is not None and not self.is_numeric and held.null_count < len(held):
            row = pc.index(held.is_valid(), pa.scalar(value=True)).as_py()
            self._value_warning = Fault(self.name, "damaged", _UNDECODED.format(self._charset), first + row + 1)

    def arrays(self, batch: pa.RecordBatch, side: int | None) -> Iterator[pa.Array]:
        """Yield the variable's columns of a batch: its own, and its side column if it has one."""
        assert self._conversion is not None
        yield self._conversion.convert(batch.column(self.at))
        if self.has_side:
            yield self._held(batch, side)

    def _held(self, batch: pa.RecordBatch, side: int | None) -> pa.Array | None:
        """Return the content of the side column, or None if it cannot be sent."""
        if side is None:
            return None
        held = shared_values.laid_out(batch.column(side))
        if not self.is_numeric:
            return held.cast(pa.binary())
        words = pc.utf8_trim_whitespace(sas_columns.strings(held))
        return pc.if_else(pc.is_in(words, value_set=_ORDINARY), pa.scalar(None, pa.string()), pc.ascii_upper(words))

    def _room(self, values: pa.Array, held: pa.Array | None) -> int:
        """Return the length in bytes that each of these values fits. Raises BadValueError if one fits none."""
        charset, float_format = self._target.charset, self._target.float_format
        if self._target.keeps_types and kept(values.type) is not None and self.is_numeric:
            return 0  # every one of them has a place in its type
        if self._target.keeps_types and not self.is_numeric:
            lengths, most = column_types.lengths(values), self._override.length
            unit = "bytes" if is_bytes(values.type) else "characters"
            refuse_any(lengths > (most or np.inf), f"the value has more than {most} {unit}")
            return int(lengths.max(initial=0))
        if not self.is_numeric:

            def needed(low: int, high: int) -> int:
                side = None if held is None else held.slice(low, high - low)
                return character_columns.longest(values.slice(low, high - low), charset, side)

            fitting = self._target.longest_text
            room = min(self._override.length or LONGEST_CHARACTER, fitting)
            if (longest := needed(0, len(values))) > room:
                row = first_wrong(len(values), lambda low, high: needed(low, high) > room)
                why = f"the value needs more than {room} bytes in character set {charset}"
                raise BadValueError(row, why if room < fitting else f"{why}, {_NO_ROOM}")
            return longest
        doubles, tags = sas_columns.doubles_and_tags(values, held)
        numeric.encode(doubles, DOUBLE, "big", float_format, tags, charset)
        if self._length not in {None, DOUBLE}:
            try:
                numeric.encode(doubles, self._length, "big", float_format, tags, charset)
            except BadValueError:
                if self._override.length is not None:
                    raise
                return DOUBLE
        return 0

    # --- the result -----------------------------------------------------------------------------------------------

    def defined(self) -> Defined:
        return Defined(
            self.column,
            self.name,
            self._word,
            self.length,
            str(self._format),
            str(self._informat),
            checks.without_controls(self._label),
            self._origins,
        )

    def field(self, position: int) -> pa.Field:
        """Return the field of its column in the data set's table."""
        optional = {
            "label": checks.without_controls(self._label),
            "informat": str(self._informat),
            "nsort": self._nsort,
        }
        settled = {
            "type": self._word,
            "length": str(self.length),
            "format": str(self._format),
            "position": str(position),
        }
        metadata = {f"sas.{key}": value for key, value in optional.items() if value}
        metadata |= {f"sas.{key}": value for key, value in settled.items()} | self._of_sapdb
        data_type = pa.string() if self._conversion is None else self._conversion.data_type
        return pa.field(self.name, data_type, metadata=metadata)

    @property
    def _nsort(self) -> str:
        """The place in the sort key that the file states; empty if it is not a one-byte number."""
        stated = self._attributes.get("nsort", "")
        return stated if checks.is_short(stated) and -128 <= int(stated) < 128 else ""

    def side_field(self, taken: Container[str]) -> pa.Field:
        return (side_columns.missing_field if self.is_numeric else side_columns.bytes_field)(self.name, taken)

    def errors(self) -> Iterator[Fault]:
        if self._conversion is None:
            yield Fault(self.name, "type", f"SAS has no equivalent of the type {self._type}")
            return
        if self._override.type == "numeric" and not self.is_numeric:
            yield Fault(self.name, "type", "its values are text")
        for code, why in (
            ("length", self._length_fault()),
            ("label", checks.label_fault(self._label, self._target.charset)),
            ("format", checks.format_fault(self._format, self._target.version, is_numeric=self.is_numeric)),
            ("informat", checks.format_fault(self._informat, self._target.version, is_numeric=self.is_numeric)),
            ("format", self._moment_fault()),
            ("length", self._room_fault()),
            ("type", column_types.type_fault(self._of_sapdb.get(TYPE, "")) if self._target.keeps_types else None),
        ):
            if why is not None:
                yield Fault(self.name, code, why)
        if self._value_error is not None:
            yield self._value_error

    def warnings(self) -> Iterator[Fault]:
        if self._former_name is not None:
            yield Fault(
                self.name, "name", f"this is the column {self._former_name!r}, renamed to a name that SAS accepts"
            )
        if self._conversion is not None and self._conversion.warning:
            yield Fault(self.name, "conversion", self._conversion.warning, self._first_value)
        kind, is_double = kind_of(self._format.name), self._conversion and self._conversion.data_type == pa.float64()
        if self._target.keeps_types and is_double and kind is not None:
            why = f"numbers with the format {self._format} are sent as numbers, and the destination has no formats"
            yield Fault(self.name, "format", f"{why}: nothing will say that they are {kind}s")
        if checks.has_controls(self._label):
            yield Fault(self.name, "label", _CONTROLS)
        if self._value_warning is not None:
            yield self._value_warning
        if self._override.length is None and self._length is not None and self._needed > self._length:
            why = f"its values need length {self._needed}, but the file states {self._length}"
            yield Fault(self.name, "length", why)
        if self._stated_length and self._override.length is None and self._origins["length"] == "inferred":
            why = f"the length {self._stated_length!r} that the file states is not one of a {self._word}"
            yield Fault(self.name, "length", why)

    def _length_fault(self) -> str | None:
        given = self._override.length
        if given is None:
            return None
        shortest, longest = (
            (SHORTEST_NUMERIC[self._target.float_format], DOUBLE) if self.is_numeric else (1, LONGEST_CHARACTER)
        )
        return (
            None if shortest <= given <= longest else f"a {self._word} has length {shortest} to {longest}, not {given}"
        )

    def _room_fault(self) -> str | None:
        """Return why the length that is given or that the file states does not do, where no value needs it."""
        fitting = self._target.longest_text
        if self.is_numeric or self.length <= fitting or self._value_error is not None:
            return None
        why = (
            f"the length {self.length} is more than the {fitting} bytes for which a message of the destination has room"
        )
        return f"{why}; give a shorter one"

    def _moment_fault(self) -> str | None:
        kind = kind_of(self._format.name)
        data_type = None if self._conversion is None else self._conversion.data_type
        if kind is None or kind in _MOMENT_KINDS.get(data_type, {kind}):
            return None
        return f"{self._format} is a format of {kind}s, but the values are {_MOMENT_WORDS[data_type]}"


def _first_with_blanks(column: pa.Array) -> int | None:
    """Return the first row with a text that ends with a blank."""
    if not sas_columns.is_text(column.type):
        return None
    texts = sas_columns.strings(shared_values.laid_out(column))
    row: int = pc.index(pc.ends_with(texts, " "), pa.scalar(value=True)).as_py()
    return None if row < 0 else row


def _first_beyond_dates(values: pa.Array) -> int | None:
    """Return the first row of dates or datetimes that are not in the years of SAS."""
    if pa.types.is_date(values.type):
        unit, stored = "D", pa.int32()
    elif pa.types.is_timestamp(values.type):
        unit, stored = "us", pa.int64()
    else:
        return None
    least, greatest = (int(moment.astype(f"datetime64[{unit}]").astype(np.int64)) for moment in _DATE_RANGE)
    ticks = values.cast(stored)
    found = pc.min_max(ticks).as_py()
    if found["min"] is None or (found["min"] >= least and found["max"] < greatest):
        return None
    beyond = pc.or_(pc.less(ticks, least), pc.greater_equal(ticks, greatest))
    return int(pc.index(beyond, pa.scalar(value=True)).as_py())
