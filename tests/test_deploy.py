"""deploy/: a unit of systemd, and a project of Compose. Checked as far as both programs, or their parts, are here."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import load
from app.testing.waiting import until
from tests.support.mosquitto import PROGRAM, free_port, terminate

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "attachment-gateway.service"
SERVICE_KEYS = {
    "cap_drop",
    "command",
    "configs",
    "depends_on",
    "environment",
    "healthcheck",
    "image",
    "ports",
    "read_only",
    "restart",
    "security_opt",
    "stop_grace_period",
    "tmpfs",
    "volumes",
}
"""Of the Compose Specification, the keys of a service that are used."""


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """The program of the unit is the installed one, which systemd-analyze looks for."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/gateway/bin", str(Path(sys.executable).parent)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("Restart=on-failure", "Restart=often"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert re.search("Failed to parse (service restart specifier|Restart=often)", done.stderr), "it finds what is wrong"


def test_the_unit_runs_what_the_readme_installs() -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    program, *arguments = command.split()
    assert f"{Path(program).parent}/pip install" in (ROOT / "docs" / "installing.md").read_text()
    assert arguments == ["serve", "--config", "/etc/gateway/gateway.toml"]
    folders = set(
        re.findall(r"^(?:WorkingDirectory|Environment=ATTACHMENT_GATEWAY_DATA)=(.*)$", UNIT.read_text(), re.MULTILINE)
    )
    assert folders == {"/var/lib/gateway"}


def test_compose_says_nothing_unknown(compose: Any) -> None:
    assert set(compose) == {"name", "services", "configs", "volumes"}
    services = compose["services"]
    assert set().union(*services.values()) == SERVICE_KEYS
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        assert {volume.split(":")[0] for volume in service["volumes"]} <= set(compose["volumes"])
        assert {config["source"] for config in service.get("configs", ())} <= set(compose["configs"])
    gateway = services["gateway"]
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"]), "it asks for no token"
    assert [volume.split(":")[1] for volume in gateway["volumes"]] == ["/var/lib/gateway"]


def test_the_gateway_of_compose_knows_all_of_its_variables(compose: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in compose["services"]["gateway"]["environment"].items():
        monkeypatch.setenv(name, value)
    settings = load()
    (source, destination) = settings.sources["loop"], settings.destinations["loop"]
    places = [[one.options.model_dump()[key] for key in ("url", "topic")] for one in (source, destination)]
    url, topic = places[1]
    assert places[0][0] == url
    assert topic in places[0][1]
    assert re.fullmatch(r"mqtt://(\w+):1883", url)[1] in compose["services"]  # type: ignore[index]


def test_the_health_check_of_compose_tells(compose: Any) -> None:
    _, _, *command = compose["services"]["gateway"]["healthcheck"]["test"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert "/health/ready" in command[-1]
    assert "Connection refused" in done.stderr or done.returncode == 0  # a gateway may run on this machine


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is missing")
def test_the_broker_of_compose_starts(compose: Any, tmp_path: Path) -> None:
    port = free_port()
    written = compose["configs"]["mosquitto"]["content"]
    written = written.replace("1883", f"{port} 127.0.0.1").replace("/mosquitto/data", str(tmp_path))
    (tmp_path / "mosquitto.conf").write_text(f"{written}user root\n" if os.getuid() == 0 else written)
    with subprocess.Popen([str(PROGRAM), "-c", tmp_path / "mosquitto.conf"], stderr=subprocess.PIPE) as broker:
        try:
            until(lambda: broker.poll() is not None or accepts(port), 10)
            assert broker.poll() is None, broker.stderr.read() if broker.stderr else ""
        finally:
            terminate(broker)
