"""Azurite, Microsoft's own double of Azure Blob Storage, which npx fetches."""

import base64
import hmac
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from app.testing.waiting import until
from tests.support.environment import with_proxies
from tests.support.object_server import Bucket

PACKAGE = "azurite@3.37.0"
FETCH_SECONDS = 100
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and the key that are the same in every Azurite, as its documentation says."""
VERSION = "2021-08-06"
REQUESTS = Path(__file__).with_name("azurite_requests.cjs")
"""Counts the requests, and delays the answers."""
RUN = ("npx", "--yes", "--prefer-offline", "--package", PACKAGE, "azurite-blob")
"""Without `--prefer-offline` npm asks the registry for all 200 packages each time, which takes a minute."""


@contextmanager
def running_azurite(folder: Path, port: int) -> Iterator[None]:
    """Run a server that keeps nothing; skip the test if Azurite cannot be fetched."""
    if shutil.which("npx") is None:
        pytest.skip("npm is missing: Azure Blob Storage is not tried")
    options = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry")
    with (folder / "azurite.log").open("wb") as log:
        command = [*RUN, *options, "--skipApiVersionCheck", "--silent"]
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**with_proxies(), "NODE_OPTIONS": f"--require {REQUESTS}"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until(lambda: _accepts(port) or server.poll() is not None, FETCH_SECONDS)
        if server.poll() is not None:
            why = (folder / "azurite.log").read_text()[-500:]
            pytest.skip(f"npx cannot fetch or run {PACKAGE}, so Azure Blob Storage is not tried: {why}")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)  # npx and what it has started; no data are kept
        server.wait(30)


def environment(port: int) -> dict[str, str]:
    """Return the environment variables by which obstore finds the server."""
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
    }


class Container(Bucket):
    """An empty container of a running Azurite."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        super().__init__(port, name)
        self.url, self._path = f"az://{name}", f"/{ACCOUNT}/{name}"

    def _create(self) -> None:
        create_container(self._port, self.name)


def create_container(port: int, name: str) -> None:
    """Create a container by a signed request: obstore cannot."""
    now = formatdate(usegmt=True)
    named = f"x-ms-date:{now}\nx-ms-version:{VERSION}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signed = hmac.new(base64.b64decode(KEY), f"PUT{12 * chr(10)}{named}".encode(), sha256)
    fields = {
        "x-ms-date": now,
        "x-ms-version": VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signed.digest()).decode()}",
    }
    url = f"http://127.0.0.1:{port}/{ACCOUNT}/{name}?restype=container"
    urlopen(Request(url, method="PUT", headers=fields)).close()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
