"""Small contents whose every record, row and byte differs from the others, so that none can stand for another."""

from tests.evidence.senders.sent import Column, Table

LINES = (
    (b"the first line", b"a second line, longer"),
    (b"third", b"the fourth one"),
    (b"fifth and last but two", b"six", b"the seventh line"),
)
"""Lines, those of each message together. No two messages have the same bytes, or the same number of bytes."""

RECORDS = ((bytes(range(40)), bytes(range(40, 66))), (bytes(range(66, 130)),), (bytes(range(200, 256)), b"end\0"))
"""Records of a binary file, those of each message together. No two messages have the same number of bytes."""

COLUMNS = (Column("NUMBER", "a number"), Column("WORD", "a word of six", 6))
ROWS = (
    ((1.5, "one"), (-2.0, "two")),
    ((3.25, "three"), (4.0, "")),
    ((5.0, "five"), (1e10, "six"), (7.0, "seven")),
)
"""Rows, those of each message together."""

TABLE = Table(COLUMNS, tuple(row for rows in ROWS for row in rows))
NO_ROWS = Table(COLUMNS, ())
TEXT = b"".join(line + b"\n" for lines in LINES for line in lines)
BINARY = b"".join(record for records in RECORDS for record in records)
