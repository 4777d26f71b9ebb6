"""Data sets and files over TIB/Rendezvous: what is read of messages made by the specification, and what comes back of
what is written."""

import struct
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.codecs.sas import dialect
from app.codecs.sas.numbered import message_name
from app.codecs.sas.rendezvous_messages import read_map
from app.dataset import indexes_and_constraints
from app.dataset.character_columns import GUESSES
from app.dataset.parquet import write_parquet
from app.framing.protocol import DataSetFacts
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import Announced, PartArrived, Unsequenced
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions, OutgoingAttachment
from app.wire import WireError
from tests.codecs.sas.rendezvous_bytes import Made, f64_of, i16, i32, message, opaque, string, text

OPTIONS = FramingOptions(32_000, "big-4-excluded-packed", 1208, 273, framing="sas_rendezvous")
RECORD = AttachmentRecord("a" * 32, "sas", b"K" * 16, kind=AttachmentKind.DATA_SET, qualifier_1="WORK", qualifier_2="T")
KEY = b"K" * 16


class Parts:
    """Bodies as the parts of an attachment; `app.framing.protocol.Received`."""

    keys: Sequence[int] = ()

    def __init__(self, bodies: Sequence[bytes], ccsid: int = 0) -> None:
        self._bodies, self.encoding = bodies, 0
        self.first = PhysicalMessage("sas", "sas_rendezvous", body=bodies[0], ccsid=ccsid)

    def __len__(self) -> int:
        return len(self._bodies)

    def message(self, number: int) -> PhysicalMessage:
        raise NotImplementedError

    def bodies(self, numbers: Sequence[int] | None = None) -> Iterator[memoryview]:
        return (memoryview(self._bodies[number]) for number in (range(len(self)) if numbers is None else numbers))


