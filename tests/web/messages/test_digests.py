"""Digests that clients give are checked; nothing of what differs is kept."""

from base64 import b64encode
from hashlib import sha256, sha512

import httpx
import pytest

from app.web.http.digests import Digests
from app.web.problems import Problem
from tests.web.stock import Stock

DATA = b"as it is\n" * 9000


def told(data: bytes, algorithm: str = "sha-256") -> str:
    digest = (sha256 if algorithm == "sha-256" else sha512)(data).digest()
    return f"{algorithm}=:{b64encode(digest).decode()}:"


def checked(**headers: str) -> None:
    digests = Digests({name.replace("_", "-"): value for name, value in headers.items()})
    for at in range(0, len(DATA), 1000):
        digests.update(memoryview(DATA)[at : at + 1000])
    digests.check("it")


@pytest.mark.parametrize(
    "text",
    [
        told(DATA),
        told(DATA, "sha-512"),
        f"{told(DATA, 'sha-512')}, {told(DATA)}",
        "md5=:AAAA:",
        f"adler=:AAAA:,{told(DATA)};q=1",
    ],
)
def test_digests_that_are_right_or_unknown(text: str) -> None:
    checked(content_digest=text, repr_digest=text)


@pytest.mark.parametrize(
    "text", [told(b""), told(DATA, "sha-512")[:-8] + "AAAAA==:", f"{told(DATA)}, {told(b'', 'sha-512')}", "sha-256=::"]
)
def test_digests_that_are_wrong(text: str) -> None:
    for field in ("content_digest", "repr_digest"):
        with pytest.raises(Problem) as caught:
            checked(**{field: text})
        assert caught.value.kind.word == "digest-mismatch"


@pytest.mark.parametrize("text", ["", "sha-256", "sha-256=abc", "sha-256=:a:", "sha-256=:\xe9:", "," * 5000])
def test_fields_that_cannot_be_read(text: str) -> None:
    with pytest.raises(Problem) as caught:
        checked(content_digest=text)
    assert caught.value.kind.word == "malformed"


def form(data: bytes, part_header: str = "") -> bytes:
    head = "--x\r\nContent-Disposition: form-data; name="
    return (
        f'{head}"destination"\r\n\r\npartner\r\n{head}"file"; filename="a.txt"\r\n{part_header}\r\n'.encode()
        + data
        + b"\r\n--x--\r\n"
    )


def post(http: httpx.Client, body: bytes, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.post("/v1/messages", content=body, headers={"Content-Type": "multipart/form-data; boundary=x", **named})


def test_the_digest_of_a_body_and_of_a_part(stock: Stock, http: httpx.Client) -> None:
    right, part = form(DATA), form(DATA, f"Repr-Digest: {told(DATA)}\r\n")
    assert post(http, right, content_digest=told(right)).status_code == 202
    assert post(http, part).status_code == 202
    before = sorted(stock.store.names("outgoing/"))
    wrong_part = form(DATA, f"Content-Digest: {told(DATA + b'!')}\r\n")
    for response in (post(http, right, repr_digest=told(part)), post(http, wrong_part)):
        assert (response.status_code, response.json()["type"]) == (400, "/problems/digest-mismatch")
    assert response.json()["digest"] == told(DATA)
    assert sorted(stock.store.names("outgoing/")) == before
