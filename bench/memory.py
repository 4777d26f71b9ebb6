"""Peak memory of the gateway: one large attachment sent and received, a data set of many rows, and very many
unfinished attachments.

large        a file is uploaded by REST, sent over Mosquitto, received, downloaded; its SHA-256 is compared
data set     a table is uploaded as Parquet, sent and received, and downloaded as Parquet, CSV and transport file
unfinished   many attachments of three parts, of which two arrive

Each runs in a gateway process of its own. Figures are the process's peak resident memory (VmHWM) in MiB, pages of
mapped files included. The gateway has no pandas, as in its image: PySpark's environment has it, where pyarrow loads it,
which takes some 35 MiB. Run it as `python -m bench.memory`.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import polars_readstat
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from app.model.message import PhysicalMessage
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file, message

TOPIC = "memory"
PIECE = 1 << 20
PATIENCE = 1800.0
PARTS = 4
"""Physical messages of a complete attachment: a description, two of records, a count."""


def peak(process: GatewayProcess) -> float:
    """Return the peak resident memory in MiB."""
    return _status(process)["VmHWM"] / 1024


def peak_without_files(process: GatewayProcess) -> float:
    """Return the peak resident memory in MiB, without pages of mapped files.

    How many of those are resident depends on the page cache. The system takes them back when it needs memory.
    """
    status = _status(process)
    return (status["VmHWM"] - status["RssFile"]) / 1024


def _status(process: GatewayProcess) -> dict[str, int]:
    """Return the numbers of kB that the system gives for a process."""
    assert process.process is not None
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    return {name: int(number) for name, number in re.findall(r"(\w+):\s+(\d+) kB", status)}


def large(process: GatewayProcess, folder: Path, mebibytes: int) -> None:
    """Send a file of this size to the gateway's own source and compare the received one."""
    path, digest, random = folder / "large.bin", sha256(), Random(1)
    with path.open("wb") as file:
        for _ in range(mebibytes):
            piece = random.randbytes(PIECE)
            digest.update(piece)
            file.write(piece)
    step("started", process)
    with path.open("rb") as file:
        files = {"file": ("large.bin", file, "application/octet-stream")}
        process.client.post(
            "/v1/messages", data={"destination": "back"}, files=files, timeout=PATIENCE
        ).raise_for_status()
    step("uploaded", process)
    process.until(lambda: process.samples().total("attachments_total", state="finished"), PATIENCE, 0.2)
    step("sent, received and finished", process)
    (item,) = process.listing("/v1/attachments", state="finished")
    received = sha256()
    with process.client.stream("GET", f"/v1/attachments/{item['id']}/content", timeout=PATIENCE) as response:
        for piece in response.iter_bytes(PIECE):
            received.update(piece)
    step("downloaded", process)
    if not item["sha256"] == received.hexdigest() == digest.hexdigest():
        raise AssertionError("what came out is not what was sent")


def data_set(process: GatewayProcess, folder: Path, rows: int) -> None:
    """Send a table with this number of rows to the gateway's own source, and compare the downloads in each format."""
    sent = folder / "sent.parquet"
    pq.write_table(made(rows), sent, row_group_size=100_000)
    step("started", process)
    with sent.open("rb") as file:
        files = {"file": ("sent.parquet", file, "application/vnd.apache.parquet")}
        form = {"destination": "back", "kind": "data-set"}
        process.client.post("/v1/messages", data=form, files=files, timeout=PATIENCE).raise_for_status()
    step("uploaded", process)
    process.until(lambda: process.samples().total("attachments_total", state="finished"), PATIENCE, 0.2)
    step("sent, received and finished", process)
    (item,) = process.listing("/v1/attachments", state="finished")
    expected = sums(pq.read_table(sent))
    for extension, read in READERS.items():
        path = folder / f"received.{extension}"
        query = {"format": extension, "missing": "null"}
        address = f"/v1/attachments/{item['id']}/content"
        with process.client.stream("GET", address, params=query, timeout=PATIENCE) as response, path.open("wb") as file:
            response.raise_for_status()
            for piece in response.iter_bytes(PIECE):
                file.write(piece)
        step(f"downloaded as {extension}, {path.stat().st_size / 2**20:.0f} MiB", process)
        if (found := sums(read(path))) != expected:
            raise AssertionError(f"{extension}: {found}, where {expected} was sent")