def read(bodies: Sequence[bytes], ccsid: int = 0) -> tuple[pa.Table, DataSetFacts]:
    """The table of a data set, and what reading it found out."""
    stored: list[pa.Table] = []

    def store(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        stored.append(pa.Table.from_batches(batches, schema))
        return int(stored[-1].num_rows)

    facts = SAS_RENDEZVOUS.data_set(RECORD, Parts(bodies, ccsid), store)
    return stored[-1], facts


def definition(observations: int, variables: int, length: int, max_gen: int = 0) -> bytes:
    return message(
        "DAT",
        [
            *(i32(1), i32(0), *text("DATA"), *text("Pupils"), i32(observations), i32(variables), i32(length)),
            *(*text("NO"), string("R"), *text("NO"), i32(0), i32(1), string(""), i16(0)),
            *(i32(0), opaque(bytes(4)), i32(0), opaque(bytes(4)), i32(0), opaque(bytes(4)), i32(max_gen)),
        ],
    )


def variable(name: str, length: int, *, numeric: bool, format_: str = "") -> list[Made]:
    return [
        *(i32(2), *text(name), *text(format_), *text(""), *text(f"the {name}"), string("1" if numeric else "2")),
        *(i32(length), i32(0), i32(0), i32(0), i32(0), string("")),
    ]


def observations(*values: float | bytes | str, said: int | None = None) -> bytes:
    fields = [i32(len(values) if said is None else said)]
    for value in values:
        if isinstance(value, str):
            fields += [i32(3), i32(2), string(value)]
        else:
            fields += [i32(3), i32(1), f64_of(value if isinstance(value, bytes) else struct.pack(">d", value))]
    return message("ATO", fields)


VARIABLES = message("VAR", [i32(2), *variable("NAME", 8, numeric=False), *variable("AGE", 8, numeric=True)])


def test_a_data_set_becomes_a_table_wherever_its_values_are_cut() -> None:
    bodies = [
        definition(3, 2, 16, max_gen=4),
        VARIABLES,
        observations("Alfred", 14.0, "Alice"),
        observations(13.5),
        observations("", bytes.fromhex("fffffe0000000000"), said=1),
    ]
    table, facts = read(bodies)
    assert table.to_pydict() == {"NAME": ["Alfred", "Alice", ""], "AGE": [14.0, 13.5, None]} | {
        key: table.to_pydict()[key] for key in table.column_names[2:]
    }
    assert (facts.observations, facts.variables) == (3, 2)
    said = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert (said["sas.library"], said["sas.member"], said["sas.label"]) == ("WORK", "T", "Pupils")
    assert (said["sas.max_gen"], said["sas.obs_length"]) == ("4", "16")
    assert table.schema.field("AGE").metadata[b"sas.label"] == b"the AGE"


@pytest.mark.parametrize("said", [4, 2, 6, 3])
def test_a_message_says_its_values_its_rows_or_all_of_either(said: int) -> None:
    bodies = [definition(3, 2, 16), VARIABLES, observations("A", 1.0, "B", 2.0, said=said), observations("C", 3.0)]
    assert read(bodies)[0].num_rows == 3


def opaque_texts(*values: bytes) -> bytes:
    """A message of observations whose texts are in an undeclared character set."""
    return message("ATO", [i32(len(values)), *chain.from_iterable((i32(3), i32(2), string(each)) for each in values)])


@pytest.mark.parametrize(
    ("ccsid", "texts", "wanted", "charset"),
    [
        (0, [b"Gr\xfc\xdfe", b"\x80 5"], ["Grüße", "€ 5"], "cp1252"),
        (0, [b"Gr\xfc\xdfe", b"\x81"], ["Grüße", "\x81"], "latin-1"),
        (0, ["Grüße".encode(), b"\xe2\x82\xac 5"], ["Grüße", "€ 5"], "utf-8"),
        (1208, [b"Gr\xfc\xdfe", b"5"], ["Gr\ufffd\ufffde", "5"], "utf-8"),
        (923, [b"Gr\xfc\xdfe", b"\xa4 5"], ["Grüße", "€ 5"], "iso8859-15"),
    ],
)
def test_texts_without_a_character_set_are_read_as_windows_latin_1(
    ccsid: int, texts: list[bytes], wanted: list[str], charset: str
) -> None:
    variables = message("VAR", [i32(1), *variable("NAME", 8, numeric=False)])
    table, _ = read([definition(2, 1, 8), variables, opaque_texts(*texts)], ccsid)
    assert table["NAME"].to_pylist() == wanted
    assert table.schema.metadata[b"sas.encoding"].decode() == charset
    is_guessed = charset in GUESSES
    why = f"no character set is declared, and the texts are not utf-8: they were read as {charset}"
    assert (why in table.schema.metadata.get(b"sas.warnings", b"").decode()) == is_guessed
    assert ("NAME__bytes" in table.column_names) == (ccsid == 1208)


def short(*values: float | bytes, length: int = 3) -> list[bytes]:
    return [
        definition(len(values), 1, length),
        message("VAR", [i32(1), *variable("N", length, numeric=True)]),
        observations(*values),
    ]


def test_numbers_shorter_than_a_double_are_cut_and_none_loses_precision() -> None:
    table, _ = read(short(1.0, -2.5, 4096.0))
    assert table["N"].to_pylist() == [1.0, -2.5, 4096.0]
    assert table.schema.field("N").metadata[b"sas.length"] == b"3"
    table, _ = read(short(1.0, 0.1, 2.0))
    assert table["N"].to_pylist() == [1.0, 0.1, 2.0]
    assert table.schema.field("N").metadata[b"sas.length"] == b"8"
    assert b"numbers have more bytes" in table.schema.metadata[b"sas.warnings"]


@pytest.mark.parametrize(
    ("bodies", "why"),
    [
        ([VARIABLES, observations("A", 1.0)], "no data set definition"),
        ([definition(1, 2, 16), definition(2, 2, 16), VARIABLES], "not the same"),
        ([definition(1, 3, 16), VARIABLES, observations("A", 1.0)], "2 variables instead of 3"),
        ([definition(2, 2, 16), VARIABLES, observations("A", 1.0)], "states 2 observations, but 1 were received"),
        ([definition(1, 2, 16), VARIABLES, observations("A", 1.0, "B")], "the last row has 8 of 16 bytes"),
        ([definition(1, 2, 16), VARIABLES, observations("A", 1.0, said=77)], "77 observations by its number"),
        ([definition(1, 2, 16), VARIABLES, observations(1.0, "A")], "another type than its variable"),
        ([definition(1, 2, 16), VARIABLES, message("FDC", [i32(1), i32(1)])], "FDC among the messages of a data set"),
        ([definition(1, 99_999, 16), VARIABLES], "at most 32,767 are read"),
    ],
)
def test_what_is_no_data_set_is_refused(bodies: list[bytes], why: str) -> None:
    with pytest.raises((InvalidInputError, WireError), match=why):
        read(bodies)


WRONG = message("VAR", [i32(1), *variable("N", 9, numeric=True)])


@pytest.mark.parametrize(
    ("bodies", "part"),
    [
        ([VARIABLES, definition(-2, 2, 16)], 1),
        ([definition(1, 3, 16), VARIABLES, WRONG, observations("A", 1.0)], 2),
        ([definition(2, 2, 16), VARIABLES, observations("A", 1.0), observations(1.0, "A")], 3),
        ([definition(1, 2, 16), VARIABLES, message("FDC", [i32(1), i32(1)])], 2),
    ],
)
def test_an_error_tells_the_part_that_its_byte_is_of(bodies: list[bytes], part: int) -> None:
    with pytest.raises((InvalidInputError, WireError)) as refused:
        read(bodies)
    assert refused.value.part == part  # type: ignore[attr-defined]


def test_what_cannot_be_read_beside_the_rows_is_a_warning() -> None:
    bad = message("ATI", [i32(4), i32(9)]), message("ATC", [i32(5), i32(9)])
    table, _ = read([definition(1, 2, 16), VARIABLES, observations("A", 1.0), *bad])
    warnings = table.schema.metadata[b"sas.warnings"].decode()
    assert "the ATI messages could not be read" in warnings
    assert "the ATC messages could not be read" in warnings


TEXT_FILE = replace(RECORD, kind=AttachmentKind.TEXT_FILE)


def test_a_file_has_one_descriptor_and_records() -> None:
    descriptor = message("FDC", [i32(80), i32(12)])
    records = message("ATX", [i32(2), *text("first"), *text("last")])
    found = SAS_RENDEZVOUS.file(TEXT_FILE, Parts([descriptor, records, records]))
    assert [bytes(data) for _, _, data, _ in found.spans()] == [b"first", b"last"] * 2
    assert (found.of_lines, found.begins_at, found.description) == (True, 1, (80, 12))
    with pytest.raises(InvalidInputError, match="VAR among the records"):
        list(SAS_RENDEZVOUS.file(TEXT_FILE, Parts([descriptor, records, VARIABLES])).spans())
    with pytest.raises(WireError):
        SAS_RENDEZVOUS.file(TEXT_FILE, Parts([records]))
    with pytest.raises(WireError) as refused:
        list(SAS_RENDEZVOUS.file(TEXT_FILE, Parts([descriptor, records, message("ATX", [i32(7)])])).spans())
    assert refused.value.part == 2


def test_an_attachment_has_several_files_each_with_its_descriptor() -> None:
    one, two = (message("FDC", [i32(80), i32(size)]) for size in (12, 7))
    first, last, binary = (
        message("ATX", [i32(1), *text("first")]),
        message("ATX", [i32(1), *text("last")]),
        message("ATB", [i32(1), i32(1), opaque(b"x")]),
    )
    found = SAS_RENDEZVOUS.file(TEXT_FILE, Parts([one, first, last, two, last, one, first]))
    for _ in range(2):  # it may be read again
        files = [(said, [bytes(data) for _, _, data, _ in spans]) for said, spans in found.described()]
        assert files == [((80, 12), [b"first", b"last"]), ((80, 7), [b"last"]), ((80, 12), [b"first"])]
    assert [bytes(data) for _, _, data, _ in found.spans()] == [b"first", b"last", b"last", b"first"]
    assert [part for part, *_ in found.spans()] == [1, 2, 4, 6]
    for bodies, code in (
        ([one, first, two, binary], "mixed-files"),
        ([one, first, binary, two, first], "mixed-files"),
        ([one, two, first], "file-without-records"),
        ([one, first, two], "file-without-records"),
        ([one, *[first, two] * 1000, last], "too-many-files"),
    ):
        with pytest.raises(InvalidInputError) as refused:
            list(SAS_RENDEZVOUS.file(TEXT_FILE, Parts(bodies)).spans())
        assert refused.value.code == code


# --- writing ----------------------------------------------------------------------------------------------------------


class Contents:
    """`app.framing.protocol.DeliveryContents` of one content."""

    def __init__(self, content: pa.Table | bytes) -> None:
        self._content = content

    def pieces(self, attachment: OutgoingAttachment) -> Iterator[memoryview]:
        assert isinstance(self._content, bytes)
        return iter([memoryview(self._content)])

    @contextmanager
    def table(self, attachment: OutgoingAttachment) -> Iterator[pq.ParquetFile]:
        assert isinstance(self._content, pa.Table)
        target = BytesIO()
        write_parquet(self._content.schema, self._content.to_batches(), target)
        target.seek(0)
        yield pq.ParquetFile(target)


def written(kind: AttachmentKind, content: pa.Table | bytes, **changes: Any) -> list[PhysicalMessage]:
    size = len(content) if isinstance(content, bytes) else 0
    attachment = OutgoingAttachment(KEY, kind, "WORK", "T", "what it is", 1, 2, "object", size, "")
    delivery = DeliveryRecord("d", "rv", b"H" * 24, b"M" * 24, (attachment,), 0, 0, application_body=b"hello")
    return list(SAS_RENDEZVOUS.write(delivery, OPTIONS._replace(**changes), Contents(content)))


def rows() -> pa.Table:
    numbers = np.random.default_rng(1).normal(size=900)
    metadata = {"sas.type": "numeric", "sas.length": "8"}
    fields = [
        pa.field("N", pa.float64(), metadata=metadata | {"sas.label": "Zahl", "sas.format": "BEST12."}),
        pa.field("SHORT", pa.float64(), metadata=metadata | {"sas.length": "3"}),
        pa.field("DAY", pa.date32(), metadata=metadata | {"sas.format": "DATE9."}),
        pa.field("NAME", pa.string(), False, {"sas.type": "character", "sas.length": "12"}),
    ]
    constraint = message("ATC", [i32(5), i32(1), i32(3), i32(8), string("uq"), i32(1), i32(1), string("N"), i32(1)])
    said = {
        "sas.label": "Größen",
        "sas.max_gen": "3",
        indexes_and_constraints.INDEXES: '[{"name":"both","variables":["N","NAME"],"flags":1,"upercmx":0}]',
        "sas.rendezvous_constraints": b64encode(constraint).decode(),
    }
    columns = [
        pa.array(numbers, mask=numbers > 1),
        pa.array(np.arange(900, dtype=np.float64)),
        pa.array(np.arange(900, dtype=np.int32)).cast(pa.date32()),
        pa.array([("Ada", "", "naïve", "x" * 12)[n % 4] for n in range(900)]),
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, said))


