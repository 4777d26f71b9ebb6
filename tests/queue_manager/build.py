"""Builds what pymqi and ibmmq need to run on the tests' queue manager: the client library, and the two themselves.

A build is kept in the virtual environment, beside its packages, and made again when anything it is made of changes.
"""

import fcntl
import re
import shutil
import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from tests.support.environment import with_proxies

SOURCES = Path(__file__).parent
LOCK = SOURCES.parent.parent / "requirements-mq.lock"
BUILDS = Path(sys.prefix) / "mqi"

CLIENT_LIBRARIES = {"pymqi": "libmqic_r.so", "ibmmq": "libmqm_r.so"}
"""By package, the client library that it asks the dynamic linker for."""
_LIBRARY = tuple(SOURCES / name for name in ("client.h", "mqi.c", "properties.c"))


def build() -> Path:
    """The folder of the finished build; makes it when it is not there, which takes some seconds.

    It holds `inc` and `lib64`, as an installed client has them, and a folder of its own for each package, so that one
    can be importable without the other. Any number of processes may ask at once. Raises RuntimeError, with what the
    failing tool said, when it cannot be made.
    """
    finished = BUILDS / _fingerprint()
    if finished.exists():
        return finished
    _check_tools()
    BUILDS.mkdir(exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            folder = Path(mkdtemp(dir=BUILDS, prefix="unfinished-"))
            try:
                _build(folder)
                folder.rename(finished)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return finished


def _fingerprint() -> str:
    digest = sha256(sys.version.encode())
    for path in (Path(__file__), LOCK, *_LIBRARY, *sorted((SOURCES / "include").iterdir())):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _check_tools() -> None:
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    missing = [what for what, there in (("gcc", shutil.which("gcc")), (headers, headers.exists())) if not there]
    if missing:
        raise RuntimeError(f"pymqi cannot be built for the tests: {' and '.join(map(str, missing))} missing")


def _build(folder: Path) -> None:
    shutil.copytree(SOURCES / "include", folder / "inc")
    (folder / "lib64").mkdir()
    for name in CLIENT_LIBRARIES.values():
        _run(
            *("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread", f"-Wl,-soname,{name}"),
            *("-I", folder / "inc", "-o", folder / "lib64" / name),
            *(path for path in _LIBRARY if path.suffix == ".c"),
        )
    # pymqi finds its client library by where it lies itself: the folder still changes its name.
    variables = {"MQ_FILE_PATH": str(folder), "LDFLAGS": "-Wl,-rpath,$ORIGIN/../../lib64"}
    for package in CLIENT_LIBRARIES:
        requirement = folder / f"{package}.lock"
        requirement.write_text(_locked(package))
        # No cache: pip would keep the pymqi of one build and give it to the next.
        _run(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"),
            *("--no-deps", "--no-build-isolation", "--require-hashes", "--target", folder / package),
            *("--requirement", requirement),
            environment=variables,
        )


def _locked(package: str) -> str:
    """The lines of the lock file that are about one package."""
    found = re.search(rf"^{package}==.*(?:\n .*)*", LOCK.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{LOCK.name} does not name {package}")
    return found[0]


def _run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    variables = {**with_proxies(), **(environment or {})}
    done = subprocess.run(
        command, check=False, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}")


if __name__ == "__main__":
    build()
