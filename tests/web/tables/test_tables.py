"""Data sets over REST: which format comes, what is said of it, and that its rows are those that were stored."""

import json
import zipfile
from io import BytesIO
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord
from app.tables.write import FORMATS
from tests.support import dataset_json
from tests.support.tables import field, long, parquet, visits, wide
from tests.web.stock import Stock

PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
XPT = "application/x-sas-xport"


class StoredDataSets:
    """A served gateway with data sets in stock, by name."""

    def __init__(self, stock: Stock, client: httpx.Client) -> None:
        self.stock, self.client = stock, client
        self.records: dict[str, AttachmentRecord] = {}

    def put(self, name: str, table: pa.Table, rows_a_group: int = 20_000) -> None:
        self.records[name] = self.stock.stored(
            parquet(table, rows_a_group), PARQUET, kind=AttachmentKind.DATA_SET, qualifier_1="WORK", qualifier_2=name
        )

    def get(self, name: str, query: str = "", method: str = "GET", **headers: str) -> httpx.Response:
        fields = {key.replace("_", "-"): value for key, value in headers.items()}
        path = f"/v1/attachments/{self.records[name].id}/content?{query}"
        return self.client.request(method, path, headers={"Accept": "*/*"} | fields)


@pytest.fixture(scope="module")
def tables(shared_stock: Stock, shared_http: httpx.Client) -> StoredDataSets:
    tables = StoredDataSets(shared_stock, shared_http)
    tables.put("VISITS", visits())
    tables.put("LONG", long())
    tables.put("WIDE", wide())
    tables.put("NOTHING", visits().slice(0, 0))
    return tables


# --- which format -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "accept", "came"),
    [
        ("", "*/*", "parquet"),
        ("", "", "parquet"),
        ("", "text/csv", "csv"),
        ("", "text/csv, application/json", "csv"),
        ("", "text/csv;q=0.5, application/json", "json"),
        ("", "text/csv;q=0.5, application/json;q=0.5", "csv"),
        ("", "text/*", "csv"),
        ("", "text/csv;q=nan", "csv"),
        ("", "application/*;q=0.2, text/csv;q=0.1", "parquet"),
        ("", f"{PARQUET};q=0, application/*", "arrow"),
        ("", f"*/*;q=0.1, {ARROW};q=0.2", "arrow"),
        ("", "text/html, application/xhtml+xml;q=0.9, */*;q=0.8", "parquet"),
        ("", "TEXT/CSV; header=present", "csv"),
        ("", "application/x-ndjson", "ndjson"),
        ("", XPT, "xpt"),
        ("", "application/vnd.cdisc.dataset-json.compressed", "dsjc"),
        ("", "application/zip", "sas"),
        ("format=csv", "application/json", "csv"),
        ("format=xpt-v5", "*/*", "xpt-v5"),
        ("format=dataset-json", "text/html", "dataset-json"),
    ],
)
def test_which_format(tables: StoredDataSets, query: str, accept: str, came: str) -> None:
    response = tables.get("WIDE", query, Accept=accept)
    known = FORMATS[came]
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == known.media_type + ("; charset=utf-8" if came == "csv" else "")
    assert f'filename="WIDE{known.extension}"' in response.headers["content-disposition"]
    assert response.headers["vary"].endswith("Accept")


@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("", "text/html"),
        ("", f"{PARQUET};q=0, text/html"),
        ("", "*/*;q=0"),
        ("format=sas7bdat", "*/*"),
        ("format=CSV", "*/*"),
    ],
)
def test_no_format_that_the_client_takes(tables: StoredDataSets, query: str, accept: str) -> None:
    response = tables.get("VISITS", query, Accept=accept)
    assert (response.status_code, response.json()["type"]) == (406, "/problems/not-acceptable")
    assert response.json()["available"] == list(FORMATS)
    assert response.headers["vary"].endswith("Accept")


def test_a_file_comes_as_it_is(tables: StoredDataSets) -> None:
    record = tables.stock.stored(b"text")
    path = f"/v1/attachments/{record.id}/content"
    assert tables.client.get(path, headers={"Accept": "text/csv"}).content == b"text"
    assert tables.client.get(path, params={"format": "csv"}).status_code == 406
    refused = tables.client.get(path, params={"limit": "3"})
    assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "limit")


# --- what is said of it -------------------------------------------------------------------------------------------