@pytest.mark.parametrize("limit", [1_500, 32_000])
def test_a_data_set_that_is_written_comes_back_with_all_that_is_beside_it(limit: int) -> None:
    table = rows()
    sent = written(AttachmentKind.DATA_SET, table, body_limit=limit)
    assert max(len(each.body) for each in sent) <= limit
    parts = [bytes(each.body) for each in sent if each.correl_id[:20] > KEY + bytes(4) and each.correl_id[:16] == KEY]
    names = [message_name(part) for part in parts]
    assert sorted(set(names), key=names.index) == ["DAT", "VAR", "ATO", "ATI", "ATC"]
    found, _ = read(parts)
    assert found.select(table.column_names).to_pydict() == table.to_pydict()
    assert (
        found.schema.metadata[indexes_and_constraints.INDEXES.encode()]
        == table.schema.metadata[indexes_and_constraints.INDEXES.encode()]
    )
    for key in (b"sas.rendezvous_constraints", b"sas.max_gen", b"sas.label"):
        assert found.schema.metadata[key] == table.schema.metadata[key]
    assert found.schema.field("SHORT").metadata[b"sas.length"] == b"3"
    assert b"sas.warnings" not in found.schema.metadata


def test_messages_are_numbered_and_counted_under_their_header() -> None:
    sent = written(AttachmentKind.BINARY_FILE, bytes(100_000))
    events = [SAS_RENDEZVOUS.read(each, dialect.ALL) for each in sent]
    header, application, *parts, last = events
    assert isinstance(header, Announced)
    assert header.header.attachments[0].correl_id == KEY
    assert header.header.header_correl_id == b"H" * 16 + bytes(8)
    assert application == Unsequenced(b"H" * 16, (), len(sent[1].body))
    assert read_map(sent[1].body)[0].value == b"hello"
    assert [each.sequence for each in parts if isinstance(each, PartArrived)] == list(range(1, len(parts) + 1))
    assert last == Unsequenced(KEY, (len(parts),) * 2, len(sent[-1].body))


