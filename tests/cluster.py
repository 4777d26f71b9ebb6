"""The whole shape on one machine: a broker, PostgreSQL, three receivers, two processes that serve and two that keep.

    make cluster
    make cluster ARGS="--ack archive"

Every second, attachments come to the group of subscribers from which the receivers share their messages. It prints
what each process has done, and runs until Ctrl-C. Meanwhile end processes as you like (`kill -9 PID`): they are started
again.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import sleep

import httpx

from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.loads import messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.postgresql import binaries, running_postgresql
from tests.support.publish import publish
from tests.support.sas_client import Program, disordered
from tests.support.subscribe import subscribe

TOPIC = "sas/attachments"
GROUP = f"$share/gateways/{TOPIC}"
NAMES = ("receive-a", "receive-b", "receive-c", "serve-a", "serve-b", "keep-a", "keep-b")
SETTINGS = """[limits]
free_bytes = 0
[catalog]
url = "postgresql+psycopg://postgres@/postgres?host={database}"
[content]
url = "{shared}/content"
settle_after = "1s"
[tables]
url = "{shared}/tables"
[journal]
archive_url = "{shared}/archive"
segment_age = "1s"
shared = true
ack = "{ack}"
"""


@contextmanager
def cluster(folder: Path, ack: str) -> Iterator[tuple[Mosquitto, dict[str, GatewayProcess]]]:
    """Run all processes with their data in a folder."""
    programs = binaries()
    assert programs is not None, "PostgreSQL's programs (initdb, postgres) are not installed: run `make system`"
    shared, broker_folder = folder / "shared", folder / "broker"
    for each in (shared / "archive", broker_folder):
        each.mkdir(parents=True)
    with ExitStack() as ending:
        database = ending.enter_context(running_postgresql(programs))
        broker = ending.enter_context(Mosquitto(broker_folder))
        settings = SETTINGS.format(database=database, shared=shared.as_uri(), ack=ack)
        processes = {}
        for name in NAMES:
            (folder / name).mkdir()
            role = name.partition("-")[0]
            if role == "receive":
                subscribe(broker.port, name, GROUP, "5")
            source = mqtt_source("sas", broker.port, GROUP, client_id=name)
            process = GatewayProcess(folder / name, settings + source, first=f'roles = ["{role}"]\n')
            processes[name] = ending.enter_context(process)
        yield broker, processes


def report(processes: dict[str, GatewayProcess]) -> None:
    """Print a line of what each process has done, and start again those that have ended."""
    shown = []
    for name, process in processes.items():
        if process.process is None or process.process.poll() is not None:
            process.process = None
            shown.append(f"{name}: started again")
            process.spawn()
            continue
        with suppress(httpx.HTTPError):
            if name.startswith("receive"):
                shown.append(f"{name}: {process.samples().total('messages_received_total'):.0f} messages")
            elif name.startswith("serve"):
                counted = process.client.get(
                    "/v1/attachments", params={"state": "finished", "count": "true", "limit": 1}
                )
                shown.append(f"{name}: {counted.headers['Total-Count']} finished")
            elif process.samples().total("keeper"):
                shown.append(f"{name} keeps")
    sys.stdout.write(" | ".join(shown) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ack", choices=("disk", "archive"), default="disk", help="when receivers acknowledge (disk)")
    parser.add_argument("--seconds", type=int, help="end after so many seconds")
    given = parser.parse_args()
    program = Program(Random(1))
    with TemporaryDirectory(prefix="cluster-") as name, cluster(Path(name), given.ack) as (broker, processes):
        for each, process in processes.items():
            assert process.process is not None
            sys.stdout.write(f"{each:10} http://127.0.0.1:{process.port}  process {process.process.pid}\n")
        sys.stdout.write(f"{'broker':10} mqtt://127.0.0.1:{broker.port}  topic {TOPIC}\n")
        second = 0
        with suppress(KeyboardInterrupt):
            while given.seconds is None or second < given.seconds:
                publish(disordered(messages(program, mixed(program, 6)), program.random), broker.port, TOPIC, "5")
                sleep(1)
                second += 1
                report(processes)


if __name__ == "__main__":
    main()
