"""Data sets by POST: files of every format, what is wrong with them, and dry runs."""

import encodings
import json
from io import BytesIO
from pkgutil import iter_modules
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model.attachment import AttachmentKind
from app.service.sending.framer import Framer
from app.service.sending.outbox import framing_options
from app.testing.waiting import until
from tests.support.tables import parquet, visits
from tests.tables.out.making import made
from tests.web.messages.sending import delivery
from tests.web.stock import Stock

SALES = b"DT,C,X\n2024-01-31,Ann,1.5\n2024-02-29,Bob,.A\n"


def posted(
    http: httpx.Client, data: bytes, file_name: str = "sales.csv", *, dry_run: bool = False, **entry: Any
) -> httpx.Response:
    """A message with one data set."""
    attachment = {"part": "a", "kind": "data-set", **entry}
    described = {"destination": "partner", "attachments": [attachment]}
    files: list[Any] = [
        ("message", (None, json.dumps(described).encode(), "application/json")),
        ("a", (file_name, data, "application/octet-stream")),
    ]
    return http.post("/v1/messages", files=files, params={"dry_run": True} if dry_run else {})


def table_of(stock: Stock, response: httpx.Response) -> tuple[str, pa.Table]:
    """The data set that a delivery holds, and its name."""
    (attachment,) = delivery(stock, response).attachments
    assert attachment.kind is AttachmentKind.DATA_SET
    stored = b"".join(stock.store.read(attachment.object_name))
    assert len(stored) == attachment.size
    return f"{attachment.qualifier_1}.{attachment.qualifier_2}", pq.read_table(BytesIO(stored))


def test_a_csv_becomes_the_data_set_that_is_wanted(stock: Stock, http: httpx.Client) -> None:
    variables = {"DT": {"format": "DATE9."}, "c": {"length": 40, "label": "Customer"}}
    response = posted(
        http, SALES, name="LIB.SALES", data_set={"missing": "tag", "label": "Of 2024", "variables": variables}
    )
    name, table = table_of(stock, response)
    assert (name, table.column_names) == ("LIB.SALES", ["DT", "C", "X", "X__missing"])
    assert table["X__missing"].to_pylist() == [None, ".A"]
    said = {key.decode(): value.decode() for key, value in table.schema.field("C").metadata.items()}
    assert (said["sas.length"], said["sas.label"]) == ("40", "Customer")
    assert table.schema.metadata[b"sas.label"] == b"Of 2024"
    assert len(list(stock.store.names())) == 1, "the file itself is not kept"


@pytest.mark.parametrize("name", ["parquet", "arrow", "ndjson", "dataset-json", "dataset-ndjson", "dsjc", "xpt"])
def test_other_formats_are_told_by_their_content(stock: Stock, http: httpx.Client, name: str) -> None:
    called, table = table_of(stock, posted(http, made(visits(), name), "a file.dat"))
    assert called == {"ndjson": "WORK.A_FILE", "parquet": "CLINIC.VISITS", "arrow": "CLINIC.VISITS"}.get(
        name, "WORK.VISITS"
    )
    assert table["Name"].to_pylist() == visits()["Name"].to_pylist()


def test_a_plain_form_sends_data_sets(stock: Stock, http: httpx.Client) -> None:
    form = {"destination": "partner", "kind": "data-set", "data_set": json.dumps({"missing": "tag"})}
    response = http.post("/v1/messages", data=form, files={"file": ("d:\\in\\sales.csv", SALES, "text/csv")})
    name, table = table_of(stock, response)
    assert (name, table["X__missing"].to_pylist()) == ("WORK.SALES", [None, ".A"])
    bad = http.post("/v1/messages", data=form | {"data_set": "{"}, files={"file": ("a.csv", SALES)})
    assert (bad.status_code, bad.json()["type"]) == (422, "/problems/invalid")


