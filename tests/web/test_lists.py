"""Filters, orders, counts and entity tags of lists, by REST."""

import httpx
import pytest

from app.model.attachment import AttachmentState
from app.model.evidence import Choice, Ground, Question
from app.model.records import Finished
from app.testing.waiting import until
from tests.web.stock import Stock


def names(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [each["name"] for each in response.json()["items"]]


def test_size_order_and_count(stock: Stock, http: httpx.Client) -> None:
    for name, size in (("b", 30), ("a", 10), ("c", 20)):
        stock.stored(bytes(size), qualifier_2=name)
    stock.receiving([(1, 2)], 3, qualifier_2="d")
    assert names(http.get("/v1/attachments?sort=size")) == ["d", "a", "c", "b"]
    assert names(http.get("/v1/attachments?sort=-name&min_size=15")) == ["c", "b"]
    page = http.get("/v1/attachments?sort=name&limit=2&count=true")
    assert (names(page), page.headers["total-count"]) == (["a", "b"], "4")
    following = http.get(page.links["next"]["url"])
    assert names(following) == ["c", "d"]
    other = http.get("/v1/attachments", params={"sort": "size", "cursor": page.json()["next"]})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/invalid")
    assert "total-count" not in http.get("/v1/attachments").headers
    assert http.get("/v1/attachments?sort=colour").status_code == 422


def test_warnings_are_counted_and_filtered_and_evidence_is_told(stock: Stock, http: httpx.Client) -> None:
    stock.stored(b"a", qualifier_2="clean")
    record = stock.attachment(state=AttachmentState.COMPLETE, qualifier_2="warned")
    warnings = ("two \ud800 of", "them")
    evidence = (Choice(Question.DIALECT, "big-4-absent-packed", Ground.PREFERENCE, ("little-4-absent-packed",)),)
    stock.catalog.finish(
        [Finished(record.id, 1, "5e", "text/plain", "store", 1, "o", warnings=warnings, evidence=evidence)], []
    )
    assert names(http.get("/v1/attachments?warned=true&state=finished&source=orders")) == ["warned"]
    assert names(http.get("/v1/attachments?warned=false")) == ["clean"]
    assert len(names(http.get("/v1/attachments"))) == 2
    (listed,) = http.get("/v1/attachments?warned=true").json()["items"]
    one = http.get(f"/v1/attachments/{record.id}").json()
    for found in (listed, one):
        assert (found["warnings_count"], len(found["warnings"])) == (2, 2)
        assert found["warnings"][1] == "them"
        assert found["evidence"] == [
            {
                "question": "dialect",
                "reading": "big-4-absent-packed",
                "ground": "preference",
                "others": ["little-4-absent-packed"],
            }
        ]
    assert http.get("/v1/attachments?warned=perhaps").status_code == 422


def test_times_of_deliveries_and_messages(stock: Stock, http: httpx.Client) -> None:
    http.put("/v1/files/partner/a.txt", content=b"a")
    stock.message([])
    for path, word in (("deliveries", "created"), ("messages", "received")):
        for bound, count in ((f"{word}_before=2020-01-01", 0), (f"{word}_after=2020-01-01", 1)):
            assert len(http.get(f"/v1/{path}?{bound}").json()["items"]) == count


def test_an_unchanged_list_is_not_sent_again(stock: Stock, http: httpx.Client) -> None:
    stock.stored(b"a")
    first = http.get("/v1/attachments")
    etag = first.headers["etag"]
    for given in (etag, f'"x", W/{etag}', "*"):
        again = http.get("/v1/attachments", headers={"If-None-Match": given})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag), given
    stock.stored(b"b")
    changed = http.get("/v1/attachments", headers={"If-None-Match": etag})
    assert (changed.status_code, len(changed.json()["items"])) == (200, 2)
    assert changed.headers["etag"] != etag
    assert "etag" not in http.get("/v1/attachments/none").headers, "an error has none"
    assert http.head("/v1/attachments").headers["etag"] == changed.headers["etag"]


def test_an_entity_tag_of_a_delivery_is_for_both_conditions(stock: Stock, http: httpx.Client) -> None:
    path = f"/v1/deliveries/{http.put('/v1/files/partner/a.txt', content=b'a').json()['id']}"
    etag = http.get(path).headers["etag"]
    again = http.get(path, headers={"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert http.post(f"{path}/cancel").is_success
    changed = http.get(path, headers={"If-None-Match": etag})
    assert changed.status_code == 200
    refused = http.delete(path, headers={"If-Match": etag})
    assert (refused.status_code, refused.headers["etag"]) == (412, changed.headers["etag"])
    assert http.delete(path, headers={"If-Match": changed.headers["etag"]}).status_code == 204


@pytest.mark.parametrize("path", ["/v1/audit", "/v1/audit?limit=1", "/v1/summary"])
def test_what_changes_with_each_reading_is_not_sent_again(
    stock: Stock, http: httpx.Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock.clock.fixed = 1_800_000_000_000_000
    monkeypatch.setattr(stock.gateway.receiving, "free_bytes", lambda: 1 << 36)  # others write to the same disk
    http.delete(f"/v1/attachments/{stock.stored(b'a').id}")
    until(lambda: http.get(path, headers={"If-None-Match": http.get(path).headers["etag"]}).status_code == 304, 5)
    etag = http.get(path).headers["etag"]
    stock.clock.fixed += 10_000
    again = http.get(path, headers={"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    http.delete(f"/v1/attachments/{stock.stored(b'b').id}")
    until(lambda: http.get(path, headers={"If-None-Match": etag}).status_code == 200, 5)
