"""Files -> framed messages -> the gateway's own decoding: every format of file, floats, byte orders, character sets."""

import json
from base64 import b64encode
from dataclasses import replace
from datetime import date, timedelta
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapters.object_store import ObjectStore
from app.codecs.sas.dialect import DIALECTS
from app.dataset import side_columns
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.records import DeliveryRecord, FramingOptions, OutgoingAttachment
from app.service.context import ReceiverContext
from app.service.sending.framer import Framer
from app.service.sending.outbox import framing_options
from app.service.sending.upload_conversion import ConversionRequest, ConvertedFile, convert_and_store, target_of
from app.service.sending.upload_parts import StoredPart
from app.settings import Destination
from app.tables.read.read_request import DataSetOverrides, VariableOverrides
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import delivery
from tests.codecs.sas.rendezvous_bytes import fields_in, i32, message, opaque, string
from tests.service.test_round_trip import content, receive, received
from tests.support.tables import visits
from tests.tables.out.making import made

EXTENSIONS = {"csv": "csv", "ndjson": "ndjson", "dsjc": "dsjc"}
IEEE_BIG, IEEE_LITTLE, IBM = (
    ("big-4-excluded-packed", 273),
    ("little-8-absent-aligned", 546),
    ("big-4-included-packed", 785),
)


AS_FOUND = ConversionRequest()


def destination(dialect: str, encoding: int, ccsid: int = 1208, **more: Any) -> Destination:
    return Destination.model_validate(
        {"transport": "memory", "queue": "q", "dialect": dialect, "encoding": encoding, "ccsid": ccsid, **more}
    )


def prepared(
    context: ReceiverContext, data: bytes, name: str, to: Destination, request: ConversionRequest = AS_FOUND
) -> ConvertedFile:
    """A file that was uploaded, made a data set for a destination."""
    with context.store.create("outgoing/d/upload") as target:
        target.write(data)
    uploaded = StoredPart("upload", name, "", "outgoing/d/upload", len(data), "")
    return convert_and_store(context.store, uploaded, request, target_of(to, 1 << 30), "outgoing/d/1")


def queued(context: ReceiverContext, made_of: ConvertedFile) -> DeliveryRecord:
    empty = delivery(context, [])
    attachment = OutgoingAttachment(
        bytes([1]) * 16,
        AttachmentKind.DATA_SET,
        made_of.definition.library,
        made_of.definition.member,
        "",
        0,
        0,
        "outgoing/d/1",
        made_of.size,
        made_of.sha256,
    )
    return replace(empty, attachments=(attachment,))


def there_and_back(context: ReceiverContext, made_of: ConvertedFile, cut: FramingOptions) -> pa.Table:
    """The table of a data set that was sent, received in any order and decoded."""
    assert made_of.definition.errors == ()
    messages = list(Framer(cut, context.store).frame(queued(context, made_of)))
    assert max(len(message.body) for message in messages) <= cut.body_limit
    Random(5).shuffle(messages)
    receive(context, messages)
    record = received(context, 1)
    assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
    assert (record.qualifier_1, record.qualifier_2) == (made_of.definition.library, made_of.definition.member)
    return pq.read_table(BytesIO(content(context, record)))


def values(table: pa.Table) -> dict[str, list[Any]]:
    """Every column but the bytes of damaged texts, spans as seconds."""
    kept = [field.name for field in table.schema if side_columns.bytes_of(field) is None]
    return {
        name: [value.total_seconds() if isinstance(value, timedelta) else value for value in table[name].to_pylist()]
        for name in kept
    }


@pytest.mark.parametrize("how", [IEEE_BIG, IEEE_LITTLE, IBM], ids=["big", "little", "ibm"])
@pytest.mark.parametrize("name", ["parquet", "arrow", "csv", "ndjson", "dataset-json", "dataset-ndjson", "dsjc", "xpt"])
def test_every_format_of_file_arrives_as_the_same_table(tmp_path: Path, name: str, how: tuple[str, int]) -> None:
    table = visits()
    data = made(table, name) if name == "xpt" else made(table, name, missing="column")
    to = destination(*how)
    with service_context(tmp_path) as context:
        sent = prepared(context, data, f"visits.{EXTENSIONS.get(name, 'bin' if name == 'xpt' else 'json')}", to)
        again = there_and_back(context, sent, framing_options(to, 2000))
    assert values(again) == values(table)


