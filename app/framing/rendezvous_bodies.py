"""What the framing `sas_rendezvous` writes for an attachment: of a file its descriptor and its records, of a data set
its messages (SAS, "Using the Common Messaging Interface")."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.codecs.sas import rendezvous_indexes, rendezvous_messages
from app.codecs.sas.data_set_messages import Variable
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.rendezvous_messages import RendezvousDefinition
from app.codecs.sas.rendezvous_observations import Shape, write_observations
from app.dataset import encode, indexes_and_constraints, sas_columns
from app.dataset.conversion_error import BadValueError
from app.framing.message_charsets import charset_of
from app.framing.protocol import Body, DeliveryContents, fixed_records
from app.framing.rendezvous_content import MAX_GEN
from app.framing.sas_bodies import batches_of, lengths_of, text_records
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.records import FramingOptions, OutgoingAttachment
from app.wire import WireError

_RECORD_BYTES = 64
"""The most bytes of a message of one record, without the record."""


class RendezvousBodies:
    """The messages of an attachment's parts, made as a destination wants them."""

    def __init__(self, options: FramingOptions, contents: DeliveryContents) -> None:
        self._options, self._contents = options, contents
        self._charset = charset_of(options)

    def of(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        """Return the messages of an attachment without the last one. Raises InvalidInputError and WireError."""
        return self._data_set(attachment) if attachment.kind is AttachmentKind.DATA_SET else self._file(attachment)

    def _file(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        options, limit = self._options, self._options.body_limit
        is_text = attachment.kind is AttachmentKind.TEXT_FILE
        records: Iterator[Body]
        if is_text:
            lrecl, whole = text_records(attachment, options, self._contents)
            records = _fitting(whole, limit)
        else:
            lrecl = min(options.record_length or limit, limit - _RECORD_BYTES)
            records = fixed_records(self._contents.pieces(attachment), lrecl)
        yield rendezvous_messages.write_file_description(FileDescription(lrecl, attachment.size))
        yield from rendezvous_messages.write_records(records, "ATX" if is_text else "ATB", limit)

    def _data_set(self, attachment: OutgoingAttachment) -> Iterator[bytes]:
        charset, limit = self._charset, self._options.body_limit
        with self._contents.table(attachment) as table:
            described, variables = encode.describe(
                table.schema_arrow,
                charset=charset,
                observations=table.metadata.num_rows,
                character_lengths=lengths_of(table, charset),
            )
            entries = encode.entries_of_data_set(table.schema_arrow)
            max_gen = encode.integer(entries, MAX_GEN, 0)
            definition = RendezvousDefinition(**asdict(described), max_gen=max_gen)
            unpadded = (replace(each, nsort=each.nsort.rstrip(b"\0").ljust(1, b"\0")) for each in variables)
            rows = encode.rows(batches_of(table), variables, order="big", charset=charset)
            yield rendezvous_messages.write_definition(definition, charset)
            yield from rendezvous_messages.write_variables(unpadded, charset, limit)
            yield from write_observations(_widened(rows, variables), Shape.of(variables), limit)
            yield from rendezvous_indexes.write_indexes(indexes_of(table.schema_arrow), charset, limit)
            yield from _constraints(entries)


def check_texts(values: pa.Array, damaged: pa.Array | None) -> None:
    """Check that no text has a NUL, which would end it. Raises BadValueError."""
    for texts in (values, damaged):
        if texts is None or not (sas_columns.is_text(texts.type) or pa.types.is_binary(texts.type)):
            continue
        found = pc.greater_equal(pc.find_substring(texts, "\0"), 0)
        if pc.any(found).as_py():
            raise BadValueError(
                pc.index(found, pa.scalar(value=True)).as_py(), "a NUL within a text, which ends it there"
            )


def indexes_of(schema: pa.Schema) -> Iterator[rendezvous_indexes.RendezvousIndex]:
    """Return the indexes of a data set's table."""
    for each in indexes_and_constraints.read_indexes(encode.entries_of_data_set(schema)):
        yield rendezvous_indexes.RendezvousIndex(
            each.upercmx, each.name, each.flags, len(each.variables), tuple(each.variables)
        )


def _fitting(records: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """Return the records, of which none may be longer than a message, and none have a NUL. Raises InvalidInputError."""
    for number, record in enumerate(records, 1):
        if len(record) > limit - _RECORD_BYTES:
            why = f"line {number:,} has {len(record):,} bytes, and a message {limit:,}: send the file as a binary file"
            raise InvalidInputError("line-too-long", "", -1, why)
        if 0 in record:
            raise InvalidInputError("nul-in-text", "", -1, f"line {number:,} has a NUL: send the file as a binary file")
        yield record


def _widened(rows: Iterable[Body], variables: Iterable[Variable]) -> Iterator[Body]:
    """Return rows in which every number has 8 bytes: what a shorter one lacks are zeros."""
    variables = list(variables)
    lengths = [variable.length for variable in variables]
    widths = Shape.of(variables).widths
    if lengths == list(widths):
        yield from rows
        return
    places = np.flatnonzero(np.concatenate([np.arange(w) < n for n, w in zip(lengths, widths, strict=True)]))
    for block in rows:
        cells = np.frombuffer(block, np.uint8).reshape(-1, sum(lengths))
        wide = np.zeros((len(cells), sum(widths)), np.uint8)
        wide[:, places] = cells
        yield wide.reshape(-1).data


def _constraints(entries: Mapping[str, str]) -> Iterator[bytes]:
    """Return the messages of integrity constraints as they once came. Raises InvalidInputError for what are none."""
    key = indexes_and_constraints.RENDEZVOUS_CONSTRAINTS
    try:
        data = indexes_and_constraints.read_constraints(entries, key)
        yield from (body for body, _ in rendezvous_indexes.constraint_messages(data))
    except (ValueError, WireError) as error:
        raise InvalidInputError("bad-constraints", key, -1, str(error)) from error
