"""Receiving attachments over MQTT, three ways against each other in one run and with one Mosquitto.

paho     a bare paho subscriber that acknowledges each message itself and keeps nothing
sqlite   the usual hand-made way: paho, one SQLite row a message (WAL, synchronous FULL), committed, then acknowledged
gateway  a process of its own: durable before acknowledged, until every attachment is finished and readable

Every round fills three persistent sessions with the same messages (QoS 1) and then empties one after the other. Each
subscriber has sent its CONNECT and is idle before the clock starts, which it does when the broker, held still until
then, goes on. Figures are medians of the rounds in MB/s of message bodies. MQTT 3.1.1 is the default, since there paho
is at its fastest: it has no properties to read. Run it as `python -m bench.intake`.
"""

import argparse
import sqlite3
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any, NamedTuple

from paho.mqtt.client import Client, MQTTMessage

from app.model.message import PhysicalMessage
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, publish
from tests.support.sas_client import Attached, Program, binary_file, message
from tests.support.subscribe import SESSION_SECONDS, left_in_session, session, subscribe

BODY = 32 << 10
TOPIC = "intake"
PATIENCE = 300.0
POLL_SECONDS = 0.1


class Load(NamedTuple):
    """The messages that every subscriber receives."""

    attachments: list[Attached]
    messages: list[PhysicalMessage]

    @property
    def size(self) -> int:
        return sum(len(sent.body) for sent in self.messages)


