"""Tables over REST: which there are, what their columns are, and their rows in every format."""

import json
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyreadstat
import pytest

from app.pipeline.commit.tables import QUALITY, Increment, hour_of
from app.tables.write import FORMATS
from app.web.resources.tables import JSON_ROWS
from tests.support.built import RECEIVED, Built, without_deltalake
from tests.support.kept import flip
from tests.support.tables import field, long, pupils, visits
from tests.web.conftest import connected, stocked
from tests.web.stock import Stock

PARQUET = "application/vnd.apache.parquet"
ROW = ["message", "attachment", "source", "received_at", "row"]
HOSTILE = "WORK.Ä/Ö?#% &\\..\n'\"=+😀"


def numbers(rows: int) -> pa.Table:
    schema = pa.schema([field("N", pa.float64(), label="Number")], {"sas.library": "WORK", "sas.member": "NUMBERS"})
    return pa.table([pa.array(range(rows)).cast(pa.float64())], schema=schema)


@pytest.fixture(scope="module")
def built(shared_stock: Stock) -> Built:
    built = Built(shared_stock.settings.data)
    built.append(visits())
    built.append(pupils(), pupils())
    built.append(numbers(JSON_ROWS), numbers(JSON_ROWS + 5))
    built.append(numbers(2).rename_columns(["Sex"]).cast(pa.schema([field("Sex", pa.float64())])), member="MIXED")
    built.append(pa.table([["M"]], schema=pa.schema([field("Sex", pa.string(), label="Sex")])), member="MIXED")
    built.append(numbers(1), member="Ä/Ö?#% &\\..\n'\"=+😀")
    hours = [hour_of(RECEIVED), hour_of(RECEIVED) + 3_600_000_000]
    built.quality([Increment("orders", hours[0], messages=7, missing_ranges=2, longest_seconds=2.5)])
    built.quality(
        [
            Increment("orders", hours[0], messages=3, missing_ranges=-2, longest_seconds=1.0),
            Increment("a", hours[1], messages=1),
        ]
    )
    return built


@pytest.fixture(scope="module")
def get(shared_http: httpx.Client, built: Built) -> Any:
    def get(path: str, method: str = "GET", **headers: str) -> httpx.Response:
        fields = {key.replace("_", "-"): value for key, value in headers.items()}
        return shared_http.request(method, f"/v1/tables{path}", headers={"Accept": "*/*"} | fields)

    return get


