"""Commands against a real gateway on a real broker."""

import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paho.mqtt import publish

from app.testing.waiting import until
from tests.cli.conftest import Run
from tests.support.forked_command import program
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.tables import visits
from tests.tables.out.making import made

pytestmark = pytest.mark.process


@pytest.fixture
def arrived(run: Run, url: str) -> Any:
    """Waits for the attachment of a name to be finished, and returns what `ls` says of it."""

    def look(name: str) -> dict[str, Any] | None:
        found = [
            json.loads(line) for line in run("ls", "--name", name, "--state", "finished", "--json").out.splitlines()
        ]
        return found[0] if found else None

    return lambda name: until(lambda: look(name))


def test_files_go_out_and_come_back(run: Run, arrived: Any, in_folder: Path) -> None:
    sent = {
        "Größe.txt": ("text-file", b"eins\nzwei\n"),
        "noise.bin": ("binary-file", random.Random(1).randbytes(300_000)),
    }
    for name, (_, content) in sent.items():
        Path(name).write_bytes(content)
    pq.write_table(pa.table({"NAME": ["a", "b"], "AGE": [1.0, None]}), "class.parquet")

    result = run(
        "send", *sent, "class.parquet", "--to", "loop", "--message", "hello", "--description", "three", "--wait"
    )
    assert result.code == 0
    (delivery,) = result.out.split()
    deliveries = run("deliveries", "--state", "sent").out
    assert delivery in deliveries
    assert "Größe.txt, noise.bin, CLASS" in deliveries

    for name, (kind, content) in sent.items():
        attachment = arrived(name)
        assert (attachment["kind"], attachment["description"]) == (kind, "three")
        (in_folder / name).unlink()
        fetched = run("get", attachment["id"])
        assert fetched.code == 0
        assert hashlib.sha256(content).hexdigest() in fetched.err
        assert (in_folder / name).read_bytes() == content
    table = arrived("CLASS")
    assert run("get", table["id"], "-o", "came.parquet").code == 0
    came = pq.read_table("came.parquet")
    assert came.to_pydict() == {"NAME": ["a", "b"], "AGE": [1.0, None]}
    assert table["id"] in run("ls").out


def test_warnings_and_evidence_are_shown(run: Run, arrived: Any, in_folder: Path) -> None:
    Path("plain.txt").write_text("a line")
    sent = run("send", "plain.txt", "--to", "loop", "--wait", "--json")
    assert (sent.code, json.loads(sent.out)["state"]) == (0, "sent")
    identifier = arrived("plain.txt")["id"]
    shown = run("show", identifier[:12]).out
    assert identifier in shown
    assert re.search(r"last-line-end +no-line-end +announced", shown), shown
    assert json.loads(run("show", identifier, "--json").out)["warnings_count"] == 0
    assert identifier not in run("ls", "--warned", "--json").out
    assert identifier in run("ls", "--unwarned", "--json").out


def test_a_transport_file_arrives_as_a_data_set(run: Run, arrived: Any, in_folder: Path) -> None:
    Path("visits.xpt").write_bytes(made(visits(), "xpt"))
    assert run("send", "visits.xpt", "--to", "loop", "--wait").code == 0
    assert arrived("VISITS")["kind"] == "data-set"
    assert run("send", "visits.xpt", "--as", "binary-file", "--to", "loop", "--wait").code == 0
    assert arrived("visits.xpt")["kind"] == "binary-file"


def test_an_error_is_printed_once(run: Run, url: str, in_folder: Path) -> None:
    Path("a.txt").write_text("a")
    wrong = run("send", "a.txt", "--to", "loop", "--description", "\0")
    assert wrong.code == 1
    assert wrong.err.count("control characters") == 1, wrong.err


