"""A delivery's content -> the bodies of its parts, one at a time."""

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from app.codecs.ibm_mq import encodings
from app.codecs.sas import dataset, files, indexes
from app.codecs.sas.dialect import Dialect
from app.dataset import beside, encode
from app.dataset.numeric import ByteOrder, FloatFormat
from app.framing import mq_group, sas_queue
from app.framing.outgoing import CARRIES
from app.framing.sas_queue import Manner
from app.model.attachment import AttachmentKind
from app.model.errors import TheirError
from app.model.message import Framing, PhysicalMessage
from app.model.records import Cut, DeliveryRecord, OutgoingAttachment
from app.ports import ContentStore
from app.service.content.access import opened
from app.service.outbox import CannotSend
from app.wire import WireError

LONGEST_LINE = 16 << 20
"""Bytes of the longest line of a text file; a longer one must be sent as a binary file."""

ROWS_A_BATCH = 16_384

TEXT_LRECL = 32_767
"""The logical record length that a text file without longer lines is announced with, SAS's default."""


class Cutter:
    """Cuts deliveries in one way."""

    def __init__(self, how: Cut, store: ContentStore) -> None:
        self._how, self._store = how, store

    def cut(self, delivery: DeliveryRecord) -> Iterator[PhysicalMessage]:
        """All physical messages of a delivery. Raises CannotSend."""
        carries = CARRIES[self._how.framing]
        if not all(attachment.kind in carries.kinds for attachment in delivery.attachments):
            raise CannotSend(f"the framing {self._how.framing} carries no data sets")
        if delivery.application_body is not None and not carries.application_message:
            raise CannotSend(f"the framing {self._how.framing} carries no application message")
        try:
            yield from _FRAMED[self._how.framing](delivery, self._how, self._store)
        except (TheirError, WireError, UnicodeEncodeError, pa.ArrowException) as error:
            raise CannotSend(str(error)) from error
        except KeyError as gone:
            raise CannotSend(f"its content {gone} is gone") from gone


def _grouped(delivery: DeliveryRecord, how: Cut, store: ContentStore) -> Iterator[PhysicalMessage]:
    def bodies(attachment: OutgoingAttachment) -> Iterator[bytes | memoryview]:
        pieces = store.read(attachment.object_name) if attachment.size else iter(())
        return fixed_records(pieces, how.body_limit)

    return mq_group.messages(delivery, how, bodies)


def _queued(delivery: DeliveryRecord, how: Cut, store: ContentStore) -> Iterator[PhysicalMessage]:
    charset = encodings.charset(how.ccsid, how.encoding) or "utf-8"
    manner = Manner(Dialect.parse(how.dialect), charset, how.ccsid, how.encoding)
    return sas_queue.messages(delivery, manner, _SasBodies(manner, how, store).of)


_FRAMED: Mapping[Framing, Callable[[DeliveryRecord, Cut, ContentStore], Iterator[PhysicalMessage]]] = {
    "sas_queue": _queued,
    "mq_group": _grouped,
}


class _SasBodies:
    """The bodies of an attachment's parts: of a file its description and records, of a data set its messages."""

    def __init__(self, manner: Manner, how: Cut, store: ContentStore) -> None:
        self._manner, self._store = manner, store
        self._limit, self._record_length = how.body_limit, how.record_length

    def of(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        return self._data_set(attachment) if attachment.kind is AttachmentKind.DATA_SET else self._file(attachment)

    def _file(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        dialect, limit = self._manner.dialect, self._limit
        pieces = self._store.read(attachment.object_name) if attachment.size else iter(())
        records: Iterator[bytes | memoryview]
        if attachment.kind is AttachmentKind.TEXT_FILE:
            lrecl = self._record_length or TEXT_LRECL
            line_end = encodings.in_charset("\n", self._manner.ccsid, self._manner.encoding)
            if attachment.size > lrecl:
                lrecl = max(lrecl, _longest(lines(self._store.read(attachment.object_name), line_end)))
            records = lines(pieces, line_end)
        else:
            lrecl = self._record_length or limit - dialect.long
            records = fixed_records(pieces, lrecl)
        yield files.write_file_description(files.FileDescription(lrecl, attachment.size), dialect)
        yield from files.write_records(records, dialect, limit)

    def _data_set(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        manner, limit = self._manner, self._limit
        float_format: FloatFormat = "ibm" if encodings.float_format(manner.encoding) == "s390" else "ieee"
        order: ByteOrder = "big" if manner.dialect.order == ">" else "little"
        with opened(self._store, attachment.object_name) as file:
            table = pq.ParquetFile(file)
            definition, variables = encode.describe(
                table.schema_arrow,
                charset=manner.charset,
                observations=table.metadata.num_rows,
                character_lengths=self._lengths(table),
                float_format=float_format,
            )
            rows = encode.rows(
                _batches(table), variables, order=order, charset=manner.charset, float_format=float_format
            )
            yield dataset.write_definition(definition, manner.dialect, manner.charset)
            yield from dataset.write_variables(variables, manner.dialect, manner.charset, limit)
            yield from dataset.write_observations(rows, definition.obs_length, manner.dialect, limit)
            said = encode.said_of_data_set(table.schema_arrow)
            yield from indexes.write_indexes(beside.read_indexes(said), manner.dialect, manner.charset, limit)
            yield from indexes.write_constraints(beside.read_constraints(said), manner.dialect, limit)

    def _lengths(self, table: pq.ParquetFile) -> dict[str, int]:
        """The lengths of character variables, where the table does not have them for this character set already."""
        own = (table.schema_arrow.metadata or {}).get(b"sas.encoding", b"").decode()
        return {} if own == self._manner.charset else encode.character_lengths(_batches(table), self._manner.charset)


def _batches(table: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """A file's rows, read in this thread alone: it may be a file of Python's, whose place all readers share."""
    batches: Iterator[pa.RecordBatch] = table.iter_batches(ROWS_A_BATCH, use_threads=False)
    return batches


def _longest(records: Iterator[bytes]) -> int:
    return max(map(len, records), default=0)


def lines(pieces: Iterator[memoryview], line_feed: bytes = b"\n") -> Iterator[bytes]:
    """The lines of a text file without their line feeds, which are these bytes in the file's character set; a last line
    that is not ended counts.

    Raises CannotSend for a line over LONGEST_LINE.
    """
    tail = b""
    for piece in pieces:
        *whole, tail = _split(tail + piece, line_feed)
        yield from whole
        if len(tail) > LONGEST_LINE:
            raise CannotSend(f"a line is longer than {LONGEST_LINE} bytes: send the file as a binary file")
    if tail:
        yield tail


def _split(data: bytes, separator: bytes) -> list[bytes]:
    """As `bytes.split`, where each character takes as many bytes as the separator has."""
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


def fixed_records(pieces: Iterator[memoryview], length: int) -> Iterator[memoryview]:
    """The same bytes in records of one length, the last one shorter."""
    tail = b""
    for piece in pieces:
        start = 0
        if tail:
            start = min(length - len(tail), len(piece))
            tail += piece[:start]
            if len(tail) < length:
                continue
            yield memoryview(tail)
        whole = start + (len(piece) - start) // length * length
        for at in range(start, whole, length):
            yield piece[at : at + length]
        tail = bytes(piece[whole:])
    if tail:
        yield memoryview(tail)
