"""SQL over the tables by REST."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.model.principals import Scope
from app.service.access.api_keys import KeyLimits, make_key
from app.service.conversion import Conversions
from app.web.dependencies.known_resources import KnownTables
from tests.web.conftest import connected
from tests.web.stock import Stock

ARROW = "application/vnd.apache.arrow.stream"


def put(stock: Stock, name: str, **columns: Any) -> None:
    rows = pa.table(columns)
    store = stock.gateway.tables.delta()
    store.commit(name, rows.schema, [store.write(name, rows.schema, rows.to_batches())], "test", 1)


class Queries:
    """A served gateway with two tables: numbers of the source `orders`, and words of another one."""

    def __init__(self, stock: Stock, http: httpx.Client, *, built: bool = False) -> None:
        self.stock, self.http = stock, http
        if built:
            return
        put(stock, "WORK.NUMBERS", source=["orders"] * 5, N=[1.0, 2.0, 3.0, None, 5.0])
        put(stock, "WORK.WORDS", source=["secret"], W=["hidden"])

    def __call__(self, sql: str, *, accept: str = "*/*", key: str | None = None, **more: Any) -> httpx.Response:
        headers = {"Accept": accept} | ({"Authorization": f"Bearer {key}"} if key else {})
        return self.http.post("/v1/tables/query", json={"sql": sql, **more}, headers=headers)


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queries]:
    stock = Stock(tmp_path_factory.mktemp("queries"), limits={"conversion_memory": "256MB"})
    with connected(stock) as http:
        yield Queries(stock, http)
    stock.close()


def test_a_result_in_each_format(query: Queries) -> None:
    sql = "SELECT N, N * 2 AS twice FROM work.numbers ORDER BY N NULLS LAST"
    answer = query(sql, limit=2)
    assert answer.json() == {
        "columns": [{"name": "N", "type": "double"}, {"name": "twice", "type": "double"}],
        "rows": [[1, 2], [2, 4]],
        "truncated": True,
    }
    assert answer.headers["truncated"] == "true"
    assert answer.headers["table-files"] == "read=1, all=1"
    assert query("FROM work.numbers WHERE source = 'zebra'").headers["table-files"] == "read=0, all=1"
    assert query("SELECT 1").headers["table-files"] == "read=0, all=0"
    csv = query(sql, accept="text/csv")
    assert (csv.text.splitlines()[0], len(csv.text.splitlines()), csv.headers["truncated"]) == ("N,twice", 6, "false")
    arrow = query(sql, accept=ARROW)
    assert pa.ipc.open_stream(arrow.content).read_all().column("twice").to_pylist() == [2, 4, 6, 10, None]
    assert query(sql, accept="image/png").status_code == 406


def test_types_of_any_kind_are_shown(query: Queries) -> None:
    seen = query("SELECT [1, 2] AS l, {'a': 1} AS s, DATE '2026-11-21' AS d, 'x' AS t, NULL AS n").json()
    assert seen["rows"] == [["[1,2]", '{"a":1}', "2026-11-21", "x", None]]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("[DATE '10000-01-01']", '["10000-01-01"]'),
        ("['infinity'::TIMESTAMP]", '["infinity"]'),
        ("{'a': DATE '290000-01-01'}", '{"a":"290000-01-01"}'),
        ("'infinity'::TIMESTAMP", "infinity"),
        ("DATE '-infinity'", "-infinity"),
        ("TIMESTAMPTZ '2026-11-21 08:30:00.5+01'", "2026-11-21T07:30:00.5Z"),
        ("TIMESTAMP_NS '2026-11-21 08:30:00.000000001'", "2026-11-21T08:30:00.000000001"),
        ("TIME '24:00:00'", "24:00:00"),
        ("INTERVAL 2147483647 DAY", "2147483647 days"),
        ("'101'::BIT", "101"),
        ("TIMETZ '10:00:00+02'", "10:00:00+02"),
        (f"{2**128 - 1}::UHUGEINT", str(2**128 - 1)),
    ],
)
def test_values_that_arrow_or_python_cannot_show_are_text(query: Queries, sql: str, shown: str) -> None:
    assert query(f"SELECT {sql} AS v").json()["rows"] == [[shown]]
    if "+02" in sql or "UHUGEINT" in sql:
        arrow = query(f"SELECT {sql} AS v, [{sql}] AS l", accept=ARROW)
        (row,) = pa.ipc.open_stream(arrow.content).read_all().to_pylist()
        assert (row["v"], shown in row["l"]) == (shown, True)


@pytest.mark.parametrize("accept", ["application/json", "text/csv", ARROW])
def test_every_type_of_duckdb_has_a_form(query: Queries, accept: str) -> None:
    answer = query("FROM test_all_types()", accept=accept)
    assert (answer.status_code, "out of range" in answer.text) == (200, False), answer.text


def test_settings_and_errors_show_no_folder(query: Queries) -> None:
    rows = query("SELECT name, value FROM duckdb_settings()").json()["rows"]
    folders = [row for row in rows if "/" in str(row[1]) and row[0] != "duckdb_api"]
    assert {value for name, value in folders if name != "TimeZone"} <= {"/nonexistent"}
    for sql in ("FROM duckdb_extensions()", "FROM which_secret('a', 'b')"):
        answer = query(sql)
        assert (answer.status_code, "nonexistent" in answer.text, ".duckdb" in answer.text) == (422, False, False)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "CREATE TABLE t AS SELECT 1",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "SELECT nothing FROM nowhere",
        "SELEC",
    ],
)
def test_nothing_but_tables_can_be_read(query: Queries, sql: str) -> None:
    answer = query(sql)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/query-failed"), answer.text
    assert "root:" not in answer.text


def test_memory_and_time_are_bounded(query: Queries, monkeypatch: pytest.MonkeyPatch) -> None:
    large = query("SELECT list(r) FROM (SELECT range AS r FROM range(20000000)) GROUP BY r % 7")
    assert large.status_code == 422
    assert large.json()["type"] in ("/problems/query-failed", "/problems/conversion-limit")
    assert query("SELECT 1").json()["rows"] == [[1]], "a new process is ready"
    monkeypatch.setattr(Conversions, "seconds", 1.0)
    endless = query("SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3")
    assert (endless.status_code, endless.json()["limit"]) == (422, "limits.conversion_time")
    monkeypatch.undo()
    assert query("SELECT 1").json()["rows"] == [[1]]


ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3"


def test_endless_queries_of_one_key_keep_nobody_else_and_end_with_their_client(tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    scopes = {"greedy": Scope.READ, "modest": Scope.READ, "auditor": Scope.ADMIN}
    made = {name: make_key(name, frozenset({scope}), stock.clock.now(), KeyLimits()) for name, scope in scopes.items()}
    for key, _ in made.values():
        stock.catalog.add_key(key)
    greedy, modest, auditor = (text for _, text in made.values())
    body = json.dumps({"sql": ENDLESS}).encode()
    fields = f"Host: localhost\r\nAuthorization: Bearer {greedy}\r\nContent-Length: {len(body)}"
    head = f"POST /v1/tables/query HTTP/1.1\r\n{fields}"
    with connected(stock) as http, closing(httpx.Client(base_url=http.base_url, timeout=30)) as health:
        others = Queries(stock, http, built=True)
        assert others("SELECT 1", key=modest).json()["rows"] == [[1]]
        address = (http.base_url.host, http.base_url.port)
        endless = [socket.create_connection(address) for _ in range(2)]
        for each in endless:
            each.sendall(f"{head}\r\n\r\n".encode() + body)
        sleep(0.5)  # the first one computes, the second one waits for it
        asks: list[Callable[[], httpx.Response]] = [
            lambda: others("SELECT 1", key=modest),
            lambda: health.get("/health/live"),
        ]
        for ask in asks:
            assert {ask().status_code for _ in range(60)} == {200}, "the endless ones go on meanwhile"
        for each in endless:
            each.close()
        assert others("SELECT 2", key=greedy).json()["rows"] == [[2]], "its place is free again"
        entries = http.get(
            "/v1/audit", params={"result": "abandoned"}, headers={"Authorization": f"Bearer {auditor}"}
        ).json()["items"]
        assert [(entry["who"]["name"], entry["sql"], entry["status"]) for entry in entries] == [
            ("greedy", ENDLESS, None)
        ] * 2
    stock.close()


def test_bad_requests_are_refused(query: Queries) -> None:
    for body in ({}, {"sql": ""}, {"sql": "SELECT 1", "limit": 0}, {"sql": "SELECT 1", "more": 1}):
        answer = query.http.post("/v1/tables/query", json=body)
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid")


def test_a_limited_caller_knows_only_its_tables(query: Queries) -> None:
    stock = query.stock
    key, text = make_key("own", frozenset({Scope.READ}), stock.clock.now(), KeyLimits(sources=frozenset({"orders"})))
    stock.catalog.add_key(key)
    with connected(stock) as http:
        limited = Queries(stock, http, built=True)
        names = limited("SELECT table_name FROM information_schema.tables", key=text).json()["rows"]
        assert {name for (name,) in names} == {"WORK.NUMBERS", "NUMBERS"}
        hidden = limited('SELECT * FROM "WORK.WORDS"', key=text)
        assert (hidden.status_code, "hidden" in hidden.text) == (422, False)


@pytest.mark.parametrize("shown", ["S", "S::INTEGER"])
def test_rows_of_others_that_come_while_a_query_waits_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    """The error of a conversion would have the value."""
    stock = Stock(tmp_path, limits={"conversion_memory": "256MB"})
    put(stock, "WORK.SHARED", source=["orders"], S=["1"])
    key, text = make_key(
        "waiting", frozenset({Scope.READ}), stock.clock.now(), KeyLimits(sources=frozenset({"orders"}))
    )
    stock.catalog.add_key(key)
    looked = KnownTables.names

    def names(tables: KnownTables) -> list[str]:
        found = looked(tables)
        if "WORK.SHARED" in found:
            rows = pa.table({"source": ["secret"], "S": ["hidden"]})
            stock.gateway.tables.delta().commit(
                "WORK.SHARED",
                rows.schema,
                [stock.gateway.tables.delta().write("WORK.SHARED", rows.schema, rows.to_batches())],
                "test",
                2,
            )
        return found

    with connected(stock) as http:
        limited = Queries(stock, http, built=True)
        assert limited("SELECT S FROM work.shared", key=text).json()["rows"] == [["1"]]
        monkeypatch.setattr(KnownTables, "names", names)
        changed = limited(f"SELECT {shown} FROM work.shared", key=text)
        assert (changed.status_code, "hidden" in changed.text) == (503, False)
        assert limited("SELECT S FROM work.shared", key=text).status_code == 422
    stock.close()