def problem(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["type"]


# --- which there are ----------------------------------------------------------------------------------------------


def test_tables_by_name(get: Any) -> None:
    whole = get("").json()
    names = [item["name"] for item in whole["items"]]
    assert names == ["CLINIC.VISITS", "WORK.MIXED", "WORK.NUMBERS", "WORK.PUPILS", HOSTILE.upper(), QUALITY]
    assert whole["next"] is None
    pupils_ = whole["items"][3]
    assert (pupils_["row_count"], pupils_["files"], pupils_["version"], pupils_["column_count"]) == (6, 1, 0, 9)
    assert pupils_["size"] > 0
    assert pupils_["modified_at"].startswith("20")
    assert pupils_["links"] == {"self": "/v1/tables/WORK.PUPILS", "rows": "/v1/tables/WORK.PUPILS/rows"}


def test_tables_page_by_page(get: Any) -> None:
    names, path = [], "?limit=2"
    while path:
        page = get(path)
        names += [item["name"] for item in page.json()["items"]]
        path = page.links["next"]["url"].removeprefix("/v1/tables") if "next" in page.links else ""
        assert ("cursor=" in path) == (page.json()["next"] is not None)
    assert names == [item["name"] for item in get("").json()["items"]]
    assert problem(get("?cursor=nonsense")) == (422, "/problems/invalid")


def test_nothing_was_built(tmp_path: Path) -> None:
    with stocked(tmp_path) as stock, connected(stock) as client:
        assert client.get("/v1/tables").json() == {"items": [], "next": None}
        assert problem(client.get("/v1/tables/WORK.X")) == (404, "/problems/table-not-found")
        assert problem(client.get("/v1/tables/WORK.X/rows")) == (404, "/problems/table-not-found")
    assert not (tmp_path / "tables").exists()


def test_a_library_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_deltalake(monkeypatch)
    with stocked(tmp_path) as stock, connected(stock) as client:
        for path in ("", "/WORK.X", "/WORK.X/rows"):
            response = client.get(f"/v1/tables{path}")
            assert problem(response) == (503, "/problems/tables-unavailable")
            assert "pip install 'deltalake<2,>=1.6'" in response.json()["detail"]


# --- what their columns are ---------------------------------------------------------------------------------------


def test_columns(get: Any) -> None:
    table = get("/WORK.PUPILS").json()
    assert (table["library"], table["member"], table["label"], table["row_count"]) == ("WORK", "PUPILS", "Pupils", 6)
    assert table["reached"] == {"segment": 0, "batch": 0, "row": 3}
    columns = {column["column"]: column for column in table["columns"]}
    assert list(columns) == [*ROW, "Name", "Age", "Born", "Seen"]
    assert (columns["Name"]["length"], columns["Name"]["label"]) == (8, "First name")
    assert (columns["Born"]["format"], columns["Born"]["arrow_type"]) == ("DATE9.", "date32[day]")
    assert columns["Age"]["missing_column"] == "Age__missing"
    assert columns["received_at"]["arrow_type"] == "timestamp[us, tz=UTC]"


def test_data_sets_that_did_not_agree(get: Any) -> None:
    columns = {column["column"]: column for column in get("/work.mixed").json()["columns"]}
    assert columns["Sex"]["type"] == "numeric"
    assert columns["Sex__text"]["type"] == "character"
    assert columns["Sex__text"]["notes"] == ["Sex is text in some data sets, and number in others"]


@pytest.mark.parametrize("name", ["WORK.PUPILS", "work.pupils", "Work.Pupils"])
def test_names_in_any_case(get: Any, name: str) -> None:
    assert get(f"/{name}").json()["name"] == "WORK.PUPILS"
    assert len(get(f"/{name}/rows?format=json").json()) == 6


def test_any_text_is_a_name(get: Any) -> None:
    address = get(f"/{quote(HOSTILE, safe='')}").json()["links"]["self"]
    table = get(address.removeprefix("/v1/tables"))
    assert table.json()["name"] == HOSTILE.upper()
    rows = get(table.json()["links"]["rows"].removeprefix("/v1/tables") + "?format=csv&columns=N")
    assert (rows.status_code, rows.text) == (200, "N\r\n0\r\n")
    assert "\n" not in rows.headers["content-disposition"]


@pytest.mark.parametrize(
    "name", ["WORK.日本", "WORK.A?B", "WORK.A#B", "WORK.A%42", "WORK.A>;", "WORK.A\r\nX", "WORK./.."]
)
def test_rows_of_a_table_of_any_name_are_linked(tmp_path: Path, name: str) -> None:
    stock = Stock(tmp_path)
    rows = pa.table({"N": [0.0, 1.0, 2.0]})
    store = stock.gateway.tables.delta()
    store.commit(name, rows.schema, [store.write(name, rows.schema, rows.to_batches())], "test", 1)
    with connected(stock) as http:
        first = http.get(f"/v1/tables/{quote(name, safe='')}/rows?format=csv&limit=2")
        assert first.text == "N\r\n0\r\n1\r\n"
        assert http.get(first.links["next"]["url"]).text == "N\r\n2\r\n"
    stock.close()


@pytest.mark.parametrize("name", ["WORK.NOPE", "PUPILS", "..%2Ftables", "", "%00", "x" * 5000])
def test_no_such_table(get: Any, name: str) -> None:
    assert problem(get(f"/{name}")) == (404, "/problems/table-not-found")
    assert problem(get(f"/{name}/rows")) == (404, "/problems/table-not-found")


# --- their rows ---------------------------------------------------------------------------------------------------


def test_every_format_has_the_rows(get: Any) -> None:
    """As the data set itself has them, where it is the only one."""
    table = visits()
    came = {name: get(f"/CLINIC.VISITS/rows?format={name}") for name in FORMATS if not name.startswith("xpt")}
    for name, response in came.items():
        known = FORMATS[name]
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == known.content_type
        assert f'filename="CLINIC.VISITS{known.extension}"' in response.headers["content-disposition"]
        assert response.headers["vary"].endswith("Accept")
    read = pq.read_table(BytesIO(came["parquet"].content))
    assert read.column_names == [*ROW, *table.column_names]
    assert read.select(table.column_names).to_pylist() == table.to_pylist()
    assert read["row"].to_pylist() == [1, 2, 3, 4, 5]
    assert read.schema.field("Age").metadata[b"sas.label"] == b"Age, in years"
    assert pa.ipc.open_stream(came["arrow"].content).read_all().equals(read, check_metadata=True)
    names = [row["Name"] for row in came["json"].json()]
    assert names == [json.loads(line)["Name"] for line in came["ndjson"].iter_lines()] == table["Name"].to_pylist()
    assert came["json"].json()[0]["received_at"] == "2026-11-22T08:00:00Z"


def test_no_rows_in_every_format(get: Any, tmp_path: Path) -> None:
    for options in ("limit=0", "offset=9999999"):
        for word in FORMATS:
            assert get(f"/WORK.PUPILS/rows?columns=source,Name,Age&{options}&format={word}").status_code == 200
    (tmp_path / "x.xpt").write_bytes(get("/WORK.PUPILS/rows?limit=0&format=xpt").content)
    frame, _ = pyreadstat.read_xport(str(tmp_path / "x.xpt"))
    assert (len(frame), "NAME" in {str(name).upper() for name in frame.columns}) == (0, True)


def test_a_transport_file(get: Any, tmp_path: Path) -> None:
    path = tmp_path / "pupils.xpt"
    path.write_bytes(get("/WORK.PUPILS/rows?format=xpt").content)
    frame, about = pyreadstat.read_xport(str(path))
    assert frame["Name"].to_list() == [*pupils()["Name"].to_pylist()] * 2
    assert frame["source"].unique().tolist() == ["orders"]
    assert frame["row"].to_list() == [1, 2, 3, 1, 2, 3]
    assert (about.table_name, about.column_names_to_labels["Age"]) == ("PUPILS", "Age in years")
    refused = get("/WORK.PUPILS/rows?format=xpt-v5")
    assert problem(refused) == (422, "/problems/not-representable")
    assert {misfit["column"] for misfit in refused.json()["misfits"]} == {"attachment", "received_at"}


def test_options(get: Any) -> None:
    query = "format=csv&columns=AGE,row&offset=1&limit=2&missing=tag&names=lower"
    assert get(f"/WORK.PUPILS/rows?{query}").text == "age,row\r\n.A,2\r\n12.5,3\r\n"
    first = get("/CLINIC.VISITS/rows?format=json&columns=Clock,Stay,Age&missing=column").json()[1]
    assert first == {"Clock": "23:59:59.999999", "Stay": "-00:00:45", "Age": None, "Age__missing": ".A"}
    numbers_ = get("/CLINIC.VISITS/rows?format=json&columns=Stay&dates=sas").json()
    assert numbers_[0] == {"Stay": timedelta(hours=30, seconds=1.5).total_seconds()}
    refused = get("/WORK.PUPILS/rows?columns=nope")
    assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "columns")
    assert get("/WORK.PUPILS/rows", Accept="text/html").status_code == 406