def test_what_is_stored_has_ranges_and_what_is_made_has_none(tables: StoredDataSets) -> None:
    stored = tables.get("VISITS")
    assert stored.content == parquet(visits(), 20_000)
    assert stored.headers["accept-ranges"] == "bytes"
    assert (
        tables.get("VISITS", "missing=column&dates=iso&names=keep&offset=0").headers["etag"] == stored.headers["etag"]
    )
    assert tables.get("VISITS", Range="bytes=0-3").content == b"PAR1"
    for query in ("format=csv", "limit=2"):
        made = tables.get("VISITS", query, Range="bytes=0-3")
        assert made.status_code == 200
        assert made.headers["accept-ranges"] == "none"
        assert "repr-digest" not in made.headers
        assert "content-length" not in made.headers


def test_each_representation_has_its_tag(tables: StoredDataSets) -> None:
    queries = [f"format={name}" for name in FORMATS] + [
        "format=csv&missing=tag",
        "format=csv&missing=column",
        "format=csv&limit=2",
        "format=csv&offset=2",
        "format=csv&columns=Age",
        "format=csv&dates=sas",
        "format=csv&names=lower",
        "format=csv&blank=null",
    ]
    tags = {tables.get("VISITS", query, method="HEAD").headers["etag"] for query in queries}
    assert len(tags) == len(queries)
    (tag,) = {tables.get("VISITS", f"format=csv&{more}").headers["etag"] for more in ("", "missing=null", "dates=iso")}
    assert tables.get("VISITS", "format=csv", If_None_Match=tag).status_code == 304
    assert tables.get("VISITS", "format=json", If_None_Match=tag).status_code == 200
    assert tables.get("VISITS", "format=csv", If_Match='"another"').status_code == 412


@pytest.mark.parametrize("name", FORMATS)
def test_head_says_what_get_says(tables: StoredDataSets, name: str) -> None:
    said, got = (tables.get("VISITS", f"format={name}", method=method) for method in ("HEAD", "GET"))
    assert said.status_code == got.status_code == 200
    assert said.content == b""
    varying = {"date", "transfer-encoding"}
    assert {k: v for k, v in said.headers.items() if k not in varying} == {
        k: v for k, v in got.headers.items() if k not in varying
    }


# --- its rows -----------------------------------------------------------------------------------------------------


def test_every_format_has_the_rows(tables: StoredDataSets) -> None:
    table = visits()
    came = {name: tables.get("VISITS", f"format={name}").content for name in FORMATS}
    assert pq.read_table(BytesIO(came["parquet"])).equals(table)
    assert pa.ipc.open_stream(came["arrow"]).read_all().equals(table, check_metadata=True)
    names = [row["Name"] for row in json.loads(came["json"])]
    assert names == [json.loads(line)["Name"] for line in came["ndjson"].splitlines()] == table["Name"].to_pylist()
    whole = json.loads(came["dataset-json"])
    dataset_json.check(whole)
    assert dataset_json.read_dsjc(came["dsjc"]) == dataset_json.read_ndjson(came["dataset-ndjson"]) == whole
    with zipfile.ZipFile(BytesIO(came["sas"])) as archive:
        assert archive.namelist() == ["data.csv", "data.sas"]
    assert came["csv"].startswith(b"Name,Age,Seen")


def test_a_long_data_set_comes_whole(tables: StoredDataSets) -> None:
    table = long()
    parsing = pa.csv.ParseOptions(newlines_in_values=True)
    read = pa.csv.read_csv(BytesIO(tables.get("LONG", "format=csv").content), parse_options=parsing)
    assert read["N"].cast(pa.float64()).equals(table["N"])
    assert read["Half"].equals(table["Half"])
    assert read["Text"].equals(table["Text"])
    assert pa.ipc.open_stream(tables.get("LONG", "format=arrow").content).read_all().equals(table)
    assert [row["Text"] for row in tables.get("LONG", "format=json").json()] == table["Text"].to_pylist()
    piece = tables.get("LONG", "format=json&columns=n&offset=123456&limit=2").json()
    assert piece == [{"N": 123456}, {"N": 123457}]


def test_no_rows_and_many_columns(tables: StoredDataSets) -> None:
    assert tables.get("NOTHING", "format=json").json() == []
    for name in FORMATS:
        assert tables.get("NOTHING", f"format={name}").status_code == 200
    assert tables.get("WIDE", "format=json").json() == wide().to_pylist()


