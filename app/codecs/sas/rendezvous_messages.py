"""SAS, Using the Common Messaging Interface: the messages of an attachment on TIB/Rendezvous.

Each is a tibrvMsg whose fields all have the name of the message's type. Where the specification repeats the fields of
an entry, it does not say whether the type of record (VAR, ATO: field 2) is one of them: both are read, and so are
messages that repeat the number of entries, too. Which one a message has follows from its number of fields.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np

from app.codecs.rendezvous.constants import HEADER_SIZE, WireType
from app.codecs.rendezvous.fields import message_end
from app.codecs.rendezvous.tibrv_message import is_message
from app.codecs.sas.attachment_messages import AttachmentEntry, AttachmentHeader, attachment_fault
from app.codecs.sas.constants import Int, MessageKind
from app.codecs.sas.data_set_messages import DataSetDefinition, Variable, definition_fault, variable_fault
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.message_reader import MESSAGE_LIMIT
from app.codecs.sas.numbered import (
    FieldReader,
    Value,
    fields_of,
    find_fields,
    grouped,
    integers_at,
    message_name,
    string_value,
    table_values,
    write_message,
)
from app.wire import Num, WireError, in_part, row
from app.wire.kinds import Buffer

MAP_NAMES: Final = frozenset({"MSG", "DATA"})
"""Messages that hold the application message, as the values of a map."""

TypeField = Literal["each", "once"]
"""Where the type of record stands: in each entry, or once before all of them."""

MAP_TYPES: Final = {1: "I16", 2: "I32", 3: "F64", 4: "STRING"}
"""The data types of a map and the API's types that they are written as."""

MAP_TYPE_NAMES: Final = {1: "short", 2: "long", 3: "double", 4: "char"}
"""What the specification calls the data types of a map."""

CHAR: Final = 4
"""The data type of a text in a map."""

_VARIABLE_FIELDS: Final = fields_of(Variable.ROWS)


class RendezvousHeader(AttachmentHeader):
    """The message that announces attachments (HDR). What the queue layout says of the application's own message is
    reserved here: zero and blanks."""

    original_msg_type: Annotated[int, Num("I")] = row("reserved: set to 0")


class RendezvousDefinition(DataSetDefinition):
    """The definition of a data set (DAT)."""

    max_gen: Int = row("max_gen data set attribute", default=0)


# --- the header, the map and the last message -------------------------------------------------------------------------


def read_header(body: Buffer, charset: str = "latin-1") -> RendezvousHeader:
    """Return what an attachment header says. Raises WireError."""
    reader = FieldReader(body, charset)
    header = reader.table(RendezvousHeader, "HDR.")
    reader.end("HDR")
    first = fields_of(RendezvousHeader.ROWS)
    for index, attachment in enumerate(header.attachments):
        reader.check(attachment_fault(attachment, ""), AttachmentEntry, f"HDR.attachments[{index}].", first)
        first += fields_of(AttachmentEntry.ROWS)
    return header


def write_header(header: RendezvousHeader, charset: str = "latin-1") -> bytes:
    """Return an attachment header message. Raises WireError for values that do not fit it, and for those that
    `read_header` refuses."""
    if header.attachment_count != len(header.attachments):
        why = f"{len(header.attachments)} attachments, but the count says {header.attachment_count}"
        raise WireError("HDR.attachment_count", 0, why)
    for index, attachment in enumerate(header.attachments):
        if (fault := attachment_fault(attachment, f"HDR.attachments[{index}].")) is not None:
            raise WireError(fault[0], 0, fault[1])
    return write_message("HDR", table_values(header, charset, "HDR."))


class MapItem(NamedTuple):
    """One value of a map: its data type, one of MAP_TYPES, and a number or the bytes of a text."""

    type: int
    value: int | float | bytes


def read_map(body: Buffer) -> tuple[MapItem, ...]:
    """Return the values of an application message (MSG or DATA), whose fields may have no identifiers.

    Raises WireError.
    """
    reader = FieldReader(body)
    count = reader.count("MSG.count", 2)
    items: list[MapItem] = []
    for index in range(count):
        type_row, row = f"MSG[{index}].type", f"MSG[{index}].value"
        kind = reader.integer(type_row)
        if kind == CHAR:
            items.append(MapItem(kind, reader.string(row)))
            continue
        field = reader.field(row)
        allowed = {1: ("I16",), 2: ("I32", "I64"), 3: ("F64",)}.get(kind)
        if allowed is None:
            raise WireError(type_row, reader.place(-2), f"{kind} is not a data type of a map")
        if field.type not in allowed:
            raise WireError(row, reader.place(-1), f"{field.type} instead of {' or '.join(allowed)}")
        items.append(MapItem(kind, field.value))
    reader.end("MSG")
    return tuple(items)


