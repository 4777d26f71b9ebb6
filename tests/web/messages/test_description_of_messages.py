"""What the description of a message can say, and what is refused."""

import json
from hashlib import sha256
from io import BytesIO
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from app.model.attachment import AttachmentKind, DeliveryState
from tests.support.tables import visits
from tests.tables.out.making import made
from tests.web.messages.sending import Files, delivery, described, errors, parquet, simple
from tests.web.stock import Stock


def test_everything_a_description_can_say(stock: Stock, http: httpx.Client) -> None:
    description = {
        "destination": "partner",
        "description": "of all",
        "original_msg_type": 7,
        "original_correl_id": "c0ffee",
        "application_message": {"text": "Grüße"},
        "attachments": [
            {"part": "b", "kind": "text-file", "name": "d:\\b.txt", "description": "of b", "minor_version": 2},
            {"part": "a", "kind": "binary-file", "name": "a", "qualifier_1": "FILEREF", "major_version": -1},
            {"part": "c", "kind": "data-set", "name": "CLASS", "qualifier_1": "SASHELP"},
        ],
    }
    content = {"a": bytes(range(256)) * 9000, "b": b"", "c": parquet()}
    response = http.post("/v1/messages", files=described(description, **content))
    record = delivery(stock, response)
    assert response.headers["location"] == f"/v1/deliveries/{record.id}"
    assert http.get(response.headers["location"]).json() == response.json()

    assert (record.state, record.destination) == (DeliveryState.QUEUED, "partner")
    assert (record.original_msg_type, record.original_correl_id) == (7, bytes.fromhex("c0ffee").ljust(24, b"\0"))
    assert (record.application_body, record.application_format, record.application_ccsid) == (
        "Grüße".encode(),
        "MQSTR",
        1208,
    )
    assert len(record.header_correl_id) == len(record.message_correl_id) == 24
    assert record.header_correl_id[16:] == record.message_correl_id[16:] == bytes(8)
    seen = [
        (entry.kind, entry.qualifier_1, entry.qualifier_2, entry.description, entry.minor_version, entry.major_version)
        for entry in record.attachments
    ]
    assert seen == [
        (AttachmentKind.TEXT_FILE, "FILENAME", "d:\\b.txt", "of b", 2, 0),
        (AttachmentKind.BINARY_FILE, "FILEREF", "a", "of all", 0, -1),
        (AttachmentKind.DATA_SET, "SASHELP", "CLASS", "of all", 0, 0),
    ]
    for entry, part in zip(record.attachments, "bac", strict=True):
        stored = b"".join(stock.store.read(entry.object_name))
        if part == "c":
            assert pq.read_table(BytesIO(stored)).to_pydict() == {"x": [1.0, 2.0]}
        else:
            assert stored == content[part]
        assert (entry.size, entry.sha256) == (len(stored), sha256(stored).hexdigest())
    assert len(list(stock.store.names())) == 3


def test_a_plain_form(stock: Stock, http: httpx.Client) -> None:
    files: Files = [
        ("file", ("C:\\tmp\\brief é.txt", b"hello", "text/plain")),
        ("destination", (None, b"archive")),
        ("file", ("b.bin", b"\0", "application/octet-stream")),
        ("description", (None, b"two files")),
    ]
    record = delivery(stock, http.post("/v1/messages", files=files))
    assert record.destination == "archive"
    assert [(entry.kind.word, entry.qualifier_2, entry.description, entry.size) for entry in record.attachments] == [
        ("text-file", "brief é.txt", "two files", 5),
        ("binary-file", "b.bin", "two files", 1),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, ("data-set", "CLASS")),
        ("data-set", ("data-set", "CLASS")),
        ("binary-file", ("binary-file", "class.parquet")),
    ],
)
def test_parquet_is_a_data_set_unless_its_sender_says_otherwise(
    stock: Stock, http: httpx.Client, kind: str | None, expected: tuple[str, str]
) -> None:
    data = {"destination": "partner", **({"kind": kind} if kind else {})}
    files = {"file": ("class.parquet", parquet(), "application/vnd.apache.parquet")}
    (entry,) = delivery(stock, http.post("/v1/messages", data=data, files=files)).attachments
    assert (entry.kind.word, entry.qualifier_2) == expected


