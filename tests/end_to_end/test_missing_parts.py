"""Gateways and a broker between them that loses messages: the receiving one asks for what is missing, and the sending
one sends that alone."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import count
from logging import getLogger
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from attachment_gateway_client import Client

from tests.support.dropping_proxy import DroppingProxy
from tests.support.forked_gateway import ForkedGateway, shared
from tests.support.gateway import PROGRAM, GatewayProcess, mqtt_destination, mqtt_source
from tests.support.group_loads import upload
from tests.support.mosquitto import Mosquitto
from tests.support.mq import connected, mq_destination, mq_source, taken
from tests.support.mqi import load
from tests.support.queue_manager import QueueManager

pytestmark = pytest.mark.broker

RATE = 0.05
ROOT = Path(__file__).parents[2]

_log = getLogger(__name__)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


def sending(folder: Path, broker: Mosquitto) -> ForkedGateway:
    """Return the gateway that sends. Its messages name the topic for requests."""
    folder.mkdir()
    options = 'body_limit = 4096\nanswer_missing = "ask/sender"\nanswer_missing_rate = 100000\n'
    return ForkedGateway(folder, mqtt_destination("out", broker.port, "files", options))


def receiving(folder: Path, port: int, expiry: str) -> ForkedGateway:
    """Return the gateway that receives, and asks. A source counts as up to date after 30 s, or after the time in which
    attachments expire, if that is shorter."""
    folder.mkdir()
    options = 'qos = 0\nrequest_missing_to = "ask/#"\nrequest_missing_after = "1s"\nrequest_missing_rate = 100000\n'
    settings = mqtt_source("in", port, "files", options=options)
    options = options.replace("ask/#", "replies/#")
    settings += mqtt_source("groups", port, "groups", options=options, framing="mq_group")
    return ForkedGateway(folder, f'{settings}[expiry]\nunfinished = "{expiry}"\n')


def sent_files(process: GatewayProcess, count: int) -> dict[str, str]:
    """Send files, and return the SHA-256 of each by its name, after the broker has all of them."""
    random = Random(2)
    contents = {f"file-{number:04}.bin": random.randbytes(random.randrange(1, 40_000)) for number in range(count)}
    for name, content in contents.items():
        upload(process, "out", [(name, content, "application/octet-stream")])
    process.until(lambda: process.samples().total("deliveries_total", state="sent") == count, 600)
    return {name: sha256(content).hexdigest() for name, content in contents.items()}


def finished(process: GatewayProcess, **which: str) -> dict[str, str]:
    return {item["name"]: item["sha256"] for item in process.listing("/v1/attachments", state="finished", **which)}


@contextmanager
def example(folder: Path, port: int, content: bytes) -> Iterator[None]:
    """Run the example of a program that sends a file and answers requests."""
    (folder / "file").write_bytes(content)
    program = ROOT / "docs/examples/missing_parts/sender.py"
    with subprocess.Popen(
        [sys.executable, program, "127.0.0.1", str(port), "groups", folder / "file"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src")},
        stderr=subprocess.DEVNULL,
    ) as running:
        try:
            yield
        finally:
            running.terminate()


def check_events(receiver: GatewayProcess) -> None:
    """Assert that the client library reads each request from the events, as the attachment has it."""
    with Client(str(receiver.client.base_url)) as client:
        asked = next(client.missing(after=0, source="groups"))
        (found,) = client.attachments(source="groups")
        requested = client.attachment(found["id"])["requested"]
        assert requested is not None
        assert (asked.attachment.hex(), asked.framing, asked.event is not None) == (
            found["correl_id"],
            "mq_group",
            True,
        )
        first = next(event for event in client.events(after=0, type="attachment.missing", source="groups"))
        assert (first["subject"], first["data"]["address"]) == (found["id"], requested["address"])
        assert requested["asked_at"] >= first["time"]
        program = [str(PROGRAM), "show", found["id"], "--url", str(receiver.client.base_url)]
        shown = subprocess.run(
            program, check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"}
        )
        assert f"{requested['text']}: {'once' if requested['requests'] == 1 else ''}" in shown.stdout
        assert requested["parts"] == [list(each) for each in asked.parts] or requested["requests"] > 1


def test_what_is_lost_is_asked_for_and_sent_alone(
    broker: Mosquitto,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    is_long = request.config.getoption("--long")
    number = 1000 if is_long else 40
    with (
        DroppingProxy(broker.port, RATE) as proxy,
        sending(tmp_path / "sender", broker) as sender,
        receiving(tmp_path / "receiver", proxy.port, "1h" if is_long else "4s") as receiver,
    ):
        for source in ("in", "groups"):
            receiver.await_source(source)
        digests = sent_files(sender, number)
        content = Random(3).randbytes(3 << 20)
        with example(tmp_path, broker.port, content):
            receiver.until(lambda: receiver.samples().total("messages_received_total", source="groups") > 80)
            proxy.is_dropping = is_long  # a second request follows a minute later
            longest = 900 if is_long else 60
            receiver.until(lambda: len(finished(receiver, source="in")) == number, longest, pause=0.2)
            receiver.until(lambda: finished(receiver, source="groups"), longest, pause=0.2)
        assert finished(receiver, source="in") == digests
        assert [*finished(receiver, source="groups").values()] == [sha256(content).hexdigest()]
        check_events(receiver)
        assert proxy.dropped > number / 8
        resent = sender.samples().total("missing_sent_bytes_total")
        asked = receiver.samples().total("missing_requests_total", source="in", by="message")
        _log.info("%d files, %d of %d messages lost", number, proxy.dropped, proxy.dropped + proxy.passed)
        _log.info("%d requests; %d bytes lost, %d sent again", asked, proxy.dropped_bytes[b"files"], resent)
        assert resent <= 1.1 * proxy.dropped_bytes[b"files"]
        assert receiver.listing("/v1/quarantine") == []


@pytest.fixture(scope="module")
def pymqi() -> ModuleType:
    return load("pymqi")


def pass_on(pymqi: ModuleType, manager: QueueManager, prefix: str, is_lost: Callable[[Any], bool]) -> int:
    """Move messages from the queue of a destination to that of a source, with their descriptors, but for those that
    are lost. Return how many were there."""
    found = taken(pymqi, manager, f"{prefix}.OUT")
    with connected(pymqi, manager) as connection:
        opened = pymqi.Queue(connection, f"{prefix}.IN", pymqi.CMQC.MQOO_OUTPUT)
        for descriptor, body in found:
            if not is_lost(descriptor):
                opened.put(body, descriptor, pymqi.PMO(Options=pymqi.CMQC.MQPMO_NO_SYNCPOINT))
        opened.close()
    return len(found)


def test_over_ibm_mq_the_reply_to_queue_is_asked(pymqi: ModuleType, tmp_path: Path) -> None:
    sizes, lost = (1, 9_000, 40_000), {"SAS": (1, 3, 6, 17), "GROUPS": (4, 9)}
    with QueueManager(tmp_path / "queue-manager") as manager:
        settings = '[expiry]\nunfinished = "3s"\n'
        for prefix, framing in (("SAS", "sas_queue"), ("GROUPS", "mq_group")):
            for queue in ("OUT", "IN", "ASK"):
                manager.define(f"{prefix}.{queue}")
            named = f'framing = "{framing}"\n'
            settings += mq_destination(
                f"to-{prefix}", manager, f"{prefix}.OUT", f'{named}body_limit = 4096\nanswer_missing = "{prefix}.ASK"\n'
            )
            options = f'{named}request_missing_after = "1s"\nrequest_missing_to = ["{prefix}.A*"]\n'
            settings += mq_source(f"from-{prefix}", manager, f"{prefix}.IN", options)
        with ForkedGateway(tmp_path, settings, shared("pymqi")) as process:
            contents = {f"{prefix} {size}.bin": Random(size).randbytes(size) for prefix in lost for size in sizes}
            for name, content in contents.items():
                upload(process, f"to-{name.split()[0]}", [(name, content, "application/octet-stream")])
            process.until(lambda: process.samples().total("deliveries_total", state="sent") == len(contents))
            numbers = {prefix: count(1) for prefix in lost}

            def is_lost(prefix: str, _: object) -> bool:
                return next(numbers[prefix]) in lost[prefix]

            for prefix in lost:
                assert pass_on(pymqi, manager, prefix, partial(is_lost, prefix)) > 12

            def all_finished() -> bool:
                for prefix in lost:
                    pass_on(pymqi, manager, prefix, lambda _: False)
                return len(finished(process)) == len(contents)

            process.until(all_finished, 90, pause=0.2)
            digests = {sha256(content).hexdigest() for content in contents.values()}
            assert set(finished(process).values()) == digests
            sent = process.samples().total
            assert [sent("missing_sent_total", destination=f"to-{prefix}") for prefix in lost] == [
                len(which) for which in lost.values()
            ]
            # What is gone is not asked for again.
            upload(process, "to-SAS", [("gone.bin", bytes(9_000), "application/octet-stream")])
            process.until(lambda: process.samples().total("deliveries_total", state="sent") == len(contents) + 1)
            (delivery,) = process.listing("/v1/deliveries", limit="1")[:1]
            process.client.delete(f"/v1/deliveries/{delivery['id']}").raise_for_status()
            dropped = count(1)
            pass_on(pymqi, manager, "SAS", lambda _: next(dropped) == 4)

            def is_gone() -> bool:
                pass_on(pymqi, manager, "SAS", lambda _: False)
                found = process.listing("/v1/attachments", name="gone.bin")
                asked = found and process.client.get(f"/v1/attachments/{found[0]['id']}").json()["requested"]
                if not asked or asked["ended"] is None:
                    return False
                assert (asked["parts"], asked["lacks_header"], asked["lacks_count"], asked["requests"]) == (
                    [[2, 2]],
                    False,
                    False,
                    1,
                )
                assert (asked["next_at"], asked["address"]) == (None, f"SAS.ASK@{manager.name}")
                return True

            process.until(is_gone, 60, pause=0.2)
            assert process.listing("/v1/quarantine") == []