def test_an_interrupted_fetch_goes_on_where_it_ended(run: Run, arrived: Any, in_folder: Path) -> None:
    content = random.Random(2).randbytes(200_000)
    Path("resumed.bin").write_bytes(content)
    run("send", "resumed.bin", "--to", "loop")
    attachment = arrived("resumed.bin")
    Path("there.part").write_bytes(content[:77_777])
    assert run("get", attachment["id"], "-o", "there").code == 0
    assert Path("there").read_bytes() == content
    assert not Path("there.part").exists()

    Path("spoilt.part").write_bytes(b"x" + content[1:77_777])
    spoilt = run("get", attachment["id"], "-o", "spoilt")
    assert spoilt.code == 1
    assert "SHA-256" in spoilt.err
    assert not Path("spoilt").exists()
    assert run("get", attachment["id"], "-o", "spoilt").code == 0


def test_a_named_pipe_is_written_to_and_stays(run: Run, arrived: Any, in_folder: Path) -> None:
    Path("piped.txt").write_text("into a pipe\n")
    run("send", "piped.txt", "--as", "text-file", "--to", "loop")
    identifier = arrived("piped.txt")["id"]
    os.mkfifo("pipe")
    for options in ((), ("--utf-8",)):
        reading = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
        assert run("get", identifier, *options, "-o", "pipe").code == 0
        assert os.read(reading, 100) == b"into a pipe\n"
        os.close(reading)
        assert Path("pipe").is_fifo()


def test_content_to_standard_output(run: Run, arrived: Any, in_folder: Path) -> None:
    Path("out.txt").write_text("to standard output\n")
    run("send", "out.txt", "--to", "loop")
    assert run("get", arrived("out.txt")["id"], "-o", "-").out == "to standard output\n"


def test_text_of_a_host_is_fetched_in_utf_8(run: Run, arrived: Any, in_folder: Path) -> None:
    text = "Größe {1}\nzweite\n"
    Path("host.txt").write_bytes(text.encode("cp037"))
    assert run("send", "host.txt", "--as", "text-file", "--to", "host").code == 0
    identifier = arrived("host.txt")["id"]
    assert run("get", identifier, "-o", "as-it-is.txt").code == 0
    assert Path("as-it-is.txt").read_bytes() == text.encode("cp037")
    assert run("get", identifier, "--utf-8", "-o", "utf-8.txt").code == 0
    assert Path("utf-8.txt").read_text(encoding="utf-8") == text


def test_quarantine_is_listed_shown_replayed_and_dismissed(run: Run, broker: Mosquitto, url: str) -> None:
    body = b"MD  this is no descriptor"
    publish.single("loop", body, qos=1, hostname="127.0.0.1", port=broker.port)

    def kept() -> list[dict[str, Any]]:
        return [json.loads(line) for line in run("quarantine", "ls", "--json").out.splitlines()]

    (entry,) = until(kept)
    assert entry["id"] in run("quarantine", "ls").out
    shown = run("quarantine", "show", entry["id"])
    assert entry["why"] in shown.out
    assert "MD  this is no d" in shown.out
    assert body[:16].hex(" ") in shown.out

    assert run("quarantine", "replay", entry["id"]).code == 0
    again = until(kept)[0]
    assert run("quarantine", "dismiss", again["id"]).code == 0
    assert kept() == []
    assert again["id"] in run("quarantine", "ls", "--state", "dismissed").out
    missing = run("quarantine", "show", "0" * 32)
    assert missing.code == 1
    assert "there is no quarantine entry" in missing.err


def test_standard_input_is_sent_as_a_file(
    run: Run, arrived: Any, in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content, more, name in ((b"to be sent\n", [], "stdin"), (b"\0binary", ["--name", "pipe.bin"], "pipe.bin")):
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content)))
        assert run("send", "-", "--to", "loop", *more).code == 0
        attachment = arrived(name)
        assert attachment["kind"] == ("text-file" if name == "stdin" else "binary-file")
        assert run("get", attachment["id"][:12], "-o", "came").code == 0
        assert Path("came").read_bytes() == content
    assert "only once" in run("send", "-", "-", "--to", "loop").err
    assert "not the name of a file" in run("send", "-", "--name", "a/b", "--to", "loop").err


def test_attachments_are_deleted_after_a_question(run: Run, arrived: Any, in_folder: Path) -> None:
    for name in ("doomed.txt", "also-doomed.txt", "alone.txt"):
        Path(name).write_text(name)
    (delivery,) = run("send", "doomed.txt", "also-doomed.txt", "--to", "loop", "--wait").out.split()
    run("send", "alone.txt", "--to", "loop")
    first, second, alone = (arrived(name) for name in ("doomed.txt", "also-doomed.txt", "alone.txt"))
    asked = run("rm", alone["id"])
    assert (asked.code, "--yes" in asked.err) == (1, True)
    assert arrived("alone.txt")["state"] == "finished"
    assert run("rm", "--yes", alone["id"][:12]).code == 0
    assert "already been deleted" in run("rm", "--yes", alone["id"]).err

    asked = run("rm", first["message"][:12], delivery[:12])
    assert (asked.code, "Delete 2 attachments, 1 message, 1 delivery?" in asked.err) == (1, True)
    assert run("rm", "--yes", first["message"]).err.count("was deleted") == 3
    assert run("ls", "--message", first["message"], "--state", "deleted", "--json").out.count('"deleted"') == 2
    assert run("rm", "--yes", delivery).err == f"{delivery} was deleted\n"
    for unknown in (second["message"], delivery, "0" * 32, "", "..", "a/b?c#d", "[red]"):
        told = run("rm", "--yes", unknown)
        why = f"error: there is no attachment, message or delivery with the identifier {unknown}"
        assert (told.code, told.err.strip()) == (1, why.strip())


def test_a_quarantined_message_is_shown_as_json(run: Run, broker: Mosquitto, url: str) -> None:
    publish.single("loop", b"MD  still no descriptor", qos=1, hostname="127.0.0.1", port=broker.port)

    def kept() -> list[str]:
        return run("quarantine", "ls", "--json").out.splitlines()

    entry = json.loads(until(kept)[0])
    short = entry["id"].lstrip("0")
    assert json.loads(run("quarantine", "show", short, "--json").out)["id"] == entry["id"]
    assert run("quarantine", "dismiss", short).code == 0


def test_mistakes_are_told_in_a_sentence(run: Run, url: str, in_folder: Path) -> None:
    unknown = run("get", "0" * 32)
    assert unknown.code == 1
    assert "there is no attachment with the identifier" in unknown.err
    assert "cannot read nothing.txt: No such file or directory" in run("send", "nothing.txt", "--to", "loop").err
    Path("a.txt").write_text("a")
    nowhere = run("send", "a.txt", "--to", "nowhere")
    assert nowhere.code == 1
    assert "loop" in nowhere.err, "the known destinations are listed"
    Path("not.parquet").write_text("no")
    assert "not a Parquet file" in run("send", "not.parquet", "--to", "loop", "--as", "data-set").err
    assert run("ls", "--after", "yesterday").code == 1
    assert "Traceback" not in unknown.err + nowhere.err


def test_no_gateway_says_how_to_start_one(run: Run) -> None:
    result = run("ls", "--url", f"http://127.0.0.1:{free_port()}")
    assert result.code == 3
    assert "attachment-gateway serve" in result.err
    assert "Traceback" not in result.err
    assert run("ls", "--url", "localhost").code == 1


@pytest.mark.parametrize(("ending", "options"), [(signal.SIGTERM, []), (signal.SIGINT, ["--json"])])
def test_watch_shows_what_arrives_until_a_signal(
    run: Run, url: str, in_folder: Path, ending: signal.Signals, options: list[str]
) -> None:
    Path("seen.txt").write_text("seen\n")
    shown = in_folder / "shown"
    with shown.open("wb") as out, subprocess.Popen([program(), "watch", *options], stdout=out) as watching:

        def is_seen() -> bool:
            run("send", "seen.txt", "--to", "loop", "--wait")
            return re.search(r"attachment(\.| +)finished", shown.read_text()) is not None

        try:
            until(is_seen)
            watching.send_signal(ending)
            assert watching.wait(20) == 0
        finally:
            watching.kill()