def test_a_browser_gets_json_in_pieces(get: Any) -> None:
    first = get("/WORK.NUMBERS/rows", Accept="application/json")
    assert [row["N"] for row in first.json()] == list(range(JSON_ROWS))
    second = get(first.links["next"]["url"].removeprefix("/v1/tables"), Accept="application/json")
    assert [row["N"] for row in second.json()] == list(range(JSON_ROWS))
    third = get(second.links["next"]["url"].removeprefix("/v1/tables"), Accept="application/json")
    assert [row["N"] for row in third.json()] == list(range(JSON_ROWS, JSON_ROWS + 5))
    assert "link" not in third.headers
    whole = get("/WORK.NUMBERS/rows?format=csv")
    assert (len(whole.text.splitlines()), "link" in whole.headers) == (2 * JSON_ROWS + 6, False)
    assert get("/WORK.NUMBERS/rows?format=csv&limit=7").links["next"]["url"].endswith("format=csv&offset=7&limit=7")


def test_tags_change_with_the_version(tmp_path: Path) -> None:
    with stocked(tmp_path) as stock, connected(stock) as client:
        built = Built(tmp_path)
        built.append(numbers(3))
        path = "/v1/tables/WORK.NUMBERS/rows?format=csv&columns=N"
        tag = client.get(path).headers["etag"]
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
        assert client.get(path + "&limit=1", headers={"If-None-Match": tag}).status_code == 200
        built.append(numbers(1))
        changed = client.get(path, headers={"If-None-Match": tag})
        assert (changed.status_code, changed.text) == (200, "N\r\n0\r\n1\r\n2\r\n0\r\n")
        refused = client.get(path, headers={"If-Match": tag})
        assert problem(refused) == (412, "/problems/precondition-failed")
        built.tables.compact("WORK.NUMBERS")
        assert client.get(path).text == changed.text


