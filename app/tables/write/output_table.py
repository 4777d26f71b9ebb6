"""A table for output: the client's options, the selected rows, and the properties of a format."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Literal, NamedTuple

import pyarrow as pa

from app.dataset import side_columns
from app.dataset.description import sas_metadata
from app.tables.write.output_pieces import Piece

Missing = Literal["null", "tag", "column"]
Dates = Literal["iso", "sas"]
Names = Literal["keep", "lower"]
Blank = Literal["empty", "null"]
Formulas = Literal["keep", "escape"]
Times = Literal["time", "duration"]


class OptionError(ValueError):
    """An option that does not apply or is wrong: `option` is its name, `why` a sentence."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"{option}: {why}")
        self.option, self.why = option, why


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The requested options; None for an option that was not given, where the format's default applies.

    - `columns`: variables by name, in this order, in any case;
    - `offset`, `limit`: number of rows to skip at the beginning, and maximum number of rows;
    - `missing`: special missing values as null, as their tag (`.A`) in the cell, or in a side column;
    - `dates`: dates, datetimes and times in ISO 8601 (in their own types, if a format has them), or as the numbers
      that SAS keeps: days or seconds since 1960-01-01, or seconds;
    - `names`: column names unchanged, or in lower case;
    - `blank`: blank character values as empty text or as null;
    - `formulas`: CSV cells that spreadsheets take for formulas unchanged, or with an apostrophe before them;
    - `rename`: names that the format cannot hold are changed;
    - `labels`: value labels are shown in place of values;
    - `times`: times of day in their own type, or as durations since midnight, which more programs read;
    - `attrs`: labels and formats also where pandas finds them, as `DataFrame.attrs`.
    """

    columns: tuple[str, ...] | None = None
    offset: int | None = None
    limit: int | None = None
    missing: Missing | None = None
    dates: Dates | None = None
    names: Names | None = None
    blank: Blank | None = None
    rename: bool | None = None
    formulas: Formulas | None = None
    labels: bool | None = None
    times: Times | None = None
    attrs: bool | None = None

    def given(self) -> dict[str, object]:
        """Return the options that were given, by name."""
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in pairs if value is not None}


class OutputTable(NamedTuple):
    """A table for output: its rows can be iterated once. `created` is the time when its content was created (UTC)."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    rows: int
    created: datetime

    @property
    def member(self) -> str:
        """The data set's name, or `DATA` if it has none."""
        return sas_metadata(self.schema.metadata).get("member") or "DATA"


class TableFormat(NamedTuple):
    """One output format of tables.

    `missing` are its ways to show special missing values, its default first. `options` are the options that apply to
    it, without the options that choose rows and columns. `as_numbers` tells which types it writes as SAS's numbers,
    and `as_digits` which byte strings as hexadecimal digits, since it has only texts.
    `keeps_bytes`: it keeps undecodable values' bytes. `needs_lengths`: it states the maximum lengths of texts before
    any value.
    """

    name: str
    media_type: str
    extension: str
    title: str
    write: Callable[[OutputTable, OutputOptions], Iterator[Piece]]
    missing: tuple[Missing, ...] = ("null", "tag", "column")
    options: frozenset[str] = frozenset()
    as_numbers: Callable[[pa.DataType], bool] = lambda _type: False
    as_digits: Callable[[pa.DataType], bool] = lambda _type: False
    keeps_bytes: bool = False
    needs_lengths: bool = False

    @property
    def content_type(self) -> str:
        """The media type with its parameters."""
        return f"{self.media_type}; charset=utf-8" if self.media_type.startswith("text/") else self.media_type

    def settled(self, options: OutputOptions) -> OutputOptions:
        """Return the same options in one form: `missing` is set, and options without an effect are not.

        Raises OptionError for an option that the format does not have.
        """
        for name in ("dates", "names", "blank", "rename", "formulas", "times", "attrs"):
            if getattr(options, name) is not None and name not in self.options:
                raise OptionError(name, f"does not apply to format {self.name}")
        missing: Missing = options.missing or self.missing[0]
        if missing not in self.missing:
            raise OptionError("missing", f"format {self.name} takes {' or '.join(self.missing)}")
        return replace(
            options,
            offset=options.offset or None,
            missing=missing,
            dates=None if options.dates == "iso" else options.dates,
            names=None if options.names == "keep" else options.names,
            blank=None if options.blank == "empty" else options.blank,
            rename=options.rename or None,
            formulas=None if options.formulas == "keep" else options.formulas,
            labels=options.labels or None,
            times=None if options.times == "time" or options.dates == "sas" else options.times,
            attrs=options.attrs or None,
        )

    def takes_side(self, field: pa.Field, options: OutputOptions) -> bool:
        """Tell whether a side column is output, under settled options: as a column, or as tags for `write`."""
        if side_columns.missing_of(field) is not None:
            return options.missing != "null"
        return self.keeps_bytes
