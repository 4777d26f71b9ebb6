"""Replicas behind a load balancer without sticky sessions, by the OpenAPI description of the gateway.

`--examples 50` is the long form: so many requests of each operation, and so many sequences of requests.
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
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.sas_client import Program
from tests.support.schemathesis import TOKEN, assert_conforms
from tests.support.spreading import Spreading
from tests.support.subscribe import subscribe

pytestmark = pytest.mark.broker

REPLICAS = ("serve-a", "serve-b", "serve-c")


def test_any_replica_answers_as_it_is_described(
    tmp_path: Path, postgresql: Path, bucket: Bucket, pytestconfig: pytest.Config
) -> None:
    """What one replica has made is there at once at all others, and what it has removed is gone."""
    examples = pytestconfig.getoption("examples")
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
        ports = [division[name].port for name in REPLICAS]
        with Spreading(ports, 35) as spreading:
            phases = ("--phases", "examples,fuzzing,stateful", "--max-examples", str(examples))
            # A stream of events does not end.
            apart = ("--header", "Connection: close", "--exclude-path", "/v1/events")
            assert_conforms(spreading.address, tmp_path, *phases, *apart)
    assert min(spreading.counts[port] for port in ports) > 20
