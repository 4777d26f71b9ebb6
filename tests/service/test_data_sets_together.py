"""Small data sets that are complete at the same time are decoded together; nothing tells it from their content."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.codecs.ibm_mq.encodings import MQENC_S390
from app.codecs.sas.message_reader import TYPE_SIZE
from app.dataset.decode import decode_together
from app.dataset.observation_layout import SAMPLE_ROWS
from app.dataset.parquet import SHORT_ROWS
from app.model.attachment import AttachmentState
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter
from app.service.context import ReceiverContext
from app.testing.gateway_stages import service_context
from tests.service.test_round_trip import content, receive
from tests.support.sas_client import Attached, Program, data_set, message


@pytest.fixture
def program() -> Program:
    return Program(Random(7))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of data sets that were decoded together."""
    numbers: list[int] = []

    def counted(several: Sequence[Any]) -> list[pa.RecordBatch] | None:
        batches = decode_together(several)
        numbers.append(len(batches or ()))
        return batches

    monkeypatch.setattr("app.framing.sas_data_sets.decode_together", counted)
    return numbers


def table(program: Program, rows: int) -> pa.Table:
    random = program.random
    return pa.table(
        {
            "station": [f"station {number:03}" if number % 7 else "" for number in range(rows)],
            "celsius": [random.gauss(10, 8) if random.random() < 0.9 else None for _ in range(rows)],
            "observed": pa.array([1_700_000_000 + number for number in range(rows)], pa.timestamp("s")),
        }
    )


def sent(program: Program, attached: Sequence[Attached]) -> list[PhysicalMessage]:
    return [each for one in attached for each in message(program, [one])]


def contents(context: ReceiverContext) -> dict[bytes, tuple[AttachmentRecord, bytes]]:
    """Return the record and the content of each finished attachment by its correlid."""
    records = context.catalog.attachments(AttachmentFilter(state=AttachmentState.FINISHED), None, 1000).items
    return {record.correl_id: (record, content(context, record)) for record in records}


def alone(folder: Path, messages: Sequence[PhysicalMessage], monkeypatch: pytest.MonkeyPatch) -> dict[bytes, Any]:
    """Return the records and contents of attachments that are read one by one."""
    with monkeypatch.context() as patched, service_context(folder) as context:
        patched.setattr("app.service.finishing.small_data_sets.SMALL_BYTES", -1)
        receive(context, list(messages))
        return contents(context)


def facts(record: AttachmentRecord) -> dict[str, Any]:
    names = ("sha256", "size", "content_type", "observations", "variables", "dialects", "checksums", "qualifier_2")
    return {name: getattr(record, name) for name in names}


@pytest.mark.parametrize("encoding", [None, MQENC_S390])
def test_their_bytes_are_those_that_each_has_alone(
    program: Program, tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch, encoding: int | None
) -> None:
    program = replace(program, encoding=encoding) if encoding else program
    rows = [SHORT_ROWS + 5, *(program.random.randrange(8, 200) for _ in range(11))]
    attached = [data_set(program, "WORK", f"S{n % 3}", table(program, count)) for n, count in enumerate(rows)]
    messages = sent(program, attached)
    one_by_one = alone(tmp_path / "alone", messages, monkeypatch)
    assert decoded == []
    with service_context(tmp_path / "together") as context:
        receive(context, messages)
        together = contents(context)
    assert decoded == [12], "also with different names and numbers of observations"
    assert len(together) == 12
    for key, (record, data) in together.items():
        assert facts(record) == facts(one_by_one[key][0])
        assert data == one_by_one[key][1]
    for each in attached:
        assert isinstance(each.content, pa.Table)
        read = pq.read_table(pa.BufferReader(together[each.definition.correl_id][1]))
        assert read["station"].to_pylist() == each.content["station"].to_pylist()
        np.testing.assert_array_equal(read["celsius"].is_null(), each.content["celsius"].is_null())