def test_everything_that_is_wrong_is_in_one_problem(shared_stock: Stock, shared_http: httpx.Client) -> None:
    variables = {
        "DT": {"format": "$5."},
        "C": {"length": 2},
        "X": {"label": "l" * 300, "type": "numeric"},
        "Y": {"length": 9},
    }
    response = posted(shared_http, SALES, name="WORK.1", data_set={"variables": variables})
    assert response.status_code == 422
    problem = response.json()
    assert problem["type"] == "/problems/unsuitable"
    told = [(error.get("variable"), error["code"], error.get("row")) for error in problem["errors"]]
    assert told == [
        (None, "member", None),
        ("Y", "unknown", None),
        ("DT", "format", None),
        ("C", "value", 1),
        ("X", "type", None),
        ("X", "label", None),
        ("X", "reading", 2),
    ]
    assert problem["errors"][3]["detail"] == "C in row 1: the value needs more than 2 bytes in character set utf-8"
    assert {error["pointer"] for error in problem["errors"]} == {"#/attachments/0/data_set"}
    assert "and 2 more" in problem["detail"]
    assert list(shared_stock.store.names()) == []
    assert shared_stock.catalog.deliveries(None, None, None, 10).items == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_messages_have_no_place_for_is_told_before_anything_is_sent(
    shared_stock: Stock, shared_http: httpx.Client, *, dry_run: bool
) -> None:
    attachments = [{"part": part, "kind": "data-set"} for part in ("texts", "index")]
    texts = pa.table({"A": ["x", "y", "a\0b"], "B": ["z", "\0", ""], "C": ["x" * 32_000, "", ""]})
    many = {f"C{number:031}": [1.0] for number in range(1000)}
    index = json.dumps([{"name": "I", "variables": [*many], "flags": 0, "upercmx": 0}])

    def post(*parts: str) -> list[tuple[str | None, str, int | None]]:
        described = {
            "destination": "rendezvous",
            "attachments": [each for each in attachments if each["part"] in parts],
        }
        files: list[Any] = [("message", (None, json.dumps(described).encode(), "application/json"))]
        tables = {"texts": texts, "index": pa.table(many, metadata={"sas.indexes": index})}
        for part in parts:
            pq.write_table(tables[part], sink := BytesIO())
            files.append((part, (f"{part}.parquet", sink.getvalue())))
        response = shared_http.post("/v1/messages", files=files, params={"dry_run": True} if dry_run else {})
        assert (response.status_code, response.json()["type"]) == (422, "/problems/unsuitable"), response.text
        return [(each.get("variable"), each["code"], each.get("row")) for each in response.json()["errors"]]

    of_texts = [("A", "value", 3), ("B", "value", 2), ("C", "value", 1)]
    assert post("texts", "index") == [*of_texts, (None, "size", None)]
    assert post("index") == [(None, "size", None)]
    assert list(shared_stock.store.names()) == []
    assert shared_stock.catalog.deliveries(None, None, None, 10).items == []


def test_a_file_that_cannot_be_read_is_told(shared_stock: Stock, shared_http: httpx.Client) -> None:
    response = posted(shared_http, b"no", "x.parquet")
    (error,) = response.json()["errors"]
    assert (response.status_code, error["pointer"], error["code"]) == (422, "#/attachments/0/part", "unreadable-table")
    assert "not a Parquet file" in response.json()["detail"]
    assert list(shared_stock.store.names()) == []


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("name", ["X.", ".X"])
def test_a_name_with_an_empty_half_is_refused(
    shared_stock: Stock, shared_http: httpx.Client, name: str, *, dry_run: bool
) -> None:
    response = posted(shared_http, SALES, dry_run=dry_run, name=name)
    assert (response.status_code, response.json()["type"]) == (422, "/problems/unsuitable"), response.text
    (error,) = response.json()["errors"]
    assert (error["pointer"], error["code"]) == ("#/attachments/0/name", "member")
    assert list(shared_stock.store.names()) == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_encoding_that_is_no_character_set_is_refused_at_its_place(
    shared_stock: Stock, shared_http: httpx.Client, *, dry_run: bool
) -> None:
    for encoding in ("idna", "unicode_escape", "raw-unicode-escape", "charmap", "punycode", "undefined", "rot13"):
        response = posted(shared_http, SALES, dry_run=dry_run, data_set={"encoding": encoding})
        assert (response.status_code, response.json()["type"]) == (422, "/problems/invalid"), encoding
        wanted = {"pointer": "#/attachments/0/data_set/encoding", "detail": f"unknown character set {encoding!r}"}
        assert response.json()["errors"] == [wanted]
    assert list(shared_stock.store.names()) == []


def test_no_codec_of_python_is_an_internal_error(shared_http: httpx.Client) -> None:
    for codec in (module.name for module in iter_modules(encodings.__path__)):
        response = posted(shared_http, SALES, dry_run=True, data_set={"encoding": codec})
        assert response.status_code in (200, 422), codec


