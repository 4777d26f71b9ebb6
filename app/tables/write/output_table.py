"""A selection of a table for output, and the facts about it that some formats begin with."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from app.dataset import side_columns
from app.tables.write.output_options import Missing, OptionError, OutputOptions
from app.tables.write.output_pieces import Piece


def said_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the `sas.*` entries of Arrow metadata, by the name after the dot."""
    texts = ((key.decode(), value.decode("utf-8", "replace")) for key, value in (metadata or {}).items())
    return {key.removeprefix("sas."): value for key, value in texts if key.startswith("sas.")}


class Outgoing(NamedTuple):
    """A table for output: its rows can be iterated once. `created` is the time when its content was created (UTC)."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    rows: int
    created: datetime

    @property
    def member(self) -> str:
        """The data set's name, or `DATA` if it has none."""
        return said_of(self.schema.metadata).get("member") or "DATA"


def _none(_data_type: pa.DataType) -> bool:
    return False


class TableFormat(NamedTuple):
    """One output format of tables.

    `missing` are its ways to show special missing values, its default first. `options` are the options that apply to
    it, beside those that choose rows and columns. `as_numbers` tells which date and time types it does not have.
    `keeps_bytes`: it keeps undecodable values' bytes. `needs_lengths`: it states the maximum lengths of texts before
    any value.
    """

    name: str
    media_type: str
    extension: str
    title: str
    write: Callable[[Outgoing, OutputOptions], Iterator[Piece]]
    missing: tuple[Missing, ...] = ("null", "tag", "column")
    options: frozenset[str] = frozenset()
    as_numbers: Callable[[pa.DataType], bool] = _none
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