@pytest.mark.parametrize(
    ("content", "media_type", "expected"),
    [
        (made(visits(), "xpt"), "application/octet-stream", ("data-set", "VISITS")),
        (made(visits(), "dataset-json"), "application/json", ("data-set", "VISITS")),
        ("Größe\n".encode(), "application/octet-stream", ("text-file", "a.dat")),
        ("Größe\n".encode("latin-1"), "text/plain", ("text-file", "a.dat")),
        ("Größe\n".encode("latin-1"), "application/octet-stream", ("binary-file", "a.dat")),
        (b"text\0", "application/octet-stream", ("binary-file", "a.dat")),
        (b"a,b\n1,2\n", "text/csv", ("text-file", "a.dat")),
        ((b"x" * ((1 << 20) - 1)) + "ü".encode(), "application/octet-stream", ("text-file", "a.dat")),
    ],
)
def test_a_kind_that_is_not_stated_is_recognised(
    stock: Stock, http: httpx.Client, content: bytes, media_type: str, expected: tuple[str, str]
) -> None:
    description = json.dumps({"destination": "partner", "attachments": [{"part": "a"}]})
    first: Files = [
        ("message", (None, description.encode(), "application/json")),
        ("a", ("a.dat", content, media_type)),
    ]
    second: Files = [("destination", (None, b"partner")), ("file", ("a.dat", content, media_type))]
    for files in (first, second):
        (entry,) = delivery(stock, http.post("/v1/messages", files=files)).attachments
        assert (entry.kind.word, entry.qualifier_2) == expected


def test_options_of_a_data_set_make_it_one(stock: Stock, http: httpx.Client) -> None:
    description = {"destination": "partner", "attachments": [{"part": "a", "name": "B", "data_set": {"label": "L"}}]}
    (entry,) = delivery(stock, http.post("/v1/messages", files=described(description, a=b"x,y\n1,2\n"))).attachments
    assert (entry.kind.word, entry.qualifier_2) == ("data-set", "B")


def test_where_a_destination_takes_no_data_sets_a_table_is_sent_as_a_file(stock: Stock, http: httpx.Client) -> None:
    files: Files = [("destination", (None, b"groups")), ("file", ("a.parquet", parquet(), "application/octet-stream"))]
    (entry,) = delivery(stock, http.post("/v1/messages", files=files)).attachments
    assert (entry.kind.word, entry.qualifier_2) == ("binary-file", "a.parquet")


def test_a_wrong_entry_is_found_once_the_kind_is_recognised(stock: Stock, http: httpx.Client) -> None:
    description = {"destination": "partner", "attachments": [{"part": "a", "qualifier_1": "WORK"}]}
    response = http.post("/v1/messages", files=described(description, a=b"text"))
    assert (response.status_code, errors(response)) == (422, ["#/attachments/0"])
    assert list(stock.store.names()) == []


@pytest.mark.parametrize(
    ("description", "pointers"),
    [
        ({}, ["#/destination", "#/attachments"]),
        (simple(attachments=[]), ["#/attachments"]),
        (simple(priority=1, original_correl_id="xyz"), ["#/original_correl_id", "#/priority"]),
        (
            simple(attachments=[{"part": "a", "kind": "video", "name": ""}]),
            ["#/attachments/0/kind", "#/attachments/0/name"],
        ),
        (simple(attachments=[{"part": "a", "kind": "text-file", "name": "a\0b"}]), ["#/attachments/0/name"]),
        (simple(attachments=[{"part": "b", "kind": "text-file", "name": "b"}]), ["#/attachments"]),
        (simple(attachments=simple()["attachments"] * 2), ["#"]),
        (
            simple(attachments=[*simple()["attachments"], {"part": "z", "kind": "text-file", "name": "z"}]),
            ["#/attachments/1/part"],
        ),
        (simple(attachments=[{"part": "a", "kind": "text-file", "name": "a", "data_set": {}}]), ["#/attachments/0"]),
        (
            simple(attachments=[{"part": "a", "kind": "data-set", "data_set": {"format": "xls", "colour": 1}}]),
            ["#/attachments/0/data_set/colour", "#/attachments/0/data_set/format"],
        ),
        (
            simple(attachments=[{"part": "a", "kind": "data-set", "data_set": {"delimiter": "¦"}}]),
            ["#/attachments/0/data_set/delimiter"],
        ),
        (simple(application_message={}), ["#/application_message"]),
        (simple(application_message={"text": "a", "base64": "YQ=="}), ["#/application_message"]),
        (simple(application_message={"base64": "Y"}), ["#/application_message/base64"]),
        (simple(application_message={"text": "a", "ccsid": 819}), ["#/application_message/ccsid"]),
        (simple(application_message={"base64": "/w==", "format": "MQSTR"}), ["#/application_message"]),
        (simple(destination="mainframe", application_message={"text": "中"}), ["#/application_message"]),
        (
            simple(
                destination="mainframe",
                attachments=[{"part": "a", "kind": "text-file", "name": "a", "description": "中"}],
            ),
            ["#/attachments/0"],
        ),
        (simple(destination="unreadable", application_message={"text": "a"}), ["#/application_message"]),
        (simple(original_msg_type=2**31), ["#/original_msg_type"]),
        (simple(original_msg_type="7"), ["#/original_msg_type"]),
        (simple(original_msg_type=True), ["#/original_msg_type"]),
    ],
)
def test_every_wrong_field_is_listed(
    shared_stock: Stock, shared_http: httpx.Client, description: dict[str, Any], pointers: list[str]
) -> None:
    response = shared_http.post("/v1/messages", files=described(description, a=b"bytes"))
    assert response.status_code == 422
    assert response.json()["type"] == "/problems/invalid"
    assert sorted(errors(response)) == sorted(pointers)
    assert list(shared_stock.store.names()) == []


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ([("destination", (None, b"partner"))], "invalid"),
        ([("file", ("a", b""))], "invalid"),
        ([("colour", (None, b"red")), ("file", ("a", b""))], "invalid"),
        ([("file", ("a", b"")), ("message", (None, b"{}"))], "invalid"),
        ([("message", (None, b"{")), ("a", (None, b""))], "malformed"),
        ([("message", (None, b"\xff"))], "malformed"),
        ([("message", (None, b" " * 65537))], "too-large"),
        ([("destination", (None, b"nowhere")), ("file", ("a", b""))], "unknown-destination"),
        ([("destination", (None, b"partner")), ("destination", (None, b"partner"))], "malformed"),
        ([*described(simple(), a=b"1"), ("a", (None, b"2"))], "invalid"),
    ],
)
def test_what_is_refused_leaves_nothing(
    shared_stock: Stock, shared_http: httpx.Client, files: Files, word: str
) -> None:
    response = shared_http.post("/v1/messages", files=files)
    assert response.json()["type"] == f"/problems/{word}"
    assert list(shared_stock.store.names()) == []
    assert shared_stock.catalog.deliveries(None, None, None, 10).items == []


