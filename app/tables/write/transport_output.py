"""Write SAS transport files, of version 8 and of version 5."""

from collections.abc import Iterator
from functools import cache

from app.dataset import missing
from app.tables.write.output_options import OutputOptions
from app.tables.write.output_pieces import Piece
from app.tables.write.output_table import Outgoing, said_of
from app.tables.xpt.header_records import Version
from app.tables.xpt.xpt_writer import write


def write_xpt(table: Outgoing, options: OutputOptions) -> Iterator[Piece]:
    """Return a transport file of version 8. Raises MisfitError, at once, for items that it cannot hold."""
    return _write(table, options, 8)


def write_xpt_5(table: Outgoing, options: OutputOptions) -> Iterator[Piece]:
    """Return a transport file of version 5, which LIBNAME XPORT reads. Raises MisfitError, at once."""
    return _write(table, options, 5)


def _write(table: Outgoing, options: OutputOptions, version: Version) -> Iterator[Piece]:
    return write(
        table.schema,
        table.batches,
        version,
        rows=table.rows,
        created=table.created.replace(tzinfo=None),
        charset=_charset(table),
        rename=bool(options.rename),
    )


def _charset(table: Outgoing) -> str | None:
    """Return Latin-1 for a single-byte EBCDIC with the same characters, so that texts keep their lengths; else None."""
    said = said_of(table.schema.metadata).get("encoding", "utf-8")
    return "latin-1" if _is_latin(said) else None


@cache
def _is_latin(charset: str) -> bool:
    try:
        return missing.is_ebcdic(charset) and bool(bytes(range(256)).decode(charset).encode("latin-1"))
    except (LookupError, UnicodeError):
        return False
