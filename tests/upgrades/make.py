"""Write down what this version makes and offers: `python -m tests.upgrades.make`.

The data are made with a broker, gateways, PostgreSQL and Spark; beside them are the OpenAPI document and all names.

docs/releasing.md says when. The data of versions that were released are never made again.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adapters.arrow_journal import ArrowJournal
from app.model.message import PhysicalMessage
from app.testing.host_results import in_folder, tables
from tests.support.gateway import PROGRAM, GatewayProcess
from tests.support.loads import table
from tests.support.mosquitto import Mosquitto
from tests.support.postgresql import binaries, new_database, running_postgresql
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file, data_set, message, text_file
from tests.upgrades.data import FOLDER, MOVED, found, settings, to_json
from tests.upgrades.interface import names, openapi

SPARK = ("--master", "local[2]", "--memory", "1g", "--partitions", "2")
TUS = {"Tus-Resumable": "1.0.0"}


def make(folder: Path) -> dict[str, Any]:
    """Make the folders of the fixture in a folder. Return what must be found in them."""
    for name in ("broker", "gateway", "postgresql", "spark"):
        (folder / name).mkdir()
    with Mosquitto(folder / "broker") as broker:
        described = _gateway(folder, broker.port)
        described["postgresql"] = _postgresql(folder, broker.port)
    shutil.rmtree(folder / "broker")
    described["spark"] = _stream(folder)
    return described


def _gateway(folder: Path, broker: int) -> dict[str, Any]:
    """Let a gateway receive and send, back it up, and kill it."""
    program = Program(Random(1), body_limit=2000)
    lines = b"".join(b"line %d of a text, in UTF-8: \xc3\xa4\n" % number for number in range(50))
    attached = binary_file(program, "begun.bin", b"abcdefgh" * 700, "unfinished")
    *begun, missing, count = message(program, [attached])
    headless = PhysicalMessage("", "sas_queue", msg_type=100_000, body=b"no header", correl_id=bytes(24))
    other = headless._replace(body=b"no header either")
    early = [
        binary_file(program, "numbers.bin", bytes(range(256)) * 300, "binary"),
        text_file(program, "lines.txt", lines, "text"),
        data_set(program, "WORK", "STATIONS", table(program, 40), "data set"),
    ]
    large = [binary_file(program, f"{number}.bin", bytes([number]) * 70_000) for number in range(3)]
    process = GatewayProcess(folder / "gateway", settings(broker))
    process.start(timeout=120)
    try:
        for source in ("orders", "mq_group", "order_packet"):
            process.await_source(source)
        publish([*begun, count, other, headless], broker, "orders", "5")
        for attachments in (*([each] for each in large), early):
            publish(message(program, attachments), broker, "orders", "5")
        _send(process)
        finished = len(large) + len(early) + 2
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == finished)
        process.until(lambda: len(process.listing("/v1/quarantine")) == 2)
        process.until(lambda: len(process.listing("/v1/deliveries", state="sent")) == 2)
        _run("backup", "--config", folder / "gateway" / "gateway.toml", "--to", folder / "gateway" / "backup")
        described = {"backup": found(process)}
        last = text_file(program, "last.txt", lines, "in the open segment")
        publish(message(program, [last]), broker, "orders", "5")
        process.until(lambda: process.listing("/v1/attachments", state="finished", name="last.txt"))
        described["gateway"] = found(process)
    finally:
        process.kill()
        process.client.close()
    unfinished = {"name": attached.definition.qualifier_2, "sha256": attached.sha256, "missing": [to_json(missing)]}
    return described | {"unfinished": unfinished}


def _send(process: GatewayProcess) -> None:
    """Send a file as a group and a table as order packets, which come back, a file to a broker that is away, and begin
    an upload."""
    sink = BytesIO()
    pq.write_table(pa.table({"ID": [1.0, 2.0], "NAME": ["one", "two"]}), sink)
    post = process.client.post
    for destination, name, content, kind in (
        ("mq_group", "group.bin", b"group " * 100, "application/octet-stream"),
        ("order_packet", "packets.parquet", sink.getvalue(), "application/vnd.apache.parquet"),
        ("away", "waits.txt", b"it waits\n", "text/plain"),
    ):
        sent = post("/v1/messages", data={"destination": destination}, files={"file": (name, content, kind)})
        assert sent.status_code == 202, sent.text
    created = post("/v1/uploads", headers=TUS | {"Upload-Length": "1000", "Upload-Metadata": "filename YmVndW4="})
    assert created.status_code == 201, created.text
    headers = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    written = process.client.patch(created.headers["Location"], headers=headers, content=b"x" * 400)
    assert written.status_code == 204, written.text


def _postgresql(folder: Path, broker: int) -> dict[str, Any]:
    """Restore the backup with its catalog in PostgreSQL, run a gateway with it, and dump the catalog."""
    programs = binaries()
    assert programs is not None
    with running_postgresql(programs) as server:
        url = new_database(server)
        process = GatewayProcess(folder / "postgresql", settings(broker, catalog=url))
        configuration = folder / "postgresql" / "gateway.toml"
        _run("restore", "--config", configuration, "--from", folder / "gateway" / "backup")
        process.start(timeout=120)
        try:
            described = found(process)
        finally:
            process.stop()
        name = url.partition("@/")[2].partition("?")[0]
        options = ["--inserts", "--no-owner", "--no-privileges", "--host", str(server), "--username", "postgres", name]
        dump = subprocess.run(["pg_dump", *options], check=True, capture_output=True, text=True).stdout
    # Newer versions of pg_dump write commands of psql's.
    (folder / "postgresql" / "catalog.sql").write_text(re.sub(r"(?m)^\\.*\n", "", dump))
    return described


def _stream(folder: Path) -> dict[str, Any]:
    """Let a stream process the killed gateway's journal."""
    into = folder / "spark" / "var"
    shutil.copytree(folder / "gateway" / "var" / "journal", into / "journal")
    ArrowJournal(into / "journal").close()  # seals what the killed gateway was writing
    configuration = folder / "spark" / "gateway.toml"
    configuration.write_text(f'data = "{into}"\nassembler = "spark"\n')
    _run("pipeline", "stream", "--once", "--config", configuration, *SPARK)
    states = {key: item["state"] for key, item in in_folder(into, into / "journal").attachments.items()}
    return {"states": states, "tables": tables(into)}


