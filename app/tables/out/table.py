"""What is written: a selection of a table, and the facts about it that some formats begin with."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from app.dataset import side
from app.tables.out.options import Missing, OptionError, Options
from app.tables.out.pieces import Piece


def said_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """The `sas.*` entries of Arrow metadata, by what stands behind the dot."""
    texts = ((key.decode(), value.decode("utf-8", "replace")) for key, value in (metadata or {}).items())
    return {key.removeprefix("sas."): value for key, value in texts if key.startswith("sas.")}


class Outgoing(NamedTuple):
    """A table on its way out: its rows can be iterated once. `created` is when its content came to be (UTC)."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    rows: int
    created: datetime

    @property
    def member(self) -> str:
        """The data set's name, `DATA` if it has none."""
        return said_of(self.schema.metadata).get("member") or "DATA"


def _none(_data_type: pa.DataType) -> bool:
    return False


class TableFormat(NamedTuple):
    """One format that tables come in.

    `missing` are the ways of it to tell special missing values, its default first. `options` are those options
    that mean something to it, beside those that say which rows and columns come.
    `as_numbers` are the dates and times that it has no type for. `keeps_bytes`: it keeps undecodable values' bytes.
    `needs_lengths`: before any value come the bytes that texts have at most.
    """

    name: str
    media_type: str
    extension: str
    title: str
    write: Callable[[Outgoing, Options], Iterator[Piece]]
    missing: tuple[Missing, ...] = ("null", "tag", "column")
    options: frozenset[str] = frozenset()
    as_numbers: Callable[[pa.DataType], bool] = _none
    keeps_bytes: bool = False
    needs_lengths: bool = False

    @property
    def content_type(self) -> str:
        """The media type with what it needs to be read."""
        return f"{self.media_type}; charset=utf-8" if self.media_type.startswith("text/") else self.media_type

    def settled(self, options: Options) -> Options:
        """The same options in one form: `missing` is said, and what changes nothing is not.

        Raises OptionError for one that the format lacks.
        """
        for name in ("dates", "names", "blank", "rename", "formulas"):
            if getattr(options, name) is not None and name not in self.options:
                raise OptionError(name, f"means nothing to format {self.name}")
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
        )

    def takes_side(self, field: pa.Field, options: Options) -> bool:
        """Whether a side column goes out, under settled options: as a column, or as tags for `write`."""
        if side.missing_of(field) is not None:
            return options.missing != "null"
        return self.keeps_bytes
