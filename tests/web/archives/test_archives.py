"""All attachments of a message in one download."""

import io
import tracemalloc
import zipfile
from datetime import UTC, datetime
from random import randbytes
from typing import Any

import httpx
import pytest

from app.model.attachment import AttachmentKind
from app.web.resources.archives import ArchiveMember, unique_names, zip_pieces
from tests.web.stock import Stock

BIG = 16 << 20
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)


def unpacked(response: httpx.Response) -> dict[str, bytes]:
    assert response.status_code == 200, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_all_attachments_of_a_message(shared_stock: Stock, shared_http: httpx.Client) -> None:
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
    response = shared_http.get(path)
    assert unpacked(response) == {
        "Ünï.txt": b"first",
        "passwd": bytes(range(256)) * 999,
        "ünï (2).TXT": b"",
        "SALES.parquet": b"PAR1",
    }
    assert f'filename="{message.id}.zip"' in response.headers["content-disposition"]
    assert (response.headers["content-type"], "content-length" in response.headers) == ("application/zip", False)
    head = shared_http.head(path)
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", "application/zip")


def test_only_finished_messages(stock: Stock, http: httpx.Client) -> None:
    done, coming = stock.stored(b"done"), stock.receiving([(1, 2)], 3)
    message = stock.message([done, coming])
    waits = http.get(f"/v1/messages/{message.id}/content")
    assert (waits.status_code, waits.json()["attachments"]) == (409, {coming.id: "receiving"})
    http.delete(f"/v1/attachments/{done.id}")
    gone = http.get(f"/v1/messages/{message.id}/content")
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/gone")
    assert http.get("/v1/messages/none/content").status_code == 404
    assert http.get(f"/v1/messages/{message.id}/content", params={"format": "tar"}).status_code == 422


def test_damage_in_the_middle_breaks_the_download_off(stock: Stock, http: httpx.Client) -> None:
    good, bad = stock.stored(randbytes(5 << 20)), stock.stored(b"bad!" * 1_000_000)
    message = stock.message([good, bad])
    with stock.store.create(bad.object_name or "") as file:
        file.write(memoryview(b"BAD!" * 1_000_000))
    with pytest.raises(httpx.RemoteProtocolError):
        http.get(f"/v1/messages/{message.id}/content")


def test_the_memory_is_constant() -> None:
    block = memoryview(randbytes(1 << 20))
    members = [ArchiveMember("big.bin", BIG, NOW, lambda: iter([block] * (BIG >> 20)))]
    tracemalloc.start()
    size = sum(len(piece) for piece in zip_pieces(members))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert size > BIG


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
