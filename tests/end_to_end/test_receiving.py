"""Attachments through a real Mosquitto and a gateway of its own, as several programs send them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

from app.codecs.sas.dialect import Dialect
from app.model.message import PhysicalMessage
from app.testing.waiting import until
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, publish
from tests.support.sas_client import Program, binary_file, disordered, message

pytestmark = pytest.mark.broker

TOPIC = "sas/attachments"
DIALECTS = ("big-4-excluded-packed", "little-8-absent-packed", "little-4-included-aligned", "big-8-excluded-aligned")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    ("version", "storage", "count"),
    [("5", "folder", 200), ("5", "servers", 48), ("3.1.1", "folder", 200)],
    indirect=["storage"],
)
@pytest.mark.usefixtures("storage")
def test_attachments_of_several_programs_come_out_once_and_whole(
    broker: Mosquitto, tmp_path: Path, version: Version, count: int
) -> None:
    programs = [Program(Random(seed), Dialect.parse(name)) for seed, name in enumerate(DIALECTS)]
    sent = [mixed(program, count // len(programs)) for program in programs]
    sent[0][0] = binary_file(programs[0], "10 MiB", programs[0].random.randbytes(10 << 20))
    streams = [
        disordered(messages(program, attached), program.random)
        for program, attached in zip(programs, sent, strict=True)
    ]
    with ForkedGateway(tmp_path, mqtt_source("sas", broker.port, TOPIC, version)) as process:
        process.await_source("sas")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda stream: publish(stream, broker.port, TOPIC, version), streams))
        assert_received(process, chain(*sent))
        assert process.samples().total("duplicates_total") > 0


def bare(body: bytes, **fields: Any) -> PhysicalMessage:
    return PhysicalMessage("", "sas_queue", **{"msg_type": 100_000, "encoding": 273, "ccsid": 1208} | fields, body=body)


def test_garbage_is_quarantined_with_its_place_and_the_stream_goes_on(broker: Mosquitto, tmp_path: Path) -> None:
    random = Random(1)
    program = Program(random)
    good = mixed(program, 12)
    header = message(program, [binary_file(program, "never.bin", bytes(100))])[0]
    body = bytes(header.body)
    most = (2**31 - 1).to_bytes(4, "big")
    negative = (-1).to_bytes(4, "big", signed=True)
    at_count = 24 + 4 + 24 + 24
    garbage = [
        *(bare(random.randbytes(size), correl_id=random.randbytes(24)) for size in (0, 1, 23, 24, 80, 500, 32_000)),
        *(header._replace(body=body[:size]) for size in range(1, len(body), 7)),
        header._replace(body=body[:at_count] + most + body[at_count + 4 :]),
        header._replace(body=body[:at_count] + negative + body[at_count + 4 :]),
        header._replace(body=body[: at_count + 32] + negative + body[at_count + 36 :]),
        header._replace(body=body[: at_count + 32] + most + body[at_count + 36 :]),
        bare(random.randbytes(50), msg_type=8),
    ]
    with ForkedGateway(tmp_path, mqtt_source("sas", broker.port, TOPIC)) as process:
        process.await_source("sas")
        publish(disordered([*garbage, *messages(program, good)], random, 0), broker.port, TOPIC, "5")
        sent = {attached.definition.correl_id.hex() for attached in good}
        until(lambda: {item["correl_id"] for item in process.listing("/v1/attachments", state="finished")} == sent)
        until(lambda: len(process.listing("/v1/quarantine")) >= len(garbage))
        kept = process.listing("/v1/quarantine")
        assert len(kept) == len(garbage)
        for item in kept:
            assert item["code"]
            assert item["why"]
            if item["code"] == "bad-header":
                assert item["row"].startswith("AttachmentHeader.")
                assert 0 <= item["at"] <= item["size"]
        bodies = {process.client.get(item["links"]["body"]).content for item in kept}
        assert bodies == {bytes(sent.body) for sent in garbage}