def make_load(total: int, attachment: int, interleaved: int) -> Load:
    """Return binary files of `attachment` bytes in bodies of 32 KiB; the messages of some of them are interleaved."""
    program = Program(Random(1), body_limit=BODY)
    content = program.random.randbytes(attachment)
    attachments = [binary_file(program, f"file {n}", content) for n in range(max(1, total // attachment))]
    streams = [message(program, [attached]) for attached in attachments]
    turns = [zip_longest(*streams[at : at + interleaved]) for at in range(0, len(streams), interleaved)]
    return Load(attachments, [sent for turn in turns for row in turn for sent in row if sent is not None])


# --- subscribers --------------------------------------------------------------------------------------------------


def drain(broker: Mosquitto, name: str, version: Version, load: Load, keep: Callable[[MQTTMessage], Any]) -> float:
    """Return the seconds in which paho empties a session; each message is kept and then acknowledged."""
    broker.pause()
    client = session(broker.port, name, version)
    left = len(load.messages)

    def on_message(_client: Client, _data: object, received: MQTTMessage) -> None:
        nonlocal left
        keep(received)
        client.ack(received.mid, received.qos)
        left -= 1
        if not left:
            client.disconnect()

    client.on_message = on_message
    started = perf_counter()
    broker.resume()
    client.loop_forever()
    return perf_counter() - started


def paho(broker: Mosquitto, version: Version, load: Load, _folder: Path) -> list[float]:
    return [drain(broker, "paho", version, load, lambda received: received.payload)]


def sqlite(broker: Mosquitto, version: Version, load: Load, folder: Path) -> list[float]:
    connection = sqlite3.connect(folder / "messages.sqlite", isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE message (id INTEGER PRIMARY KEY, topic TEXT, correl_id BLOB, body BLOB);"
    )

    def keep(received: MQTTMessage) -> None:
        correl_id = getattr(received.properties, "CorrelationData", None)
        row = (received.topic, correl_id, received.payload)
        connection.execute("INSERT INTO message (topic, correl_id, body) VALUES (?, ?, ?)", row)

    seconds = drain(broker, "sqlite", version, load, keep)
    (rows,) = connection.execute("SELECT count(*) FROM message").fetchone()
    connection.close()
    if rows != len(load.messages):
        raise AssertionError(f"{rows} rows of {len(load.messages)} messages")
    return [seconds]


def gateway(broker: Mosquitto, version: Version, load: Load, folder: Path) -> list[float]:
    """Return the seconds until all messages are durable and acknowledged, and until all attachments are readable."""
    broker.pause()
    source = mqtt_source("gateway", broker.port, TOPIC, version, f"session_expiry = {SESSION_SECONDS}\n")
    with GatewayProcess(folder, f"{source}connect_timeout = 60\n") as process:
        started = perf_counter()
        broker.resume()
        acknowledged = finished = 0.0
        while not (acknowledged and finished):
            if (now := perf_counter() - started) > PATIENCE:
                raise TimeoutError(f"not done after {PATIENCE} seconds; see {process.log[-2000:]}")
            total = process.samples().total
            acknowledged = acknowledged or now * (total("messages_received_total") >= len(load.messages))
            finished = finished or now * (total("attachments_total", state="finished") >= len(load.attachments))
            sleep(POLL_SECONDS)
        check(process, load)
    if left := left_in_session(broker.port, "gateway", TOPIC, version):
        raise AssertionError(f"{left} messages were counted and not acknowledged")
    return [acknowledged, finished]


def check(process: GatewayProcess, load: Load) -> None:
    """Assert that every attachment is there once with its SHA-256, and read one of them byte for byte."""
    finished = process.listing("/v1/attachments", state="finished")
    if sorted(item["sha256"] for item in finished) != sorted(attached.sha256 for attached in load.attachments):
        raise AssertionError("what came out is not what was sent")
    content = process.client.get(f"/v1/attachments/{finished[0]['id']}/content").raise_for_status().content
    if content != load.attachments[0].content:
        raise AssertionError("an attachment reads differently")


# --- rounds -------------------------------------------------------------------------------------------------------

Subscriber = Callable[[Mosquitto, Version, Load, Path], list[float]]
SUBSCRIBERS: dict[str, Subscriber] = {"paho": paho, "sqlite": sqlite, "gateway": gateway}


def rounds(load: Load, version: Version, count: int, only: list[str], folder: Path) -> Iterator[dict[str, float]]:
    """Return MB/s of each subscriber, round by round; their order alternates."""
    for number in range(count):
        order = only if number % 2 == 0 else only[::-1]
        speeds: dict[str, float] = {}
        with TemporaryDirectory(dir=folder) as name, Mosquitto(Path(name)) as broker:
            for subscriber in order:
                subscribe(broker.port, subscriber, TOPIC, version)
            publish(load.messages, broker.port, TOPIC, version)
            for subscriber in order:
                own = Path(name) / subscriber
                own.mkdir()
                seconds = SUBSCRIBERS[subscriber](broker, version, load, own)
                names = ["acknowledged", "finished"] if subscriber == "gateway" else [subscriber]
                speeds |= {name: load.size / 1e6 / spent for name, spent in zip(names, seconds, strict=True)}
        yield speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, default=512, help="MiB of attachments per round (512)")
    parser.add_argument("--attachment", type=int, default=8, help="MiB of one attachment (8)")
    parser.add_argument("--interleaved", type=int, default=4, help="number of interleaved attachments (4)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--version", choices=("5", "3.1.1"), default="3.1.1", help="of MQTT, for all (3.1.1)")
    parser.add_argument("--only", nargs="+", choices=tuple(SUBSCRIBERS), default=list(SUBSCRIBERS))
    parser.add_argument("--folder", type=Path, help="folder for stored data (default: temporary)")
    given = parser.parse_args()
    load = make_load(given.total << 20, given.attachment << 20, given.interleaved)
    counts = f"{len(load.attachments)} attachments, {len(load.messages)} messages, {load.size / 1e6:.0f} MB"
    print(f"{counts}, MQTT {given.version}")
    measured = []
    for speeds in rounds(load, given.version, given.rounds, given.only, given.folder):
        measured.append(speeds)
        print("  ".join(f"{name} {speed:.0f} MB/s" for name, speed in sorted(speeds.items())), flush=True)
    middle = {name: median(speeds[name] for speeds in measured) for name in measured[0]}
    print("median: " + "  ".join(f"{name} {speed:.0f} MB/s" for name, speed in middle.items()))
    if len(given.only) == len(SUBSCRIBERS):
        print(
            f"ratios: acked_over_paho={middle['acknowledged'] / middle['paho']:.2f}"
            f" finished_over_paho={middle['finished'] / middle['paho']:.2f}"
            f" finished_over_sqlite={middle['finished'] / middle['sqlite']:.2f}"
        )


if __name__ == "__main__":
    main()
