"""The messages of an attachment on TIB/Rendezvous, against bytes made by the specification."""

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.codecs.sas import rendezvous_messages
from app.codecs.sas.attachment_messages import AttachmentEntry
from app.codecs.sas.data_set_messages import Variable
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.numbered import FieldReader, message_name
from app.codecs.sas.rendezvous_messages import MapItem, RendezvousDefinition, RendezvousHeader
from app.model.attachment import AttachmentKind
from app.wire import WireError
from tests.codecs.sas import samples
from tests.codecs.sas.rendezvous_bytes import (
    Made,
    f64,
    fields_in,
    framed,
    i16,
    i32,
    i64,
    message,
    opaque,
    string,
    text,
    u32,
    without_identifiers,
)

BLANKS = b" " * 24


def header_fields(counted: int = 0) -> list[Made]:
    """A header of a text file and a data set; lengths count the NULs or do not."""
    return [
        string(BLANKS),
        u32(0),
        string(BLANKS),
        string("message 1".ljust(24)),
        i32(2),
        i32(2),
        string(BLANKS),
        *text("FILENAME", counted),
        *text("c:\\a.txt", counted),
        *text("", counted),
        i32(1),
        i32(2),
        i32(1),
        string("second".ljust(24)),
        *text("WORK", counted),
        *text("CLASS", counted),
        *text("Sch\xfcler", counted),
        i32(0),
        i32(0),
    ]


HEADER = RendezvousHeader(
    BLANKS,
    0,
    BLANKS,
    b"message 1".ljust(24),
    2,
    [
        AttachmentEntry(AttachmentKind.TEXT_FILE, BLANKS, "FILENAME", "c:\\a.txt", "", 1, 2),
        AttachmentEntry(AttachmentKind.DATA_SET, b"second".ljust(24), "WORK", "CLASS", "Schüler", 0, 0),
    ],
)

DEFINITION = RendezvousDefinition(
    type=1,
    version=9,
    data_set_type="DATA",
    label="Students",
    observations=19,
    variables=2,
    obs_length=16,
    compress="NO",
    reuse=b"R",
    encrypt="YES",
    sort_variables=1,
    collating="",
    sort_flags=-3,
    read_flag=1,
    read_password=b"\1\2\3\4",
    write_flag=0,
    write_password=bytes(4),
    alter_flag=0,
    alter_password=bytes(4),
    max_gen=5,
)


def definition_fields() -> list[Made]:
    return [
        i32(1),
        i32(9),
        *text("DATA"),
        *text("Students"),
        i32(19),
        i32(2),
        i32(16),
        *text("NO"),
        string("R"),
        *text("YES"),
        i32(1),
        i32(1),
        string(""),
        i16(-3),
        i32(1),
        opaque(b"\1\2\3\4"),
        i32(0),
        opaque(bytes(4)),
        i32(0),
        opaque(bytes(4)),
        i32(5),
    ]


NAME = Variable("NAME", "$", "$", "First name", b"2", 8, 8, 0, 8, 0, b"\0")
AGE = Variable("AGE", "BEST", "BEST", "", b"1", 8, 12, 0, 12, 2, b"\0")


def variable_fields(variable: Variable) -> list[Made]:
    """Fields 3 to 17 of the specification."""
    return [
        *text(variable.name),
        *text(variable.format),
        *text(variable.informat),
        *text(variable.label),
        string(variable.type),
        i32(variable.length),
        i32(variable.format_length),
        i32(variable.format_decimal),
        i32(variable.informat_length),
        i32(variable.informat_decimal),
        string(variable.nsort.rstrip(b"\0")),
    ]


def each_has_its_type(*variables: Variable, count: int | None = None) -> bytes:
    entries = chain.from_iterable([i32(2), *variable_fields(variable)] for variable in variables)
    return message("VAR", [i32(len(variables) if count is None else count), *entries])


def one_type_for_all(*variables: Variable) -> bytes:
    return message("VAR", [i32(len(variables)), i32(2), *chain.from_iterable(map(variable_fields, variables))])


