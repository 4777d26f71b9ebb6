"""Read CSV: texts between delimiters; each column may be numbers, dates or times (`app.tables.read.typed_texts`).

The first pass reads texts and determines the types of columns. Each later pass has pyarrow convert plain numbers while
it parses. Blocks grow with the width of rows, so that each call on a column has many cells.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from app.model.errors import InvalidInputError
from app.model.names import folded
from app.tables.read import typed_texts
from app.tables.read.open_quotes import check_quotes
from app.tables.read.read_request import (
    MISSING_SUFFIX,
    NO_LINE_END,
    FileTable,
    ReadOptions,
    Remark,
    check_columns,
    schema_with_sides,
    unreadable,
)
from app.tables.read.text_charsets import charset_of

BLOCK_BYTES = 1 << 20
"""The least number of bytes read at once, and the maximum size of a row."""

LARGEST_BLOCK = 8 << 20
ROWS_A_BLOCK = 1024

MOST_RESERVED = 64 << 20
"""The most bytes that pyarrow may reserve for the texts of a block: it reserves the whole block for each column."""

_TEXTS_OF_MANY_COLUMNS = pa.dictionary(pa.int32(), pa.string())
"""The type in which pyarrow reserves only what it needs. It takes longer to read."""

_LINE_ENDS, _RAW_LINE_ENDS = ("\n", "\r"), (b"\n", b"\r")
_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 1 << 20
_NUL = "has a NUL (a byte 0), which no text has; if the file is in UTF-16, state its encoding"
_ROW = re.compile(r"Row #(\d+): ")
_WIDTHS = re.compile(r"Expected (\d+) columns, got (\d+)")
_SAMPLE_ROWS = 200


def read(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read a CSV file: its first row names the columns, and all its cells determine a column's type.

    Raises InvalidInputError if rows differ in length, for a NUL, or if the file is not in its character set.
    """
    form = _form(file, options)
    for number, name in enumerate(form.names, 1):
        if "\0" in name:
            raise unreadable(f"the row of names: column {number} {_NUL}")
    columns = list(_columns(form.names, options))
    rows = 0
    for cells in _cells(file, form):
        if form.has_nul:
            _check_nul(cells, form, rows)
        for column, cell in zip(columns, cells.columns, strict=True):
            column.see(cell)
        rows += cells.num_rows
    sides = [column.has_tags and column.kind.data_type != pa.string() for column in columns]
    kinds = (column.kind.data_type for column in columns)
    schema = schema_with_sides(zip(form.names, kinds, sides, strict=True))
    types = [
        # pyarrow reads these numbers as `texts` does.
        pa.float64() if column.kind is typed_texts.NUMBER and column.is_plain and not has_side else pa.string()
        for column, has_side in zip(columns, sides, strict=True)
    ]

    def batches() -> Iterator[pa.RecordBatch]:
        for cells in _cells(file, form, types):
            arrays = []
            for cell, column, has_side in zip(cells.columns, columns, sides, strict=True):
                arrays.append(cell if pa.types.is_float64(cell.type) else column.values(cell))
                if has_side:
                    arrays.append(column.tags(cell))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return FileTable(schema, batches, tuple(_remarks(file, form, columns, options, rows)))


class _Form(NamedTuple):
    charset: str
    is_guessed: bool
    delimiter: str
    names: tuple[str, ...]
    blank_lines: int
    has_header: bool
    has_rows: bool
    has_nul: bool
    block_bytes: int


def _check_nul(cells: pa.RecordBatch, form: _Form, rows: int) -> None:
    """Raise InvalidInputError for the first cell with a NUL: programs that read texts up to it would cut it off."""
    places = ((typed_texts.first(pc.match_substring(column, "\0")), at) for at, column in enumerate(cells.columns))
    row, at = min(((row, at) for row, at in places if row is not None), default=(None, 0))
    if row is not None:
        raise unreadable(f"column {form.names[at]} {_NUL}", rows + row + 1)


def _form(file: BinaryIO, options: ReadOptions) -> _Form:
    charset = charset_of(file, options.encoding)
    file.seek(0)
    unmarked = "utf-8-sig" if charset.name == "utf-8" else charset.name
    sample = io.TextIOWrapper(io.BufferedReader(_Unclosed(file)), unmarked, newline="").read(_SAMPLE)
    if not sample.strip():
        raise unreadable("the file is empty; its first row must name the columns")
    delimiter = options.delimiter or _sniff(sample)
    rows = _rows(sample, delimiter)
    blank_lines = 0
    while not (first := next(rows)):
        blank_lines += 1
    try:
        has_more = next(rows, None) is not None
    except InvalidInputError:
        has_more = True
    if not has_more and len(sample) == _SAMPLE:
        raise unreadable(f"its first row is longer than {_SAMPLE} characters")
    check_columns(len(first))
    names = tuple(first) if options.header else tuple(f"VAR{number}" for number in range(1, len(first) + 1))
    has_rows = has_more or not options.header
    row_bytes = len(sample) // max(1, sample.count("\n"), sample.count("\r"))
    block_bytes = max(BLOCK_BYTES, min(LARGEST_BLOCK, ROWS_A_BLOCK * row_bytes))
    # Blank lines are rows of one column, but none of several.
    before = blank_lines * (len(names) == 1) + options.header
    has_nul = check_quotes(file, charset.name, delimiter, before, blank_rows=len(names) == 1)
    return _Form(
        charset.name, charset.guessed, delimiter, names, blank_lines, options.header, has_rows, has_nul, block_bytes
    )


