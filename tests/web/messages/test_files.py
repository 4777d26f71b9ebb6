"""Files sent by PUT."""

import shutil
import socket
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from app.model.attachment import AttachmentKind
from app.model.principals import Scope
from app.service.access.api_keys import KeyLimits, make_key
from tests.web.messages.sending import delivery
from tests.web.stock import Stock


def test_a_file_becomes_a_delivery(stock: Stock, http: httpx.Client) -> None:
    data = bytes(range(256)) * 4000
    response = http.put(
        "/v1/files/partner/a%20b.bin", content=iter([data[:100], data[100:]]), params={"description": "of all"}
    )
    record = delivery(stock, response)
    assert response.headers["location"] == f"/v1/deliveries/{record.id}"
    (attachment,) = record.attachments
    assert (attachment.qualifier_2, attachment.description, attachment.kind) == (
        "a b.bin",
        "of all",
        AttachmentKind.BINARY_FILE,
    )
    assert b"".join(stock.store.read(attachment.object_name)) == data


def test_a_table_becomes_a_data_set(stock: Stock, http: httpx.Client) -> None:
    response = http.put("/v1/files/partner/sales.csv", content=b"x,y\n1,2\n", params={"kind": "data-set"})
    (attachment,) = delivery(stock, response).attachments
    assert (attachment.kind, attachment.qualifier_2) == (AttachmentKind.DATA_SET, "SALES")


def test_a_key_sends_once(stock: Stock, http: httpx.Client) -> None:
    sent = [http.put("/v1/files/partner/a.txt", content=b"a", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert sent[0].json()["id"] == sent[1].json()["id"]
    assert sent[1].headers["idempotency-replayed"] == "true"
    other = http.put("/v1/files/partner/a.txt", content=b"b", headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/key-reused")
    assert len(list(stock.store.names("outgoing/"))) == 1


def test_idempotency_keys_belong_to_their_callers(stock: Stock, http: httpx.Client) -> None:
    texts = []
    for name in ("one", "two"):
        key, text = make_key(name, frozenset({Scope.SEND}), stock.clock.now(), KeyLimits())
        stock.catalog.add_key(key)
        texts.append(text)

    def put(text: str, data: bytes) -> httpx.Response:
        headers = {"Idempotency-Key": "payroll", "Authorization": f"Bearer {text}"}
        return http.put("/v1/files/partner/a.txt", content=data, headers=headers)

    sent = [put(text, b"1") for text in texts]
    assert [answer.status_code for answer in sent] == [202, 202]
    assert sent[0].json()["id"] != sent[1].json()["id"]
    again, other = put(texts[0], b"1"), put(texts[0], b"2")
    assert (again.json()["id"], again.headers["idempotency-replayed"]) == (sent[0].json()["id"], "true")
    assert (other.status_code, sent[0].json()["id"] in other.text) == (422, True)


def test_what_cannot_be_sent_leaves_nothing(stock: Stock, http: httpx.Client) -> None:
    wrong = f"sha-256=:{b64encode(sha256(b'b').digest()).decode()}:"
    refused = [
        (http.put("/v1/files/nowhere/a.txt", content=b"a"), 422),
        (http.put("/v1/files/partner/a%0A.txt", content=b"a"), 422),
        (http.put("/v1/files/partner/a.txt", content=b"a", params={"kind": "picture"}), 422),
        (http.put("/v1/files/partner/a.txt", content=b"a", headers={"Repr-Digest": wrong}), 400),
        (http.put("/v1/files/partner/a.txt", content=b"a", headers={"Content-Encoding": "gzip"}), 415),
        (http.put("/v1/files/partner/", content=b"a"), 404),
        (http.put("/v1/files/mainframe/\u65e5\u672c.txt", content=b"a"), 422),
        (http.put("/v1/files/groups/a.csv", content=b"x\n1\n", params={"kind": "data-set"}), 422),
    ]
    for response, status in refused:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
    assert list(stock.store.names("outgoing/")) == []


@pytest.mark.process
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_as_curl_sends_it(stock: Stock, http: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_bytes(b"of curl\n" * 300_000)
    called = ["curl", "--silent", "--fail", "--noproxy", "*", "-T", "report.txt", f"{http.base_url}/v1/files/partner/"]
    subprocess.run(called, cwd=tmp_path, check=True, capture_output=True)
    (record,) = stock.catalog.deliveries(None, None, None, 9).items
    (attachment,) = record.attachments
    assert (attachment.qualifier_2, attachment.size) == ("report.txt", 2_400_000)


@pytest.mark.parametrize("name", ["%ff%fe.txt", "a%80", "%2e%2e", "%2e", "%20", "%20%09", "a%00b", "a%0Ab", "%c2%85"])
def test_names_that_no_file_has_are_refused(stock: Stock, http: httpx.Client, name: str) -> None:
    """By a raw socket: clients resolve dots before they send."""
    with socket.create_connection((http.base_url.host, http.base_url.port or 80)) as client:
        fields = "Host: localhost\r\nContent-Length: 1\r\nConnection: close"
        client.sendall(f"PUT /v1/files/partner/{name} HTTP/1.1\r\n{fields}\r\n\r\na".encode())
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert answer.split(b" ", 2)[1] == b"422", answer
    assert b'"parameter":"name"' in answer
    assert not list(stock.store.names("outgoing/"))


@pytest.mark.parametrize("name", ["..", ".", " ", "a\nb"])
def test_the_same_names_are_refused_in_a_form(stock: Stock, http: httpx.Client, name: str) -> None:
    answers = [
        http.post("/v1/messages", data={"destination": "partner"}, files={"file": (name, b"a")}),
        http.post("/v1/messages", data={"destination": "partner", "name": name}, files={"file": ("a.txt", b"a")}),
    ]
    refused = [(answer.status_code, answer.json()["errors"][0]["pointer"]) for answer in answers]
    assert set(refused) == {(422, "#/attachments/0/name")}
    assert not list(stock.store.names("outgoing/"))


def test_a_form_without_a_chosen_file_sends_nothing(stock: Stock, http: httpx.Client) -> None:
    """As browsers send an input for files that was left empty; beside a chosen file it is ignored."""

    def sent(*parts: str) -> httpx.Response:
        body = "".join(f"--b\r\nContent-Disposition: form-data; {part}\r\n" for part in parts) + "--b--\r\n"
        head = {"Content-Type": "multipart/form-data; boundary=b"}
        return http.post("/v1/messages", content=f"a preamble\r\n\r\n--bogus\r\n{body}".encode(), headers=head)

    field = 'name="destination"\r\n\r\npartner'
    unchosen = 'name="file"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n'
    answer = sent(field, unchosen)
    assert (answer.status_code, answer.json()["detail"]) == (422, "no file was chosen; choose at least one")
    assert not list(stock.store.names("outgoing/"))
    record = delivery(stock, sent(field, unchosen, 'name="more"; filename="a.txt"\r\n\r\nhello'))
    assert [attachment.qualifier_2 for attachment in record.attachments] == ["a.txt"]
