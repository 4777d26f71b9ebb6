"""Deliveries to a topic to which nobody is subscribed."""

import random
from pathlib import Path
from typing import Any

import pytest

from app.testing.waiting import until
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess
from tests.support.mosquitto import Mosquitto
from tests.support.subscribe import left_in_session, subscribe

pytestmark = pytest.mark.broker


def settings(port: int) -> str:
    """One destination for each behaviour; all retry soon."""
    kinds = {"retry": "", "accept": 'no_subscribers = "accept"\n', "old": 'version = "3.1.1"\n'}
    return "".join(
        f'[destinations.{name}]\ntransport = "mqtt"\nurl = "mqtt://127.0.0.1:{port}"\ntopic = "to/{name}"\n'
        f'retry_first = "50ms"\nretry_longest = "200ms"\nbody_limit = 1024\n{more}'
        for name, more in kinds.items()
    )


def delivered(gateway: GatewayProcess, to: str) -> str:
    files = {"file": ("a.bin", random.Random(3).randbytes(50_000), "application/octet-stream")}
    response = gateway.client.post("/v1/messages", data={"destination": to}, files=files)
    return str(response.raise_for_status().json()["id"])


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with Mosquitto(tmp_path) as running:
        yield running


def test_nothing_is_sent_until_somebody_is_subscribed_and_then_once(tmp_path: Path, broker: Mosquitto) -> None:
    with ForkedGateway(tmp_path, settings(broker.port)) as gateway:
        identifiers = {name: delivered(gateway, name) for name in ("retry", "accept", "old")}

        def state(name: str) -> dict[str, Any]:
            found: dict[str, Any] = gateway.client.get(f"/v1/deliveries/{identifiers[name]}").json()
            return found

        until(lambda: state("retry")["attempts"] > 2)
        waiting = state("retry")
        assert (waiting["messages_sent"], waiting["subscribers"]) == (0, None)
        until(lambda: (state("retry")["reason"] or "").startswith("nobody is subscribed to to/retry"))
        until(lambda: state("accept")["state"] == state("old")["state"] == "sent")
        assert (state("accept")["subscribers"], state("old")["subscribers"]) == ("none", "unknown")

        subscribe(broker.port, "late", "to/retry", "5")
        until(lambda: state("retry")["state"] == "sent")
        sent = state("retry")
        assert (sent["reason"], sent["subscribers"]) == (None, None)
        assert sent["messages_sent"] == sent["messages_total"] > 40
        assert left_in_session(broker.port, "late", "to/retry", "5") == sent["messages_total"]
