"""Write a CSV file and the SAS program that reads it, in a ZIP archive: for SAS sessions without a better reader.

Dates and times in the CSV are the numbers that SAS keeps, so no informat can misread them. The program comes last in
the archive, as the lengths that UTF-8 needs are known only then.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import missing, side_columns
from app.dataset.description import character_length, sas_metadata
from app.dataset.schema import LONGEST_CHARACTER
from app.tables.write import csv_writer, text_cells
from app.tables.write.output_pieces import COMPRESSION_LEVEL, OutputPieces, Piece
from app.tables.write.output_table import OutputOptions, OutputTable
from app.tables.write.text_cells import RowCell, cells
from app.tables.xpt.xpt_limits import names_in_program

CSV_NAME, PROGRAM_NAME = "data.csv", "data.sas"

_INFILE = "\"&csv\" dsd dlm=',' termstr=crlf firstobs=2 truncover encoding='utf-8'"
_SHORTEST_RECORD = 32_767
_LONGEST_RECORD = 1_073_741_823

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
_FORMAT = re.compile(r"\$?(?:[A-Za-z_][A-Za-z0-9_]*)?[0-9]*\.[0-9]*", re.ASCII)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class _Variable(NamedTuple):
    """A variable as a DATA step names it."""

    literal: str
    length: str
    informat: str
    attributes: dict[str, str]


def write_program(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Return the archive: `data.csv`, then `data.sas`. Raises MisfitError, at once, for names that SAS cannot take."""
    member, names = names_in_program(table.schema, rename=bool(options.rename))
    shown = cells(table.schema, options)

    def archived() -> Iterator[Piece]:
        widest = dict.fromkeys((cell.at for cell in shown if cell.is_text), 1)
        target = OutputPieces()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as archive:
            with archive.open(CSV_NAME, "w", force_zip64=True) as file:
                measured = table._replace(batches=_measured(table, widest))
                for piece in csv_writer.write_csv(measured, options):
                    file.write(piece)
                    yield from target.taken()
            with archive.open(PROGRAM_NAME, "w") as file:
                file.write(program(table, shown, widest, member, names).encode())
        yield from target.rest()

    return archived()


def program(
    table: OutputTable, shown: Sequence[RowCell], widest: Mapping[int, int], member: str, names: Mapping[str, str]
) -> str:
    """Return the DATA step that makes the data set `member`.

    `widest` are the maximum sizes of text cells in bytes, by the column's position; `names` are the variables' names,
    by the column's name.

    Names, labels and formats come from a sender: texts that are not plain words are quoted, and invalid formats left
    out.
    """
    attributes = sas_metadata(table.schema.metadata)
    is_ibm = attributes.get("float") == "ibm"
    columns = [table.schema.field(cell.at) for cell in shown]
    variables = [
        _variable(column, names[column.name], widest.get(cell.at), is_ibm=is_ibm)
        for cell, column in zip(shown, columns, strict=True)
    ]
    label = f"(label={_text(attributes['label'])})" if attributes.get("label") else ""
    longest = sum(2 * widest.get(cell.at, 16) + 3 for cell in shown)
    tags = f"missing {' '.join(missing.LETTERS)};" if any(map(side_columns.missing_of, table.schema)) else ""
    head = [
        f"/* Reads {CSV_NAME}. Say where it is: */",
        f"%let csv = {CSV_NAME};",
        "",
        "options validvarname=any validmemname=extend nofmterr;",
        *([tags] if tags else []),
        "",
        f"data WORK.{_name(member)}{label};",
        f"   infile {_INFILE} lrecl={min(max(longest, _SHORTEST_RECORD), _LONGEST_RECORD)};",
    ]
    statements = [
        ("length", [f"{one.literal} {one.length}" for one in variables]),
        (
            "label",
            [f"{one.literal} = {_text(one.attributes['label'])}" for one in variables if one.attributes.get("label")],
        ),
        (
            "format",
            [
                f"{one.literal} {one.attributes['format']}"
                for one in variables
                if _is_format(one.attributes.get("format"))
            ],
        ),
        (
            "informat",
            [
                f"{one.literal} {one.attributes['informat']}"
                for one in variables
                if _is_format(one.attributes.get("informat"))
            ],
        ),
        ("input", [f"{one.literal} : {one.informat}" for one in variables]),
    ]
    body = [
        line
        for word, items in statements
        if items
        for line in (f"   {word}", *[f"      {item}" for item in items], "   ;")
    ]
    return "\n".join([*head, *body, "run;", ""])


def _measured(table: OutputTable, widest: dict[int, int]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and record the size of their texts in UTF-8.

    A CR LF within a text becomes LF, as it would end SAS's record.
    """
    for batch in table.batches:
        kept = batch
        for at, seen in widest.items():
            column = batch.column(at)
            widest[at] = max(seen, pc.max(pc.binary_length(column)).as_py() or 0)
            if b"\r\n" in text_cells.raw(column):
                unbroken = pc.replace_substring_regex(column, "\r+\n", "\n")
                kept = kept.set_column(at, batch.schema.field(at), unbroken)
        yield kept


def _variable(field: pa.Field, name: str, widest: int | None, *, is_ibm: bool) -> _Variable:
    attributes = sas_metadata(field.metadata)
    if widest is not None:
        length = min(max(character_length(field), widest), LONGEST_CHARACTER)
        return _Variable(_name(name), f"${length}", f"$char{length}.", attributes)
    # An IBM float has up to 4 bits more fraction than an IEEE one of the same length.
    length = min(8, max(3, int(attributes.get("length", "8")) + is_ibm))
    return _Variable(_name(name), str(length), "best32.", attributes)


def _name(name: str) -> str:
    return name if _WORD.fullmatch(name) else _text(name) + "n"


def _text(value: str) -> str:
    """Return a character constant, in which macro triggers have no effect."""
    return "'" + _CONTROLS.sub(" ", value).replace("'", "''") + "'"


def _is_format(reference: str | None) -> bool:
    return bool(reference and _FORMAT.fullmatch(reference))
