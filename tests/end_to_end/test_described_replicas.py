"""Replicas behind a load balancer without sticky sessions, by the OpenAPI description of the gateway.

The long form (`--long`) sends fifty requests of each operation and fifty sequences of requests, asks for all
operations, and has all of the phases that one process is checked with.
"""

import os
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tests.support.division import TOPIC, Division
from tests.support.forked_gateway import Forks
from tests.support.gateway import mqtt_destination
from tests.support.length import IS_LONG
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.sas_client import Program
from tests.support.schemathesis import TOKEN, assert_conforms
from tests.support.spreading import Spreading
from tests.support.subscribe import subscribe

pytestmark = pytest.mark.broker

CHANGING = "^/v1/(deliveries|files|messages|uploads)"
"""What clients change: the short form asks for nothing else."""
REPLICAS = ("serve-a", "serve-b", "serve-c")


def test_any_replica_answers_as_it_is_described(tmp_path: Path, postgresql: Path, bucket: Bucket) -> None:
    """What one replica has made is there at once at all others, and what it has removed is gone."""
    examples = 50 if IS_LONG else 1
    (tmp_path / "broker").mkdir()
    forks = Forks(dict(os.environ))  # with the address of the object server
    with Mosquitto(tmp_path / "broker") as broker, ExitStack() as ending:
        ending.callback(forks.close)
        subscribe(broker.port, "sas", TOPIC, "5")
        tokens = f'tokens = ["{sha256(TOKEN.encode()).hexdigest()}"]\n'
        partner = mqtt_destination("partner", broker.port, "partner")
        division = Division(tmp_path, postgresql, bucket, broker, forks, partner, http=tokens)
        ending.callback(division.stop)
        for name in ("receive", "keep", *REPLICAS):
            division.begin(name)
        division.send(Program(Random(35)), 6)
        division.await_settled(6)
        client = division[REPLICAS[0]].client
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        client.put("/v1/files/partner/a.txt", content=b"sent").raise_for_status()
        values = {
            "attachment_id": client.get("/v1/attachments").json()["items"][0]["id"],
            "delivery_id": client.get("/v1/deliveries").json()["items"][0]["id"],
            "destination": "partner",
        }
        ports = [division[name].port for name in REPLICAS]
        with Spreading(ports, 35) as spreading:
            phases, some = "fuzzing,stateful", ["--include-path-regex", CHANGING]
            if IS_LONG:
                phases, some = f"examples,coverage,{phases}", []
            amount = ("--phases", phases, *some, "--max-examples", str(examples))
            # A stream of events does not end, and replicas receive nothing.
            besides = ("--exclude-path", "/v1/events", "--exclude-path", "/health/ready/receive")
            options = (*amount, *besides, "--header", "Connection: close")
            assert_conforms(spreading.address, tmp_path, *options, values=values, seconds=240 + 90 * examples)
    assert min(spreading.counts[port] for port in ports) > 5