def all_is_repeated(*variables: Variable) -> bytes:
    number = i32(len(variables))
    return message("VAR", chain.from_iterable([number, i32(2), *variable_fields(v)] for v in variables))


MAP = [i32(4), i32(1), i16(100), i32(2), i32(9999), i32(3), f64(9999.1234), i32(4), string("ABC".ljust(50))]
MAP_VALUES = (MapItem(1, 100), MapItem(2, 9999), MapItem(3, 9999.1234), MapItem(4, b"ABC".ljust(50)))

SAMPLES = {
    "HDR": message("HDR", header_fields()),
    "MSG": message("MSG", MAP),
    "DAT": message("DAT", definition_fields()),
    "VAR": each_has_its_type(NAME, AGE),
    "FDC": message("FDC", [i32(80), i32(1000)]),
    "ATX": message("ATX", [i32(2), *text("hello"), *text("world!")]),
    "ATB": message("ATB", [i32(1), i32(3), opaque(b"\0\1\2")]),
    "LST": message("LST", [i32(7)]),
}


def records(body: bytes) -> list[bytes]:
    """Return the records of a file in one of its messages. Raises WireError."""
    return [body[start : start + length] for start, length in rendezvous_messages.record_places(body)]


READERS: dict[str, Callable[[bytes], Any]] = {
    "HDR": rendezvous_messages.read_header,
    "MSG": rendezvous_messages.read_map,
    "DAT": rendezvous_messages.read_definition,
    "VAR": lambda body: rendezvous_messages.read_variables([body], 2),
    "FDC": rendezvous_messages.read_file_description,
    "ATX": records,
    "ATB": records,
    "LST": rendezvous_messages.read_last,
}


@pytest.mark.parametrize("counted", [0, 1])
def test_a_header_is_read_whether_lengths_count_the_nul_or_not(counted: int) -> None:
    assert rendezvous_messages.read_header(message("HDR", header_fields(counted))) == HEADER


def test_messages_are_written_as_the_specification_says() -> None:
    assert rendezvous_messages.write_header(HEADER) == SAMPLES["HDR"]
    assert rendezvous_messages.write_map(MAP_VALUES) == SAMPLES["MSG"]
    assert rendezvous_messages.write_map(MAP_VALUES, "DATA") == message("DATA", MAP)
    assert rendezvous_messages.write_definition(DEFINITION) == SAMPLES["DAT"]
    assert list(rendezvous_messages.write_variables([NAME, AGE])) == [SAMPLES["VAR"]]
    assert list(rendezvous_messages.write_variables([NAME, AGE], type_field="once")) == [one_type_for_all(NAME, AGE)]
    assert rendezvous_messages.write_file_description(FileDescription(80, 1000)) == SAMPLES["FDC"]
    assert list(rendezvous_messages.write_records([b"hello", b"world!"], "ATX")) == [SAMPLES["ATX"]]
    assert list(rendezvous_messages.write_records([b"\0\1\2"], "ATB")) == [SAMPLES["ATB"]]
    assert rendezvous_messages.write_last(7) == SAMPLES["LST"]


@pytest.mark.parametrize("name", SAMPLES)
def test_fields_are_found_by_identifier_whatever_their_order(name: str) -> None:
    random = Random(2)
    whole = SAMPLES[name]
    assert message_name(whole) == name
    fields = [field for _, field in sorted(fields_in(whole), key=lambda _: random.random())]
    shuffled = framed(b"".join(fields))
    assert len(fields) == 1 or shuffled != whole
    assert READERS[name](shuffled) == READERS[name](whole)


def test_a_definition_has_25_fields() -> None:
    assert len(definition_fields()) == 25
    assert rendezvous_messages.read_definition(SAMPLES["DAT"]) == DEFINITION


def test_a_map_needs_no_identifiers_and_longs_have_any_width() -> None:
    assert rendezvous_messages.read_map(message("DATA", MAP)) == MAP_VALUES
    assert rendezvous_messages.read_map(without_identifiers("MSG", MAP)) == MAP_VALUES
    assert rendezvous_messages.read_map(message("MSG", [i32(1), i32(2), i64(1 << 40)])) == (MapItem(2, 1 << 40),)