def test_few_plans_are_kept(
    program: Program, tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[Any, Any] = {}
    monkeypatch.setattr("app.framing.sas_data_sets._planned", kept)
    monkeypatch.setattr("app.framing.sas_data_sets._MOST_PLANNED", 2)
    attached = [data_set(program, "WORK", "STATIONS", table(program, count)) for count in (50, 51, 52, 53, 50)]
    with service_context(tmp_path) as context:
        receive(context, sent(program, attached))
        observations = [record.observations for record, _ in contents(context).values()]
    assert decoded == [5]
    assert len(kept) == 2
    assert sorted(filter(None, observations)) == [50, 50, 51, 52, 53]


def test_one_with_a_special_missing_value_has_the_others_read_alone(
    program: Program, tmp_path: Path, decoded: list[int]
) -> None:
    attached = [data_set(program, "WORK", "STATIONS", table(program, 50)) for _ in range(5)]
    *before, observations = attached[2].bodies
    code, at = bytes.fromhex("FFFFFD0000000000"), TYPE_SIZE + len("station 001")
    attached[2] = replace(attached[2], bodies=(*before, observations[:at] + code + observations[at + 8 :]))
    with service_context(tmp_path) as context:
        receive(context, sent(program, attached))
        found = {key: pq.read_table(pa.BufferReader(data)) for key, (_, data) in contents(context).items()}
    assert decoded == [0]
    assert len(found) == 5
    with_tags = [key for key, read in found.items() if "celsius__missing" in read.schema.names]
    assert with_tags == [attached[2].definition.correl_id]
    assert found[with_tags[0]]["celsius__missing"].to_pylist()[0] == ".A"


def test_numbers_that_raise_doubts_give_their_warning(program: Program, tmp_path: Path, decoded: list[int]) -> None:
    swapped = replace(program, encoding=MQENC_S390)
    attached = [data_set(program, "WORK", "STATIONS", table(program, 50)) for _ in range(3)]
    odd = data_set(swapped, "WORK", "STATIONS", table(program, 50))
    odd = replace(odd, bodies=(*attached[0].bodies[:-1], odd.bodies[-1]))
    with service_context(tmp_path) as context:
        receive(context, sent(program, [*attached, odd]))
        found = {key: pq.read_schema(pa.BufferReader(data)) for key, (_, data) in contents(context).items()}
    warned = [key for key, schema in found.items() if b"sas.warnings" in (schema.metadata or {})]
    assert len(found) == 4
    assert warned == [odd.definition.correl_id]
    assert decoded == [0]


def test_a_data_set_with_a_fault_costs_the_others_nothing(program: Program, tmp_path: Path, decoded: list[int]) -> None:
    attached = [data_set(program, "WORK", "STATIONS", table(program, 50)) for _ in range(4)]
    attached[1] = replace(attached[1], bodies=(*attached[1].bodies[:-1], attached[1].bodies[-1][:-1]))
    with service_context(tmp_path) as context:
        receive(context, sent(program, attached))
        found = contents(context)
        counts = context.catalog.counts()["attachments"]
    assert decoded == [3]
    assert attached[1].definition.correl_id not in found
    assert (len(found), counts["quarantined"]) == (3, 1)


def test_a_failure_of_one_costs_the_others_nothing(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with several of them together, each is tried by itself."""
    attached = [data_set(program, "WORK", "STATIONS", table(program, 50)) for _ in range(4)]
    with service_context(tmp_path) as context:
        bodies = context.journal.bodies

        def failing(positions: Iterable[Position]) -> Iterator[memoryview]:
            several = list(positions)
            if len(several) > len(attached[0].bodies):
                raise GatewayError("the disk is busy")
            return bodies(several)

        monkeypatch.setattr(context.journal, "bodies", failing)
        receive(context, sent(program, attached))
        assert len(contents(context)) == 4


def test_those_of_more_rows_than_a_sample_are_read_alone(program: Program, tmp_path: Path, decoded: list[int]) -> None:
    """The first rows raise doubts, and all of them together do not."""
    numbers = np.arange(3 * SAMPLE_ROWS) + 20.5
    one = data_set(program, "WORK", "LONG", long := pa.table({"celsius": numbers}))
    *before, observations = one.bodies
    swapped = numbers[:SAMPLE_ROWS].astype("<f8").tobytes()
    body = observations[:TYPE_SIZE] + swapped + observations[TYPE_SIZE + len(swapped) :]
    attached = [replace(one, bodies=(*before, body)), data_set(program, "WORK", "LONG", long)]
    with service_context(tmp_path) as context:
        receive(context, sent(program, attached))
        found = {key: pq.read_schema(pa.BufferReader(data)) for key, (_, data) in contents(context).items()}
    assert decoded == []
    assert [key for key, schema in found.items() if b"sas.warnings" in (schema.metadata or {})] == [
        attached[0].definition.correl_id
    ]
