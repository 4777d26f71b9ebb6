"""What a SAS program does when it sends attachments over TIB/Rendezvous: messages made by the specification, field by
field, which share no code with the gateway's own sending."""

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from app.dataset import encode
from app.model.attachment import AttachmentDefinition, AttachmentKind
from tests.codecs.sas.rendezvous_bytes import Made, f64_of, i16, i32, message, opaque, string, text, u32
from tests.support.sas_client import Attached

BLANKS = b" " * 24
VALUES_A_MESSAGE = 600
RECORD = 20_000


def messages(attached: Sequence[Attached], application: str | None = "what it is about") -> list[bytes]:
    """All messages of one header, whose correlids are blank, with a last message for each attachment."""
    sent = [message("HDR", header([each.definition for each in attached]))]
    if application is not None:
        sent.append(message("MSG", [i32(1), i32(4), string(application)]))
    for each in attached:
        parts = [*_parts(each)]
        sent += [*parts, message("LST", [i32(len(parts))])]
    return sent


def header(definitions: Sequence[AttachmentDefinition]) -> list[Made]:
    fields = [string(BLANKS), u32(0), string(BLANKS), string(BLANKS), i32(len(definitions))]
    for each in definitions:
        fields += [i32(int(each.kind)), string(BLANKS)]
        for name in (each.qualifier_1, each.qualifier_2, each.description):
            data = name.encode()
            fields += [i32(len(data)), string(data)]
        fields += [i32(each.minor_version), i32(each.major_version)]
    return fields


def _parts(attached: Attached) -> Iterator[bytes]:
    content = attached.content
    if isinstance(content, pa.Table):
        yield from _data_set(content)
        return
    yield message("FDC", [i32(RECORD), i32(len(content))])
    if attached.definition.kind is AttachmentKind.TEXT_FILE:
        lines = content.removesuffix(b"\n").split(b"\n") if content else []
        for some in _grouped(lines):
            records = chain.from_iterable([i32(len(line)), string(line)] for line in some)
            yield message("ATX", [i32(len(some)), *records])
    else:
        for at in range(0, len(content), RECORD):
            record = content[at : at + RECORD]
            yield message("ATB", [i32(1), i32(len(record)), opaque(record)])


def _grouped(lines: list[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    for line in lines:
        some.append(line)
        if sum(map(len, some)) > 20_000 or len(some) == 200:
            yield some
            some = []
    if some:
        yield some


def _data_set(table: pa.Table) -> Iterator[bytes]:
    lengths = encode.character_lengths(table.to_batches(), "utf-8")
    definition, variables = encode.describe(
        table.schema, charset="utf-8", observations=table.num_rows, character_lengths=lengths
    )
    yield message(
        "DAT",
        [
            *(i32(1), i32(definition.version), *text(definition.data_set_type), *text(definition.label)),
            *(i32(definition.observations), i32(definition.variables), i32(definition.obs_length)),
            *(*text(definition.compress), string(definition.reuse), *text(definition.encrypt), i32(0)),
            *(i32(1), string(""), i16(0)),
            *(i32(0), opaque(bytes(4)), i32(0), opaque(bytes(4)), i32(0), opaque(bytes(4)), i32(0)),
        ],
    )
    fields: list[Made] = []
    for each in variables:
        fields += [i32(2), *text(each.name), *text(each.format), *text(each.informat), *text(each.label)]
        fields += [string("1" if each.is_numeric else "2"), i32(each.length), i32(each.format_length)]
        fields += [i32(each.format_decimal), i32(each.informat_length), i32(each.informat_decimal), string("")]
    yield message("VAR", [i32(len(variables)), *fields])
    values: list[list[Made]] = []
    for block in encode.rows(table.to_batches(), variables, order="big", charset="utf-8"):
        data, at = bytes(block), 0
        while at < len(data):
            for each in variables:
                cell = data[at : at + each.length]
                at += each.length
                value = [i32(1), f64_of(cell.ljust(8, b"\0"))] if each.is_numeric else [i32(2), string(cell.rstrip())]
                values.append([i32(3), *value])
    for start in range(0, len(values), VALUES_A_MESSAGE):
        some = values[start : start + VALUES_A_MESSAGE]
        yield message("ATO", [i32(len(some)), *chain.from_iterable(some)])
