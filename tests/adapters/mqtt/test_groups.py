"""Sessions of a group of subscribers, made by the command of docs/scaling.md before a receiver is there, and ended."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.pages import commands
from tests.support.publish import connected
from tests.support.subscribe import has_session, left_in_session, subscribe

pytestmark = pytest.mark.broker

GROUP = "$share/gateways/orders/#"
FIRST, LAST = (f"gateway-attachment-gateway-receiver-{ordinal}-orders" for ordinal in (0, 2))


def run(broker: Mosquitto, identifier: str) -> None:
    """Run the command of the page that has a client identifier."""
    found = [each.text for each in commands() if each.page == "docs/scaling.md" and each.text.endswith(identifier)]
    (text,) = [each for each in found if each.startswith("mosquitto_sub")]
    here = text.replace("-h broker.example", f"-h 127.0.0.1 -p {broker.port}")
    assert here != text
    subprocess.run(["sh", "-e", "-c", here], check=True, timeout=60)


def publish(broker: Mosquitto, count: int) -> None:
    client = connected(broker.port, "5")
    for sent in [client.publish("orders/new", b"?", qos=1) for _ in range(count)]:
        sent.wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="mosquitto_sub is missing")
def test_a_group_keeps_messages_for_who_joined_and_not_for_who_left(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        run(broker, FIRST)
        publish(broker, 10)
        assert left_in_session(broker.port, FIRST, GROUP, "5") == 10, "kept before a receiver is there"
        subscribe(broker.port, LAST, GROUP, "5")
        publish(broker, 100)
        assert left_in_session(broker.port, FIRST, GROUP, "5") == 60, "half of them wait for the other member"
        assert has_session(broker.port, LAST)
        publish(broker, 100)
        assert left_in_session(broker.port, FIRST, GROUP, "5") == 160, "what waited for it is lost, all else comes"