def test_many_errors_are_not_all_shown(shared_http: httpx.Client) -> None:
    data = ",".join(f"{number} x" for number in range(1200)).encode() + b"\n"
    problem = posted(shared_http, data).json()
    assert len(problem["errors"]) == 1000
    assert "and 1195 more" in problem["detail"]


# --- dry runs -----------------------------------------------------------------------------------------------------


def test_a_dry_run_tells_every_variable_and_keeps_nothing(shared_stock: Stock, shared_http: httpx.Client) -> None:
    variables = {"DT": {"format": "DATE9."}, "order no": {"name": "NO", "type": "character"}}
    data = b"DT,order no,X\n2024-01-31,007,0.12345678901234567890\n"
    response = posted(shared_http, data, dry_run=True, data_set={"variables": variables})
    assert response.status_code == 200, response.text
    told = response.json()
    assert (told["destination"], told["messages"]) == ("partner", 2 + 4)
    (attachment,) = told["attachments"]
    assert (attachment["qualifier_1"], attachment["name"], attachment["messages"]) == ("WORK", "SALES", 4)
    data_set = attachment["data_set"]
    assert (data_set["format"], data_set["library"], data_set["member"]) == ("csv", "WORK", "SALES")
    assert data_set["observations"] == 1
    seen = {v["name"]: (v["column"], v["type"], v["length"], v["format"]) for v in data_set["variables"]}
    assert seen == {
        "DT": ("DT", "numeric", 8, "DATE9."),
        "NO": ("order no", "character", 3, ""),
        "X": ("X", "numeric", 8, ""),
    }
    assert data_set["variables"][0]["origins"]["format"] == "given"
    (warning,) = data_set["warnings"]
    assert (warning["variable"], warning["row"]) == ("X", 1)
    assert list(shared_stock.store.names()) == []
    assert shared_stock.catalog.deliveries(None, None, None, 10).items == []


def test_a_dry_run_counts_the_messages_that_are_sent(stock: Stock, http: httpx.Client) -> None:
    rows = "".join(f"2024-01-31,customer {number},{number / 7}\n" for number in range(9000))
    data = b"DT,C,X\n" + rows.encode()
    told = posted(http, data, dry_run=True).json()
    record = delivery(stock, posted(http, data))
    destination = stock.settings.destinations["partner"]
    messages = list(Framer(framing_options(destination, destination.body_limit), stock.store).frame(record))
    assert told["messages"] == len(messages) > 10
    stock.gateway.start()
    until(lambda: len(stock.recorder.sent) == len(messages))


def test_a_dry_run_of_files_and_of_groups(shared_stock: Stock, shared_http: httpx.Client) -> None:
    for destination in ("partner", "groups"):
        files = {"file": ("a.bin", bytes(70_000))}
        response = shared_http.post(
            "/v1/messages", params={"dry_run": 1}, data={"destination": destination}, files=files
        )
        told = response.json()
        assert told["attachments"] == [
            {"part": "0", "kind": "binary-file", "name": "a.bin", "qualifier_1": "FILENAME"}
            | {"messages": told["attachments"][0]["messages"]}
        ]
        assert told["messages"] == {"partner": 7, "groups": 3}[destination]
    assert list(shared_stock.store.names()) == []


def test_a_dry_run_has_the_same_errors(shared_stock: Stock, shared_http: httpx.Client) -> None:
    answers = [posted(shared_http, b"a b\n1\n", dry_run=dry_run) for dry_run in (True, False)]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert answers[0].json() == answers[1].json()
    assert list(shared_stock.store.names()) == []


def test_the_same_data_set_twice_with_one_key(stock: Stock, http: httpx.Client) -> None:
    form = {"destination": "partner", "kind": "data-set"}
    answers = [
        http.post("/v1/messages", data=form, files={"file": ("s.csv", data)}, headers={"Idempotency-Key": "k"})
        for data in (SALES, SALES, SALES + b"2024-03-31,Eve,2\n")
    ]
    assert [answer.status_code for answer in answers] == [202, 202, 422]
    assert answers[0].json() == answers[1].json()
    assert len(list(stock.store.names())) == 1


# --- indexes, constraints, sort keys ------------------------------------------------------------------------------