@pytest.mark.parametrize("dialect", [dialect.name for dialect in DIALECTS[::5]])
@pytest.mark.parametrize("ccsid", [819, 1208, 37, 5348, 943])
def test_every_dialect_and_character_set(tmp_path: Path, dialect: str, ccsid: int) -> None:
    text = "é" if ccsid != 943 else "日本"
    data = f"Name;Amount;When\n{text};1.5;2024-02-29\n{text} x;.B;\n".encode()
    to = destination(dialect, 785 if ccsid == 37 else 273, ccsid)
    overrides = DataSetOverrides(
        label="Data",
        variables={
            "name": VariableOverrides(length=10, label="Who"),
            "amount": VariableOverrides(format="COMMAX12.2", informat="COMMA12.", length=5),
            "when": VariableOverrides(format="DDMMYYP10."),
        },
    )
    asked = ConversionRequest(overrides=overrides)
    asked = replace(asked, options=replace(asked.options, tags=True))
    with service_context(tmp_path) as context:
        sent = prepared(context, data, "c:\\in\\sales 2024.csv", to, asked)
        assert (sent.format, sent.definition.observations) == ("csv", 2)
        again = there_and_back(context, sent, framing_options(to, 1024))
    assert again["Name"].to_pylist() == [text, f"{text} x"]
    assert again["Amount"].to_pylist() == [1.5, None]
    assert again["Amount__missing"].to_pylist() == [None, ".B"]
    assert [str(value) for value in again["When"].to_pylist()] == ["2024-02-29", "None"]
    said = again.schema.field("Amount").metadata
    assert (said[b"sas.format"], said[b"sas.informat"], said[b"sas.length"]) == (b"COMMAX12.2", b"COMMA12.", b"5")
    assert again.schema.field("Name").metadata[b"sas.length"] == b"10"
    assert again.schema.metadata[b"sas.label"] == b"Data"


def test_a_delivery_is_cut_the_same_way_each_time(tmp_path: Path) -> None:
    to = destination(*IBM)
    with service_context(tmp_path) as context:
        sent = queued(context, prepared(context, made(visits(), "csv", missing="column"), "v.csv", to))
        framer = Framer(framing_options(to, 1024), context.store)
        assert list(framer.frame(sent)) == list(framer.frame(replace(sent, messages_sent=3)))


