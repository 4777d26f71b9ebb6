"""Data sets from their messages to the stored table, and back."""

import io
import json
import tracemalloc
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.codecs.sas import data_set_messages
from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.codecs.sas.dialect import Dialect
from app.dataset import encode, numeric
from app.dataset.numeric import FloatFormat
from app.framing import sas_queue
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, FramingOptions
from app.service.context import ReceiverContext
from app.service.sending.framer import Framer
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import delivery, framing_options
from tests.service.test_round_trip import content, receive, received

BIG = Dialect()
VARIABLES = [
    Variable(name="amount", length=8),
    Variable(name="day", length=4, format="DATE", format_length=9),
    Variable(name="span", length=8, format="TIME", format_length=8),
    Variable(name="customer", type=b"\2", length=8),
]
LENGTH = 28
CCSIDS = {"utf-8": 1208, "cp037": 37, "cp500": 500, "latin-1": 819, "cp1252": 1252}


def row(amount: str, day: float, span: float, customer: bytes, float_format: FloatFormat = "ieee") -> bytes:
    """An observation; the amount by its code."""
    cells = [numeric.encode(np.array([value]), length, "big", float_format) for value, length in ((day, 4), (span, 8))]
    return bytes.fromhex(amount) + b"".join(cell.tobytes() for cell in cells) + customer


def messages(
    context: ReceiverContext,
    bodies: Sequence[bytes],
    ccsid: int = 1208,
    encoding: int = 273,
    dialect: Dialect = BIG,
    charset: str = "utf-8",
) -> list[PhysicalMessage]:
    """A message with one data set, which has these bodies."""

    def given(_: Any) -> Iterator[bytes]:
        return iter(bodies)

    sent = delivery(context, [(AttachmentKind.DATA_SET, "WORK.SALES", b"")])
    options = FramingOptions(32_000, dialect.name, CCSIDS[charset], encoding)
    return [message._replace(ccsid=ccsid) for message in sas_queue.messages(sent, options, given)]


def bodies_of(
    rows: Sequence[bytes],
    charset: str = "utf-8",
    dialect: Dialect = BIG,
    **fields: Any,
) -> list[bytes]:
    """The bodies of a data set's messages; its definition says `fields`, true or not."""
    values = {"observations": len(rows), "variables": len(VARIABLES), "obs_length": LENGTH, **fields}
    definition = DataSetDefinition(type=1, **{"label": "Sales", **values})
    return [
        data_set_messages.write_definition(definition, dialect, charset),
        *data_set_messages.write_variables(VARIABLES, dialect, charset),
        *data_set_messages.write_observations(rows, LENGTH, dialect),
    ]


def stored(context: ReceiverContext, sent: Sequence[PhysicalMessage]) -> tuple[pa.Table, AttachmentRecord]:
    receive(context, list(sent))
    record = received(context, 1)
    assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
    table = pq.read_table(io.BytesIO(content(context, record)))
    table.validate(full=True)
    return table, record


def said(table: pa.Table, key: str) -> str:
    found: bytes = table.schema.metadata[f"sas.{key}".encode()]
    return found.decode()