def made(rows: int) -> pa.Table:
    """Return numbers that are exact in every format, some missing, dates, and texts."""
    numbers = np.arange(rows)
    return pa.table(
        {
            "id": pa.array(numbers.astype(np.float64)),
            "value": pa.array(numbers / 8, mask=numbers % 10 == 0),
            "seen": pa.array((numbers % 20_000).astype(np.int32)).cast(pa.date32()),
            "name": pa.array([f"Somebody {number % 9973}" for number in range(rows)]),
        }
    )


def sums(table: pa.Table) -> dict[str, float]:
    """Return the total of each column, which shows whether a row is missing."""
    return {
        "rows": table.num_rows,
        "id": pc.sum(table["id"]).as_py(),
        "value": pc.sum(table["value"]).as_py(),
        "missing": table["value"].null_count,
        "seen": pc.sum(table["seen"].cast(pa.date32()).cast(pa.int32())).as_py(),
        "name": pc.sum(pc.utf8_length(table["name"])).as_py(),
    }


READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    "parquet": pq.read_table,
    "csv": csv.read_csv,
    "xpt": lambda path: polars_readstat.read_readstat(str(path)).to_arrow(),
}


def unfinished(process: GatewayProcess, port: int, count: int) -> None:
    """Send this number of attachments without their last part and their count."""
    step("started", process)
    publish(incomplete(count), port, TOPIC, "3.1.1")
    step("published", process)
    received = count // 10 * (2 + 10 * (PARTS - 2))
    process.until(lambda: process.samples().total("messages_received_total") >= received, PATIENCE, 0.2)
    process.until(lambda: states(process) == {"receiving": count}, PATIENCE, 1.0)
    step(f"{count} unfinished", process)


def states(process: GatewayProcess) -> dict[str, int]:
    counted: dict[str, int] = {}
    for item in process.listing("/v1/attachments", limit="500"):
        counted[item["state"]] = counted.get(item["state"], 0) + 1
    return counted


def incomplete(count: int) -> Iterator[PhysicalMessage]:
    """Yield the messages of ten attachments each; every attachment lacks its last part and its count."""
    program = Program(Random(2), body_limit=1024)
    for number in range(0, count, 10):
        together = [binary_file(program, f"file {number + n}", bytes(1500)) for n in range(10)]
        header, application, *parts = message(program, together)
        yield header
        yield application
        yield from (part for at, part in enumerate(parts) if at % PARTS < PARTS - 2)


def step(what: str, process: GatewayProcess) -> None:
    print(f"  {peak(process):7.0f} MiB  {what}", flush=True)


def without_pandas(folder: Path) -> dict[str, str]:
    """Return the environment of a process that does not find pandas."""
    hiding = folder / "hiding"
    hiding.mkdir(exist_ok=True)
    (hiding / "pandas.py").write_text('raise ImportError("hidden")')
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(hiding), *sys.path])}


def measure(run: Callable[[GatewayProcess, Mosquitto, Path], None]) -> float:
    """Return the peak memory of a gateway that sends to the topic it receives from."""
    with TemporaryDirectory() as name, Mosquitto(Path(name)) as broker:
        back = mqtt_destination("back", broker.port, TOPIC)
        settings = back + mqtt_source("memory", broker.port, TOPIC)
        with GatewayProcess(Path(name), settings, without_pandas(Path(name))) as process:
            process.await_source("memory")
            started = perf_counter()
            run(process, broker, Path(name))
            print(f"  {perf_counter() - started:7.1f} s")
            return peak(process)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=int, default=1024, help="MiB of the large attachment (1024)")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the data set (2000000)")
    parser.add_argument("--unfinished", type=int, default=100_000, help="unfinished attachments (100000)")
    chosen = parser.parse_args()
    print(f"an attachment of {chosen.large} MiB")
    of_large = measure(lambda process, _, folder: large(process, folder, chosen.large))
    print(f"a data set of {chosen.rows} rows")
    of_rows = measure(lambda process, _, folder: data_set(process, folder, chosen.rows))
    print(f"{chosen.unfinished} unfinished attachments")
    of_unfinished = measure(lambda process, broker, _: unfinished(process, broker.port, chosen.unfinished))
    print(
        f"ratios: peak_mib_large={of_large:.0f} peak_mib_data_set={of_rows:.0f} peak_mib_unfinished={of_unfinished:.0f}"
    )


if __name__ == "__main__":
    main()
