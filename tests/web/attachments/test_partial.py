"""Content and rows of attachments, also before they are finished."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.codecs.sas import correlid
from app.model.attachment import AttachmentKind
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.service.finishing import partial_content
from app.tables.write import rows_page
from app.testing.waiting import until
from app.web.resources.attachments import unfinished_content
from tests.support.sas_client import Attached, Program, binary_file, data_set, message, text_file
from tests.support.tables import parquet, pupils
from tests.web.attachments.test_arrival import grouped
from tests.web.conftest import connected
from tests.web.stock import Stock, arriving

PARQUET = "application/vnd.apache.parquet"
LINES = b"".join(b"line %d of the file\n" % number for number in range(9_000))
ROWS = pa.table({"N": [float(number) for number in range(20_000)], "C": [f"c{number % 7}" for number in range(20_000)]})


class Arriving:
    """A gateway that receives, and one attachment cut into messages."""

    def __init__(self, stock: Stock, http: httpx.Client) -> None:
        self.stock, self.http = stock, http

    def send(self, attached: Attached, parts: slice | list[int], *, counted: bool = True) -> list[PhysicalMessage]:
        """Deliver the header, some parts and the count; return the parts that have not been delivered."""
        key = attached.definition.correl_id
        header, *rest = message(Program(Random(attached.definition.correl_id)), [attached])
        own = [each for each in rest if correlid.split(each.correl_id)[0] == key]
        *all_parts, count = own
        chosen = all_parts[parts] if isinstance(parts, slice) else [all_parts[number] for number in parts]
        self.stock.deliver([header, *chosen, *([count] if counted else [])])
        self.path = f"/v1/attachments/{attachment_id('orders', key)}"
        return [each for each in all_parts if each not in chosen]

    def get(self, what: str = "/content", headers: dict[str, str] | None = None, **query: Any) -> httpx.Response:
        return self.http.get(self.path + what, params={"partial": "true", **query}, headers=headers)


@pytest.fixture(scope="module")
def arriving_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arriving]:
    stock = Stock(tmp_path_factory.mktemp("arriving"), **arriving())
    stock.gateway.start()
    with connected(stock) as http:
        yield Arriving(stock, http)
    stock.close()


@pytest.mark.parametrize(("seed", "kind"), [(1, text_file), (2, binary_file)])
def test_the_bytes_before_the_first_gap(arriving_http: Arriving, seed: int, kind: Any) -> None:
    attached = kind(Program(Random(seed), body_limit=20_000), "a.txt", LINES)
    late = arriving_http.send(attached, [0, 1, 2, 5])
    answer = arriving_http.get()
    assert answer.status_code == 206
    assert LINES.startswith(answer.content)
    assert len(answer.content) > 35_000
    assert answer.headers["content-range"] == f"bytes 0-{len(answer.content) - 1}/*"
    last = len(attached.bodies)
    assert answer.headers["missing-parts"] == f"4-5, 7-{last}"
    expected = "text/plain; charset=utf-8" if kind is text_file else "application/octet-stream"
    assert answer.headers["content-type"] == expected
    some = arriving_http.get(headers={"Range": "bytes=100-299"})
    assert (some.content, some.headers["content-range"]) == (LINES[100:300], "bytes 100-299/*")
    rest = arriving_http.get(headers={"Range": "bytes=100-"})
    assert rest.content == answer.content[100:]
    beyond = arriving_http.get(headers={"Range": f"bytes={len(answer.content)}-"})
    assert (beyond.status_code, "content-range" in beyond.headers) == (416, False)
    head = arriving_http.http.head(arriving_http.path + "/content", params={"partial": "true"})
    assert (head.status_code, head.headers["content-range"]) == (206, answer.headers["content-range"])
    assert arriving_http.http.get(arriving_http.path + "/content").status_code == 409
    assert arriving_http.get(charset="utf-8").status_code == 422
    arriving_http.stock.deliver(late)
    until(lambda: arriving_http.http.get(arriving_http.path).json()["state"] == "finished")
    whole = arriving_http.get()
    assert (whole.status_code, whole.content, "missing-parts" in whole.headers) == (200, LINES, False)


def test_a_record_across_parts_is_read_as_far_as_it_came(arriving_http: Arriving) -> None:
    long = bytes(range(1, 256)) * 400
    attached = text_file(Program(Random(81), body_limit=20_000), "long.txt", long + b"\n")
    arriving_http.send(attached, slice(0, 3), counted=False)
    answer = arriving_http.get()
    assert answer.status_code == 206
    assert len(answer.content) > 30_000
    assert long.startswith(answer.content)
    assert answer.headers["missing-parts"] == "4-"


def test_an_answer_has_a_largest_size(arriving_http: Arriving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished_content, "MOST_BYTES", 1000)
    attached = binary_file(Program(Random(82), body_limit=20_000), "b.bin", LINES)
    arriving_http.send(attached, slice(0, 3))
    assert arriving_http.get().content == LINES[:1000]
    following = arriving_http.get(headers={"Range": "bytes=1000-"})
    assert (following.content, following.headers["content-range"]) == (LINES[1000:2000], "bytes 1000-1999/*")


def test_what_cannot_be_read_yet_says_why(arriving_http: Arriving) -> None:
    attached = binary_file(Program(Random(83), body_limit=20_000), "c.bin", LINES)
    arriving_http.send(attached, slice(1, 3))
    answer = arriving_http.get()
    assert (answer.status_code, answer.json()["detail"]) == (409, "its first part has not come")
    assert arriving_http.get("/rows").json()["type"] == "/problems/not-a-data-set"
    record = arriving_http.stock.attachment(kind=None)
    unknown = arriving_http.http.get(f"/v1/attachments/{record.id}/content?partial=true")
    assert (unknown.status_code, unknown.json()["detail"]) == (409, "its header has not come")


def test_rows_that_can_be_decoded(arriving_http: Arriving, monkeypatch: pytest.MonkeyPatch) -> None:
    attached = data_set(Program(Random(84), body_limit=20_000), "WORK", "MANY", ROWS)
    late = arriving_http.send(attached, slice(0, 6))
    seen = arriving_http.get("/rows", offset=10, limit=3).json()
    assert seen["rows"] == [[10, "c3"], [11, "c4"], [12, "c5"]]
    assert (seen["total"], seen["has_more"], seen["rows_available"]) == (None, True, 13)
    assert seen["missing_parts"] == [[7, len(attached.bodies)]]
    whole = arriving_http.get("/rows", limit=1000, sort="-N").json()
    available = whole["rows_available"]
    assert available > 3000
    assert [row[0] for row in whole["rows"][:2]] == [available - 1, available - 2]
    csv = arriving_http.get(format="csv", limit=2)
    assert (csv.status_code, csv.text) == (200, "N,C\r\n0,c0\r\n1,c1\r\n")
    assert csv.headers["missing-parts"] == f"7-{len(attached.bodies)}"
    assert len(arriving_http.get(format="csv").text.splitlines()) == available + 1
    monkeypatch.setattr(partial_content, "MOST_BODIES", 50_000)
    assert arriving_http.get("/rows", limit=1000, sort="N").json()["has_more"] is True
    monkeypatch.undo()
    arriving_http.stock.deliver(late)
    until(lambda: arriving_http.http.get(arriving_http.path).json()["state"] == "finished")
    finished = arriving_http.get("/rows", offset=19_999).json()
    assert (finished["rows"], finished["total"], finished["missing_parts"]) == ([[19_999, "c0"]], 20_000, None)


def test_a_data_set_without_its_variables_has_no_rows_yet(arriving_http: Arriving) -> None:
    attached = data_set(Program(Random(85), body_limit=20_000), "WORK", "FEW", ROWS)
    arriving_http.send(attached, slice(0, 1))
    for what in ("/rows", "/content"):
        answer = arriving_http.get(what)
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/not-ready"), what


def test_a_group_is_read_up_to_its_gap(tmp_path: Path) -> None:
    settings = arriving()
    settings["sources"]["orders"]["framing"] = "mq_group"
    stock = Stock(tmp_path, **settings)
    stock.gateway.start()
    try:
        with connected(stock) as http:
            stock.deliver([grouped(1, b"one "), grouped(2, b"two "), grouped(4, b"four")])
            (seen,) = http.get("/v1/attachments").json()["items"]
            answer = http.get(f"{seen['links']['self']}/content?partial=true")
    finally:
        stock.close()
    assert (answer.status_code, answer.content) == (206, b"one two ")
    assert answer.headers["missing-parts"] == "3-3, 5-"


@pytest.fixture(scope="module")
def sorted_rows(shared_stock: Stock) -> AttachmentRecord:
    table = pa.table(
        {
            "N": pa.array([float(number * 7919 % 50_000) for number in range(50_000)]),
            "D": pa.array([date(2026, 1, 1 + number % 28) for number in range(50_000)]),
            "C": pa.array([None if number == 77 else f"{number % 100:03}" for number in range(50_000)]),
        }
    )
    return shared_stock.stored(parquet(table, 10_000), PARQUET, kind=AttachmentKind.DATA_SET)


def test_rows_are_sorted_and_paged(
    shared_http: httpx.Client, sorted_rows: AttachmentRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_page, "_PRUNED", 1000)

    def rows(**query: Any) -> list[list[Any]]:
        seen = shared_http.get(f"/v1/attachments/{sorted_rows.id}/rows", params=query).raise_for_status().json()
        assert seen["total"] == 50_000
        found: list[list[Any]] = seen["rows"]
        return found

    expected = [[float(n * 7919 % 50_000), f"2026-01-{1 + n % 28:02}", f"{n % 100:03}"] for n in (9_999, 10_000)]
    assert rows(offset=9_999, limit=2) == expected
    assert [row[0] for row in rows(sort="N", offset=20_000, limit=3)] == [20_000, 20_001, 20_002]
    assert [row[0] for row in rows(sort="-n", limit=3)] == [49_999, 49_998, 49_997]
    assert rows(sort="C", limit=1, columns="C") == [[None]]
    first = rows(sort="C", limit=5, offset=1)
    assert [row[0] for row in first] == [float(n * 7919 % 50_000) for n in (0, 100, 200, 300, 400)], "stable"
    assert rows(offset=60_000) == []
    assert rows(sort="N", offset=60_000) == []


def test_columns_and_special_missing_values_are_told(shared_stock: Stock, shared_http: httpx.Client) -> None:
    record = shared_stock.stored(parquet(pupils(), 100), PARQUET, kind=AttachmentKind.DATA_SET)
    seen = shared_http.get(f"/v1/attachments/{record.id}/rows").json()
    schema = shared_http.get(f"/v1/attachments/{record.id}/schema").json()
    for column, variable in zip(seen["columns"], schema["variables"], strict=True):
        assert {name: column[name] for name in ("name", "label", "format", "length")} == {
            name: variable[name if name != "name" else "column"] for name in ("name", "label", "format", "length")
        }
    assert seen["total"] == len(seen["rows"]) == pupils().num_rows
    content = shared_http.get(
        f"/v1/attachments/{record.id}/content", params={"format": "json", "missing": "tag"}
    ).json()
    tagged = {(each["row"], each["column"]): each["tag"] for each in seen["special_missing"]}
    assert tagged
    names = [column["name"] for column in seen["columns"]]
    for at, (row, whole) in enumerate(zip(seen["rows"], content, strict=True)):
        for place, name in enumerate(names):
            assert tagged.get((at, place), row[place]) == whole[name]


def test_what_is_wrong_with_rows_is_told(
    shared_http: httpx.Client, sorted_rows: AttachmentRecord, shared_stock: Stock
) -> None:
    path = f"/v1/attachments/{sorted_rows.id}/rows"
    wrong: list[tuple[dict[str, str | int], str]] = [
        ({"sort": "NONE"}, "sort"),
        ({"columns": "NONE"}, "columns"),
        ({"sort": "N", "offset": rows_page.MOST_SORTED}, "offset"),
        ({"limit": 1001}, "limit"),
    ]
    for query, parameter in wrong:
        answer = shared_http.get(path, params=query)
        assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, parameter)
    file = shared_stock.stored(b"x")
    assert shared_http.get(f"/v1/attachments/{file.id}/rows").json()["type"] == "/problems/not-a-data-set"
