"""Text files in UTF-8 on request."""

import httpx

from app.model.attachment import AttachmentKind
from tests.web.stock import Stock

TEXT = "größer als 5 €\nzweite Zeile\n"


def get(http: httpx.Client, identifier: str, **query: str) -> httpx.Response:
    return http.get(f"/v1/attachments/{identifier}/content", params=query)


def test_text_of_any_character_set_comes_as_utf_8(shared_stock: Stock, shared_http: httpx.Client) -> None:
    for charset, codec in (("utf-16be", "utf-16-be"), ("cp1140", "cp1140"), ("utf-8", "utf-8")):
        stored = TEXT.encode(codec)
        record = shared_stock.stored(stored, f"text/plain; charset={charset}", kind=AttachmentKind.TEXT_FILE)
        assert get(shared_http, record.id).content == stored
        response = get(shared_http, record.id, charset="utf-8")
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.content.decode() == TEXT
        assert "undecodable-bytes" not in response.headers
        again = httpx.Headers({"If-None-Match": response.headers["etag"]})
        url = f"/v1/attachments/{record.id}/content?charset=utf-8"
        assert shared_http.get(url, headers=again).status_code == 304
        assert shared_http.head(url).headers["etag"] == response.headers["etag"]


def test_what_does_not_decode_is_reported(shared_stock: Stock, shared_http: httpx.Client) -> None:
    record = shared_stock.stored(b"ab\xffc\xfe", "text/plain; charset=utf-8", kind=AttachmentKind.TEXT_FILE)
    response = get(shared_http, record.id, charset="utf-8")
    assert response.headers["undecodable-bytes"] == "2; first=2"
    assert response.content.decode() == "ab\ufffdc\ufffd"


def test_what_cannot_be_converted_is_refused(shared_stock: Stock, shared_http: httpx.Client) -> None:
    unknown = shared_stock.stored(b"abc", "text/plain", kind=AttachmentKind.TEXT_FILE)
    response = get(shared_http, unknown.id, charset="utf-8")
    assert (response.status_code, response.json()["type"]) == (422, "/problems/not-representable")
    assert "ccsid" in response.json()["detail"]
    binary = shared_stock.stored(b"abc", "application/octet-stream")
    response = get(shared_http, binary.id, charset="utf-8")
    assert (response.status_code, response.json()["errors"][0]["parameter"]) == (422, "charset")
    assert get(shared_http, unknown.id, charset="latin-1").status_code == 422
