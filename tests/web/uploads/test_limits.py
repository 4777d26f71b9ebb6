"""Limits of resumable uploads, their lists and metrics."""

from pathlib import Path

import httpx
import pytest

from adapters.arrow_journal import ArrowJournal
from tests.web.conftest import connected
from tests.web.stock import Stock
from tests.web.uploads.uploading import DATA, MIB, append, begun, offset, whole


@pytest.mark.parametrize(
    ("settings", "status", "problem"),
    [
        ({"upload_bytes": 10}, 413, "too-large"),
        ({"free_bytes": 1 << 60}, 507, "storage-full"),
        ({"resumable_uploads": 1}, 429, "too-many-uploads"),
        ({"resumable_uploads_a_client": 1}, 429, "too-many-uploads"),
        ({"resumable_bytes_a_client": 10}, 429, "upload-quota"),
    ],
)
def test_limits(tmp_path: Path, settings: dict[str, int], status: int, problem: str) -> None:
    stock = Stock(tmp_path, limits=settings)
    with connected(stock) as http:
        if problem == "too-many-uploads":
            begun(http)
        answers = [whole(http, b"x" * 11)]
        if problem in ("too-large", "upload-quota"):
            path = begun(http)
            answers += [append(http, path, 0, b"x" * 11), append(http, path, 0, b"x", Upload_Length="11")]
            answers.append(append(http, path, 0, iter([b"x" * 6, b"x" * 5])))
        for answer in answers:
            assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{problem}"), answer.text
            if status == 429:
                assert answer.json()["limit"] == next(iter(settings.values()))
                assert answer.json()["used"] in {1, 11, 0}
    stock.close()


def test_uploads_together_have_the_limit_of_a_message(tmp_path: Path) -> None:
    """Else one upload, named by many parts, would be copied as often as a description can name it."""
    stock = Stock(tmp_path, limits={"upload_bytes": 1000})
    with connected(stock) as http:
        upload = whole(http, b"x" * 500).json()["id"]
        statuses = []
        for count in (2, 3):
            uploads = {f"{number}": upload for number in range(count)}
            message = {
                "destination": "partner",
                "uploads": uploads,
                "attachments": [{"part": part} for part in uploads],
            }
            statuses.append(http.post("/v1/messages", json=message).status_code)
        assert statuses == [202, 413]
        (delivery,) = http.get("/v1/deliveries").json()["items"]
        assert {name.split("/")[1] for name in stock.store.names("outgoing/")} == {delivery["id"]}
    stock.close()


@pytest.mark.parametrize("chunks", [[200_000] * 3, [200_000, 140_000], [200_000]])
def test_the_reserve_is_kept_while_bytes_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: list[int]
) -> None:
    """Also the last bytes of a body whose size was not announced must have space."""
    monkeypatch.setattr(ArrowJournal, "free_bytes", lambda _: 2 * MIB + 199_999)
    stock = Stock(tmp_path, limits={"free_bytes": MIB})
    with connected(stock) as http:
        path = begun(http)
        full = append(http, path, 0, iter([DATA[:size] for size in chunks]))
        assert (full.status_code, offset(http, path)) == (507, 0)
        assert append(http, path, 0, iter([DATA[:199_999]])).status_code == 204
    stock.close()


def test_a_quota_holds_for_all_uploads_of_a_client_and_what_is_announced(tmp_path: Path) -> None:
    stock = Stock(tmp_path, limits={"resumable_bytes_a_client": 100})
    with connected(stock) as http:
        announced = begun(http, 60)
        assert append(http, announced, 0, b"x" * 10).status_code == 204
        unknown = begun(http)
        assert append(http, unknown, 0, iter([b"x" * 30])).status_code == 204
        over = append(http, unknown, 30, iter([b"x" * 5, b"x" * 6]))
        assert (over.status_code, over.json()["type"]) == (429, "/problems/upload-quota")
        assert (over.json()["limit"], over.json()["used"], over.headers["retry-after"]) == (100, 90, "60")
        assert offset(http, unknown) == 30
        assert append(http, unknown, 30, b"", Upload_Length="41").status_code == 429
        assert append(http, unknown, 30, iter([b"x" * 10]), Upload_Length="40").status_code == 204
        stock.gateway.uploads.create("key:other", 100)
        http.delete(announced)
        begun(http, 60)
    stock.close()


def test_a_client_lists_its_uploads_and_an_operator_all(stock: Stock, http: httpx.Client) -> None:
    own = [begun(http, size).rpartition("/")[2] for size in (1, 2, 3)]
    other = stock.gateway.uploads.create("key:other", 9).record.id
    expired = stock.gateway.uploads.create("key:other", 9)
    stock.catalog.expire_upload(expired.record.id, 1)
    first = http.get("/v1/uploads?limit=3")
    assert {each["owner"] for each in first.json()["items"]} == {"anonymous:anonymous", "key:other"}
    rest = http.get("/v1/uploads", params={"cursor": first.json()["next"]})
    listed = [each["id"] for answer in (first, rest) for each in answer.json()["items"]]
    assert (sorted(listed), rest.json()["next"]) == (sorted([*own, other]), None)
    assert http.get("/v1/uploads?cursor=x").status_code == 422
    assert [each.id for each in stock.gateway.uploads.page("key:other", None, 9).items] == [other]


def test_metrics_count_uploads(stock: Stock, http: httpx.Client) -> None:
    append(http, begun(http), 0, b"abc")
    begun(http)
    stock.gateway.uploads.expire()
    stock.gateway._catalog_watch.ask()
    text = stock.gateway.metrics.text().decode()
    for line in ("uploads 2.0", "uploads_bytes 3.0", "uploads_expired_total 0.0"):
        assert f"\nattachment_gateway_{line}\n" in text