def write_map(items: Sequence[MapItem], name: Literal["MSG", "DATA"] = "MSG") -> bytes:
    """Return an application message of a map's values. Raises WireError."""
    values: list[Value] = [("I32", len(items))]
    for index, (kind, value) in enumerate(items):
        if kind not in MAP_TYPES:
            raise WireError(f"MSG[{index}].type", 0, f"{kind} is not a data type of a map")
        values.append(("I32", kind))
        row = f"MSG[{index}].value"
        values.append(string_value(value, row) if isinstance(value, bytes) else (MAP_TYPES[kind], value))
    return write_message(name, values)


def is_map(body: Buffer) -> bool:
    """Tell whether bytes are a message by the name of one that holds a map."""
    try:
        return is_message(body) and message_name(body) in MAP_NAMES
    except WireError:
        return False


def read_last(body: Buffer) -> int:
    """Return how many messages carry the attachment, by its last one (LST), which is not counted. Raises WireError."""
    reader = FieldReader(body)
    count = reader.integer("LST.count")
    if count < 0:
        raise WireError("LST.count", reader.place(-1), f"{count} messages")
    reader.end("LST")
    return count


def write_last(count: int) -> bytes:
    """Return the last message of an attachment. Raises WireError."""
    return write_message("LST", [("I32", count)])


# --- data sets --------------------------------------------------------------------------------------------------------


def read_definition(body: Buffer, charset: str = "latin-1") -> RendezvousDefinition:
    """Return a data set's definition. Raises WireError."""
    reader = FieldReader(body, charset)
    definition = reader.table(RendezvousDefinition, "DAT.", without_last=True)
    reader.end("DAT")
    reader.check(definition_fault(definition, strict=False), RendezvousDefinition, "DAT.", 0)
    return definition


def write_definition(definition: RendezvousDefinition, charset: str = "latin-1") -> bytes:
    """Return a data set definition message. Raises WireError."""
    return write_message("DAT", table_values(definition, charset, "DAT."))


def read_variables(bodies: Sequence[Buffer], count: int, charset: str = "latin-1") -> tuple[Variable, ...]:
    """Return the `count` variables of a data set, from its messages of variable definitions.

    The number in each message counts its own variables, or all. Raises WireError.
    """
    found: list[Variable] = []
    own: list[tuple[int, int]] = []
    begins: list[int] = []
    for number, body in enumerate(bodies):
        with in_part(number):
            reader = FieldReader(body, charset)
            stated, variables = _variables(reader)
        own.append((stated, len(variables)))
        begins.append(reader.fields[0].at)
        found += variables
    if len(found) != count:
        raise WireError("VAR", 0, f"{len(found)} variables instead of {count}", 0)
    if any(stated != here for stated, here in own) and any(stated != count for stated, _ in own):
        number, (stated, here) = next(each for each in enumerate(own) if each[1][0] != each[1][1])
        why = f"{stated} variables by their number, and {here} in the message"
        raise WireError("VAR.count", begins[number], why, number)
    return tuple(found)


_READINGS = (1, 0, 2)
"""The numbers that each variable may repeat, the most likely first: the type of record; none; the number of variables,
too."""


def _variables(reader: FieldReader) -> tuple[int, list[Variable]]:
    """Return the number of variables that a message says, and those it has."""
    stated = reader.integer("VAR.count")
    refusal: WireError | None = None
    for numbers in _READINGS:
        entries, rest = divmod(len(reader.fields) - 2 + numbers, _VARIABLE_FIELDS + numbers)
        if rest or entries < 0:
            continue
        reader.at = 0
        try:
            _numbers(reader, "VAR", 2 - numbers, MessageKind.VARIABLES, first="count")
            found = []
            for index in range(entries):
                path = f"VAR[{index}]."
                _numbers(reader, path, numbers, MessageKind.VARIABLES, first="count" if numbers == 2 else "record")
                first = reader.at
                variable = reader.table(Variable, path)
                reader.check(variable_fault("", variable, strict=False), Variable, path, first)
                found.append(variable)
        except WireError as error:
            refusal = refusal or error
        else:
            return stated, found
    raise refusal or WireError("VAR", 0, f"{len(reader.fields)} fields are not whole definitions of variables")


def _numbers(
    reader: FieldReader, path: str, numbers: int, kind: MessageKind, first: Literal["count", "record"]
) -> None:
    """Take the count and the type of record, or one of them."""
    names = ("count", "record") if first == "count" else ("record",)
    for name in names[:numbers]:
        found = reader.integer(f"{path}{name}")
        if name == "record" and found != kind:
            raise WireError(f"{path}{name}", reader.place(-1), f"{found}, but the type of record is {kind.value}")


