"""Receiving attachments over MQTT, three ways against each other in one run and with one Mosquitto.

paho     a bare paho subscriber that acknowledges each message itself and keeps nothing
sqlite   a common simple program: paho, one SQLite row a message (WAL, synchronous FULL), committed, then acknowledged
gateway  a process of its own: durable before acknowledged, until every attachment is finished and readable

large      8 MiB files in bodies of 32 KiB
small      files of 32,000 bytes, five messages each
tiny       files of 1,000 bytes, five messages each
data-sets  data sets of 100 rows, six messages each
latency    files of 1,000 bytes, one at a time, from the publish of its header to the event that it is finished: with
           nothing else to do, and while another source brings small files at half of the speed at which they were
           finished (or a quarter and so on, until the gateway keeps up with the program that publishes them)

Every round fills three persistent sessions with the same messages (QoS 1), and then empties one after the other. The
broker is stopped while a subscriber sends its CONNECT. The clock starts when the broker continues. Figures are medians
of the rounds, in MB/s of message bodies or in files a second. MQTT 3.1.1 is the default, since there paho is at its
fastest: it has no properties to read. Run it as `python -m bench.intake`; with `--version 3.1.1 5` it measures one
after the other.
"""

import argparse
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from multiprocessing import Event, Process
from multiprocessing.synchronize import Event as StopSignal
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple

import pyarrow as pa
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.properties import Properties

from app.codecs.ibm_mq.image import write_image
from app.model.message import PhysicalMessage
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, connected, envelope, publish
from tests.support.sas_client import Attached, Program, binary_file, data_set, message
from tests.support.subscribe import SESSION_SECONDS, left_in_session, session, subscribe

BODY = 32 << 10
TOPIC, ALONE = "intake", "alone"
PATIENCE = 300.0
SHORTEST_POLL, FIRST_POLL, LONGEST_POLL = 0.02, 0.1, 0.5
"""Seconds. Asking a gateway for its metrics takes it some 10 ms, so it is asked seldom, and more often near the end."""
SMALL = {"small": 32_000, "tiny": 1_000}
"""The sizes of small files in bytes."""
ROWS = 100
LATENCY_FILES, LATENCY_PAUSE, LOADED_AFTER = 300, 0.02, 2.0
LATENCY_SECONDS = 60.0
"""After this time the load is too high: a gateway or a disk that cannot bear it would never be done."""
DEFAULT_RATE, LEAST_RATE = 500.0, 50.0
"""The small files a second that are the load of the latency, if none were measured before; and the fewest."""


class Load(NamedTuple):
    """The messages that every subscriber receives. `unit` is the unit of `amount` a second."""

    attachments: list[Attached]
    messages: list[PhysicalMessage]
    unit: str = "MB"

    @property
    def amount(self) -> float:
        """Return MB of bodies, or the number of files."""
        return self.size / 1e6 if self.unit == "MB" else len(self.attachments)

    @property
    def size(self) -> int:
        return sum(len(sent.body) for sent in self.messages)


def make_data_sets(count: int) -> Load:
    """Return `count` data sets of `ROWS` rows, one after the other."""
    program = Program(Random(1), body_limit=BODY)
    random = program.random
    table = pa.table(
        {
            "station": [f"station {number}" for number in range(ROWS)],
            "celsius": [random.gauss(10, 8) for _ in range(ROWS)],
            "millibar": [random.gauss(1013, 9) for _ in range(ROWS)],
            "observed": [1_700_000_000.0 + number for number in range(ROWS)],
        }
    )
    first = data_set(program, "WORK", "STATIONS", table)
    attachments = [
        replace(first, definition=replace(first.definition, correl_id=random.randbytes(16))) for _ in range(count)
    ]
    messages = [sent for attached in attachments for sent in message(program, [attached])]
    return Load(attachments, messages, "data sets")


def make_load(count: int, attachment: int, interleaved: int, unit: str = "MB") -> Load:
    """Return `count` binary files of `attachment` bytes; the messages of some of them are interleaved."""
    program = Program(Random(1), body_limit=BODY)
    content = program.random.randbytes(attachment)
    attachments = [binary_file(program, f"file {n}", content) for n in range(count)]
    streams = [message(program, [attached]) for attached in attachments]
    turns = [zip_longest(*streams[at : at + interleaved]) for at in range(0, len(streams), interleaved)]
    return Load(attachments, [sent for turn in turns for row in turn for sent in row if sent is not None], unit)


