"""Finding a client library, and saying what to install when there is none."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.mqi import Library, environment, load

pytestmark = pytest.mark.process

FIND = "from adapters.ibm_mq.client import find_library; print(find_library().__name__)"


@pytest.mark.parametrize("library", ["pymqi", "ibmmq"])
def test_the_library_that_is_installed_is_taken(library: Library) -> None:
    command = [sys.executable, "-c", FIND]
    found = subprocess.run(command, check=True, env=environment(library), capture_output=True, text=True)
    assert found.stdout.strip() == library


def test_a_gateway_without_a_client_library_says_what_to_install(tmp_path: Path) -> None:
    configuration = tmp_path / "gateway.toml"
    configuration.write_text('[sources.sas]\ntransport = "ibm_mq"\nqueue = "SAS.ATTACHMENTS"\n')
    program = Path(sys.executable).parent / "attachment-gateway"
    command: list[str | Path] = [program, "serve", "--config", configuration]
    refusal = subprocess.run(command, check=False, env=environment(None), capture_output=True, text=True)
    assert refusal.returncode
    said = " ".join((refusal.stdout + refusal.stderr).split())
    assert "IBM MQ redistributable client" in said
    assert "pip install pymqi" in said
    assert "No module named 'pymqi'" in said


def test_ibmmq_is_used_without_its_own_tracing() -> None:
    """Its tracing changes messages, and its disconnecting may wait for itself."""
    load("ibmmq")
    assert import_module("mqcommon").OTelFunctions.disc is None
