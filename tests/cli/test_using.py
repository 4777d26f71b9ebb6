"""What docs/using.md and docs/rendezvous.md print, as printed: calls of curl against what `make run` starts, and a
gateway over Rendezvous."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.testing.waiting import until
from tests.support.forked_command import program
from tests.support.mosquitto import free_port

pytestmark = pytest.mark.process

PROGRAM = Path(sys.executable).parent / "attachment-gateway"
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing: the page's lines are not tried")
def test_curl_as_printed(tmp_path: Path) -> None:
    block = next(
        found
        for found in re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "using.md").read_text(), re.DOTALL)
        if "curl " in found
    )
    lines = [line for line in block.splitlines() if "curl " in line]
    assert len(lines) == 5
    output = tmp_path / "demo.txt"
    with output.open("w") as said:
        demo = subprocess.Popen([program(), "demo"], stdout=said, stderr=subprocess.STDOUT)
    try:
        until(lambda: "Ctrl-C ends this" in output.read_text(), 120)
        found = re.search(r"gateway +(http://\S+)", output.read_text())
        assert found is not None
        script = "\n".join(line.replace("curl ", "curl --fail -sS --max-time 20 ") for line in lines[:-1])
        script = script.replace("http://127.0.0.1:8080", found[1])
        done = subprocess.run(
            ["sh", "-e", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert '"state":"finished"' in done.stdout
        assert "station,celsius" in done.stdout.lower()
        assert '"destination":"demo"' in done.stdout
        events = lines[-1].replace("curl ", "curl -sS --max-time 2 ").replace("http://127.0.0.1:8080", found[1])
        heard = subprocess.run(["sh", "-c", events], capture_output=True, text=True, timeout=60, check=False)
        assert heard.stdout.startswith(": attachment gateway")
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)


def answers(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


def test_rendezvous_as_printed(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "rendezvous.md").read_text().split("## Try it")[1].split("\n## ")[0]
    (settings,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    daemon, serve, *commands = block.splitlines()
    ports = str(free_port()), str(free_port())
    (tmp_path / "rendezvous.toml").write_text(settings.replace("7500", ports[0]))
    environment = os.environ | {
        "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "ATTACHMENT_GATEWAY_HTTP__PORT": ports[1],
        "ATTACHMENT_GATEWAY_URL": f"http://127.0.0.1:{ports[1]}",
    }
    quick = environment | {"PATH": f"{program().parent}:{environment['PATH']}"}
    started = []
    try:
        for line in (daemon, serve):
            command = line.removesuffix(" &").replace("7500", ports[0]).split()
            with (tmp_path / "said.txt").open("a") as said:
                started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=said, stderr=said))
        until(lambda: '"session"' in (tmp_path / "said.txt").read_text() and answers(ports[1]), 60)
        send, ls = (line.replace("README.md", str(ROOT / "README.md")) for line in commands)
        assert subprocess.run(["sh", "-c", send], cwd=tmp_path, env=quick, check=False).returncode == 0

        def listed() -> str:
            done = subprocess.run(["sh", "-c", ls], cwd=tmp_path, env=quick, capture_output=True, check=True)
            return done.stdout.decode()

        shown = until(lambda: said if "finished" in (said := listed()) else "", 60)
        assert "README.md" in shown
    finally:
        for each in started:
            each.terminate()
            each.wait(60)
