import base64
import json
import socket
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from threading import Thread
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import StoreFull
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord
from app.service.sending.framer import Framer
from app.service.sending.outbox import framing_options
from tests.support.tables import visits
from tests.support.waiting import until
from tests.tables.out.making import made
from tests.web.stock import Stock

Files = list[tuple[str, tuple[str | None, bytes] | tuple[str | None, bytes, str]]]


def described(description: dict[str, Any], **parts: bytes) -> Files:
    """A multipart body whose first part is the JSON `message`."""
    files: Files = [("message", (None, json.dumps(description).encode(), "application/json"))]
    return files + [(name, (None, data, "application/octet-stream")) for name, data in parts.items()]


def simple(**changes: Any) -> dict[str, Any]:
    return {"destination": "partner", "attachments": [{"part": "a", "kind": "binary-file", "name": "a.bin"}], **changes}


def parquet() -> bytes:
    sink = BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2.0]}), sink)
    return sink.getvalue()


def delivery(stock: Stock, response: httpx.Response) -> DeliveryRecord:
    assert response.status_code == 202, response.text
    record = stock.catalog.delivery(response.json()["id"])
    assert record is not None
    return record


def errors(response: httpx.Response) -> list[str]:
    assert response.headers["content-type"] == "application/problem+json"
    return [error["pointer"] for error in response.json()["errors"]]


