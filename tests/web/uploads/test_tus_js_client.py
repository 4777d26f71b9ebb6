"""tus-js-client, as npm has it, uploads to the gateway over a connection that breaks."""

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from app.web.app import create_app
from tests.support.breaking import breaking
from tests.support.environment import with_proxies
from tests.support.fetched import ran
from tests.web.stock import Stock, serving
from tests.web.uploads.uploading import DATA, content, sent

pytestmark = pytest.mark.process

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


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing: tus-js-client is not tried")
def test_tus_js_client_resumes(stock: Stock, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    ran("npm", "install", "--no-audit", "--no-fund", "--prefix", folder, _PACKAGE, folder=folder)
    (folder / "upload.cjs").write_text(_PROGRAM)
    (folder / "data.bin").write_bytes(DATA)
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as http:
        with breaking(address, sent=600_000) as relay:
            command = ["node", "upload.cjs", f"{relay.url}/v1/uploads", "data.bin"]
            done = subprocess.run(
                command, cwd=folder, env=with_proxies(), capture_output=True, text=True, timeout=60, check=False
            )
        assert done.returncode == 0, done.stderr
        assert relay.broken, "the connection broke"
        path = httpx.URL(json.loads(done.stdout)["url"]).path
        answer = sent(http, path)
        assert content(stock, answer.json()) == DATA
        assert answer.json()["attachments"][0]["name"] == "grüße.bin"