def test_a_data_set_with_all_there_is_comes_back_by_its_bytes(tmp_path: Path) -> None:
    rows = [row("3FF8000000000000", 0, 0, b"Ada     ")] * 3000 + [
        row("FFFFFD0000000000", 23_435, -3600, b"\xc5ngstr\xf6m"),
        row("FFFFFF0000000000", float("nan"), 90_000, "Ångst".encode().ljust(8)),
        row("FFFFFE0000000000", -138_061, 86_400, b"        "),
    ]
    with service_context(tmp_path) as context:
        table, record = stored(context, messages(context, bodies_of(rows)))
        assert (record.observations, record.variables) == (3003, 4)
        assert {field.name: str(field.type) for field in table.schema} == {
            "amount": "double",
            "amount__missing": "string",
            "day": "date32[day]",
            "span": "duration[us]",
            "customer": "string",
            "customer__bytes": "binary",
        }
        last = table.slice(3000).to_pydict()
        assert last == {
            "amount": [None, None, None],
            "amount__missing": [".A", "._", None],
            "day": [date(2024, 2, 29), None, date(1582, 1, 1)],
            "span": [timedelta(hours=-1), timedelta(hours=25), timedelta(days=1)],
            "customer": ["\N{REPLACEMENT CHARACTER}ngstr\N{REPLACEMENT CHARACTER}m", "Ångst", ""],
            "customer__bytes": [b"\xc5ngstr\xf6m", None, None],
        }
        assert (said(table, "library"), said(table, "member"), said(table, "label")) == ("WORK", "SALES", "Sales")
        again = delivery(context, [(AttachmentKind.DATA_SET, "WORK.SALES", content(context, record))])
        sent = [bytes(message.body) for message in Framer(framing_options(), context.store).frame(again)]
    observed = [body[4:] for body in sent if body[:4] == bytes([0, 0, 0, 3])]
    assert b"".join(observed)[: LENGTH * 3003] == b"".join(rows)


def test_ibm_floats_and_ebcdic_by_the_descriptor(tmp_path: Path) -> None:
    rows = [
        row("421F800000000000", 23_435, 3600, "Müller".encode("cp037").ljust(8, b"\x40"), "ibm"),
        row("C100000000000000", 23_435, 3600, "Ada".encode("cp037").ljust(8, b"\x40"), "ibm"),
    ]
    with service_context(tmp_path) as context:
        sent = messages(context, bodies_of(rows, charset="cp037"), ccsid=37, encoding=785, charset="cp037")
        table, _ = stored(context, sent)
    assert table["amount"].to_pylist() == [31.5, None]
    assert table["amount__missing"].to_pylist() == [None, ".A"]
    assert table["customer"].to_pylist() == ["Müller", "Ada"]
    assert (said(table, "float"), said(table, "encoding")) == ("ibm", "cp037")


@pytest.mark.parametrize(("ccsid", "encoding", "floats"), [(37, 0, "ibm"), (37, 273, "ieee"), (1208, 0, "ieee")])
def test_the_float_format_where_little_is_said(tmp_path: Path, ccsid: int, encoding: int, floats: str) -> None:
    charset = "cp037" if ccsid == 37 else "utf-8"
    with service_context(tmp_path) as context:
        sent = messages(context, bodies_of([], charset=charset), ccsid=ccsid, encoding=encoding, charset=charset)
        table, _ = stored(context, sent)
    assert said(table, "float") == floats


def test_texts_of_no_declared_character_set_are_read_as_some(tmp_path: Path) -> None:
    rows = [row("3FF8000000000000", 0, 0, b"\xc5ngstr\xf6m"), row("FFFFFD0000000000", 0, 0, b"Ada     ")]
    with service_context(tmp_path) as context:
        table, _ = stored(context, messages(context, bodies_of(rows), ccsid=0))
    assert table["customer"].to_pylist() == ["Ångström", "Ada"]
    assert "customer__bytes" not in table.column_names
    assert said(table, "encoding") == "cp1252"
    assert "character set" in said(table, "warnings")


def test_texts_that_windows_latin_1_lacks_are_read_as_latin_1(tmp_path: Path) -> None:
    rows = [row("3FF8000000000000", 0, 0, b"\x80\x81      ")]
    with service_context(tmp_path) as context:
        table, _ = stored(context, messages(context, bodies_of(rows), ccsid=0))
    assert (table["customer"].to_pylist(), said(table, "encoding")) == (["\x80\x81"], "latin-1")


def test_control_characters_in_labels_are_kept_and_told(tmp_path: Path) -> None:
    rows = [row("3FF8000000000000", 0, 0, b"Ada     ")]
    with service_context(tmp_path) as context:
        table, _ = stored(context, messages(context, bodies_of(rows, label="Sales\x07")))
    assert said(table, "label") == "Sales\x07"
    assert said(table, "warnings") == "labels with control characters: of the data set"


