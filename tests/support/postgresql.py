"""A private PostgreSQL: a new cluster in a temporary folder, reached by a socket in that folder."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic

import psycopg

START_SECONDS = 60


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, or None if it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextmanager
def running_postgresql(programs: Path) -> Iterator[Path]:
    """Yield the folder of a running server's socket; its superuser is `postgres`. No data is kept."""
    folder = Path(mkdtemp(prefix="postgresql-"))
    try:
        account = _unprivileged(folder)
        data = folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            user=account,
        )
        # -F: a test's cluster need not survive a power cut; a killed client has the same effect with it.
        command: list[str | Path] = [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-F"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, user=account)
        try:
            _wait_until_ready(folder, server)
            yield folder
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: no data is kept
            server.wait(START_SECONDS)
    finally:
        shutil.rmtree(folder)


def _unprivileged(folder: Path) -> str | None:
    """Return the account to run as, since PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    names = {account.pw_name for account in pwd.getpwall()}
    account = "postgres" if "postgres" in names else "nobody"
    shutil.chown(folder, account)
    return account


def _wait_until_ready(folder: Path, server: "subprocess.Popen[bytes]") -> None:
    deadline = monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            if server.poll() is not None or monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()) from None
        else:
            return
