"""Files that others wrote, through a gateway and a real Mosquitto in four manners, and fetched in every format."""

import csv
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.tables.write import FORMATS
from tests.support import haven, peers
from tests.support.define_xml import define_xml
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.peers import Cell, Cells
from tests.support.readstat import write_sas7bcat

pytestmark = pytest.mark.broker

MANNERS: Mapping[str, tuple[str, str]] = {
    "mqtt5": ("sas_queue", "5"),
    "image": ("sas_queue", "3.1.1"),
    "rendezvous": ("sas_rendezvous", "5"),
    "order": ("order_packet", "5"),
}
"""The framings and versions of MQTT that carry data sets, by the name of their source and destination."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with Mosquitto(folder) as broker:
        tables = []
        for name, (framing, version) in MANNERS.items():
            topic = f"others/{name}"
            tables.append(mqtt_source(name, broker.port, topic, version, framing=framing))
            options = f'framing = "{framing}"\nversion = "{version}"\n'
            tables.append(mqtt_destination(name, broker.port, topic, options))
        with ForkedGateway(folder, "".join(tables)) as process:
            for name in MANNERS:
                process.await_source(name)
            yield process


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Cells]:
    """Files and their cells: by the peers' readers, or by CDISC's rules."""
    folder = tmp_path_factory.mktemp("files")
    made = peers.write_files(folder)
    found = {path: peers.pyreadstat_cells(path) if peers.is_of_sas(path) else peers.DATASET_JSON for path in made}
    if not haven.missing_reason():
        theirs = tmp_path_factory.mktemp("haven")
        haven.write_files(theirs)
        found |= haven.read_cells(sorted(theirs.iterdir()), folder)
    return found


def post(process: GatewayProcess, to: str, path: Path, name: str, **beside: Path) -> None:
    """Send a file as a data set."""
    form = {"destination": to, "kind": "data-set", "name": name}
    parts = {"file": path, **beside}
    sent = {key: (each.name, each.read_bytes()) for key, each in parts.items()}
    answer = process.client.post("/v1/messages", data=form, files=sent)
    assert answer.status_code == 202, answer.text


def finished(process: GatewayProcess, count: int, **which: Any) -> list[dict[str, Any]]:
    process.until(lambda: len(process.listing("/v1/attachments", state="finished", **which)) == count, timeout=240)
    assert process.listing("/v1/quarantine") == []
    return process.listing("/v1/attachments", state="finished", **which)


def fetched(process: GatewayProcess, item: dict[str, Any], **query: Any) -> bytes:
    answer = process.client.get(f"/v1/attachments/{item['id']}/content", params=query)
    assert answer.status_code == 200, answer.text
    return answer.content


def member_name(path: Path) -> str:
    return path.name.replace(".", "_").upper()


def test_files_of_others_arrive_whole_in_every_manner_and_format(
    gateway: GatewayProcess, files: dict[Path, Cells], tmp_path: Path
) -> None:
    for name in MANNERS:
        for path in files:
            post(gateway, name, path, f"OTHERS.{member_name(path)}")
    expected = {f"OTHERS.{member_name(path)}": cells for path, cells in files.items()}
    for manner in MANNERS:
        found = finished(gateway, len(files), source=manner)
        assert {item["name"].upper() for item in found} == {name.partition(".")[2] for name in expected}
        for item in found:
            cells = expected[f"OTHERS.{item['name'].upper()}"]
            words = READERS if manner == "mqtt5" else ("parquet",)
            for word in words:
                query = {"format": word, **QUERIES[word]}
                seen = READERS[word](fetched(gateway, item, **query), tmp_path)
                assert peers.differences(shaped(cells, seen, manner, word), seen) == [], (manner, item["name"], word)


def shaped(cells: Cells, seen: Cells, manner: str, word: str) -> Cells:
    """Return the expected cells with the names of XPT 5, and without special missing values where there are none.

    Order packets have none, and pyreadstat does not tell those of XPT files.
    """
    names = list(seen) if word == "xpt-v5" else list(cells)
    kept = peers.without_tags(cells) if manner == "order" or word.startswith("xpt") else cells
    return dict(zip(names, kept.values(), strict=True))


def of_texts(rows: list[list[str]]) -> Cells:
    """Return the cells of text: what is a number there is one here."""
    names, *lines = rows
    return {name: [cell_of(line[at]) for line in lines] for at, name in enumerate(names)}


def cell_of(text: str) -> Cell:
    try:
        return float(text)
    except ValueError:
        return text


def of_csv(data: bytes, _: Path) -> Cells:
    return of_texts(list(csv.reader(io.StringIO(data.decode(), newline=""))))


def of_objects(rows: list[dict[str, Any]]) -> Cells:
    return {name: [row[name] for row in rows] for name in rows[0]}


def with_tags(found: Cells) -> Cells:
    tags = {name.removesuffix("__missing"): column for name, column in found.items() if name.endswith("__missing")}
    return {
        name: [tag or value for tag, value in zip(tags.get(name, [None] * len(column)), column, strict=True)]
        for name, column in found.items()
        if name.removesuffix("__missing") not in tags or name in tags
    }


def of_dataset_json(head: dict[str, Any], rows: list[list[Any]]) -> Cells:
    names = [column["name"] for column in head["columns"]]
    return with_tags({name: [row[at] for row in rows] for at, name in enumerate(names)})


def of_dataset_lines(data: bytes, _: Path) -> Cells:
    head, *rows = (json.loads(line) for line in data.decode().splitlines())
    return of_dataset_json(head, rows)


def of_xpt(data: bytes, folder: Path) -> Cells:
    path = folder / "fetched.xpt"
    path.write_bytes(data)
    return peers.pyreadstat_cells(path)


def of_program(data: bytes, _: Path) -> Cells:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return of_csv(archive.read("data.csv"), _)


TAGS = {"dates": "sas", "missing": "tag"}
COLUMNS = {"dates": "sas", "missing": "column"}
QUERIES: Mapping[str, dict[str, str]] = {
    "parquet": {},
    "arrow": {},
    "arrow-file": {},
    "csv": TAGS,
    "json": TAGS,
    "ndjson": TAGS,
    "dataset-json": COLUMNS,
    "dataset-ndjson": COLUMNS,
    "dsjc": COLUMNS,
    "xpt": {},
    "xpt-v5": {"rename": "true"},
    "sas": {},
}
READERS: Mapping[str, Callable[[bytes, Path], Cells]] = {
    "parquet": lambda data, _: peers.arrow_cells(pq.read_table(io.BytesIO(data))),
    "arrow": lambda data, _: peers.arrow_cells(pa.ipc.open_stream(data).read_all()),
    "arrow-file": lambda data, _: peers.arrow_cells(pa.ipc.open_file(data).read_all()),
    "csv": of_csv,
    "json": lambda data, _: of_objects(json.loads(data)),
    "ndjson": lambda data, _: of_objects([json.loads(line) for line in data.decode().splitlines()]),
    "dataset-json": lambda data, _: of_dataset_json(json.loads(data), json.loads(data)["rows"]),
    "dataset-ndjson": of_dataset_lines,
    "dsjc": lambda data, folder: of_dataset_lines(zlib.decompress(data), folder),
    "xpt": of_xpt,
    "xpt-v5": of_xpt,
    "sas": of_program,
}


def test_every_format_is_fetched() -> None:
    assert set(READERS) == set(FORMATS) == set(QUERIES)


def test_value_labels_of_a_catalog_and_a_define_xml_survive(gateway: GatewayProcess, tmp_path: Path) -> None:
    data = tmp_path / "pupils.csv"
    data.write_text("NAME,SEX,AGEGR,KIND\nAnn,F,2,1\nBob,M,,2\n")
    define = tmp_path / "define.xml"
    define.write_text(define_xml())
    catalog = write_sas7bcat(tmp_path / "formats.sas7bcat", {"KINDF": {1.0: "good", 2.0: "very good"}})
    form = {
        "destination": "mqtt5",
        "kind": "data-set",
        "name": "LAB.PUPILS",
        "data_set": json.dumps({"variables": {"KIND": {"format": "KINDF."}}}),
    }
    parts = {"file": data, "define": define, "catalog": catalog}
    answer = gateway.client.post(
        "/v1/messages", data=form, files={key: (path.name, path.read_bytes()) for key, path in parts.items()}
    )
    assert answer.status_code == 202, answer.text
    (pupils,) = finished(gateway, 1, name="PUPILS")
    (formats,) = finished(gateway, 1, name="FORMATS")
    shown = fetched(gateway, pupils, format="csv", labels="true").decode().splitlines()
    assert shown == ["NAME,SEX,AGEGR,KIND", "Ann,Female,12 and older,good", "Bob,Male,,very good"]
    assert pupils["message"] == formats["message"]