@pytest.mark.parametrize("of", [each_has_its_type, one_type_for_all, all_is_repeated])
@pytest.mark.parametrize("variables", [(NAME,), (NAME, AGE), (AGE,) * 16, (NAME, AGE) * 8 + (NAME,)])
def test_variables_are_read_wherever_the_type_of_record_stands(of, variables) -> None:  # type: ignore[no-untyped-def]
    """16 variables of 16 fields are as many fields as 17 of 15."""
    assert rendezvous_messages.read_variables([of(*variables)], len(variables)) == variables


def test_definitions_may_span_messages_and_be_counted_each_or_all() -> None:
    own = [each_has_its_type(NAME), each_has_its_type(AGE, NAME)]
    everything = [each_has_its_type(NAME, count=3), each_has_its_type(AGE, NAME, count=3)]
    assert (
        rendezvous_messages.read_variables(own, 3)
        == rendezvous_messages.read_variables(everything, 3)
        == (NAME, AGE, NAME)
    )
    with pytest.raises(WireError, match="3 variables instead of 4"):
        rendezvous_messages.read_variables(own, 4)
    with pytest.raises(WireError, match="7 variables by their number, and 1 in the message"):
        rendezvous_messages.read_variables([each_has_its_type(NAME, count=7)], 1)


def test_variables_are_written_in_messages_of_a_limited_size() -> None:
    variables = tuple(Variable(f"V{number}", label="x" * 200) for number in range(300))
    written = [*rendezvous_messages.write_variables(variables, limit=4000)]
    assert 3600 < max(map(len, written)) <= 4000
    assert [each.name for each in rendezvous_messages.read_variables(written, 300)] == [each.name for each in variables]
    with pytest.raises(WireError, match="an entry of"):
        list(rendezvous_messages.write_variables(variables, limit=300))


@pytest.mark.parametrize("nul", [b"\0", b""])
def test_a_text_may_lack_its_nul(nul: bytes) -> None:
    assert records(message("ATX", [i32(1), i32(5), string("hello", nul)])) == [b"hello"]


def test_a_length_may_count_the_nul_and_a_record_of_text_may_have_nuls_within() -> None:
    assert records(message("ATX", [i32(1), i32(6), string("hello")])) == [b"hello"]
    assert records(message("ATX", [i32(1), i32(5), string(b"he\0lo")])) == [b"he\0lo"]
    with pytest.raises(WireError, match="a length of 7, and the record has 5 bytes"):
        records(message("ATX", [i32(1), i32(7), string("hello")]))
    with pytest.raises(WireError, match="a length of 4"):
        records(message("ATB", [i32(1), i32(4), opaque(b"hello")]))


def test_text_in_another_character_set_is_read_and_written() -> None:
    fields = header_fields()
    fields[-4:-2] = [i32(8), string("Sch\xfcler".encode())]
    body = message("HDR", fields)
    header = rendezvous_messages.read_header(body, "utf-8")
    assert header.attachments[1].description == "Schüler"
    assert rendezvous_messages.write_header(header, "utf-8") == body
    with pytest.raises(WireError, match="not utf-8"):
        rendezvous_messages.read_header(SAMPLES["HDR"], "utf-8")


