"""The bodies of parts that the framing `sas_queue` writes (SAS, "Using the Common Messaging Interface").

The parts of a file are its description and its records; the parts of a data set are its messages.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from app.codecs.ibm_mq import encodings
from app.codecs.sas import data_set_messages, file_messages
from app.codecs.sas.dialect import Dialect
from app.dataset import encode, indexes_and_constraints
from app.dataset.numeric import ByteOrder, FloatFormat
from app.framing.message_charsets import charset_of
from app.framing.protocol import DeliveryContents, fixed_records
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.records import FramingOptions, OutgoingAttachment

LONGEST_LINE = 16 << 20
"""The length of the longest line of a text file, in bytes. A file with longer lines must be sent as a binary file."""

ROWS_A_BATCH = 16_384

TEXT_LRECL = 32_767
"""The logical record length in the description of a text file without longer lines; it is SAS's default."""


class SasBodies:
    """The bodies of an attachment's parts, in the form that a destination's options describe."""

    def __init__(self, options: FramingOptions, contents: DeliveryContents) -> None:
        self._options, self._contents = options, contents
        self._dialect = Dialect.parse(options.dialect)
        self._charset = charset_of(options)

    def of(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        return self._data_set(attachment) if attachment.kind is AttachmentKind.DATA_SET else self._file(attachment)

    def _file(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        options, dialect, limit = self._options, self._dialect, self._options.body_limit
        records: Iterator[bytes | memoryview]
        if attachment.kind is AttachmentKind.TEXT_FILE:
            lrecl, records = text_records(attachment, options, self._contents)
        else:
            lrecl = options.record_length or limit - dialect.long
            records = fixed_records(self._contents.pieces(attachment), lrecl)
        yield file_messages.write_file_description(file_messages.FileDescription(lrecl, attachment.size), dialect)
        yield from file_messages.write_records(records, dialect, limit)

    def _data_set(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        dialect, charset, limit = self._dialect, self._charset, self._options.body_limit
        float_format: FloatFormat = "ibm" if encodings.float_format(self._options.encoding) == "s390" else "ieee"
        order: ByteOrder = "big" if dialect.order == ">" else "little"
        with self._contents.table(attachment) as table:
            definition, variables = encode.describe(
                table.schema_arrow,
                charset=charset,
                observations=table.metadata.num_rows,
                character_lengths=lengths_of(table, self._charset),
                float_format=float_format,
            )
            rows = encode.rows(batches_of(table), variables, order=order, charset=charset, float_format=float_format)
            yield data_set_messages.write_definition(definition, dialect, charset)
            yield from data_set_messages.write_variables(variables, dialect, charset, limit)
            yield from data_set_messages.write_observations(rows, definition.obs_length, dialect, limit)
            entries = encode.entries_of_data_set(table.schema_arrow)
            yield from data_set_messages.write_indexes(
                indexes_and_constraints.read_indexes(entries), dialect, charset, limit
            )
            yield from data_set_messages.write_constraints(
                indexes_and_constraints.read_constraints(entries), dialect, limit
            )


def lengths_of(table: pq.ParquetFile, charset: str) -> dict[str, int]:
    """Return the lengths of character variables, where the table does not have them for this character set already."""
    own = (table.schema_arrow.metadata or {}).get(b"sas.encoding", b"").decode()
    return {} if own == charset else encode.character_lengths(batches_of(table), charset)


def batches_of(table: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Return a file's rows, read in this thread alone: it may be a file of Python's, whose place all readers share."""
    batches: Iterator[pa.RecordBatch] = table.iter_batches(ROWS_A_BATCH, use_threads=False)
    return batches


def text_records(
    attachment: OutgoingAttachment, options: FramingOptions, contents: DeliveryContents
) -> tuple[int, Iterator[bytes]]:
    """Return the logical record length of a text file, which no line exceeds, and its lines."""
    line_end = encodings.in_charset("\n", options.ccsid, options.encoding)
    lrecl = options.record_length or TEXT_LRECL
    if attachment.size > lrecl:
        lrecl = max(lrecl, max(map(len, lines(contents.pieces(attachment), line_end)), default=0))
    return lrecl, lines(contents.pieces(attachment), line_end)


def lines(pieces: Iterator[memoryview], line_feed: bytes = b"\n") -> Iterator[bytes]:
    """Yield the lines of a text file without their line feeds. A last line that is not terminated counts.

    `line_feed` is a line feed in the file's character set. Raises InvalidInputError for a line over LONGEST_LINE.
    """
    tail = b""
    for piece in pieces:
        *whole, tail = _split(tail + piece, line_feed)
        yield from whole
        if len(tail) > LONGEST_LINE:
            why = f"a line is longer than {LONGEST_LINE} bytes: send the file as a binary file"
            raise InvalidInputError("line-too-long", "", -1, why)
    if tail:
        yield tail


def _split(data: bytes, separator: bytes) -> list[bytes]:
    """Split as `bytes.split`, where each character takes as many bytes as the separator."""
    width = len(separator)
    if width == 1:
        return data.split(separator)
    found: list[bytes] = []
    start = at = 0
    while (at := data.find(separator, at)) >= 0:
        if at % width:
            at += 1
            continue
        found.append(data[start:at])
        start = at = at + width
    return [*found, data[start:]]
