"""tus-js-client, as npm has it, uploads to the gateway over a connection that breaks."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import httpx
import pytest

from app.web.api import create_app
from tests.support.environment import with_proxies
from tests.support.fetched import ran
from tests.web.stock import Stock, serving
from tests.web.uploads.test_uploads import DATA, content, sent

_PACKAGE = "tus-js-client@4.3.1"
_PROGRAM = """
const tus = require("tus-js-client")
const fs = require("fs")
const [endpoint, path] = process.argv.slice(2)
const upload = new tus.Upload(fs.createReadStream(path), {
  endpoint,
  uploadSize: fs.statSync(path).size,
  retryDelays: [0, 50, 100, 200],
  metadata: { filename: "grüße.bin", filetype: "application/octet-stream" },
  onError: (error) => { console.error(String(error)); process.exit(1) },
  onSuccess: () => console.log(JSON.stringify({ url: upload.url })),
})
upload.start()
"""


@contextmanager
def breaking(port: int, after: int) -> Iterator[tuple[int, list[int]]]:
    """The port of a relay to another one; it breaks the first connection that brings this many bytes. With the list
    of the broken ones."""
    listening = socket.create_server(("127.0.0.1", 0))
    broken: list[int] = []

    def relay(source: socket.socket, target: socket.socket, most: int | None) -> None:
        total = 0
        with suppress(OSError):
            while data := source.recv(65536):
                total += len(data)
                target.sendall(data)
                if most is not None and total >= most and not broken:
                    broken.append(total)
                    for each in (source, target):
                        each.shutdown(socket.SHUT_RDWR)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                Thread(target=relay, args=(client, server, after), daemon=True).start()
                Thread(target=relay, args=(server, client, None), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    try:
        yield listening.getsockname()[1], broken
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing: tus-js-client is not tried")
def test_tus_js_client_resumes(stock: Stock, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    ran("npm", "install", "--no-audit", "--no-fund", "--prefix", folder, _PACKAGE, folder=folder)
    (folder / "upload.cjs").write_text(_PROGRAM)
    (folder / "data.bin").write_bytes(DATA)
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as http:
        with breaking(int(address.rpartition(":")[2]), 600_000) as (port, broken):
            command = ["node", "upload.cjs", f"http://127.0.0.1:{port}/v1/uploads", "data.bin"]
            done = subprocess.run(
                command, cwd=folder, env=with_proxies(), capture_output=True, text=True, timeout=60, check=False
            )
        assert done.returncode == 0, done.stderr
        assert broken, "the connection broke"
        path = httpx.URL(json.loads(done.stdout)["url"]).path
        answer = sent(http, path)
        assert content(stock, answer.json()) == DATA
        assert answer.json()["attachments"][0]["name"] == "grüße.bin"