def test_ebcdic_without_a_codec_is_read_as_far_as_all_of_it_agrees(tmp_path: Path) -> None:
    rows = [row("421F800000000000", 0, 0, "ADA 1815".encode("cp500"), "ibm")]
    with service_context(tmp_path) as context:
        sent = messages(context, bodies_of(rows, charset="cp500"), ccsid=1025, encoding=785, charset="cp500")
        table, _ = stored(context, sent)
    assert table.column_names == ["amount", "day", "span", "customer"]
    assert (table["amount"].to_pylist(), table["customer"].to_pylist()) == ([31.5], ["ADA 1815"])
    assert "CCSID 1025" in said(table, "warnings")


def test_a_descriptor_that_contradicts_the_messages_is_a_warning(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        rows = [row("3FF8000000000000", 0, 0, b"Ada     ")]
        table, _ = stored(context, messages(context, bodies_of(rows), encoding=546))
    assert table["amount"].to_pylist() == [1.5]
    assert "Encoding 546" in said(table, "warnings")


def test_indexes_and_constraints_are_kept(tmp_path: Path) -> None:
    index = data_set_messages.Index(upercmx=5, name="by_day", flags=1, variable_count=2, variables=["day", "customer"])
    constraints = bytes(range(256))
    bodies = bodies_of([], sort_variables=1, collating="ASCII", read_flag=1, read_password=b"abcd")
    bodies += [*data_set_messages.write_indexes([index], BIG), *data_set_messages.write_constraints(constraints, BIG)]
    with service_context(tmp_path) as context:
        table, record = stored(context, messages(context, bodies))
        parquet = content(context, record)
    assert json.loads(said(table, "indexes")) == [
        {"name": "by_day", "variables": ["day", "customer"], "flags": 1, "upercmx": 5}
    ]
    assert b64decode(said(table, "constraints")) == constraints
    assert (said(table, "passwords"), said(table, "sort_collating")) == ("read", "ASCII")
    assert b"abcd" not in parquet


def test_indexes_that_cannot_be_read_cost_nothing(tmp_path: Path) -> None:
    bodies = [*bodies_of([]), bytes([0, 0, 0, 4]) + b"\xff" * 11, bytes([0, 0, 0, 5]) + bytes(2 << 20)]
    with service_context(tmp_path) as context:
        table, _ = stored(context, messages(context, bodies))
    assert said(table, "warnings").splitlines()[1] == f"{(2 << 20) + 4:,} bytes of constraints were not kept"
    assert "indexes could not be read" in said(table, "warnings")


def test_a_second_definition_that_differs_is_a_conflict(tmp_path: Path) -> None:
    first, other = bodies_of([]), bodies_of([], label="another")
    with service_context(tmp_path) as context:
        receive(context, messages(context, [*first, first[0]]))
        assert received(context, 1).state is AttachmentState.FINISHED
    with service_context(tmp_path / "other") as context:
        receive(context, messages(context, [*first, other[0]]))
        record = received(context, 1)
    assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, "conflicting-definition")