# --- subscribers --------------------------------------------------------------------------------------------------


class Spent(NamedTuple):
    """The seconds until all is acknowledged and until all is finished, and the processor time."""

    acknowledged: float
    finished: float
    processor: float


def drain(broker: Mosquitto, name: str, version: Version, load: Load, keep: Callable[[MQTTMessage], Any]) -> Spent:
    """Return the time in which paho empties a session; each message is kept and then acknowledged."""
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
    started, processor = perf_counter(), process_time()
    broker.resume()
    client.loop_forever()
    seconds = perf_counter() - started
    return Spent(seconds, seconds, process_time() - processor)


def paho(broker: Mosquitto, version: Version, load: Load, _folder: Path) -> Spent:
    return drain(broker, "paho", version, load, lambda received: received.payload)


def sqlite(broker: Mosquitto, version: Version, load: Load, folder: Path) -> Spent:
    connection = sqlite3.connect(folder / "messages.sqlite", isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE message (id INTEGER PRIMARY KEY, topic TEXT, correl_id BLOB, body BLOB);"
    )

    def keep(received: MQTTMessage) -> None:
        correl_id = getattr(received.properties, "CorrelationData", None)
        row = (received.topic, correl_id, received.payload)
        connection.execute("INSERT INTO message (topic, correl_id, body) VALUES (?, ?, ?)", row)

    spent = drain(broker, "sqlite", version, load, keep)
    (rows,) = connection.execute("SELECT count(*) FROM message").fetchone()
    connection.close()
    if rows < len(load.messages):  # a broker may deliver a message of QoS 1 twice
        raise AssertionError(f"{rows} rows of {len(load.messages)} messages")
    return spent


def gateway(
    broker: Mosquitto,
    version: Version,
    load: Load,
    folder: Path,
    settings: str = "",
    then: Callable[[GatewayProcess], object] = lambda _process: None,
) -> Spent:
    """Return the time until all messages are durable and acknowledged, and until all attachments are readable.

    `settings` are further ones. The processor time is that until `then` has returned, too.
    """
    broker.pause()
    source = mqtt_source("gateway", broker.port, TOPIC, version, f"session_expiry = {SESSION_SECONDS}\n")
    with GatewayProcess(folder, f"{source}connect_timeout = 60\n{settings}") as process:
        started, processor = perf_counter(), processor_seconds(process)
        broker.resume()
        acknowledged = finished = 0.0
        while not (acknowledged and finished):
            if (now := perf_counter() - started) > PATIENCE:
                raise TimeoutError(f"not done after {PATIENCE} seconds; see {process.log[-2000:]}")
            total = process.samples().total
            received = total("messages_received_total") / len(load.messages)
            done = total("attachments_total", state="finished") / len(load.attachments)
            acknowledged = acknowledged or now * (received >= 1)
            finished = finished or now * (done >= 1)
            sleep(until_next_poll(now, min(received, done)))
        then(process)
        processor = processor_seconds(process) - processor
        check(process, load)
    if left := left_in_session(broker.port, "gateway", TOPIC, version):
        raise AssertionError(f"{left} messages were counted and not acknowledged")
    return Spent(acknowledged, finished, processor)


def until_next_poll(elapsed: float, done: float) -> float:
    """Return half of the seconds that the rest should take, if so much (0 to 1) was done in the time before."""
    left = elapsed * (1 / done - 1) / 2 if done else FIRST_POLL
    return min(max(left, SHORTEST_POLL), LONGEST_POLL)


def processor_seconds(process: GatewayProcess) -> float:
    """Return the processor time of a gateway so far, without other processes."""
    assert process.process is not None
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(process: GatewayProcess, load: Load) -> None:
    """Assert that every file exists once with its SHA-256, and read one of them byte for byte."""
    if load.unit == "data sets":
        return
    finished = process.listing("/v1/attachments", state="finished")
    if sorted(item["sha256"] for item in finished) != sorted(attached.sha256 for attached in load.attachments):
        raise AssertionError("what came out is not what was sent")
    content = process.client.get(f"/v1/attachments/{finished[0]['id']}/content").raise_for_status().content
    if content != load.attachments[0].content:
        raise AssertionError("an attachment reads differently")


# --- latency ----------------------------------------------------------------------------------------------------------


