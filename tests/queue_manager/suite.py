"""`python -m tests.queue_manager.suite`: ibmmq's own tests, from its source distribution on PyPI, on the tests' queue
manager. They are fetched each time, and nothing of them is kept. pymqi's source distribution holds no tests.

Prints a line for each test that did not pass and of which NEEDS does not say why, and ends with 1 where there is one.
What the suite skips by itself (a queue manager with certificates, connections without a password) is not counted. The
suite stands on packages of its own (ddt, mock, testfixtures), which go into the same temporary folder.
"""

import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from app.model.message import PhysicalMessage
from tests.queue_manager.build import LOCK, build
from tests.support import mq
from tests.support.environment import with_proxies
from tests.support.mqi import environment, load
from tests.support.queue_manager import QueueManager

NEEDS: Final = {"test_pubsub": "publish and subscribe"}
"""By file of the suite, what its tests need and the queue manager does not have."""

_OUTCOME = re.compile(r"^(?P<outcome>PASSED|FAILED|ERROR) (?P<test>\S+)", re.MULTILINE)
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def fetch(folder: Path) -> Path:
    """Fetch the source distribution of the ibmmq in the lock file; return its folder of tests."""
    version = re.search(r"^ibmmq==(\S+)", LOCK.read_text(), re.MULTILINE)
    assert version is not None
    service_context = with_proxies() | {"MQ_FILE_PATH": str(build())}
    wanted = ("--no-deps", "--no-binary", "ibmmq", "--dest", str(folder), f"ibmmq=={version[1]}")
    subprocess.run([*_PIP, "download", *wanted], env=service_context, check=True)
    packages = ("ddt", "mock", "testfixtures")
    subprocess.run([*_PIP, "install", "--target", str(folder / "packages"), *packages], env=with_proxies(), check=True)
    # Beside OpenTelemetry ibmmq puts no MQRFH2, which is nothing that the queue manager could help.
    (folder / "packages" / "opentelemetry.py").write_text("raise ImportError\n")
    (archive,) = folder.glob("ibmmq-*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz") / "code" / "tests"


def run(folder: Path) -> Iterator[tuple[str, str]]:
    """Each test of the suite and its outcome: PASSED, FAILED or ERROR; skipped ones are left out."""
    tests = fetch(folder)
    with QueueManager(folder / "manager") as manager:
        # The tests of filters look for a queue that holds something.
        mq.put(load("ibmmq"), manager, "DEV.QUEUE.2", [PhysicalMessage("", "", 8)])
        manager.alter("DEV.QUEUE.2", descr="a queue of the test")
        manager.restart(users={"admin": "password", "app": "password"})
        service_context = environment("ibmmq")
        service_context["PYTHONPATH"] += os.pathsep + str(folder / "packages")
        service_context |= {
            "PY_IBMMQ_TEST_QM_NAME": manager.name,
            "PY_IBMMQ_TEST_QM_HOST": "127.0.0.1",
            "PY_IBMMQ_TEST_QM_PORT": str(manager.port),
            "PY_IBMMQ_TEST_QM_CHANNEL": manager.channel,
            "PY_IBMMQ_TEST_QM_APP_CHANNEL": manager.channel,
        }
        command = (
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rA",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            ".",
            ".",
        )
        done = subprocess.run(command, cwd=tests, env=service_context, capture_output=True, text=True, check=False)
    for found in _OUTCOME.finditer(done.stdout):
        yield found["test"], found["outcome"]


def reason(test: str) -> str | None:
    """Why a test of this name is known not to pass; None for one that has to."""
    return NEEDS.get(Path(test.partition("::")[0]).stem)


def main() -> int:
    with TemporaryDirectory() as folder:
        outcomes = dict(run(Path(folder)))
    for outcome, count in Counter(outcomes.values()).items():
        sys.stdout.write(f"{outcome.lower()}: {count}\n")
    surprises = [test for test, outcome in outcomes.items() if outcome != "PASSED" and reason(test) is None]
    for test in surprises:
        sys.stdout.write(f"not passed, and no reason is known: {test}\n")
    outdated = set(NEEDS) - {Path(test.partition("::")[0]).stem for test in outcomes if outcomes[test] != "PASSED"}
    for file in sorted(outdated):
        sys.stdout.write(f"every test passes, and a reason is listed: {file}\n")
    return 1 if surprises or outdated or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
