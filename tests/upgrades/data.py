"""The data of a version as a fixture: where it is, how gateways with it are configured, and what must be found in it.

`VERSION/data.tar.xz` has these folders, as the processes of that version left them:

- `gateway`: the data folder of a gateway that was killed, with SQLite, and `backup`, a backup that it made before.
- `postgresql`: the data folder of a gateway that was restored from that backup with its catalog in PostgreSQL, which
  `catalog.sql` has.
- `spark`: a copy of the killed gateway's journal, and catalog, content, tables and checkpoint of a stream over it.

`VERSION/data.json` has the SHA-256 of the archive, what must be found in each folder, and the messages that
complete the unfinished attachment.
"""

import json
import tarfile
from base64 import b64decode, b64encode
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq

from app.model.message import PhysicalMessage
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import free_port
from tests.support.webhook_receiver import SECRET

FOLDER = Path(__file__).parent
VERSIONS = sorted(path.parent.name for path in FOLDER.glob("*/data.json"))
MOVED = "@FOLDER@"
"""In files of Spark's checkpoint: the folder that it was made in, of which Spark notes the whole path."""

_AGES = ("journal", "attachments", "expired", "deliveries", "quarantine", "events", "dead_letters", "uploads")
_KEPT = "".join(f'{each} = "36500d"\n' for each in _AGES)


def settings(broker: int, *, catalog: str | None = None) -> str:
    """Return the settings of a gateway that keeps everything, at the broker of this port."""
    kept = f'[retention]\n{_KEPT}[expiry]\nunfinished = "36500d"\n[journal]\nsegment_bytes = "64 KiB"\n'
    away = mqtt_destination("away", free_port(), "away")
    hook = f'[webhooks.audit]\nurl = "http://127.0.0.1:{free_port()}/"\nsecrets = ["{SECRET}"]\n'
    stored = "" if catalog is None else f'[catalog]\nurl = "{catalog}"\n'
    loops = "".join(
        mqtt_source(framing, broker, framing, framing=framing)
        + mqtt_destination(framing, broker, framing, f'framing = "{framing}"\n')
        for framing in ("mq_group", "order_packet")
    )
    return kept + stored + hook + away + loops + mqtt_source("orders", broker, "orders")


def unpacked(version: str, folder: Path) -> dict[str, Any]:
    """Unpack the data of a version into a folder. Return what its description says."""
    described: dict[str, Any] = json.loads((FOLDER / version / "data.json").read_text())
    packed = (FOLDER / version / "data.tar.xz").read_bytes()
    assert sha256(packed).hexdigest() == described["sha256"], "the archive is not the one that was described"
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    for path in (folder / "spark" / "var" / "pipeline").rglob("*"):
        if path.is_file() and MOVED.encode() in (data := path.read_bytes()):
            path.write_bytes(data.replace(MOVED.encode(), str(folder).encode()))
    return described


def load_catalog(folder: Path, url: str) -> None:
    """Fill an empty database of PostgreSQL with the catalog of the folder `postgresql`."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute((folder / "catalog.sql").read_bytes())


def found(process: GatewayProcess) -> dict[str, Any]:
    """Return what a gateway shows of its data by REST, in the parts that every version must show unchanged."""
    get = process.client.get
    attachments = {item["id"]: _part(item, _ATTACHMENT) for item in process.listing("/v1/attachments")}
    for each, item in attachments.items():
        if item["state"] == "finished":
            content = get(f"/v1/attachments/{each}/content").raise_for_status()
            item["content"] = sha256(content.content).hexdigest()
            if item["kind"] == "data-set":
                item["rows"] = pq.read_table(BytesIO(content.content)).to_pylist()
    return {
        "attachments": attachments,
        "messages": {item["id"]: _part(item, _MESSAGE) for item in process.listing("/v1/messages")},
        "quarantine": {item["id"]: _part(item, _QUARANTINE) for item in process.listing("/v1/quarantine")},
        "deliveries": {item["id"]: _part(item, _DELIVERY) for item in process.listing("/v1/deliveries")},
        "uploads": {item["id"]: _part(item, _UPLOAD) for item in process.listing("/v1/uploads")},
        "webhooks": [item["name"] for item in get("/v1/webhooks").raise_for_status().json()["items"]],
    }


_ATTACHMENT = ("state", "kind", "source", "name", "description", "size", "sha256", "correl_id", "warnings_count")
_MESSAGE = ("source", "header_correl_id", "complete_at")
_QUARANTINE = ("source", "code", "state", "size")
_DELIVERY = ("destination", "state", "messages_sent", "messages_total")
_UPLOAD = ("name", "size", "offset", "is_complete")


def _part(item: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item[name] for name in names}


def to_json(message: PhysicalMessage) -> dict[str, Any]:
    """Return a message of SAS as it stands in a description."""
    return {
        "msg_type": message.msg_type,
        "correl_id": message.correl_id.hex(),
        "encoding": message.encoding,
        "ccsid": message.ccsid,
        "body": b64encode(message.body).decode(),
    }


def from_json(said: dict[str, Any]) -> PhysicalMessage:
    correl_id, body = bytes.fromhex(said["correl_id"]), b64decode(said["body"])
    return PhysicalMessage("", "sas_queue", **{**said, "correl_id": correl_id, "body": body})
