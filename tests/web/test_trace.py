import json
from pathlib import Path

import httpx
import pytest

from tests.test_trace import COUNT, published

CONNECT = bytes.fromhex("100c00044d5154540400003c0000")


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", CONNECT),
        ("?hex=true", CONNECT.hex(" ").encode()),
        ("?as=mqtt", CONNECT),
        ("?hex=1&as=mqtt", CONNECT.hex().encode()),
    ],
)
def test_bytes_are_explained(shared_http: httpx.Client, query: str, body: bytes) -> None:
    (frame,) = shared_http.post(f"/v1/trace{query}", content=body).json()
    assert frame["format"].startswith("mqtt")
    assert max(cell["offset"] + cell["size"] for cell in frame["cells"]) == len(CONNECT)
    assert [cell["offset"] for cell in frame["cells"]] == sorted(cell["offset"] for cell in frame["cells"])


def test_publishes_as_captured_are_explained(shared_http: httpx.Client) -> None:
    frames = shared_http.post("/v1/trace", content=published(COUNT, "5") * 2).json()
    assert [frame["format"] for frame in frames] == ["mqtt", "sas-count"] * 2
    cells = {cell["name"]: cell["value"] for cell in frames[0]["cells"]}
    assert (cells["PUBLISH.topic"], cells["PUBLISH.properties"]["encoding"]) == ("sas/a", "273")


@pytest.mark.parametrize(
    ("query", "body", "status", "word"),
    [
        ("?hex=true", b"xyz", 422, "invalid"),
        ("?hex=true", b"\xff", 422, "invalid"),
        ("?as=smoke", b"", 422, "invalid"),
        ("?as=mqmd", b"nothing like it", 422, "not-recognised"),
        ("", bytes((4 << 20) + 1), 413, "too-large"),
    ],
)
def test_what_cannot_be(shared_http: httpx.Client, query: str, body: bytes, status: int, word: str) -> None:
    response = shared_http.post(f"/v1/trace{query}", content=body)
    assert (response.status_code, response.json()["type"]) == (status, f"/problems/{word}")


SAPDB = Path("tests/vectors/sapdb/sapdb_kernel_packets.json")


@pytest.mark.parametrize("query", ["", "?as=order-packet"])
@pytest.mark.parametrize("name", ["seed_ex1_reply", "seed_ex22_request"])
def test_order_packets_have_their_vtrace(shared_http: httpx.Client, query: str, name: str) -> None:
    vector = next(each for each in json.loads(SAPDB.read_text())["vectors"] if each["name"] == name)
    (frame,) = shared_http.post(f"/v1/trace{query}", content=bytes.fromhex(vector["hex"])).json()
    assert (frame["format"], frame["fields"]) == ("order-packet", None)
    assert (frame["trace"], frame["decoded"]) == (vector["trace"], vector["decoded"])
    assert sum(cell["size"] for cell in frame["cells"]) == len(vector["hex"]) // 2