SERVED = """
data = "{folder}"
[http]
port = {port}
{more}
"""


@pytest.fixture
def gateway_file(in_folder: Path) -> Any:
    """Writes a configuration file and returns its path and its port."""

    def write(more: str = "", port: int | None = None, folder: str = "data") -> tuple[Path, int]:
        chosen = port or free_port()
        path = in_folder / "gateway.toml"
        path.write_text(SERVED.format(folder=in_folder / folder, port=chosen, more=more))
        return path, chosen

    return write


def is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=60).is_success
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(("style", "ending"), [("console", signal.SIGINT), ("json", signal.SIGTERM)])
def test_serve_says_what_it_serves_logs_what_comes_and_stops_in_order(
    gateway_file: Any, broker: Mosquitto, style: str, ending: signal.Signals
) -> None:
    token = hashlib.sha256(b"secret").hexdigest()
    endpoint = f'transport = "mqtt"\nurl = "mqtt://127.0.0.1:{broker.port}"\ntopic = "served-{style}"\n'
    tokens = f'tokens = ["{token}"]\n' if style == "json" else ""
    path, port = gateway_file(f'{tokens}[log]\nformat = "{style}"\n[sources.quay]\n{endpoint}')
    log = path.parent / "log"
    with log.open("w") as file, subprocess.Popen([program(), "serve", "--config", path], stderr=file) as serving:
        try:
            until(lambda: "connection_opened" in log.read_text() and is_ready(port))
            publish.single(f"served-{style}", b"MD  no descriptor", qos=1, hostname="127.0.0.1", port=broker.port)
            until(lambda: "message_quarantined" in log.read_text() and "receiving_begun" in log.read_text())
        finally:
            serving.send_signal(ending)
            assert serving.wait(30) == 0
    said = log.read_text()
    assert "Traceback" not in said
    assert said.count("receiving_begun") == 1
    facts = {"url": f"http://127.0.0.1:{port}", "data": str(path.parent / "data")}
    if style == "json":
        (started,) = (json.loads(line) for line in said.splitlines() if "gateway_started" in line)
        assert {name: started[name] for name in facts} == facts
        assert started["access"] == "token"
        assert started["sources"] == {"quay": "mqtt, sas_queue"}
        assert started["destinations"] == {}
        (told,) = (json.loads(line) for line in said.splitlines() if "message_quarantined" in line)
        assert (told["level"], told["source"], bool(told["why"])) == ("warning", "quay", True)
        (begun,) = (json.loads(line) for line in said.splitlines() if "receiving_begun" in line)
        assert begun["sources"] == ["quay"]
    else:
        lines = dict(re.findall(r"^(\w+)  +(.*)$", said, re.MULTILINE))
        assert lines["gateway"].startswith(facts["url"])
        assert lines["data"] == facts["data"]
        assert lines["sources"] == "quay (mqtt, sas_queue)"
        assert lines["destinations"] == "none: nothing can be sent"
        assert lines["access"].startswith("from this machine only")


@pytest.mark.parametrize(
    ("more", "folder", "said"),
    [
        ('[catalog]\nurl = "postgresql+psycopg://u:secret@127.0.0.1:1/x"', "data", "cannot be used at present"),
        ('[catalog]\nurl = "no address"', "data", "catalog.url: the URL of the catalog cannot be read"),
        ('[content]\nurl = "ftp://host/folder"', "data", "content.url: unknown storage URL ftp://host/folder"),
        ("", "gateway.toml", "the data folder cannot be opened"),
    ],
)
def test_what_cannot_be_opened_is_told_in_a_sentence(gateway_file: Any, more: str, folder: str, said: str) -> None:
    path, _ = gateway_file(more, folder=folder)
    done = subprocess.run(
        [program(), "serve", "--config", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_a_port_in_use_is_told_before_anything_is_touched(gateway_file: Any, in_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        path, port = gateway_file(port=other.getsockname()[1])
        done = subprocess.run(
            [program(), "serve", "--config", path], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stderr
    assert not (in_folder / "data").exists()