def test_the_definitions_version_is_kept_and_sent_again(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        table, _ = stored(context, messages(context, bodies_of([], version=3)))
    assert said(table, "version") == "3"
    lengths = {"customer": 8}
    again, _ = encode.describe(table.schema, charset="utf-8", observations=0, character_lengths=lengths)
    assert again.version == 3


ROW = row("3FF8000000000000", 0, 0, b"Ada     ")


def stretched(length: int) -> list[Variable]:
    """The variables, the last one of this length."""
    return [*VARIABLES[:-1], replace(VARIABLES[-1], length=length)]


HOSTILE: dict[str, tuple[dict[str, Any], list[Variable], str, str]] = {
    "a million variables": (
        {"variables": 1_000_000},
        VARIABLES,
        "variable-count",
        "1,000,000 variables, at most 32,767 are read",
    ),
    "variables that are not there": ({"variables": 30_000}, VARIABLES, "bad-content", "30000 variables in"),
    "a variable too few": ({"variables": 5, "observations": 1}, VARIABLES, "bad-content", "byte"),
    "a variable too many": ({"variables": 3, "observations": 1}, VARIABLES, "bad-content", "byte"),
    "observations of no bytes": (
        {"obs_length": 0, "observations": 1 << 30},
        VARIABLES,
        "observation-length",
        "observations of no bytes",
    ),
    "2^31 rows": (
        {"observations": (1 << 31) - 1},
        VARIABLES,
        "observation-count",
        "instead of 2147483647 rows of 28 bytes",
    ),
    "half a row": (
        {"obs_length": 24, "observations": -1},
        VARIABLES,
        "observation-torn",
        "instead of whole rows of 24",
    ),
    "rows of 2^31 bytes": (
        {"obs_length": (1 << 31) - 1, "observations": 1},
        VARIABLES,
        "observation-count",
        "instead of 1 rows of 2147483647 bytes",
    ),
    "rows too short": (
        {"obs_length": 14, "observations": 2},
        VARIABLES,
        "observation-length",
        "need 28 bytes, but an observation has 14",
    ),
    "rows too long": (
        {"obs_length": 7, "observations": 4},
        VARIABLES,
        "observation-length",
        "need 28 bytes, but an observation has 7",
    ),
    "a numeric of a byte": (
        {"observations": 1},
        [replace(VARIABLES[0], length=1), *VARIABLES[1:]],
        "variable-length",
        "cannot have length 1",
    ),
    "a numeric too long": (
        {"observations": 1},
        [replace(VARIABLES[0], length=9), *VARIABLES[1:]],
        "bad-content",
        "length",
    ),
    "a variable too long": ({"observations": 1}, stretched(40_000), "variable-length", "cannot have length 40000"),
    "variables of 2^31 bytes": (
        {"observations": 1},
        stretched((1 << 31) - 1),
        "variable-length",
        "cannot have length 2147483647",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_definitions_are_refused_before_memory_is_taken(tmp_path: Path, name: str) -> None:
    fields, variables, code, why = HOSTILE[name]
    bodies = bodies_of([], **fields)[:1]
    bodies += [*data_set_messages.write_variables(variables, BIG, "utf-8"), bytes([0, 0, 0, 3]) + ROW]
    with service_context(tmp_path) as context:
        tracemalloc.start()
        receive(context, messages(context, bodies))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        record = received(context, 1)
    assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, code)
    assert why in (record.reason or "")
    assert peak < 8 << 20


def test_the_entry_of_refused_content_is_the_message_with_the_fault_and_the_byte_in_it(tmp_path: Path) -> None:
    first, good, wrong = [
        next(iter(data_set_messages.write_variables(variables, BIG, "utf-8")))
        for variables in (VARIABLES[1:], VARIABLES[:1], [replace(VARIABLES[0], length=9)])
    ]
    bodies = [bodies_of([], observations=1)[0], first, wrong, bytes([0, 0, 0, 3]) + ROW]
    with service_context(tmp_path) as context:
        receive(context, messages(context, bodies))
        record = received(context, 1)
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
    at = next(at for at, (one, other) in enumerate(zip(good, wrong, strict=True)) if one != other) - 3
    assert (entry.code, entry.row, entry.at) == ("bad-content", "VariableMessage.variables[3].length", at)
    assert entry.size == len(wrong)
    assert (record.reason or "").startswith(f"part 3: VariableMessage.variables[3].length at byte {at}: ")


def test_more_bytes_of_variables_than_variables_have_are_refused(tmp_path: Path) -> None:
    bodies = [*bodies_of([]), *[bytes([0, 0, 0, 2]) + bytes(30_000)] * 10]
    with service_context(tmp_path) as context:
        receive(context, messages(context, bodies))
        record = received(context, 1)
    assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, "variable-count")
