"""`config`: all problems at once, or what is effective, without secrets."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.forked_command import program
from tests.support.gateway import GatewayProcess

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).parents[2] / "docs" / "gateway.toml"


def test_all_problems_are_listed(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('[http]\nport = "no"\n[sources.a]\ntransport = "carrier pigeon"\n')
    for command in ("check", "show"):
        result = run("config", command, "--config", file)
        assert (result.code, result.out) == (1, "")
        assert "2 problems" in result.err
        assert "http.port: " in result.err
        assert "sources.a.transport: unknown transport 'carrier pigeon'; known: " in result.err


def test_a_certificate_that_cannot_be_used_is_told(run: Run, tmp_path: Path) -> None:
    file, certificate = tmp_path / "gateway.toml", tmp_path / "tls.crt"
    certificate.write_text("no certificate")
    file.write_text(f'[http]\ncert_file = "{certificate}"\n')
    result = run("config", "check", "--config", file)
    assert (result.code, result.out) == (1, "")
    assert "tls.crt cannot be used" in result.err


def test_serve_tells_the_same_problems(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('colour = "green"\n')
    result = run("serve", "--config", file)
    assert result.code == 1
    assert "colour: no such setting" in result.err


def test_the_documented_example_is_in_order(run: Run) -> None:
    result = run("config", "check", "--config", EXAMPLE)
    assert result.code == 0
    assert "sources.orders.url" in result.out
    assert "is valid" in result.err


def test_the_printed_example_loads_and_is_the_documented_one(run: Run, tmp_path: Path) -> None:
    printed = run("config", "example")
    assert (printed.code, printed.out) == (0, EXAMPLE.read_text())
    (tmp_path / "gateway.toml").write_text(printed.out)
    assert "is valid" in run("config", "check", "--config", tmp_path / "gateway.toml").err


def test_secrets_are_masked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        '[catalog]\nurl = "postgresql+psycopg://gateway:swordfish@db/gateway"\n'
        '[sources.a]\ntransport = "mqtt"\nurl = "mqtt://b"\ntopic = "t"\nusername = "u"\npassword = "swordfish"\n'
    )
    shown = run("config", "show", "--config", file)
    assert json.loads(shown.out)["catalog"]["url"] == "postgresql+psycopg://gateway:****@db/gateway"
    assert json.loads(shown.out)["sources"]["a"]["username"] == "u"
    for result in (shown, run("config", "check", "--config", file)):
        assert result.code == 0
        assert "swordfish" not in result.out + result.err


def test_a_folder_in_use_is_told_in_a_sentence(gateway: GatewayProcess) -> None:
    environment = os.environ | {"ATTACHMENT_GATEWAY_DATA": str(gateway.folder / "var")}
    done = subprocess.run(
        [program(), "serve"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr
