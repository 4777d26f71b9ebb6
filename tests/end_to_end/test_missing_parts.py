"""Two gateways and a broker between them that loses messages: the receiving one asks for what is missing, and the
sending one sends that alone."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tests.support.dropping_proxy import DroppingProxy
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.group_loads import upload
from tests.support.mosquitto import Mosquitto

pytestmark = pytest.mark.broker

RATE = 0.05


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


def sending(folder: Path, broker: Mosquitto) -> ForkedGateway:
    """Return the gateway that sends. Its messages name the topic for requests."""
    folder.mkdir()
    options = 'body_limit = 4096\nanswer_missing = "ask/sender"\nanswer_missing_rate = 100000\n'
    return ForkedGateway(folder, mqtt_destination("out", broker.port, "files", options))


def receiving(folder: Path, port: int, *, after: str = "1s", most: int = 6) -> ForkedGateway:
    """Return the gateway that receives, and asks."""
    folder.mkdir()
    options = (
        f'qos = 0\nrequest_missing_to = "ask/#"\nrequest_missing_after = "{after}"\n'
        f"request_missing_most = {most}\nrequest_missing_rate = 100000\n"
    )
    # An attachment expires after the same time in which a source is not asked yet after a connection.
    return ForkedGateway(folder, mqtt_source("in", port, "files", options=options) + '[expiry]\nunfinished = "4s"\n')


def sent_files(process: GatewayProcess, count: int) -> dict[str, str]:
    """Send files, and return the SHA-256 of each by its name, after the broker has all of them."""
    random = Random(2)
    contents = {f"file-{number:04}.bin": random.randbytes(random.randrange(1, 40_000)) for number in range(count)}
    for name, content in contents.items():
        upload(process, "out", [(name, content, "application/octet-stream")])
    process.until(lambda: process.samples().total("deliveries_total", state="sent") == count, 600)
    return {name: sha256(content).hexdigest() for name, content in contents.items()}


def finished(process: GatewayProcess) -> dict[str, str]:
    return {item["name"]: item["sha256"] for item in process.listing("/v1/attachments", state="finished")}


def test_what_is_lost_is_asked_for_and_sent_alone(
    broker: Mosquitto,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    is_long = request.config.getoption("--long")
    count = 1000 if is_long else 40
    with (
        DroppingProxy(broker.port, RATE) as proxy,
        sending(tmp_path / "sender", broker) as sender,
        receiving(tmp_path / "receiver", proxy.port) as receiver,
    ):
        receiver.await_source("in")
        digests = sent_files(sender, count)
        proxy.is_dropping = is_long  # a second request follows a minute later
        receiver.until(lambda: len(finished(receiver)) == count, 900 if is_long else 60, pause=0.2)
        assert finished(receiver) == digests
        assert proxy.dropped > count / 8
        resent = sender.samples().total("missing_sent_bytes_total")
        asked = receiver.samples().total("missing_requests_total", source="in", by="message")
        record_property("lost", f"{proxy.dropped} of {proxy.dropped + proxy.passed}, {proxy.dropped_bytes} bytes")
        record_property("asked", f"{asked:.0f} times, {resent:.0f} bytes were sent again")
        assert resent <= 1.1 * proxy.dropped_bytes
        assert receiver.listing("/v1/quarantine") == []