def test_a_map_that_contradicts_itself_is_refused() -> None:
    _, application, *_ = written(AttachmentKind.BINARY_FILE, bytes(10))
    for fields, why in (
        ([i32(9), i32(1), i16(7)], "9 times 2 fields"),
        ([i32(1), i32(1), i32(7)], "instead of I16"),
    ):
        with pytest.raises(InvalidInputError, match=why) as refused:
            SAS_RENDEZVOUS.read(application._replace(body=message("MSG", fields)), dialect.ALL)
        assert refused.value.code == "bad-rendezvous-message"


def test_a_map_is_sent_as_it_is() -> None:
    body = message("DATA", [i32(1), i32(1), i16(7)])
    delivery = DeliveryRecord("d", "rv", b"H" * 24, b"M" * 24, (), 0, 0, application_body=body)
    _, application = SAS_RENDEZVOUS.write(delivery, OPTIONS, Contents(b""))
    assert application.body == body


@pytest.mark.parametrize(
    ("content", "why"), [(b"a\n" + b"b" * 40_000, "line 2 has 40,000 bytes"), (b"a\0b\n", "line 1 has a NUL")]
)
def test_text_that_records_cannot_hold_is_not_sent(content: bytes, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        written(AttachmentKind.TEXT_FILE, content)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"no message", "bad-rendezvous-message"),
        (message("HDR", [i32(1)]), "bad-header"),
        (message("XYZ", [i32(1)]), "unknown-message-name"),
    ],
)
def test_what_is_no_message_of_an_attachment_is_told(body: bytes, code: str) -> None:
    for number in (0, 1):
        numbered = PhysicalMessage("sas", "sas_rendezvous", correl_id=KEY + bytes([0, 0, 0, number]), body=body)
        with pytest.raises(InvalidInputError) as raised:
            SAS_RENDEZVOUS.read(numbered, dialect.ALL)
        assert raised.value.code == code
    with pytest.raises(InvalidInputError) as raised:
        SAS_RENDEZVOUS.read(PhysicalMessage("sas", "sas_rendezvous", body=message("LST", [i32(1)])), dialect.ALL)
    assert raised.value.code == "no-header"
