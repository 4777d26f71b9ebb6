"""Order packets through a real Mosquitto and a gateway of its own: a table, and a LONG value of 200 MiB."""

import json
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paho.mqtt.client import Client

from app.model.message import PhysicalMessage
from app.testing.waiting import until
from bench.memory import PATIENCE, PIECE, peak
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import connected, publish
from tests.support.sas_client import disordered

pytestmark = pytest.mark.broker

ROWS = 100_000
MOST = 400
"""MiB that a gateway may take where tables are made, as in `test_memory`."""

ENDED = {"sent", "failed"}
PARQUET = "application/vnd.apache.parquet"
ORDER = 'framing = "order_packet"\nbody_limit = 65536\n'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


def made(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table(
        {
            "ID": pa.array(numbers.astype(np.float64)),
            "VALUE": pa.array(np.random.default_rng(1).normal(size=rows), mask=numbers % 10 == 0),
            "SEEN": pa.array((numbers % 20_000).astype(np.int32)).cast(pa.date32()),
            "STAMP": pa.array(numbers * 1_000_003).cast(pa.timestamp("us")),
            "NAME": pa.array([f"Größe {number % 9973}" for number in range(rows)]),
        }
    )


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def collecting(port: int, topic: str) -> tuple[Client, list[bytes]]:
    """What is published on a topic."""
    client = connected(port, "3.1.1")
    bodies: list[bytes] = []
    subscribed: list[bool] = []
    client.on_subscribe = lambda *_: subscribed.append(True)
    client.on_message = lambda _client, _data, message: bodies.append(bytes(message.payload))
    client.subscribe(topic, 1)
    until(lambda: bool(subscribed))
    return client, bodies


def content(process: GatewayProcess, **wanted: Any) -> pa.Table:
    (item,) = process.listing("/v1/attachments", state="finished", **wanted)
    answer = process.client.get(f"/v1/attachments/{item['id']}/content", params={"format": "parquet"}, timeout=PATIENCE)
    return pq.read_table(BytesIO(answer.raise_for_status().content)).replace_schema_metadata(None)


def plain(table: pa.Table) -> pa.Table:
    """A table without what its metadata say of where it came from."""
    return pa.table(dict(zip(table.schema.names, table.columns, strict=True)))


def test_a_table_of_both_framings_comes_out_equal(broker: Mosquitto, tmp_path: Path) -> None:
    settings = (
        mqtt_destination("order", broker.port, "order/sent", ORDER)
        + mqtt_destination("sas", broker.port, "sas")
        + mqtt_source("order", broker.port, "order/received", framing="order_packet")
        + mqtt_source("sas", broker.port, "sas")
    )
    sent = made(ROWS)
    client, bodies = collecting(broker.port, "order/sent")
    with ForkedGateway(tmp_path, settings) as process:
        process.await_source("order")
        process.await_source("sas")
        for destination in ("order", "sas"):
            form = {"destination": destination, "kind": "data-set"}
            files = {"file": ("T.parquet", parquet(sent), PARQUET)}
            process.client.post("/v1/messages", data=form, files=files, timeout=PATIENCE).raise_for_status()
        process.until(lambda: {each["state"] for each in process.listing("/v1/deliveries")} <= ENDED, PATIENCE, 0.2)
        assert [each["reason"] for each in process.listing("/v1/deliveries")] == [None, None]
        (delivery,) = [each for each in process.listing("/v1/deliveries") if each["destination"] == "order"]
        until(lambda: len(bodies) == delivery["messages_total"])
        client.disconnect()
        client.loop_stop()
        assert max(map(len, bodies)) <= 65_536
        packets = [PhysicalMessage("", "order_packet", body=body) for body in bodies]
        publish(disordered(packets, Random(1), 0.2), broker.port, "order/received", "3.1.1", bare=True)
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == 2, PATIENCE)
        assert process.listing("/v1/quarantine") == []
        by_order, by_sas = content(process, source="order"), content(process, source="sas")
    assert plain(by_order).equals(sent)
    assert plain(by_sas).equals(plain(by_order))


def test_a_table_with_a_long_value_of_200_mebibytes_in_constant_memory(broker: Mosquitto, tmp_path: Path) -> None:
    settings = mqtt_destination("order", broker.port, "order", ORDER.replace("65536", "131072")) + mqtt_source(
        "order", broker.port, "order", framing="order_packet"
    )
    told = {"sapdb.type": "long_byte", "sapdb.length": "0", "sapdb.frac": "0"}
    fields = pa.schema([pa.field("ID", pa.float64()), pa.field("DOC", pa.string(), metadata=told)])
    table = pa.table([pa.array([1.0, 2.0]), pa.array(["large.bin", None])], fields)
    path, digest, random = tmp_path / "large.bin", sha256(), Random(1)
    with path.open("wb") as file:
        for _ in range(200):
            piece = random.randbytes(PIECE)
            digest.update(piece)
            file.write(piece)
    with ForkedGateway(tmp_path, settings) as process, path.open("rb") as file:
        process.await_source("order")
        message = {
            "destination": "order",
            "attachments": [
                {"part": "table", "kind": "data-set", "name": "WORK.DOCS"},
                {"part": "file", "kind": "binary-file", "name": "large.bin"},
            ],
        }
        files: list[tuple[str, Any]] = [
            ("message", (None, json.dumps(message), "application/json")),
            ("table", ("docs.parquet", parquet(table), PARQUET)),
            ("file", ("large.bin", file, "application/octet-stream")),
        ]
        process.client.post("/v1/messages", files=files, timeout=PATIENCE).raise_for_status()
        process.until(lambda: process.listing("/v1/deliveries")[0]["state"] in ENDED, PATIENCE, 0.2)
        assert [each["reason"] for each in process.listing("/v1/deliveries")] == [None]
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == 2, PATIENCE)
        assert process.listing("/v1/quarantine") == []
        (large,) = process.listing("/v1/attachments", kind="binary-file")
        assert (large["name"], large["sha256"]) == ("large.bin", digest.hexdigest())
        cells = content(process, kind="data-set")["DOC"].to_pylist()
        assert cells == [f"long:{large['correl_id'][:32]}", None]
        assert peak(process) < MOST