def test_what_has_errors_is_not_stored(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        refused = prepared(context, "a b,c\n1,€\n".encode(), "x.csv", destination(*IBM, ccsid=37))
        assert [(fault.variable, fault.code) for fault in refused.definition.errors] == [
            ("a b", "name"),
            ("c", "value"),
        ]
        assert list(context.store.names()) == ["outgoing/d/upload"]


def test_a_data_set_without_observations(tmp_path: Path) -> None:
    to = destination(*IEEE_BIG)
    with service_context(tmp_path) as context:
        again = there_and_back(context, prepared(context, b"a,b\n", "empty.csv", to), framing_options(to, 32_000))
    assert (again.num_rows, again.column_names) == (0, ["a", "b"])


class RemoteStore(ObjectStore):
    """A store whose objects are no files that could be opened."""

    def open_file(self, name: str) -> None:
        return None


@pytest.mark.parametrize("name", ["csv", "parquet", "arrow"])
def test_objects_need_not_be_local_files(tmp_path: Path, name: str) -> None:
    to = destination(*IEEE_BIG)
    with service_context(tmp_path) as context:
        remote = replace(context, store=RemoteStore(tmp_path / "remote"))
        sent = prepared(remote, made(visits(), name, missing="column"), f"v.{name}", to)
        messages = list(Framer(framing_options(to, 2000), remote.store).frame(queued(remote, sent)))
        local = prepared(context, made(visits(), name, missing="column"), f"v.{name}", to)
        assert messages == list(Framer(framing_options(to, 2000), context.store).frame(queued(context, local)))


INDEXES = (
    '[{"name":"Name","variables":["Name"],"flags":3,"upercmx":0},'
    '{"name":"BOTH","variables":["Name","Visit"],"flags":-1,"upercmx":7}]'
)
"""A simple index and a composite one."""
CONSTRAINTS = b64encode(bytes(range(256)) * 20).decode()


def indexed(dialect: str, charset: str = "utf-8") -> bytes:
    """A Parquet file with indexes and integrity constraints, as the gateway writes one."""
    table = pa.table({"Name": ["a", "b"], "Visit": [1.0, 2.0]})
    said = {"indexes": INDEXES, "constraints": CONSTRAINTS, "dialect": dialect, "encoding": charset}
    sink = BytesIO()
    pq.write_table(table.replace_schema_metadata({f"sas.{key}": value for key, value in said.items()}), sink)
    return sink.getvalue()


@pytest.mark.parametrize("how", [IEEE_BIG, IEEE_LITTLE, IBM], ids=["big", "little", "ibm"])
def test_indexes_and_constraints_come_back(tmp_path: Path, how: tuple[str, int]) -> None:
    to = destination(*how)
    with service_context(tmp_path) as context:
        sent = prepared(context, indexed(to.dialect), "a.parquet", to)
        assert sent.definition.warnings == ()
        again = there_and_back(context, sent, framing_options(to, 2000))
    said = again.schema.metadata
    assert (said[b"sas.indexes"].decode(), said[b"sas.constraints"].decode()) == (INDEXES, CONSTRAINTS)


@pytest.mark.parametrize(
    ("dialect", "charset"), [("little-8-absent-aligned", "utf-8"), ("big-4-excluded-packed", "cp037")]
)
def test_constraints_of_another_kind_of_machine_are_not_sent(tmp_path: Path, dialect: str, charset: str) -> None:
    to = destination(*IEEE_BIG)
    with service_context(tmp_path) as context:
        sent = prepared(context, indexed(dialect, charset), "a.parquet", to)
        again = there_and_back(context, sent, framing_options(to, 2000))
    (warning,) = sent.definition.warnings
    assert warning.code == "constraints"
    assert "5,120 bytes of integrity constraints are not sent" in warning.why
    assert b"sas.constraints" not in again.schema.metadata
    assert again.schema.metadata[b"sas.indexes"].decode() == INDEXES


UNIQUE = [i32(5), i32(1), i32(3), i32(4), string("Uniq"), i32(1), i32(1), string("Name"), i32(1)]
CHECK = [
    i32(5),
    i32(1),
    i32(1),
    i32(4),
    string("Chk"),
    i32(0),
    i32(9),
    string("Visit"),
    i32(9),
    i32(1),
    opaque(b"\xff"),
]
ATC = message("ATC", UNIQUE) + message("ATC", CHECK)
OTHERS = {"version": "8", "max_gen": "70000", "sort_variables": "1", "constraints": CONSTRAINTS}


@pytest.mark.parametrize(
    ("framing", "charset", "names", "wanted", "warned"),
    [
        ("sas_rendezvous", "utf-8", {}, ["DAT", "VAR", "ATO", "ATI", "ATC", "ATC"], ["constraints"]),
        ("sas_rendezvous", "cp1252", {}, ["DAT", "VAR", "ATO", "ATI"], ["constraints"] * 2),
        ("sas_rendezvous", "utf-8", {"name": "N"}, ["DAT", "VAR", "ATO", "ATI"], ["constraints"] * 2),
        ("sas_queue", "utf-8", {}, [], ["constraints", "attribute"]),
        ("order_packet", "utf-8", {}, [], ["indexes", *["constraints"] * 2, "sort-key", *["attribute"] * 2]),
    ],
)
def test_properties_of_a_data_set_are_sent_where_the_framing_carries_them_and_else_warned_of(
    tmp_path: Path,
    framing: str,
    charset: str,
    names: dict[str, str],
    wanted: list[str],
    warned: list[str],
) -> None:
    table = pa.table({"Name": pa.array(["a", "b"]), "Visit": [1.0, 2.0]})
    fields = [table.schema.field(0).with_metadata({"sas.nsort": "1"}), table.schema.field(1)]
    said = {"indexes": INDEXES, "dialect": IEEE_BIG[0], "encoding": charset, **OTHERS}
    said["rendezvous_constraints"] = b64encode(ATC).decode()
    sink = BytesIO()
    pq.write_table(table.cast(pa.schema(fields, {f"sas.{key}": value for key, value in said.items()})), sink)
    to = destination(*IEEE_BIG, framing=framing)
    overrides = DataSetOverrides(variables={key: VariableOverrides(key.title(), new) for key, new in names.items()})
    with service_context(tmp_path) as context:
        sent = prepared(context, sink.getvalue(), "a.parquet", to, ConversionRequest(overrides=overrides))
        assert [each.code for each in sent.definition.warnings] == warned, sent.definition.warnings
        cut = framing_options(to, 2000)
        to_send = replace(queued(context, sent), application_body=None)
        bodies = [bytes(each.body) for each in Framer(cut, context.store).frame(to_send)]
    if framing == "sas_rendezvous":
        named = [(body[9:12].decode(), body) for body in bodies if body[9:12] not in (b"HDR", b"MSG", b"LST")]
        assert [name for name, _ in named] == wanted
        cells = [each for _, each in fields_in(named[0][1])]
        numbers = {number: int.from_bytes(cells[number - 1][-4:], "big") for number in (2, 15, 25)}
        assert numbers == {2: 8, 15: 1, 25: 70_000}
        if "ATC" in wanted:
            assert b"".join(body for name, body in named if name == "ATC") == ATC
    elif framing == "sas_queue":
        (definition,) = (body for body in bodies if body[:4] == bytes([0, 0, 0, 1]) and b"Name" not in body)
        assert definition[4:8] == bytes([0, 0, 0, 8])


def test_indexes_follow_their_variables_to_new_names(tmp_path: Path) -> None:
    to = destination(*IEEE_BIG)
    overrides = DataSetOverrides(
        variables={"name": VariableOverrides("Name", "PATIENT"), "visit": VariableOverrides("Visit", "WHEN")}
    )
    with service_context(tmp_path) as context:
        sent = prepared(context, indexed(to.dialect), "a.parquet", to, ConversionRequest(overrides=overrides))
    assert [(index.name, index.variables) for index in sent.definition.indexes] == [
        ("PATIENT", ["PATIENT"]),
        ("BOTH", ["PATIENT", "WHEN"]),
    ]


SIZE = (None, "size", None)
MANY = [f"C{number:031}" for number in range(60)]
INDEX_OF_MANY = json.dumps([{"name": "I", "variables": MANY, "flags": 0, "upercmx": 0}])


def stating(length: int) -> pa.Schema:
    return pa.schema([pa.field("S", pa.string(), metadata={"sas.type": "character", "sas.length": str(length)})])


@pytest.mark.parametrize(
    ("framing", "table", "faults"),
    [
        (
            "sas_rendezvous",
            pa.table({"A": ["x", "a\0b"], "B": ["y" * 966, "z"], "C": ["w" * 965, "v\0"], "D": ["u" * 965, ""]}),
            [("A", "value", 2), ("B", "value", 1), ("C", "value", 2)],
        ),
        ("sas_rendezvous", pa.table({"S": ["x"]}, schema=stating(966)), [("S", "length", None)]),
        ("sas_rendezvous", pa.table({"S": ["x" * 965]}, schema=stating(965)), []),
        ("sas_rendezvous", pa.table({name: [1.0] for name in MANY}, metadata={"sas.indexes": INDEX_OF_MANY}), [SIZE]),
        ("sas_queue", pa.table({name: [1.0] for name in MANY}, metadata={"sas.indexes": INDEX_OF_MANY}), [SIZE]),
        ("sas_queue", pa.table({"S": ["a\0b", "c" * 2000]}), []),
        (
            "order_packet",
            pa.table(
                {
                    "DAY": pa.array([date(2000, 1, 1), None], pa.date32()),
                    "LATE": pa.array([0, 5_000_000], pa.int32()).cast(pa.date32()),
                    "SPAN": pa.array([timedelta(hours=1), timedelta(hours=100)], pa.duration("us")),
                    "TIME": pa.array([500_000, 0], pa.int64()).cast(pa.time64("us")),
                    "DATA": [b"x", b"x\0"],
                    "BIG": [1.0, 1e300],
                    "ODD": [float("nan"), 1.0],
                }
            ),
            [
                ("LATE", "value", 2),
                ("SPAN", "value", 2),
                ("TIME", "value", 1),
                ("DATA", "value", 2),
                ("BIG", "value", 2),
            ],
        ),
        ("order_packet", pa.table({"S": ["x", "y" * 879]}), []),
        ("order_packet", pa.table({"S": ["x", "y" * 880]}), [SIZE]),
        ("order_packet", pa.table({name: [1.0] for name in MANY}), [SIZE]),
    ],
)
def test_what_messages_have_no_place_for_is_said_before_anything_is_sent(
    tmp_path: Path, framing: str, table: pa.Table, faults: list[tuple[str | None, str, int | None]]
) -> None:
    to = destination(*IEEE_BIG, framing=framing, body_limit=1024)
    with service_context(tmp_path) as context:
        sent = prepared(context, made(table, "parquet"), "a.parquet", to)
        found = [(each.variable, each.code, each.row) for each in sent.definition.errors]
        assert found == faults, sent.definition.errors
        framer = Framer(framing_options(to, to.body_limit), context.store)
        if not faults:
            assert list(framer.frame(replace(queued(context, sent), application_body=None)))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("\xe9" * 32_766, None),
        ("\xe9" * 32_767, "it needs 32,767 characters, and VARCHAR ASCII has at most 32,766"),
        ("\u20ac" * 16_383, None),
        ("\u20ac" * 16_384, "it needs 16,384 characters, and VARCHAR UNICODE has at most 16,383"),
        (b"\1" * 32_766, None),
        (b"\1" * 32_767, "it needs 32,767 bytes, and VARCHAR BYTE has at most 32,766"),
    ],
)
def test_values_of_order_packets_are_measured_as_packets_have_them(
    tmp_path: Path, value: str | bytes, why: str | None
) -> None:
    to = destination(*IEEE_BIG, framing="order_packet", body_limit=131_072)
    table = pa.table({"S": [type(value)(), value]})
    with service_context(tmp_path) as context:
        sent = prepared(context, made(table, "parquet"), "a.parquet", to)
        if why is not None:
            (fault,) = sent.definition.errors
            assert (fault.variable, fault.code, fault.row) == ("S", "value", 2)
            assert why in fault.why
            return
        framer = Framer(framing_options(to, to.body_limit), context.store)
        bodies = [bytes(each.body) for each in framer.frame(replace(queued(context, sent), application_body=None))]
    code = "utf-16-be" if "\u20ac" in str(value) else "latin-1"
    assert (value if isinstance(value, bytes) else value.encode(code)) in b"".join(bodies)


def test_blanks_at_the_end_of_a_text_of_an_order_packet_are_warned_of(tmp_path: Path) -> None:
    to = destination(*IEEE_BIG, framing="order_packet")
    table = pa.table({"A": ["x", "ab   "], "B": [" ", "y"], "C": [" z", None]})
    with service_context(tmp_path) as context:
        sent = prepared(context, made(table, "parquet"), "a.parquet", to)
    found = [(each.variable, each.code, each.row) for each in sent.definition.warnings]
    assert found == [("A", "blanks", 2), ("B", "blanks", 1)]