FAULTS = {
    "an unknown attachment type": (
        "HDR",
        [*header_fields()[:5], i32(9), *header_fields()[6:]],
        "unknown attachment type 9",
    ),
    "too few attachments": ("HDR", header_fields()[:15], "entries in"),
    "a count that nothing pays for": ("HDR", [*header_fields()[:4], i32(1 << 30), *header_fields()[5:]], "entries in"),
    "fields behind the last": ("LST", [i32(7), i32(8)], "1 fields too many"),
    "a negative count": ("LST", [i32(-1)], "-1 messages"),
    "a text for a number": ("LST", [string("7")], "STRING instead of an integer"),
    "a length that is not the text's": ("HDR", [*header_fields()[:7], i32(3), *header_fields()[8:]], "a length of 3"),
    "a number too large": ("LST", [i64(1 << 40)], "is not from"),
    "an unknown type in a map": ("MSG", [i32(1), i32(5), i32(1)], "not a data type of a map"),
    "another type in a map": ("MSG", [i32(1), i32(3), i32(1)], "instead of F64"),
    "more values than a map has": ("MSG", [i32(9), i32(1), i16(1)], "9 times 2 fields"),
    "another type of record": ("VAR", [i32(1), i32(3), *variable_fields(NAME)], "type of record is 2"),
    "an empty message": ("LST", [], "the message ends"),
    "half a variable": ("VAR", [i32(1), i32(2), *text("X")], "not whole definitions"),
    "a password of five bytes": (
        "DAT",
        [*definition_fields()[:19], opaque(b"12345"), *definition_fields()[20:]],
        "5 bytes instead of 4",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_specification_does_not_allow_is_refused(fault: str) -> None:
    name, fields, why = FAULTS[fault]
    body = message(name, fields)
    with pytest.raises(WireError, match=why) as raised:
        READERS[name](body)
    assert 0 <= raised.value.at <= len(body)
    assert raised.value.row


WRONG_FIELDS = {
    "HDR.attachment_count": ("HDR", header_fields(), 4),
    "HDR.attachments[0].type": ("HDR", header_fields(), 5),
    "HDR.attachments[1].type": ("HDR", header_fields(), 15),
    "DAT.type": ("DAT", definition_fields(), 0),
    "DAT.observations": ("DAT", definition_fields(), 6),
    "DAT.variables": ("DAT", definition_fields(), 7),
    "DAT.obs_length": ("DAT", definition_fields(), 8),
    "DAT.sort_variables": ("DAT", definition_fields(), 14),
    "VAR.count": ("VAR", [i32(2), i32(2), *variable_fields(NAME), i32(2), *variable_fields(AGE)], 0),
    **{
        f"VAR[1].{name}": ("VAR", [i32(2), i32(2), *variable_fields(NAME), i32(2), *variable_fields(AGE)], number)
        for number, name in enumerate(
            ["length", "format_length", "format_decimal", "informat_length", "informat_decimal"], 27
        )
    },
}


@pytest.mark.parametrize("row", WRONG_FIELDS)
def test_a_number_out_of_range_is_named_with_the_byte_of_its_own_field(row: str) -> None:
    name, fields, number = WRONG_FIELDS[row]
    body = message(name, [*fields[:number], i32(-2), *fields[number + 1 :]])
    with pytest.raises(WireError) as raised:
        READERS[name](body)
    assert (raised.value.row, raised.value.at) == (row, [at for at, _ in fields_in(body)][number])


@pytest.mark.parametrize("number", [1, 3])
def test_identifiers_have_no_gap_and_none_twice(number: int) -> None:
    second = b"FDC\0\0"
    wrong = SAMPLES["FDC"].replace(second + b"\2", second + bytes([number]))
    assert wrong != SAMPLES["FDC"]
    with pytest.raises(WireError, match="instead of 2"):
        rendezvous_messages.read_file_description(wrong)


def test_values_that_fields_cannot_hold_are_not_written() -> None:
    with pytest.raises(WireError, match="a NUL within a string"):
        list(rendezvous_messages.write_records([b"a\0b"], "ATX"))
    with pytest.raises(WireError, match="but the count says 1"):
        rendezvous_messages.write_header(RendezvousHeader(BLANKS, 0, BLANKS, BLANKS, 1, []))
    controls = AttachmentEntry(AttachmentKind.TEXT_FILE, BLANKS, "FILENAME", "a.txt", "a\x1bb", 1, 2)
    with pytest.raises(WireError, match=r"attachments\[0\].description.*control character 1B"):
        rendezvous_messages.write_header(RendezvousHeader(BLANKS, 0, BLANKS, BLANKS, 1, [controls]))
    with pytest.raises(WireError):
        rendezvous_messages.write_last(1 << 40)
    with pytest.raises(WireError, match="not a data type"):
        rendezvous_messages.write_map([MapItem(9, 1)])


@pytest.mark.parametrize("name", ["ATX", "ATB"])
def test_a_message_has_no_more_fields_than_identifiers(name: Literal["ATX", "ATB"]) -> None:
    records = [b"x"] * 80_000
    written = list(rendezvous_messages.write_records(records, name, 1 << 21))
    assert len(written) > 1
    assert sum(len(rendezvous_messages.record_places(each)) for each in written) == len(records)


def test_a_definition_may_end_before_its_last_field() -> None:
    whole = replace(DEFINITION, max_gen=0)
    assert rendezvous_messages.read_definition(message("DAT", definition_fields()[:-1])) == whole


def test_a_message_of_too_many_fields_is_refused_before_it_is_read_to_its_end() -> None:
    field = b"\x04HDR\0\x0b\x01\0"
    body = struct.pack(">I", 8 + len(field) * 70_000) + bytes.fromhex("9955eeaa") + field * 70_000
    with pytest.raises(WireError, match="more than 65,535 fields"):
        rendezvous_messages.read_header(body)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_cut_is_an_error(name: str) -> None:
    for end in range(len(SAMPLES[name])):
        with pytest.raises(WireError):
            READERS[name](SAMPLES[name][:end])


def test_mutations_give_a_value_or_our_error() -> None:
    random = Random(13)
    names = list(SAMPLES)
    for _ in range(20_000):
        name = random.choice(names)
        data = bytearray(SAMPLES[name])
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            READERS[name](bytes(data))
        except WireError as error:
            assert 0 <= error.at <= len(data)  # noqa: PT017


@settings(deadline=None)
@given(samples.definitions, st.integers(0, 1000))
def test_any_definition_comes_back(definition, max_gen: int) -> None:  # type: ignore[no-untyped-def]
    whole = RendezvousDefinition(**vars(definition) | {"max_gen": max_gen, "reuse": b"R"})
    assert rendezvous_messages.read_definition(rendezvous_messages.write_definition(whole)) == whole


@settings(deadline=None)
@given(st.lists(samples.variables, min_size=1, max_size=20), st.sampled_from(["each", "once"]), st.booleans())
def test_any_variables_come_back(variables, type_field, small: bool) -> None:  # type: ignore[no-untyped-def]
    plain = [Variable(**vars(each) | {"type": b"1" if each.is_numeric else b"2"}) for each in variables]
    bodies = [*rendezvous_messages.write_variables(variables, limit=1000 if small else 32_000, type_field=type_field)]
    assert rendezvous_messages.read_variables(bodies, len(variables)) == tuple(plain)


@pytest.mark.parametrize("name", ["ATX", "ATB"])
def test_records_found_at_once_are_those_found_one_by_one(name: str) -> None:
    random = Random(8)
    for _ in range(300):
        records = [random.randbytes(random.choice([0, 1, 5, 119, 120, 300])) for _ in range(random.randrange(6))]
        records = [record.replace(b"\0", b" ") if name == "ATX" else record for record in records]
        odd = random.random() < 0.5
        fields = [i32(len(records))]
        for record in records:
            counted = int(odd and name == "ATX" and random.random() < 0.3)
            ended = b"" if odd and random.random() < 0.2 else b"\0"
            nul = record[:2] + b"\0" + record[2:] if odd and name == "ATX" and random.random() < 0.2 else record
            counted = counted if nul is record and ended else 0
            fields += [i32(len(nul) + counted), string(nul, ended) if name == "ATX" else opaque(record)]
        body = message(name, fields)
        reader = FieldReader(body)
        expected = [rendezvous_messages._record_place(reader, "record") for _ in range(reader.count("count", 2))]
        assert rendezvous_messages.record_places(body) == expected
        usual = rendezvous_messages._usual_places(body)
        assert usual in (None, expected)
        assert odd or usual == expected or not records
