"""Setting up where something is missing: a sentence that says what to do, at once, and the output in a file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mounted import mounted

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
CLOSED = "http://127.0.0.1:9/simple"
SENTENCES = "installing requirements-java.lock", "installing requirements.lock", "making .venv"
"""What is printed of what goes well."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what setting up reads, and with programs of its own in `bin`, which come first."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "clients/python").mkdir(parents=True)
    shutil.copy(ROOT / "clients/python/pyproject.toml", tmp_path / "clients/python")
    for name in ("Makefile", "pyproject.toml", *(path.name for path in ROOT.glob("requirements*.lock"))):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(checkout: Path, name: str, script: str) -> Path:
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def make(checkout: Path, target: str, python: str | Path = sys.executable, **variables: str) -> list[str]:
    """Return the lines of a `make` that fails, without those of what went well and make's own last one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "MFLAGS"))}
    environment |= {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "PIP_CONFIG_FILE": os.devnull} | variables
    command = ["make", "--no-print-directory", target, f"PYTHON={python}"]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stdout + done.stderr
    *lines, last = done.stderr.splitlines()
    assert last.startswith("make: *** ")
    assert done.stdout == ""
    return [line for line in lines if line not in SENTENCES]


def without_venv(checkout: Path) -> Path:
    """Debian's Python without its package python3-venv."""
    return program(checkout, "python", f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"')


def test_no_python_is_said(checkout: Path) -> None:
    (line,) = make(checkout, "run", program(checkout, "python", "exit 1"))
    assert line == (
        "Python 3.11 or newer is needed and was not found. Install it, on Debian with: sudo apt-get install "
        "python3-venv. Or name one with: make PYTHON=/path/to/python3.11"
    )


def test_a_user_is_told_which_package_to_ask_for(checkout: Path) -> None:
    program(checkout, "id", "echo 1000")
    (line,) = make(checkout, "run", without_venv(checkout))
    assert (
        line == "Python's venv module is missing. Install it first, on Debian with: sudo apt-get install python3-venv"
    )


def test_packages_that_cannot_be_installed_say_why(checkout: Path) -> None:
    program(checkout, "id", "echo 0")
    program(checkout, "apt-get", "echo \"E: Could not resolve 'deb.debian.org'\" >&2; exit 100")
    (installing, line) = make(checkout, "run", without_venv(checkout))
    assert installing == "installing python3-venv"
    assert line.startswith("The Debian packages python3-venv could not be installed: the server cannot be reached; ")
    assert line.endswith("Then run make again (all of its output: build/debian-packages.log).")
    assert "deb.debian.org" in (checkout / "build" / "debian-packages.log").read_text()


def test_no_network_is_said_at_once(checkout: Path) -> None:
    (line,) = make(checkout, "run", PIP_INDEX_URL=CLOSED)
    assert line.startswith("The packages of requirements.lock could not be installed: the server cannot be reached; ")
    assert "PIP_INDEX_URL" in line
    assert line.endswith("(all of its output: build/virtual-environment.log).")
    assert "127.0.0.1" in (checkout / "build" / "virtual-environment.log").read_text()


def test_a_full_disk_is_said(checkout: Path) -> None:
    disk = checkout / "disk"
    disk.mkdir()
    try:
        with mounted(disk, 1 << 20):
            (checkout / ".venv").symlink_to(disk)
            command = [f"{checkout}/.ci/virtual-environment", sys.executable, f"{disk}/venv", "requirements.lock"]
            done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    except PermissionError as refused:
        pytest.skip(str(refused))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()[1:]
    assert line.startswith(
        f"{disk / 'venv'} could not be made: the disk is full; free some space (df -h shows where), "
    )


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("ERROR: [Errno 28] No space left on device: '/x/y'", "the disk is full;"),
        ("ERROR: [Errno 13] Permission denied: '.venv'", "this user may not write there;"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", "the package index has other files"),
        ("Temporary failure in name resolution\nERROR: No matching distribution found for x", "the server cannot be"),
        ("ReadTimeoutError: Read timed out.\nERROR: No matching distribution found for x", "the server cannot be"),
        ("ERROR: No matching distribution found for alembic==1.20", "the package index does not have the version"),
        ("E: Unable to locate package mosquitto", "the package lists of this system do not name it;"),
        ("Something:\n  never seen.\n\n", "never seen. Then"),
    ],
)
def test_why(checkout: Path, output: str, sentence: str) -> None:
    done = subprocess.run(
        [".ci/why", "It failed", "it"], cwd=checkout, input=output, capture_output=True, text=True, check=False
    )
    assert done.stderr.startswith(f"It failed: {sentence}")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("Then run make again (all of its output: build/it.log).\n")
    assert (checkout / "build" / "it.log").read_text().strip() == output.strip()


def test_the_programs_of_the_tests_are_named_together(checkout: Path) -> None:
    program(checkout, "id", "echo 1000")
    program(checkout, "gcc", "exit 1")
    (line,) = make(checkout, "system", without_venv(checkout))
    assert line.startswith("The tests need these programs; install them first, on Debian with: sudo apt-get install")
    assert {"gcc", "libc6-dev", "python3-venv"} <= set(line.split())
