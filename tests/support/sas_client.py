"""A SAS program that sends a message with attachments, by the codecs alone.

This module does not use the gateway's code for sending, so that receiving is tested against the specification.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from random import Random

import pyarrow as pa

from app.codecs.ibm_mq.encodings import MQENC_S390, in_charset
from app.codecs.ibm_mq.encodings import charset as named_charset
from app.codecs.sas import correlid, data_set_messages, file_messages
from app.codecs.sas.attachment_messages import write_count, write_header
from app.codecs.sas.constants import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.codecs.sas.dialect import DIALECTS, Dialect
from app.dataset import encode
from app.dataset.numeric import ByteOrder
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.model.message import PhysicalMessage
from tests.support import ibm_float

UTF8 = 1208
_ENCODINGS = {">": 273, "<": 546}
APPLICATION_BODY = b"This is the actual application message."


@dataclass(frozen=True, slots=True)
class Program:
    """A sender and its habits.

    `body_limit` is in bytes; `ccsid` is an IBM character set number, `encoding` an IBM one for numbers (None: IEEE in
    the byte order of the dialect). With `numbers_messages` the correlids of its messages differ only after the first 16
    bytes.
    """

    random: Random
    dialect: Dialect = DIALECTS[0]
    ccsid: int = UTF8
    body_limit: int = 32_000
    encoding: int | None = None
    numbers_messages: bool = False

    @property
    def charset(self) -> str:
        return named_charset(self.ccsid, 0) or "utf-8"


@dataclass(frozen=True, slots=True)
class Attached:
    """An attachment as a program sends it: its header entry, its parts' bodies, and the content that a receiver must
    get.

    The content is a file's bytes or a data set's table.
    """

    definition: AttachmentDefinition
    bodies: tuple[bytes, ...]
    content: bytes | pa.Table

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of a file's content."""
        return sha256(self.content).hexdigest()


def binary_file(program: Program, name: str, content: bytes, description: str = "") -> Attached:
    """Return a file of fixed records, as long as a message can hold them."""
    lrecl = program.body_limit - program.dialect.long - 1
    records = (content[at : at + lrecl] for at in range(0, len(content), lrecl))
    return _file(program, AttachmentKind.BINARY_FILE, name, content, records, lrecl, description)


def text_file(program: Program, name: str, content: bytes, description: str = "") -> Attached:
    """Return a file of lines, one per record; line ends are not sent.

    Those of `content` are LF; a receiver must get those of the program's character set.
    """
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    line_end = in_charset("\n", program.ccsid, program.encoding or _ENCODINGS[program.dialect.order])
    expected = content.replace(b"\n", line_end)
    return _file(program, AttachmentKind.TEXT_FILE, name, expected, lines, 32_767, description)


def data_set(program: Program, library: str, member: str, table: pa.Table, description: str = "") -> Attached:
    lengths = encode.character_lengths(table.to_batches(), program.charset)
    definition, variables = encode.describe(
        table.schema, charset=program.charset, observations=table.num_rows, character_lengths=lengths
    )
    order: ByteOrder = "big" if program.dialect.order == ">" else "little"
    rows: Iterable[bytes | memoryview] = encode.rows(
        table.to_batches(), variables, order=order, charset=program.charset
    )
    if program.encoding == MQENC_S390:
        rows = ibm_float.converted(rows, variables)
    bodies = chain(
        [data_set_messages.write_definition(definition, program.dialect, program.charset)],
        data_set_messages.write_variables(variables, program.dialect, program.charset, program.body_limit),
        data_set_messages.write_observations(rows, definition.obs_length, program.dialect, program.body_limit),
    )
    return Attached(_definition(program, AttachmentKind.DATA_SET, library, member, description), tuple(bodies), table)


def message(
    program: Program, attachments: Sequence[Attached], application: bytes = APPLICATION_BODY
) -> list[PhysicalMessage]:
    """Return all physical messages of one application message, in the order of the specification."""
    header = MessageHeader(
        header_correl_id=_fresh(program),
        original_msg_type=8,
        original_correl_id=bytes(24),
        message_correl_id=_numbered(program) if program.numbers_messages else _fresh(program),
        attachments=tuple(attached.definition for attached in attachments),
    )
    sent = [
        _physical(
            program, HEADER_MSG_TYPE, header.header_correl_id, write_header(header, program.dialect, program.charset)
        ),
        _physical(program, SUBORDINATE_MSG_TYPE, header.message_correl_id, application),
    ]
    for attached in attachments:
        key = attached.definition.correl_id
        sent += [
            _physical(program, SUBORDINATE_MSG_TYPE, correlid.join(key, number), body)
            for number, body in enumerate(attached.bodies, 1)
        ]
        count = write_count(len(attached.bodies), program.dialect)
        sent.append(_physical(program, SUBORDINATE_MSG_TYPE, correlid.join(key, 0), count))
    return sent


def disordered(messages: Iterable[PhysicalMessage], random: Random, duplicates: float = 0.05) -> list[PhysicalMessage]:
    """Return the messages in random order, a share of them twice."""
    sent = list(messages)
    sent += random.sample(sent, round(len(sent) * duplicates))
    random.shuffle(sent)
    return sent


def _file(
    program: Program,
    kind: AttachmentKind,
    name: str,
    content: bytes,
    records: Iterable[bytes],
    lrecl: int,
    description: str,
) -> Attached:
    first = file_messages.write_file_description(file_messages.FileDescription(lrecl, len(content)), program.dialect)
    bodies = (first, *file_messages.write_records(records, program.dialect, program.body_limit))
    return Attached(_definition(program, kind, "FILENAME", name, description), bodies, content)


def _definition(
    program: Program, kind: AttachmentKind, first: str, second: str, description: str
) -> AttachmentDefinition:
    return AttachmentDefinition(kind, program.random.randbytes(16), first, second, description)


def _fresh(program: Program) -> bytes:
    return correlid.join(program.random.randbytes(correlid.KEY_SIZE), 0)


def _numbered(program: Program) -> bytes:
    return correlid.join(b"one of this sender's messages"[:16], program.random.randrange(1, 1 << 31))


def _physical(program: Program, msg_type: int, correl_id: bytes, body: bytes) -> PhysicalMessage:
    return PhysicalMessage(
        source="",
        framing="sas_queue",
        msg_type=msg_type,
        correl_id=correl_id,
        body=body,
        encoding=program.encoding or _ENCODINGS[program.dialect.order],
        ccsid=program.ccsid,
    )
