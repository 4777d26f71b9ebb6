"""All attachments of a message in one download."""

import io
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import randbytes
from typing import Any

import httpx
import pytest

from app.model.attachment import AttachmentKind
from app.web.resources.archives import Member, tar_pieces, tar_size, unique_names, zip_pieces
from tests.web.stock import Stock

BIG = 16 << 20
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)


def unpacked(response: httpx.Response, kind: str) -> dict[str, bytes]:
    assert response.status_code == 200, response.text
    file = io.BytesIO(response.content)
    if kind == "zip":
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(fileobj=file, mode="r:") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_all_attachments_of_a_message(shared_stock: Stock, shared_http: httpx.Client, kind: str) -> None:
    stock = shared_stock
    texts: dict[str, Any] = {"kind": AttachmentKind.TEXT_FILE}
    records = [
        stock.stored(b"first", qualifier_2="d:\\in\\Ünï.txt", **texts),
        stock.journalled(bytes(range(256)) * 999, qualifier_2="../../etc/passwd"),
        stock.stored(b"", qualifier_2="ünï.TXT", **texts),
        stock.stored(b"PAR1", qualifier_2="SALES", kind=AttachmentKind.DATA_SET),
    ]
    message = stock.message(records)
    path = f"/v1/messages/{message.id}/content"
    response = shared_http.get(path, params={"format": kind})
    assert unpacked(response, kind) == {
        "Ünï.txt": b"first",
        "passwd": bytes(range(256)) * 999,
        "ünï (2).TXT": b"",
        "SALES.parquet": b"PAR1",
    }
    assert f'filename="{message.id}.{kind}"' in response.headers["content-disposition"]
    assert ("content-length" in response.headers) == (kind == "tar")
    types = {"zip": "application/zip", "tar": "application/x-tar"}
    chosen = shared_http.head(path, headers={"Accept": f"{types[kind]}, */*;q=0.1"})
    assert (chosen.headers["content-type"], chosen.headers["vary"]) == (types[kind], "Accept")
    head = shared_http.head(path, params={"format": kind})
    assert (head.status_code, head.content, head.headers["content-type"]) == (
        200,
        b"",
        response.headers["content-type"],
    )


def test_only_finished_messages(stock: Stock, http: httpx.Client) -> None:
    done, coming = stock.stored(b"done"), stock.receiving([(1, 2)], 3)
    message = stock.message([done, coming])
    waits = http.get(f"/v1/messages/{message.id}/content")
    assert (waits.status_code, waits.json()["attachments"]) == (409, {coming.id: "receiving"})
    http.delete(f"/v1/attachments/{done.id}")
    gone = http.get(f"/v1/messages/{message.id}/content")
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/gone")
    assert http.get("/v1/messages/none/content").status_code == 404
    assert http.get(f"/v1/messages/{message.id}/content", params={"format": "rar"}).status_code == 422


def test_damage_in_the_middle_breaks_the_download_off(stock: Stock, http: httpx.Client) -> None:
    good, bad = stock.stored(randbytes(5 << 20)), stock.stored(b"bad!" * 1_000_000)
    message = stock.message([good, bad])
    with stock.store.create(bad.object_name or "") as file:
        file.write(memoryview(b"BAD!" * 1_000_000))
    for kind in ("zip", "tar"):
        with pytest.raises(httpx.RemoteProtocolError):
            http.get(f"/v1/messages/{message.id}/content", params={"format": kind})


@pytest.mark.parametrize("pieces", [zip_pieces, tar_pieces])
def test_the_memory_is_constant(pieces: Callable[[list[Member]], Iterator[bytes]]) -> None:
    block = memoryview(randbytes(1 << 20))
    members = [Member("big.bin", BIG, NOW, lambda: iter([block] * (BIG >> 20)))]
    tracemalloc.start()
    size = sum(len(piece) for piece in pieces(members))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert size > BIG


def test_the_size_of_a_tar_is_known_before() -> None:
    members = [
        Member("ü" * 200, 513, NOW, lambda: iter([memoryview(bytes(513))])),
        Member("b", 0, NOW, lambda: iter(())),
    ]
    assert sum(map(len, tar_pieces(members))) == tar_size(members)


def test_equal_names_get_a_number() -> None:
    names = ["a.txt", "A.TXT", "a (2).txt", "a.txt", "b", "b", ".c", ".c"]
    assert list(unique_names(names)) == [
        "a.txt",
        "A (2).TXT",
        "a (2) (2).txt",
        "a (3).txt",
        "b",
        "b (2)",
        ".c",
        ".c (2)",
    ]
