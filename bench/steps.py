"""The processor time of each step of receiving, in microseconds a physical message.

packet      MQTT packets from a socket, with what the system needs to copy them
envelope    the descriptor and the body of each message, from MQ images
journal     columns, checksums and writing
assembly    framing, the assembly machine and its rows of the catalog; SHA-256 of binary files
checkpoint  changes, finished files, messages and events in the catalog; the rest of SHA-256
finishing   all other content
records     rows of the catalog, as the content store keeps them

Each step runs by itself, in batches of 512 messages and with files in memory, after a warm-up. The median batch counts,
since other processes slow some of them. So the sum is the time of one core. A gateway overlaps the steps, and waits for
its disk, too. The ratios compare all steps with the first one, which no subscriber can do without.
Run it as `python -m bench.steps`.
"""

import argparse
import os
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from paho.mqtt.enums import MQTTProtocolVersion

from adapters.mqtt.client import MqttClient
from app.codecs.ibm_mq.image import write_image
from app.codecs.mqtt import mqtt_envelope
from app.codecs.mqtt.packets import length_bytes
from app.framing.registry import traits
from app.observe import configure_logging
from app.service.assembling.assembler import Assembler
from app.service.assembling.assembly_queue import AssemblyQueue
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.receiving.backlog import Backlog
from app.service.receiving.intake import SharedIntake
from app.service.receiving.journal_writer import JournalWriter
from app.service.repair.recorder import Recorder
from app.service.threads import collect_seldom
from app.testing.gateway_stages import service_context
from bench.intake import SMALL, Load, make_data_sets, make_load

AT_ONCE = 512
WARM_UP = 3
"""The batches before the clock is read."""
TOPIC = b"\0\6intake"
CONNACK = bytes.fromhex("20020000")


class Spent:
    """The seconds of each step, a batch at a time."""

    def __init__(self) -> None:
        self._batches: dict[str, list[float]] = defaultdict(list)

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds of all batches, if all were like the median."""
        return {step: median(batches) * len(batches) for step, batches in self._batches.items()}

    @contextmanager
    def on(self, step: str) -> Iterator[None]:
        started = process_time()
        yield
        self._batches[step].append(process_time() - started)


def packets(payloads: Sequence[bytes]) -> float:
    """Return the seconds in which these publishes are read from a broker, which is a process of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    if not os.fork():
        connection, _ = listener.accept()
        connection.recv(1 << 16)
        connection.sendall(CONNACK)
        for payload in payloads:
            rest = TOPIC + b"\0\7" + payload
            connection.sendall(b"\x32" + length_bytes(len(rest)) + rest)
        connection.recv(1)
        os._exit(0)
    client = MqttClient("bench", MQTTProtocolVersion.MQTTv311, clean=True)
    client.connect("127.0.0.1", listener.getsockname()[1])
    started, left, more = process_time(), len(payloads), False
    while left:
        more = client.turn(0 if more else 0.1)
        left -= len([arrival.payload() for arrival in client.take_arrivals()])
    seconds = process_time() - started
    client.close()
    listener.close()
    os.wait()
    return seconds


def steps(load: Load, folder: Path) -> tuple[dict[str, float], int]:
    """Return the seconds of each step, and the number of messages."""
    payloads = [write_image(sent) for sent in load.messages]
    framing, spent, measured = traits("sas_queue"), Spent(), 0
    with TemporaryDirectory(dir=folder) as name, service_context(Path(name), segment_bytes=256 << 20) as context:
        waiting: dict[str, CompleteAttachment | None] = {}
        assembler, finisher = Assembler(context, waiting.update), Finisher(context)
        backlog, queue = Backlog(context.settings.limits.backlog_bytes), AssemblyQueue()
        intake, writer = SharedIntake(context, backlog), JournalWriter(context, backlog, queue.put)
        recorder = Recorder(context.catalog, context.store)
        collect_seldom()
        for number, start in enumerate(range(0, len(payloads), AT_ONCE)):
            if number == WARM_UP:
                recorder.record()
                spent, measured = Spent(), len(payloads) - start
            some = payloads[start : start + AT_ONCE]
            with spent.on("envelope"):
                messages = [mqtt_envelope.read(memoryview(each), b"", "here", framing, 1, str) for each in some]
            with spent.on("journal"):
                intake.submit(messages, lambda: None)
                batch = backlog.take()
                assert batch is not None
                writer.write(batch)
            with spent.on("assembly"):
                work = queue.take()
                assert work is not None
                assembler.assemble(*work)
            with spent.on("checkpoint"):
                assembler.save()
            with spent.on("finishing"):
                finisher.finish(waiting)
                waiting.clear()
        with spent.on("records"):
            recorder.record()
        assembler.close()
    packet = packets(payloads) / len(payloads) * measured
    return {"packet": packet, **spent.seconds}, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=6_000, help="number of messages of each case (6,000)")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="folder in memory (/dev/shm)")
    given = parser.parse_args()
    if given.messages < (least := AT_ONCE * (WARM_UP + 1)):
        parser.error(f"--messages: give at least {least:,}, since the first {WARM_UP} batches are not counted")
    configure_logging("warning")
    loads = {case: make_load(given.messages // 5, size, 4, "files") for case, size in SMALL.items()}
    loads["large"] = make_load(max(4, given.messages // 260), 8 << 20, 4)
    loads["data-sets"] = make_data_sets(given.messages // 6)
    over_packets = {}
    for case, load in loads.items():
        seconds, measured = steps(load, given.folder)
        over_packets[case] = sum(seconds.values()) / seconds["packet"]
        figures = "  ".join(f"{step} {value / measured * 1e6:.1f}" for step, value in seconds.items())
        a_file = sum(seconds.values()) / measured * len(load.messages) / len(load.attachments)
        print(
            f"{case:9}  {figures}  all {sum(seconds.values()) / measured * 1e6:.1f}, {a_file * 1e6:.0f} a file",
            flush=True,
        )
    print("ratios:", *(f"{case.replace('-', '_')}_over_packets={ratio:.1f}" for case, ratio in over_packets.items()))


if __name__ == "__main__":
    main()
