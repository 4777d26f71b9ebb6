"""The tutorial and the client in Python, as their pages print them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.testing.waiting import until
from tests.support.forked_command import program
from tests.support.forked_gateway import ForkedGateway
from tests.support.mosquitto import Mosquitto

pytestmark = pytest.mark.broker

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[str]:
    """The URL of a gateway as `make run` starts it."""
    output = tmp_path / "demo.txt"
    with output.open("w") as said, subprocess.Popen([program(), "demo"], stdout=said, stderr=said) as process:
        try:
            until(lambda: "Ctrl-C ends this" in output.read_text(), 120)
            yield re.findall(r"gateway +(http://\S+)", output.read_text())[0]
        finally:
            process.terminate()


def test_the_client_in_python_does_what_its_page_says(demo: str, tmp_path: Path) -> None:
    example, asynchronous = blocks("python-client.md", "python")
    (console,) = blocks("python-client.md", "console")
    command, *printed = console.splitlines()
    assert command == "$ python client.py"
    (tmp_path / "client.py").write_text(example)
    environment = os.environ | {"ATTACHMENT_GATEWAY_URL": demo}
    for _ in range(2):  # the second time, its key makes nothing of its upload
        done = subprocess.run(
            [sys.executable, "client.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        found = re.sub(r"[0-9a-f]{32}", "ID", done.stdout).splitlines()
        assert found == [re.sub(r"[0-9a-f]{32}", "ID", line) for line in printed], done.stderr
    done = subprocess.run(
        [sys.executable, "-c", asynchronous],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "hello.txt picture.png STATIONS welcome.txt\n", done.stderr


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto_pub is missing")
def test_the_tutorial_as_printed(tmp_path: Path) -> None:
    settings = "\n".join(blocks("tutorial.md", "toml"))
    _, send, send_parts = blocks("tutorial.md", "sh")
    fetch, send_again, refused = blocks("tutorial.md", "console")
    (tmp_path / "report.txt").write_text("A report.\n" * 2_000)
    (tmp_path / "gateway").mkdir()
    with Mosquitto(tmp_path) as broker:
        own = settings.partition("\n\n")[2].replace("1883", str(broker.port))
        with ForkedGateway(tmp_path / "gateway", own) as gateway:
            gateway.until(lambda: "receiving_begun" in gateway.log)
            environment = os.environ | {
                "PATH": f"{program().parent}:{os.environ['PATH']}",
                "ATTACHMENT_GATEWAY_URL": f"http://127.0.0.1:{gateway.port}",
            }

            def run(script: str) -> str:
                """Run a block, or the commands of a console, and return what they print."""
                commands = re.findall(r"^\$ (.*)$", script, re.MULTILINE)
                script = "\n".join(commands) if commands else script
                script = script.replace("mosquitto_pub ", f"mosquitto_pub -p {broker.port} ")
                script = script.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
                done = subprocess.run(
                    ["sh", "-e", "-c", script],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                return done.stdout

            def finished(name: str) -> bool:
                return bool(gateway.listing("/v1/attachments", name=name, state="finished"))

            run(send)
            gateway.until(lambda: finished("report.txt"))
            assert run(fetch).startswith("equal\n")
            assert (tmp_path / "copy.txt").read_bytes() == (tmp_path / "report.txt").read_bytes()
            run(send_parts)
            gateway.until(lambda: finished("whole.txt"))
            (whole,) = gateway.listing("/v1/attachments", name="whole.txt")
            (report,) = gateway.listing("/v1/attachments", name="report.txt")
            assert whole["sha256"] == report["sha256"]
            run(send_again)
            gateway.until(lambda: len(gateway.listing("/v1/attachments", name="report.txt", state="finished")) == 2)
            run(refused.splitlines()[0])
            gateway.until(lambda: gateway.listing("/v1/quarantine"))
            said = run(refused.splitlines()[1])
            assert refused.splitlines()[-1].split("Z")[-1].split("  ")[-1] in said
            assert "no-envelope" in said