def write_variables(
    variables: Iterable[Variable],
    charset: str = "latin-1",
    limit: int = MESSAGE_LIMIT,
    type_field: TypeField = "each",
) -> Iterator[bytes]:
    """Return a data set's messages of variable definitions, each of at most `limit` bytes. Raises WireError."""
    kind: Value = ("I32", MessageKind.VARIABLES.value)
    each, once = ([kind], []) if type_field == "each" else ([], [kind])
    entries = (
        [*each, *table_values(replace(variable, type=b"1" if variable.is_numeric else b"2"), charset, "VAR.")]
        for variable in variables
    )
    for group in grouped("VAR", 1 + len(once), entries, limit):
        yield write_message("VAR", [("I32", len(group)), *once, *chain.from_iterable(group)])


# --- files ------------------------------------------------------------------------------------------------------------


def read_file_description(body: Buffer) -> FileDescription:
    """Return a file's record length and size (FDC). Raises WireError."""
    reader = FieldReader(body)
    described = FileDescription(reader.integer("FDC.lrecl"), reader.integer("FDC.filesize"))
    reader.end("FDC")
    if described.lrecl < 0:
        raise WireError("FDC.lrecl", reader.place(-2), f"a record length of {described.lrecl}")
    return described


def write_file_description(description: FileDescription) -> bytes:
    """Return a file's descriptor; the size modulo 2^32. Raises WireError."""
    size = (description.filesize + (1 << 31)) % (1 << 32) - (1 << 31)
    return write_message("FDC", [("I32", description.lrecl), ("I32", size)])


def record_places(body: Buffer) -> list[tuple[int, int]]:
    """Return the (start, length) of a file's records in one of its messages (ATX or ATB).

    A length of a text may count its NUL; text that a NUL is within is as long as its length says. Raises WireError.
    """
    if (found := _usual_places(body)) is not None:
        return found
    reader = FieldReader(body)
    places = [_record_place(reader, f"record[{index}]") for index in range(reader.count("count", 2))]
    reader.end("record")
    return places


def _usual_places(body: Buffer) -> list[tuple[int, int]] | None:
    """Return the records' places if all lengths match the data, and no text contains a NUL; else None."""
    if message_end(body, 0, len(body)) != len(body):
        return None
    buffer = np.frombuffer(body, np.uint8)
    found = find_fields(buffer, bytes(body[HEADER_SIZE : HEADER_SIZE + body[HEADER_SIZE] - 1]))
    if found is None or len(found.type) % 2 == 0:
        return None
    at, size = found.data_at[2::2], found.size[2::2]
    is_text = found.type[2::2] == WireType.STRING
    is_number = (found.type == WireType.INT) & (found.size == 4)
    if not (is_number[0] and is_number[1::2].all() and (is_text | (found.type[2::2] == WireType.OPAQUE)).all()):
        return None
    count, lengths = integers_at(buffer, found.data_at[:1])[0], integers_at(buffer, found.data_at[1::2])
    zeros = np.concatenate([[0], np.cumsum(buffer == 0)])
    has_nul = is_text & (zeros[np.minimum(at + size, len(buffer))] - zeros[at] != 1)
    is_ended = buffer[np.maximum(at + size - 1, 0)] == 0
    if count != len(at) or (lengths != size - is_text).any() or has_nul.any() or (is_text & ~is_ended).any():
        return None
    return list(zip(at.tolist(), lengths.tolist(), strict=True))


def _record_place(reader: FieldReader, row: str) -> tuple[int, int]:
    length = reader.integer(f"{row}.length")
    field = reader.field(row)
    if field.type == "OPAQUE":
        shortest = longest = len(field.value)
    elif field.type == "STRING":
        shortest = len(str(field.value))
        longest = max(shortest + 1, len(field.written or b""))
    else:
        raise WireError(row, reader.place(-1), f"{field.type} instead of STRING or OPAQUE")
    if not shortest <= length <= longest:
        raise WireError(row, reader.place(-2), f"a length of {length}, and the record has {shortest} bytes")
    return reader.data_at(-1), shortest if length == shortest + 1 else length


def write_records(
    records: Iterable[Buffer], name: Literal["ATX", "ATB"], limit: int = MESSAGE_LIMIT
) -> Iterator[bytes]:
    """Return a file's messages of whole records, each of at most `limit` bytes. Raises WireError for a record that is
    longer than a message, and for a NUL in a record of text."""
    entries: Iterator[list[Value]] = (
        [
            ("I32", len(record)),
            string_value(bytes(record), f"{name}.data") if name == "ATX" else ("OPAQUE", bytes(record)),
        ]
        for record in records
    )
    for group in grouped(name, 1, entries, limit):
        yield write_message(name, [("I32", len(group)), *chain.from_iterable(group)])