def latencies(version: Version, rate: float, folder: Path | None) -> list[float]:
    """Return the seconds from the publish of a file's first message to its event, of files that come one after the
    other, while another source brings small files at `rate` a second."""
    with TemporaryDirectory(dir=folder) as name, Mosquitto(Path(name)) as broker:
        sources = "".join(mqtt_source(each, broker.port, each, version) for each in (ALONE, TOPIC))
        with GatewayProcess(Path(name), sources) as process:
            process.await_source(ALONE)
            process.await_source(TOPIC)
            if not rate:
                return one_by_one(process, broker, version)
            stop = Event()
            loading = Process(target=publish_evenly, args=(broker.port, version, rate, stop))
            loading.start()
            sleep(LOADED_AFTER)
            taken = one_by_one(process, broker, version)
            stop.set()
            loading.join()
            return taken


def one_by_one(process: GatewayProcess, broker: Mosquitto, version: Version) -> list[float]:
    """Publish files, each when the one before is finished, and return how long each took, as far as there is time."""
    program = Program(Random(perf_counter()))
    client = connected(broker.port, version)
    taken: list[float] = []
    end = perf_counter() + LATENCY_SECONDS
    with process.client.stream("GET", "/v1/events", params={"source": ALONE}, timeout=PATIENCE) as events:
        lines = events.iter_lines()
        for number in range(LATENCY_FILES):
            attached = binary_file(program, f"alone {number}", program.random.randbytes(SMALL["tiny"]))
            sent = [packet(each, version) for each in message(program, [attached])]
            begun = perf_counter()
            for payload, properties in sent:
                client.publish(ALONE, payload, 1, properties=properties)
            while attached.sha256 not in next(lines) and perf_counter() < end:
                pass
            if perf_counter() >= end:
                break
            taken.append(perf_counter() - begun)
            sleep(LATENCY_PAUSE)
    client.disconnect()
    client.loop_stop()
    return taken


def publish_evenly(port: int, version: Version, rate: float, stop: StopSignal) -> None:
    """Publish small files at a rate a second until `stop` is set."""
    program = Program(Random(2), body_limit=BODY)
    content = program.random.randbytes(SMALL["small"])
    client = connected(port, version)
    begun, number = perf_counter(), 0
    while not stop.is_set():
        for each in message(program, [binary_file(program, f"file {number}", content)]):
            payload, properties = packet(each, version)
            client.publish(TOPIC, payload, 1, properties=properties)
        number += 1
        sleep(max(0.0, begun + number / rate - perf_counter()))
    client.disconnect()
    client.loop_stop()


def packet(sent: PhysicalMessage, version: Version) -> tuple[bytes, Properties | None]:
    """Return the payload and the properties of a publish."""
    return (bytes(sent.body), envelope(sent)) if version == "5" else (write_image(sent), None)


def report_latencies(version: Version, rate: float, folder: Path | None) -> dict[str, float]:
    """Measure the latency idle, then under a load, which is halved until the gateway bears it. Return the figures."""
    print(f"latency of {LATENCY_FILES} files")
    idle = report_latency("idle", "", latencies(version, 0, folder))
    while len(taken := latencies(version, rate, folder)) < LATENCY_FILES and rate > LEAST_RATE:
        print(f"  {len(taken)} files in {LATENCY_SECONDS:.0f} s with {rate:.0f} small files a second: too many")
        rate /= 2
    return idle | report_latency("loaded", f" with {rate:.0f} small files a second", taken)


def report_latency(name: str, load: str, taken: list[float]) -> dict[str, float]:
    middle, most = median(taken) * 1000, quantiles(taken, n=100)[-1] * 1000
    print(f"  {name:8} median {middle:.1f} ms  99th percentile {most:.1f} ms{load}", flush=True)
    return {f"{name}_median_ms": middle, f"{name}_p99_ms": most}


# --- rounds -------------------------------------------------------------------------------------------------------

Subscriber = Callable[[Mosquitto, Version, Load, Path], Spent]
SUBSCRIBERS: dict[str, Subscriber] = {"paho": paho, "sqlite": sqlite, "gateway": gateway}