def test_head_says_what_get_says(get: Any) -> None:
    said, got = (get("/WORK.PUPILS/rows?format=csv", method=method) for method in ("HEAD", "GET"))
    assert said.content == b""
    varying = {"date", "transfer-encoding"}
    assert {k: v for k, v in said.headers.items() if k not in varying} == {
        k: v for k, v in got.headers.items() if k not in varying
    }


def test_quality_is_summed(get: Any) -> None:
    rows = get("/quality/rows?format=json&columns=source,hour,messages,missing_ranges,longest_seconds").json()
    assert rows == [
        {
            "source": "a",
            "hour": "2026-11-21T09:00:00Z",
            "messages": 1,
            "missing_ranges": 0,
            "longest_seconds": 0,
        },
        {
            "source": "orders",
            "hour": "2026-11-21T08:00:00Z",
            "messages": 10,
            "missing_ranges": 0,
            "longest_seconds": 2.5,
        },
    ]
    assert get("/quality").json()["row_count"] == 2


def test_a_client_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    with stocked(tmp_path) as stock, connected(stock) as client:
        Built(tmp_path).append(long(), member="LONG")
        client.get("/v1/tables/WORK.LONG/rows?format=json&limit=10")
        before = pa.total_allocated_bytes()
        for _ in range(3):
            with client.stream("GET", "/v1/tables/WORK.LONG/rows?format=ndjson") as response:
                next(response.iter_bytes())
        assert client.get("/v1/tables").status_code == 200
        assert pa.total_allocated_bytes() < before + (64 << 20)


# --- what describes itself ----------------------------------------------------------------------------------------


def test_openapi(shared_http: httpx.Client) -> None:
    paths = shared_http.get("/openapi.json").json()["paths"]
    assert {"/v1/tables", "/v1/tables/{name}", "/v1/tables/{name}/rows"} <= paths.keys()
    rows = paths["/v1/tables/{name}/rows"]["get"]
    assert PARQUET in rows["responses"]["200"]["content"]
    assert {"format", "columns", "offset", "limit", "missing", "dates"} <= {each["name"] for each in rows["parameters"]}
    assert "table-not-found" in rows["responses"]["404"]["content"]["application/problem+json"]["examples"]


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [100, -100], ids=["values", "footer"])
def test_a_damaged_file_is_a_problem_that_names_it(get: Any, shared_http: httpx.Client, built: Built, at: int) -> None:
    (path,) = Path(built.tables.location("WORK.PUPILS")).glob("*.parquet")
    whole = path.read_bytes()
    query = {"sql": "SELECT * FROM work.pupils"}
    try:
        flip(path, at)
        asked = [get(f"/WORK.PUPILS/rows?format={word}") for word in ("parquet", "csv", "json", "xpt")]
        for response in (*asked, shared_http.post("/v1/tables/query", json=query)):
            assert problem(response) == (500, "/problems/damaged")
            assert path.name in response.json()["detail"]
            assert str(path.parent.parent) not in response.text
        assert get("/WORK.MIXED/rows?format=csv").status_code == 200
    finally:
        path.write_bytes(whole)
    assert shared_http.post("/v1/tables/query", json=query).status_code == 200