def _run(*arguments: object) -> None:
    subprocess.run([PROGRAM, *map(str, arguments)], check=True)


def packed(folder: Path) -> bytes:
    """Return the folders as an archive of files without owner and time, compressed as far as possible."""
    into = BytesIO()
    with tarfile.open(fileobj=into, mode="w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.name in {"gateway.toml", "gateway.log"} or path.suffix == ".crc":
                continue
            if path.is_dir():
                archive.addfile(_entry(name, tarfile.DIRTYPE))
                continue
            data = path.read_bytes()
            if name.startswith("spark/var/pipeline/"):
                data = data.replace(str(folder).encode(), MOVED.encode())
            entry = _entry(name, tarfile.REGTYPE)
            entry.size = len(data)
            archive.addfile(entry, BytesIO(data))
    return into.getvalue()


def _entry(name: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, 0o755 if kind == tarfile.DIRTYPE else 0o644
    return entry


def main() -> None:
    name = version("attachment-gateway")
    tags = subprocess.run(["git", "tag", "--list", f"v{name}"], check=True, capture_output=True, cwd=FOLDER).stdout
    if tags:
        sys.exit(f"version {name} is released: its data stay as they are")
    with TemporaryDirectory(prefix="upgrades-") as temporary:
        folder = Path(temporary)
        described = make(folder)
        data = packed(folder)
    into = FOLDER / name
    into.mkdir(exist_ok=True)
    (into / "data.tar.xz").write_bytes(data)
    for file, value in (
        ("data.json", {"sha256": sha256(data).hexdigest(), **described}),
        ("openapi.json", openapi()),
        ("names.json", names()),
    ):
        (into / file).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
