"""Messages written down by hand: read, traced, written again, and cut at every byte."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.codecs.sas.attachment_messages import (
    AttachmentHeader,
    Count,
    read_counts,
    read_header,
    write_count,
    write_header,
)
from app.codecs.sas.correlid import join, matches, split
from app.codecs.sas.data_set_messages import (
    DataSetDefinition,
    Index,
    IndexMessage,
    ObservationMessage,
    VariableMessage,
    observation_blocks,
    read_definition,
    read_indexes,
    read_variables,
    write_definition,
    write_indexes,
    write_observations,
    write_variables,
)
from app.codecs.sas.dialect import ALL, Dialect, mask_of, members
from app.codecs.sas.file_messages import (
    FileDescription,
    FileDescriptionMessage,
    detect,
    read_file_description,
    write_file_description,
    write_records,
)
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.wire import Layout, WireError
from tests.codecs.sas.samples import records
from tests.support.cases import for_each

FOLDER = Path(__file__).parents[2] / "vectors" / "sas"
LAYOUTS: dict[str, type[Layout]] = {
    layout.__name__: layout
    for layout in (
        AttachmentHeader,
        Count,
        DataSetDefinition,
        FileDescriptionMessage,
        IndexMessage,
        ObservationMessage,
        VariableMessage,
    )
}
VECTORS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
TEXT_FILES = [vector for name, vector in VECTORS.items() if name.startswith("text_file")]

ENTRY_ENDS = (
    "VariableMessage.type",
    "IndexMessage.type",
    "ObservationMessage.type",
    "].nsort",
)
"""Rows behind which a message may end, or be cut, and still be one."""

HEADER = MessageHeader(
    bytes.fromhex("1" * 32 + "0" * 16),
    1,
    bytes(24),
    bytes.fromhex("2" * 32 + "0" * 16),
    (
        AttachmentDefinition(
            AttachmentKind.BINARY_FILE, b"\x33" * 16, "FILENAME", "d:\\mytext.txt", "Text file...", 0, 0
        ),
    ),
)


def traced() -> Iterator[tuple[Dialect, dict[str, Any]]]:
    for vector in VECTORS.values():
        for message in vector["messages"]:
            if "cells" in message:
                yield Dialect.parse(vector["dialect"]), message


def dialect_of(vector: dict[str, Any]) -> Dialect:
    return Dialect.parse(vector["dialect"])


def bodies(vector: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(message["hex"]) for message in vector["messages"]]


by_dialect = pytest.mark.parametrize("vector", TEXT_FILES, ids=lambda vector: vector["dialect"])


def test_there_is_a_worked_example_for_both_orders_and_every_nul_rule() -> None:
    assert len({vector["dialect"] for vector in TEXT_FILES}) == 8


@for_each("dialect, message", traced())
def test_a_message_is_traced_and_written_again(dialect: Dialect, message: dict[str, Any]) -> None:
    body, layout = bytes.fromhex(message["hex"]), LAYOUTS[message["layout"]]
    cells = [
        [at, size, name, value.hex() if isinstance(value, bytes) else value]
        for at, size, name, value in layout.cells(body, 0, dialect.context())
    ]
    assert cells == message["cells"]
    value, end = layout.decode(body, 0, dialect.context())
    assert end == len(body)
    assert value.encode(dialect.context()) == body


@for_each("dialect, message", traced())
def test_a_message_cut_at_any_byte_is_an_error(dialect: Dialect, message: dict[str, Any]) -> None:
    body, layout = bytes.fromhex(message["hex"]), LAYOUTS[message["layout"]]
    whole = {at + size for at, size, name, _ in message["cells"] if name.endswith(ENTRY_ENDS)}
    last = 4 if layout is ObservationMessage else len(body)
    for cut in set(range(last)) - whole:
        with pytest.raises(WireError) as raised:
            layout.decode(body[:cut], 0, dialect.context())
        assert raised.value.at <= cut


@by_dialect
def test_the_header_is_read_without_a_word_of_its_dialect(vector: dict[str, Any]) -> None:
    body = bodies(vector)[0]
    header, dialects = read_header(body)
    assert header == HEADER
    assert dialect_of(vector) in set(members(dialects))
    assert {dialect.nul for dialect in members(dialects)} in (
        {"excluded", "excluded_nonempty"},
        {"included"},
        {"absent"},
    )
    assert write_header(header, dialect_of(vector)) == body
    for cut in range(len(body)):
        with pytest.raises(WireError):
            read_header(body[:cut])
    with pytest.raises(WireError, match="1 bytes are left over"):
        read_header(body + b"\0")


@by_dialect
def test_the_correlids_hold_the_messages_together(vector: dict[str, Any]) -> None:
    header, application, *parts, count = [bytes.fromhex(message["correl_id"]) for message in vector["messages"]]
    assert matches(header, HEADER.header_correl_id[:20])
    assert matches(application, HEADER.message_correl_id)
    assert [split(part) for part in parts] == [(b"\x33" * 16, number) for number in (1, 2, 3)]
    assert split(count) == (b"\x33" * 16, 0)
    assert [join(b"\x33" * 16, number) for number in (1, 2, 3)] == parts


@by_dialect
def test_the_file_is_read_and_written_again(vector: dict[str, Any]) -> None:
    dialect = dialect_of(vector)
    _, dialects = read_header(bodies(vector)[0])
    _, _, description, *parts, count = bodies(vector)
    assert read_counts(count)[dialect.order == "<"] == 3
    assert write_count(3, dialect) == count
    assert read_file_description(description, dialects) == (FileDescription(53, 98), dialects)
    assert write_file_description(FileDescription(53, 98), dialect) == description
    found = list(records(parts, detect(lambda: parts, dialects)))
    expected = [record.encode() for message in vector["messages"] for record in message.get("records", ())]
    assert found == expected
    assert list(write_records(expected, dialect, max(map(len, parts)))) == parts


def test_the_data_set_is_read_and_written_again() -> None:
    vector = VECTORS["data_set_big_excluded"]
    dialect, (first, second, third, fourth, _) = dialect_of(vector), bodies(vector)
    definition, dialects = read_definition(first, ALL)
    assert (definition.label, definition.observations, definition.variables) == ("People", 2, 2)
    variables, dialects = read_variables([second], definition.variables, dialects)
    assert [(variable.name, variable.is_numeric) for variable in variables] == [("NAME", False), ("AGE", True)]
    assert dialects == mask_of(dialect)
    rows = list(observation_blocks([third], definition))
    assert rows == [third[4:]]
    found, _ = read_indexes([fourth], dialects)
    assert found == (Index(0, "BOTH", 0, 2, ["NAME", "AGE"]),)
    assert write_definition(definition, dialect) == first
    assert list(write_variables(variables, dialect)) == [second]
    assert list(write_observations(rows, 16, dialect)) == [third]
    assert list(write_indexes(found, dialect)) == [fourth]


@by_dialect
def test_a_changed_byte_never_does_more_than_fail(vector: dict[str, Any]) -> None:
    body = bodies(vector)[0]
    _, known = read_header(body)
    for at in range(len(body)):
        for flipped in (0x01, 0x80, 0xFF):
            changed = body[:at] + bytes([body[at] ^ flipped]) + body[at + 1 :]
            with suppress(WireError):
                read_header(changed, known=known)
