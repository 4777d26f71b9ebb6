"""Word the errors of damaged files: which kind of file, what is wrong, where, and what to do.

Libraries name their own functions and structures. Their messages are recognised by a part, and replaced by words that
the owner of the file can use.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from app.model.errors import InvalidInputError
from app.tables.read.read_request import unreadable

ARROW: Final = "Arrow file or stream"
PARQUET: Final = "Parquet file"
SAS7BDAT: Final = "sas7bdat file"
SAS7BCAT: Final = "sas7bcat file"

REMEDY: Final = "copy the file again from where it was made, or write it anew"
UNKNOWN: Final = "its structure is invalid"
NOT_SUPPORTED: Final = "an encoding, a compression or a data type that is not supported"
REMEDY_OF_OTHERS: Final = "write it with usual ones, or copy it again if it may be damaged"

Words = Sequence[tuple[str, str]]
"""Parts of messages in small letters, each with what it means; the first that is found counts."""

COLUMNAR: Final[Words] = (
    ("magic bytes not found", "its last four bytes are not PAR1, so it was cut off or bytes were added"),
    ("smaller than the minimum file footer", "it is shorter than any Parquet file"),
    ("invalid base64 input", "the Arrow schema in its footer is invalid"),
    ("page header failed", "the header of a page cannot be read"),
    ("thrift", "its footer, which describes columns and row groups, cannot be read"),
    ("crc checksum", "the checksum of a page does not fit its bytes"),
    ("snappy", "compressed bytes (Snappy) cannot be decompressed"),
    ("lz4", "compressed bytes (LZ4) cannot be decompressed"),
    ("zstd", "compressed bytes (zstd) cannot be decompressed"),
    ("zlib", "compressed bytes (gzip) cannot be decompressed"),
    ("brotli", "compressed bytes (Brotli) cannot be decompressed"),
    ("dictionary bounds", "a value is not in the dictionary of its column"),
    ("plain-encoded", "a page ends within a value"),
    ("unexpected end of stream", "a page has fewer values than it announces"),
    ("utf8", "a text is not UTF-8"),
    ("utf-8", "a text is not UTF-8"),
    ("offset invariant", "the offsets of its texts are out of order or beyond its bytes"),
    ("offset", "an offset points outside of the file, or to a wrong place"),
    ("file too short", "it ends before bytes that it announces"),
    ("footer", "its footer, which lists the batches, is invalid"),
    ("index", "a value is not in the dictionary of its column"),
    ("flatbuffer", "the description of a batch or of the columns cannot be read"),
    ("metadata", "the description of a batch does not fit the columns"),
    ("length", "a column has another number of values than its batch"),
    ("unrecognized type", "it has a data type that does not exist"),
    ("size", "a size in it is invalid"),
)

BEYOND: Final[Words] = (
    ("nested", "its columns are nested too deep; write columns of plain values"),
    ("recursion depth", "its columns are nested too deep; write columns of plain values"),
    (
        "exceeded size limit",
        "the description of its columns is too large, or damaged; write fewer row groups",
    ),
)
"""What Arrow refuses because of a limit of its own, in files that may be whole."""

READSTAT: Final[Words] = (
    ("unable to read", "it ends before bytes that it announces, or points outside of itself"),
    ("unable to seek", "it points outside of itself"),
    ("unable to allocate", "a size in it is far too large"),
    ("unsupported features", "its header or the description of its content is invalid, or it is encrypted"),
    ("compression scheme", "its observations are compressed in an unknown way, or the name of the way is damaged"),
    ("number of columns", "it has another number of variables than it states"),
    ("number of rows", "it has fewer observations than it states"),
    ("expected length", "an observation has another length than it states"),
    ("duplicate", "two variables have the same name"),
    ("repeated", "two variables have the same name"),
)


def damaged(kind: str, what: str, where: str = "", row: int | None = None) -> InvalidInputError:
    """Return the error of a damaged file. `row` counts rows from 1; without it, `where` names the place if known."""
    return unreadable(f"the {kind} is damaged: {what}{where and f', {where}'}; {REMEDY}", row)


def refused(kind: str, error: BaseException, where: str = "") -> InvalidInputError:
    """Return the error of a columnar file that Arrow refuses: not supported, beyond a limit, or damaged."""
    limit = meaning(error, BEYOND)
    if limit != UNKNOWN:
        return unreadable(f"the {kind}: {limit}")
    if isinstance(error, pa.ArrowNotImplementedError) or "not yet implemented" in str(error).casefold():
        return unreadable(f"the {kind} has {NOT_SUPPORTED}{where and f', {where}'}; {REMEDY_OF_OTHERS}")
    return damaged(kind, meaning(error, COLUMNAR), where)


def meaning(error: BaseException, words: Words) -> str:
    """Return what a library's error means."""
    message = str(error).casefold()
    return next((meant for part, meant in words if part in message), UNKNOWN)
