"""A private PostgreSQL: a new cluster in a temporary folder, reached by a socket in that folder."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from time import monotonic

import psycopg

START_SECONDS = 60
FAST, AT_ONCE = signal.SIGINT, signal.SIGQUIT
"""The two ways to stop a server: transactions are rolled back; or nothing is done, and the next start recovers, as
after a crash."""


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, or None if it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


class Cluster:
    """A cluster in a folder, and its server, which can be stopped and started again. The superuser is `postgres`."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self._account = _unprivileged(folder)
        self._programs, self._data = programs, folder / "data"
        self._server: subprocess.Popen[bytes] | None = None
        command: list[str | Path] = [programs / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust"]
        subprocess.run(
            [*command, "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            user=self._account,
        )

    def start(self) -> None:
        """Return when the server accepts connections."""
        # -F: a test's cluster need not survive a power cut; a killed client or server has the same effect with it.
        places = ["-D", str(self._data), "-k", str(self.folder)]
        command = [str(self._programs / "postgres"), *places, "-c", "listen_addresses=", "-F"]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, user=self._account)
        _wait_until_ready(self.folder, self._server)

    def stop(self, how: signal.Signals = FAST) -> None:
        """Stop the server, which ends all connections."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(START_SECONDS)
            self._server = None

    def copy(self, to: Path) -> None:
        """Copy the files while the server is stopped, as a backup does."""
        self.stop()
        subprocess.run(["cp", "-a", self._data, to], check=True)
        self.start()

    def put_back(self, copied: Path) -> None:
        """Continue with the files of a copy: what was written since is lost."""
        self.stop()
        shutil.rmtree(self._data)
        subprocess.run(["cp", "-a", copied, self._data], check=True)
        self.start()


@contextmanager
def running_cluster(programs: Path) -> Iterator[Cluster]:
    """Yield a new cluster whose server runs. No data is kept."""
    folder = Path(mkdtemp(prefix="postgresql-"))
    try:
        cluster = Cluster(programs, folder)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop(AT_ONCE)
    finally:
        shutil.rmtree(folder)


@contextmanager
def running_postgresql(programs: Path) -> Iterator[Path]:
    """Yield the folder of a running server's socket."""
    with running_cluster(programs) as cluster:
        yield cluster.folder


def new_database(server: Path) -> str:
    """Make a database. Return its URL for a catalog."""
    name = f"catalog_{token_hex(6)}"
    with psycopg.connect(host=str(server), user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"postgresql+psycopg://postgres@/{name}?host={server}"


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