def test_everything_a_description_can_say(stock: Stock, http: httpx.Client) -> None:
    description = {
        "destination": "partner",
        "description": "of all",
        "original_msg_type": 7,
        "original_correl_id": "c0ffee",
        "application_message": {"text": "Grüße", "ccsid": 1208},
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
        (simple(application_message={"text": "a", "ccsid": 819}), ["#/application_message"]),
        (simple(application_message={"base64": "YQ==", "ccsid": 819}), ["#/application_message"]),
        (simple(application_message={"base64": "/w==", "format": "MQSTR"}), ["#/application_message"]),
        (simple(destination="mainframe", application_message={"text": "中"}), ["#/application_message"]),
        (simple(destination="unreadable", application_message={"text": "a"}), ["#/application_message"]),
        (simple(original_msg_type=2**31), ["#/original_msg_type"]),
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
        ([("message", (None, b"{")), ("a", (None, b""))], "invalid"),
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


def test_files_are_sent_as_groups(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    sent = http.post("/v1/messages", files=described(simple(destination="groups"), a=bytes(70_000))).json()
    until(lambda: http.get(sent["links"]["self"]).json()["state"] == "sent")
    assert [(message.msg_seq_number, len(message.body)) for message in stock.recorder.sent] == [
        (1, 32_000),
        (2, 32_000),
        (3, 6_000),
    ]
    assert {message.group_id.hex()[:32] for message in stock.recorder.sent} == {sent["attachments"][0]["correl_id"]}


def test_an_upload_over_the_limit(stock: Stock, http: httpx.Client) -> None:
    limits = stock.settings.limits.model_copy(update={"upload_bytes": 3 << 20, "attachments_a_message": 3})
    stock.gateway.settings = stock.settings.model_copy(update={"limits": limits})

    def chunked() -> Any:
        yield b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
        for _ in range(64):
            yield bytes(1 << 16)

    announced = http.post("/v1/messages", files={"file": ("a", bytes(4 << 20))})
    discovered = http.post(
        "/v1/messages", content=chunked(), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    many = http.post("/v1/messages", files=[("file", ("a", b""))] * 4)
    assert [r.status_code for r in (announced, discovered, many)] == [413, 413, 413]
    assert [r.json()["limit"] for r in (announced, discovered, many)] == [3 << 20, 3 << 20, 3]
    assert list(stock.store.names()) == []


def test_an_idempotency_key_sends_once(stock: Stock, http: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = http.post("/v1/messages", files=described(simple(), a=b"1"), headers=headers)
    record = delivery(stock, first)
    stock.catalog.update_delivery(replace(record, state=DeliveryState.SENT, attempts=1, messages_sent=5))
    again = http.post("/v1/messages", files=described(simple(), a=b"1"), headers=headers)
    assert (again.status_code, again.json(), again.headers["location"]) == (
        202,
        first.json(),
        first.headers["location"],
    )
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers

    for other in (described(simple(), a=b"2"), described(simple(description="x"), a=b"1")):
        refused = http.post("/v1/messages", files=other, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/key-reused")
    assert len(stock.catalog.deliveries(None, None, None, 10).items) == 1
    assert len(list(stock.store.names())) == 1

    different = http.post("/v1/messages", files=described(simple(), a=b"1"), headers={"Idempotency-Key": "k-2"})
    assert different.json()["id"] != first.json()["id"]
    assert http.post("/v1/messages", files=[], headers={"Idempotency-Key": "a b"}).status_code == 422


class SlowUpload:
    """A request whose body stops in the middle until it is told to go on."""

    def __init__(self, http: httpx.Client, **headers: str) -> None:
        boundary = "slow"
        self.head = (
            b'--slow\r\nContent-Disposition: form-data; name="destination"\r\n\r\npartner\r\n'
            b'--slow\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n' + bytes(3 << 20)
        )
        self.tail = b"\r\n--slow--\r\n"
        fields = {
            "Host": "x",
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(self.head) + len(self.tail)),
            "Connection": "close",
            **headers,
        }
        self.socket = socket.create_connection((http.base_url.host, http.base_url.port or 80), timeout=30)
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.socket.sendall(f"POST /v1/messages HTTP/1.1\r\n{lines}\r\n".encode() + self.head)

    def finish(self) -> int:
        self.socket.sendall(self.tail)
        status = int(self.socket.makefile("rb").readline().split()[1])
        self.socket.close()
        return status


def partial_files(stock: Stock) -> int:
    return len(list((stock.settings.data / "content" / ".partial").iterdir()))


def test_a_key_that_is_being_used_is_refused(stock: Stock, http: httpx.Client) -> None:
    slow = SlowUpload(http, **{"Idempotency-Key": "k"})
    until(lambda: partial_files(stock) == 1)
    response = http.post("/v1/messages", files=described(simple(), a=b""), headers={"Idempotency-Key": "k"})
    assert (response.status_code, response.json()["type"]) == (409, "/problems/in-flight")
    assert slow.finish() == 202
    assert http.post("/v1/messages", files=[("file", ("a", b""))], headers={"Idempotency-Key": "k"}).status_code == 422


def test_a_client_that_leaves_leaves_nothing(stock: Stock, http: httpx.Client) -> None:
    slow = SlowUpload(http)
    until(lambda: partial_files(stock) == 1)
    slow.socket.close()
    until(lambda: partial_files(stock) == 0)
    assert list(stock.store.names()) == []


def test_a_full_store(stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str) -> Any:
        raise StoreFull("no space left")

    monkeypatch.setattr(stock.store, "create", full)
    response = http.post("/v1/messages", files=described(simple(), a=b""))
    assert (response.status_code, response.json()["type"]) == (507, "/problems/storage-full")


def test_nothing_is_taken_while_the_gateway_drains(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.draining = True
    response = http.post("/v1/messages", files=described(simple(), a=b""))
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")


def test_many_at_once(stock: Stock, http: httpx.Client) -> None:
    contents = [bytes([n]) * (n << 18) for n in range(8)]
    answers: list[httpx.Response] = []

    def send(data: bytes) -> None:
        answers.append(httpx.post(f"{http.base_url}/v1/messages", files=described(simple(), a=data), timeout=60))

    threads = [Thread(target=send, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = {delivery(stock, answer).attachments[0].sha256 for answer in answers}
    assert stored == {sha256(data).hexdigest() for data in contents}


def test_the_application_message_may_be_bytes(stock: Stock, http: httpx.Client) -> None:
    body = {"base64": base64.b64encode(b"\0\xff").decode()}
    record = delivery(stock, http.post("/v1/messages", files=described(simple(application_message=body), a=b"")))
    assert (record.application_body, record.application_format) == (b"\0\xff", "")


def test_what_is_sent_reaches_the_destination(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    sent = http.post("/v1/messages", files=described(simple(), a=b"bytes")).json()
    until(lambda: http.get(sent["links"]["self"]).json()["state"] == "sent")
    assert any(b"bytes" in bytes(message.body) for message in stock.recorder.sent)
    listed = http.get("/v1/deliveries", params={"state": "sent", "destination": "partner"}).json()["items"]
    assert [item["id"] for item in listed] == [sent["id"]]


def sent(stock: Stock, record: DeliveryRecord) -> list[PhysicalMessage]:
    """The physical messages that a delivery becomes."""
    cut = framing_options(stock.settings.destinations[record.destination], 32_000)
    return [each._replace(body=bytes(each.body)) for each in Framer(cut, stock.store).frame(record)]


@pytest.mark.parametrize(
    ("destination", "ccsid", "encoding", "codec"),
    [("partner", 1208, 273, "utf-8"), ("mainframe", 37, 785, "cp037"), ("utf-16", 1200, 546, "utf-16-le")],
)
def test_the_application_message_is_in_the_destinations_character_set_and_says_so(
    stock: Stock, http: httpx.Client, destination: str, ccsid: int, encoding: int, codec: str
) -> None:
    text = "Über HELLO 1234.\n"
    wanted = simple(destination=destination, application_message={"text": text})
    record = delivery(stock, http.post("/v1/messages", files=described(wanted, a=b"x")))
    (message,) = (each for each in sent(stock, record) if each.correl_id == record.message_correl_id)
    assert (message.body, message.format) == (text.encode(codec), "MQSTR")
    assert (message.ccsid, message.encoding) == (ccsid, encoding)
    assert record.application_ccsid == ccsid


@pytest.mark.parametrize(("format_", "body"), [("", b"\xff\0"), ("MYFMT", b"\x81"), ("MQSTR", "ä".encode("cp037"))])
def test_bytes_are_sent_as_they_are(stock: Stock, http: httpx.Client, format_: str, body: bytes) -> None:
    given = {"base64": base64.b64encode(body).decode(), "format": format_}
    wanted = simple(destination="mainframe", application_message=given)
    record = delivery(stock, http.post("/v1/messages", files=described(wanted, a=b"x")))
    (message,) = (each for each in sent(stock, record) if each.correl_id == record.message_correl_id)
    assert (message.body, message.format, message.ccsid) == (body, format_, 37)


@pytest.mark.parametrize("qualifier", ["FILESPEC", "filename", "WORK"])
def test_a_file_is_named_by_a_file_name_or_a_fileref(shared_http: httpx.Client, qualifier: str) -> None:
    entry = {"part": "a", "kind": "text-file", "name": "a", "qualifier_1": qualifier}
    response = shared_http.post("/v1/messages", files=described(simple(attachments=[entry]), a=b""))
    assert (response.status_code, errors(response)) == (422, ["#/attachments/0"])
    assert "FILENAME or FILEREF" in response.json()["detail"]


@pytest.mark.parametrize(
    ("content", "lrecl"), [(b"", 32_767), (b"short\n" * 9000, 32_767), (b"x\n" + b"y" * 100_000 + b"\nz", 100_000)]
)
def test_the_record_length_of_a_text_file_is_that_of_its_longest_record_at_least(
    stock: Stock, http: httpx.Client, content: bytes, lrecl: int
) -> None:
    entry = {"part": "a", "kind": "text-file", "name": "a.txt"}
    record = delivery(stock, http.post("/v1/messages", files=described(simple(attachments=[entry]), a=content)))
    described_in = sent(stock, record)[2].body
    assert described_in == lrecl.to_bytes(4, "big") + len(content).to_bytes(4, "big")


@pytest.mark.parametrize("state", [DeliveryState.SENT, DeliveryState.FAILED])
def test_a_delivery_is_deleted_when_it_has_ended(stock: Stock, http: httpx.Client, state: DeliveryState) -> None:
    files = described(simple(), a=b"content")
    again = {"Idempotency-Key": "once"}
    record = delivery(stock, http.post("/v1/messages", files=files, headers=again))
    url = f"/v1/deliveries/{record.id}"
    before = http.get(url).headers["ETag"]
    for open_ in (DeliveryState.QUEUED, DeliveryState.SENDING):
        stock.catalog.update_delivery(replace(record, state=open_))
        refused = http.delete(url)
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-ended")
        assert refused.json()["state"] == open_
        assert stock.catalog.drop_deliveries([record.id]) == set()
    stock.catalog.update_delivery(replace(record, state=state))
    changed = http.delete(url, headers={"If-Match": before})
    etag = http.get(url).headers["ETag"]
    assert (changed.status_code, changed.headers["ETag"]) == (412, etag)
    assert list(stock.store.names())
    assert http.delete(url[:24], headers={"If-Match": etag}).status_code == 204
    assert list(stock.store.names()) == []
    assert [http.request(method, url).status_code for method in ("GET", "DELETE")] == [404, 404]
    last = stock.catalog.events_after(0, 100)[-1]
    assert (last.type, last.subject, last.data) == ("delivery.deleted", record.id, {"destination": "partner"})
    assert delivery(stock, http.post("/v1/messages", files=files, headers=again)).id != record.id


@pytest.mark.parametrize("name", ['q"uote.txt', "a b;c=d.txt", "per%20cent.txt", "\u202egnp.txt", "[red]'x'.txt"])
def test_names_of_files_come_as_they_are(shared_http: httpx.Client, name: str) -> None:
    sent = shared_http.post("/v1/messages", data={"destination": "partner"}, files={"file": (name, b"text")})
    assert sent.status_code == 202, sent.text
    assert [each["name"] for each in sent.json()["attachments"]] == [name]