def measured(load: Load, version: Version, order: list[str], folder: Path | None) -> dict[str, Spent]:
    """Return what each subscriber spends on a load in one round."""
    with TemporaryDirectory(dir=folder) as name, Mosquitto(Path(name)) as broker:
        for subscriber in order:
            subscribe(broker.port, subscriber, TOPIC, version)
        publish(load.messages, broker.port, TOPIC, version)
        found = {}
        for subscriber in order:
            own = Path(name) / subscriber
            own.mkdir()
            found[subscriber] = SUBSCRIBERS[subscriber](broker, version, load, own)
        return found


def rounds(load: Load, version: Version, count: int, only: list[str], folder: Path | None) -> dict[str, Spent]:
    """Measure round by round, in alternating order; return each subscriber's medians."""
    found = [measured(load, version, only if n % 2 == 0 else only[::-1], folder) for n in range(count)]
    return {each: Spent(*map(median, zip(*(one[each] for one in found), strict=True))) for each in only}


def report(case: str, load: Load, spent: dict[str, Spent]) -> None:
    print(f"{case}: {len(load.attachments)} files, {len(load.messages)} messages, {load.size / 1e6:.0f} MB")
    for name, each in spent.items():
        speeds = [f"acknowledged {load.amount / each.acknowledged:.0f} {load.unit}/s"]
        if name == "gateway":
            speeds.append(f"finished {load.amount / each.finished:.0f} {load.unit}/s")
        print(f"  {name:8} {'  '.join(speeds)}  processor {each.processor:.1f} s", flush=True)


def ratios(case: str, spent: dict[str, Spent]) -> dict[str, float]:
    """Return the ratios of a case by their names."""
    ours, bare, rows = (spent[each] for each in ("gateway", "paho", "sqlite"))
    if case != "large":
        name = case.replace("-", "_")
        return {
            f"{name}_finished_over_paho": bare.finished / ours.finished,
            f"{name}_finished_over_sqlite": rows.finished / ours.finished,
        }
    return {
        "acked_over_paho": bare.acknowledged / ours.acknowledged,
        "finished_over_paho": bare.finished / ours.finished,
        "finished_over_sqlite": rows.finished / ours.finished,
        "cpu_over_paho": ours.processor / bare.processor,
    }


def load_of(case: str, given: argparse.Namespace) -> Load:
    """Return the load of a case, as the command line gives it."""
    if case == "data-sets":
        return make_data_sets(given.data_sets)
    if case in SMALL:
        return make_load(given.files, SMALL[case], given.interleaved, "files")
    return make_load(max(1, given.total // given.attachment), given.attachment << 20, given.interleaved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, default=512, help="MiB of large files per round (512)")
    parser.add_argument("--attachment", type=int, default=8, help="MiB of one large file (8)")
    parser.add_argument("--files", type=int, default=10_000, help="number of small and of tiny files (10,000)")
    parser.add_argument("--interleaved", type=int, default=4, help="number of interleaved attachments (4)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--version", nargs="+", choices=("5", "3.1.1"), default=["3.1.1"], help="of MQTT (3.1.1)")
    cases = ("large", *SMALL, "data-sets", "latency")
    parser.add_argument("--data-sets", type=int, default=5_000, help="number of data sets (5,000)")
    parser.add_argument("--cases", nargs="+", choices=cases, default=cases)
    parser.add_argument("--only", nargs="+", choices=tuple(SUBSCRIBERS), default=list(SUBSCRIBERS))
    parser.add_argument("--folder", type=Path, help="folder for stored data (default: temporary)")
    given = parser.parse_args()
    for version in given.version:
        found = measure(version, given)
        if found:
            print(f"ratios of MQTT {version}: " if version == "5" else "ratios: ", end="")
            print(" ".join(f"{name}={value:.2f}" for name, value in found.items()), flush=True)


def measure(version: Version, given: argparse.Namespace) -> dict[str, float]:
    """Measure all cases with a version of MQTT; return the ratios by their names."""
    print(f"MQTT {version}, medians of {given.rounds}")
    found: dict[str, float] = {}
    rate = DEFAULT_RATE
    for case in given.cases:
        if case == "latency":
            found |= report_latencies(version, rate, given.folder)
            continue
        load = load_of(case, given)
        spent = rounds(load, version, given.rounds, given.only, given.folder)
        report(case, load, spent)
        if case == "small" and "gateway" in spent:
            rate = load.amount / spent["gateway"].finished / 2
        if len(given.only) == len(SUBSCRIBERS):
            found |= ratios(case, spent)
    return found


if __name__ == "__main__":
    main()