def test_a_client_that_goes_away_leaves_nothing_behind(tables: StoredDataSets) -> None:
    before = pa.total_allocated_bytes()
    path = f"/v1/attachments/{tables.records['LONG'].id}/content?format=json"
    for _ in range(3):
        with tables.client.stream("GET", path) as response:
            next(response.iter_raw(1000))
    assert tables.get("VISITS", "format=csv").status_code == 200
    assert pa.total_allocated_bytes() - before < 64 << 20


# --- what cannot be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("format=csv&columns=Nam", "columns"),
        ("format=csv&columns=", "columns"),
        ("format=csv&offset=-1", "offset"),
        ("format=csv&limit=x", "limit"),
        ("format=csv&missing=maybe", "missing"),
        ("missing=tag", "missing"),
        ("format=xpt&dates=iso", "dates"),
        ("format=csv&rename=true", "rename"),
        ("format=csv&names=upper", "names"),
    ],
)
def test_options_that_cannot_be_followed(tables: StoredDataSets, query: str, parameter: str) -> None:
    response = tables.get("VISITS", query)
    assert (response.status_code, response.json()["type"]) == (422, "/problems/invalid")
    assert [error["parameter"] for error in response.json()["errors"]] == [parameter]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_version_5_cannot_hold_is_listed(tables: StoredDataSets, method: str) -> None:
    schema = pa.schema(
        [
            field("MuchTooLong", pa.float64()),
            field("Ok", pa.float64(), label="x" * 41),
            field("C", pa.string(), length="300"),
        ],
        {"sas.member": "LIMITS", "sas.encoding": "utf-8"},
    )
    tables.put("LIMITS", pa.table([[1.0], [2.0], ["short"]], schema=schema))
    refused = tables.get("LIMITS", "format=xpt-v5", method=method)
    assert refused.status_code == 422
    if method == "GET":
        problem = refused.json()
        assert problem["type"] == "/problems/not-representable"
        assert [(m["column"], m["what"], m["becomes"]) for m in problem["misfits"]] == [
            ("MuchTooLong", "name", "MUCHTOOL"),
            ("Ok", "label", "x" * 40),
            ("C", "length", "200"),
        ]
    assert tables.get("LIMITS", "format=xpt-v5&rename=true", method=method).status_code == 200
    assert tables.get("LIMITS", "format=xpt", method=method).status_code == 200


def test_a_value_that_a_transport_file_cannot_hold(tables: StoredDataSets) -> None:
    schema = pa.schema([field("Huge", pa.float64())], {"sas.member": "HUGE"})
    tables.put("HUGE", pa.table([[1.0, 1e300]], schema=schema))
    problem = tables.get("HUGE", "format=xpt").json()
    assert problem["type"] == "/problems/not-representable"
    assert "Huge: observation 2" in problem["detail"]


def test_an_answer_that_breaks_off_does_not_look_whole(tables: StoredDataSets) -> None:
    table = long()
    numbers = pa.concat_arrays([*table["N"].slice(0, table.num_rows - 1).chunks, pa.array([1e300])])
    tables.put("LATE", table.set_column(0, table.schema.field("N"), numbers))
    with capture_logs() as logs, pytest.raises(httpx.RemoteProtocolError):
        tables.get("LATE", "format=xpt")
    assert [(log["event"], "incident" in log) for log in logs] == [("request_failed", True)]


def test_content_that_is_not_there_any_more(tables: StoredDataSets) -> None:
    tables.put("GONE", visits())
    tables.stock.store.delete(f"attachments/{tables.records['GONE'].id}")
    for query in ("", "format=csv"):
        response = tables.get("GONE", query)
        assert (response.status_code, response.json()["type"]) == (500, "/problems/damaged")


def test_the_description_lists_formats_and_options(tables: StoredDataSets) -> None:
    described: dict[str, Any] = tables.client.get("/openapi.json").json()
    operation = described["paths"]["/v1/attachments/{attachment_id}/content"]["get"]
    types = operation["responses"]["200"]["content"]
    assert {known.media_type for known in FORMATS.values()} <= types.keys()
    parameters = {one["name"] for one in operation["parameters"]}
    assert parameters >= {"format", "columns", "offset", "limit", "missing", "dates", "names", "blank", "rename"}