def test_an_unknown_destination_lists_those_there_are(shared_stock: Stock, shared_http: httpx.Client) -> None:
    response = shared_http.post("/v1/messages", files=described(simple(destination="x"), a=b""))
    assert (response.status_code, response.json()["known"]) == (422, sorted(shared_stock.settings.destinations))


@pytest.mark.parametrize(
    ("description", "pointers"),
    [
        ({"application_message": {"text": "a"}}, ["#/application_message"]),
        (
            {
                "application_message": {"text": "a"},
                "attachments": [
                    {"part": "a", "kind": "binary-file", "name": "a"},
                    {"part": "b", "kind": "data-set", "name": "B"},
                ],
            },
            ["#/attachments/1/kind", "#/application_message"],
        ),
    ],
)
def test_a_group_carries_files_only(
    shared_stock: Stock, shared_http: httpx.Client, description: dict[str, Any], pointers: list[str]
) -> None:
    asked = described(simple(destination="groups", **description), a=b"bytes", b=parquet())
    response = shared_http.post("/v1/messages", files=asked)
    assert (response.status_code, response.json()["type"]) == (422, "/problems/invalid")
    assert errors(response) == pointers
    assert "the framing mq_group carries no application message" in response.json()["detail"]
    assert list(shared_stock.store.names()) == []


def test_a_form_sends_no_data_set_as_a_group(shared_http: httpx.Client) -> None:
    data = {"destination": "groups", "kind": "data-set"}
    response = shared_http.post("/v1/messages", data=data, files={"file": ("class.parquet", parquet())})
    assert (response.status_code, errors(response)) == (422, ["#/attachments/0/kind"])


@pytest.mark.parametrize("qualifier", ["FILESPEC", "filename", "WORK"])
def test_a_file_is_named_by_a_file_name_or_a_fileref(shared_http: httpx.Client, qualifier: str) -> None:
    entry = {"part": "a", "kind": "text-file", "name": "a", "qualifier_1": qualifier}
    response = shared_http.post("/v1/messages", files=described(simple(attachments=[entry]), a=b""))
    assert (response.status_code, errors(response)) == (422, ["#/attachments/0"])
    assert "FILENAME or FILEREF" in response.json()["detail"]


@pytest.mark.parametrize("name", ['q"uote.txt', "a b;c=d.txt", "per%20cent.txt", "\u202egnp.txt", "[red]'x'.txt"])
def test_names_of_files_come_as_they_are(shared_http: httpx.Client, name: str) -> None:
    sent = shared_http.post("/v1/messages", data={"destination": "partner"}, files={"file": (name, b"text")})
    assert sent.status_code == 202, sent.text
    assert [each["name"] for each in sent.json()["attachments"]] == [name]