def with_metadata(**said: object) -> bytes:
    """A Parquet file with these `sas.*` metadata."""
    sink = BytesIO()
    table = pa.table({"NAME": ["a", "b"], "AGE": [1.0, 2.0]})
    metadata = {f"sas.{key}": value if isinstance(value, str) else json.dumps(value) for key, value in said.items()}
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return sink.getvalue()


INDEX = {"name": "BOTH", "variables": ["NAME", "AGE"], "flags": 2, "upercmx": 0}


def test_a_dry_run_shows_indexes_and_constraints_and_they_are_sent(stock: Stock, http: httpx.Client) -> None:
    said = {"dialect": "big-4-excluded-packed", "encoding": "utf-8", "constraints": "AAECAw=="}
    data = with_metadata(indexes=[INDEX], **said)
    proposed = posted(http, data, "a.parquet", dry_run=True).json()["attachments"][0]["data_set"]
    assert proposed["indexes"] == [INDEX]
    assert (proposed["constraints"], proposed["warnings"]) == (4, [])
    response = posted(http, data, "a.parquet")
    assert "warnings" not in response.json()
    cut = framing_options(stock.settings.destinations["partner"], 32_000)
    bodies = [bytes(each.body) for each in Framer(cut, stock.store).frame(delivery(stock, response))]
    kinds = [body[:4] for body in bodies[2:-1]]
    assert kinds == [bytes([0, 0, 0, kind]) for kind in (1, 2, 3, 4, 5)]
    assert b"NAME\0AGE\0" in bodies[-3]
    assert bodies[-2][4:] == bytes(range(4))


def test_what_is_not_sent_is_said_in_the_dry_run_and_in_the_answer(stock: Stock, http: httpx.Client) -> None:
    lost = {**INDEX, "name": "GONE", "variables": ["HEIGHT"]}
    data = with_metadata(indexes=[INDEX, lost], constraints="AAECAw==", sort_variables="2")
    for response in (posted(http, data, "a.parquet", dry_run=True), posted(http, data, "a.parquet")):
        told = response.json()
        warnings = told["warnings"] if response.status_code == 202 else told["attachments"][0]["data_set"]["warnings"]
        assert [warning["code"] for warning in warnings] == ["indexes", "constraints", "sort-key"]
        assert "there is no variable HEIGHT" in warnings[0]["detail"]
    assert "warnings" not in http.get(response.headers["Location"]).json()
    assert stock.catalog.delivery(response.json()["id"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("indexes", "{"),
        ("indexes", "[" * 100_000),
        ("indexes", {"name": "A"}),
        ("indexes", [{"name": "A", "variables": []}]),
        ("indexes", [{**INDEX, "name": 7}]),
        ("indexes", [{**INDEX, "name": "A\0B"}]),
        ("indexes", [{**INDEX, "name": "A" * 33}]),
        ("indexes", [{**INDEX, "flags": 1 << 31}]),
        ("indexes", [{**INDEX, "flags": True}]),
        ("indexes", [INDEX, INDEX]),
        ("constraints", "A"),
        ("constraints", "ä"),
        ("sort_variables", "3"),
        ("sort_variables", "-1"),
        ("sort_variables", "x"),
    ],
)
def test_metadata_that_cannot_be_are_refused(shared_http: httpx.Client, key: str, value: object) -> None:
    response = posted(shared_http, with_metadata(**{key: value}), "a.parquet")
    assert (response.status_code, response.json()["type"]) == (422, "/problems/unsuitable"), response.text
    (error,) = response.json()["errors"]
    assert key in error["detail"] or error["code"] == key


def test_a_small_file_that_would_become_a_huge_data_set_is_refused(stock: Stock, http: httpx.Client) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 60_000, pa.int32()), pa.array(["x" * 30_000]))
    file = parquet(pa.table({"X": texts}), 60_000)
    assert len(file) < 1 << 20
    answer = http.put("/v1/files/partner/bomb.parquet", content=file, params={"kind": "data-set"})
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/expansion-limit"), answer.text
    assert answer.json()["limit"] == "limits.expansion"
    assert not list(stock.store.names("outgoing/"))
    modest = parquet(pa.table({"X": texts.slice(0, 2_000)}), 2_000)
    answer = http.put("/v1/files/partner/modest.parquet", content=modest, params={"kind": "data-set"})
    assert answer.status_code == 202, answer.text
