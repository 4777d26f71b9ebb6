"""Converted text in zstd and gzip."""

import httpx
import pyarrow as pa
import pytest

from app.model.attachment import AttachmentKind
from app.web.http.negotiation import chosen_coding
from tests.support.tables import parquet, pupils
from tests.web.stock import Stock

PARQUET = "application/vnd.apache.parquet"


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        (None, None),
        ("", None),
        ("gzip", "gzip"),
        ("zstd, gzip", "zstd"),
        ("gzip;q=1, zstd;q=0.5", "gzip"),
        ("br, deflate", None),
        ("*", "zstd"),
        ("*, zstd;q=0", "gzip"),
        ("gzip;q=0", None),
        ("identity", None),
        ("identity;q=0.5, gzip", "gzip"),
        ("identity, gzip;q=0.5", None),
        ("GZIP ; q=0.8", "gzip"),
    ],
)
def test_the_coding_that_a_client_prefers(accepted: str | None, coding: str | None) -> None:
    assert chosen_coding(accepted) == coding


def raw(http: httpx.Client, path: str, accepted: str, **headers: str) -> tuple[httpx.Response, bytes]:
    with http.stream("GET", path, headers={"Accept-Encoding": accepted, **headers}) as response:
        return response, b"".join(response.iter_raw())


@pytest.mark.parametrize("form", ["csv", "ndjson", "json"])
def test_tables_as_text_are_compressed(shared_stock: Stock, shared_http: httpx.Client, form: str) -> None:
    rows = pa.concat_tables([pupils()] * 500)
    record = shared_stock.stored(parquet(rows, 2000), PARQUET, kind=AttachmentKind.DATA_SET, qualifier_2="PUPILS")
    path = f"/v1/attachments/{record.id}/content?format={form}"
    plain, text = raw(shared_http, path, "identity")
    assert "content-encoding" not in plain.headers
    tags = {plain.headers["etag"]}
    for coding in ("gzip", "zstd"):
        answer, data = raw(shared_http, path, coding)
        assert answer.headers["content-encoding"] == coding
        assert len(data) < len(text) / 10
        assert pa.input_stream(pa.py_buffer(data), compression=coding).read() == text
        tags.add(answer.headers["etag"])
        again, _ = raw(shared_http, path, coding, **{"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, raw(shared_http, path, "gzip, zstd")[0].headers["content-encoding"]) == (304, "zstd")
        head = shared_http.head(path, headers={"Accept-Encoding": coding})
        assert (head.headers["etag"], head.headers["content-encoding"]) == (answer.headers["etag"], coding)
        assert answer.headers["vary"] == plain.headers["vary"] == "Accept-Encoding, Accept"
    assert len(tags) == 3


def test_what_is_stored_or_compressed_itself_is_sent_as_it_is(shared_stock: Stock, shared_http: httpx.Client) -> None:
    """Ranges are of stored bytes."""
    text = shared_stock.stored(b"text\n" * 100, "text/plain", kind=AttachmentKind.TEXT_FILE)
    table = shared_stock.stored(parquet(pupils(), 10), PARQUET, kind=AttachmentKind.DATA_SET)
    for path in (f"{text.id}/content", f"{table.id}/content", f"{table.id}/content?format=arrow"):
        answer, _ = raw(shared_http, f"/v1/attachments/{path}", "gzip, zstd")
        assert "content-encoding" not in answer.headers
    part, data = raw(shared_http, f"/v1/attachments/{text.id}/content", "gzip", Range="bytes=0-3")
    assert (part.status_code, data) == (206, b"text")