class _Unclosed(io.RawIOBase):
    """A file that a wrapper cannot close."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _rows(sample: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of a sample; the last one may be cut off."""
    try:
        yield from csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    except csv.Error:  # of the quotes and line ends, none is an error here
        raise unreadable(f"a cell has more than {csv.field_size_limit():,} characters") from None


def _sniff(sample: str) -> str:
    """Return the delimiter that cuts most rows into the same number of cells, among those that occur."""

    def rank(delimiter: str) -> tuple[int, int]:
        try:
            widths = Counter(len(row) for row in islice(_rows(sample, delimiter), _SAMPLE_ROWS) if row)
        except InvalidInputError:
            return 0, 0
        width, rows = widths.most_common(1)[0]
        return (rows, width) if width > 1 else (0, 0)

    return max(_DELIMITERS, key=rank)


def _cells(file: BinaryIO, form: _Form, types: Sequence[pa.DataType] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the file's cells, as texts or in these types.

    Columns are named by their number, since their own names may be any text.
    """
    if not form.has_rows:
        return
    numbers = [str(number) for number in range(len(form.names))]
    is_wide = len(numbers) * form.block_bytes > MOST_RESERVED
    texts_as = _TEXTS_OF_MANY_COLUMNS if is_wide else pa.string()
    types = [texts_as if each == pa.string() else each for each in types or [pa.string()] * len(numbers)]
    wanted = dict(zip(numbers, types, strict=True))
    file.seek(0)
    rows = 0
    try:
        with pa_csv.open_csv(
            _Unclosed(file),
            pa_csv.ReadOptions(
                use_threads=False,
                block_size=form.block_bytes,
                column_names=numbers,
                skip_rows=form.blank_lines,
                skip_rows_after_names=int(form.has_header),
                encoding="utf8" if form.charset == "utf-8" else form.charset,
            ),
            pa_csv.ParseOptions(
                delimiter=form.delimiter, newlines_in_values=True, ignore_empty_lines=len(form.names) > 1
            ),
            pa_csv.ConvertOptions(
                column_types=wanted, null_values=list(typed_texts.MISSING_WORDS), strings_can_be_null=False
            ),
        ) as reader:
            for cells in reader:
                if is_wide:
                    plain = [
                        each.dictionary_decode() if pa.types.is_dictionary(each.type) else each
                        for each in cells.columns
                    ]
                    yield pa.RecordBatch.from_arrays(plain, names=numbers)
                else:
                    yield cells
                rows += cells.num_rows
    except pa.ArrowInvalid as error:
        raise _explained(str(error), form, rows) from None


def _explained(message: str, form: _Form, rows: int) -> InvalidInputError:
    """Return the error of a file that pyarrow refuses after this many rows.

    pyarrow counts the row of names and skipped lines, too; here, as everywhere, the first row of data is row 1.
    """
    if "straddling" in message:
        return unreadable(f"a row after row {rows:,} is longer than {form.block_bytes:,} bytes")
    found, widths = _ROW.search(message), _WIDTHS.search(message)
    row = int(found[1]) - form.blank_lines - form.has_header if found else None
    if widths is None:
        return unreadable("it cannot be cut into cells", row)
    nul = f"; it {_NUL}" if "\0" in message else ""
    of = "row of names" if form.has_header else "first row"
    cells = f"{widths[2]} cell{'s' * (widths[2] != '1')}"
    return unreadable(f"it has {cells}, but the {of} has {widths[1]}{nul}", row)


def _columns(names: Sequence[str], options: ReadOptions) -> Iterator[typed_texts.TextColumn]:
    """Yield the columns.

    Side columns of special missing values are text, and the column of such a side column is numeric.
    """
    known = {folded(name) for name in names}
    for name in names:
        stem, mark, _ = folded(name).rpartition(MISSING_SUFFIX)
        if options.type_of(name) == "character" or (mark and stem in known):
            yield typed_texts.TextColumn(())
        else:
            is_numeric = options.type_of(name) == "numeric"
            numbers = is_numeric or folded(name) + MISSING_SUFFIX in known
            yield typed_texts.TextColumn(
                tags=options.tags, decimal=options.decimal, numbers=numbers, grouped=is_numeric
            )


def _remarks(
    file: BinaryIO, form: _Form, columns: Sequence[typed_texts.TextColumn], options: ReadOptions, rows: int
) -> Iterator[Remark]:
    if form.is_guessed:
        yield Remark(None, f"it is not UTF-8 and was read as {form.charset}; state its encoding")
    for name, column in zip(form.names, columns, strict=True):
        yield from (Remark(name, why, row) for why, row in column.remarks())
        if options.type_of(name) != "numeric" or column.kind.data_type != pa.string():
            continue
        if column.kind is typed_texts.DIGITS_ALONE and column.digits:
            row, text = column.digits
            yield Remark(name, f"a number would change {text!r}", row, wrong=True)
        elif column.odd:
            row, text = column.odd
            yield Remark(name, f"{text!r} is not a number, ISO date or ISO time", row, wrong=True)
    size = file.seek(0, 2)
    file.seek(max(0, size - 4))
    tail = file.read()
    decoded, raw = tail.decode(form.charset, "replace"), tail.replace(b"\0", b"")
    if not decoded.endswith(_LINE_ENDS) and not raw.endswith(_RAW_LINE_ENDS):
        yield Remark(None, NO_LINE_END, rows or None)
