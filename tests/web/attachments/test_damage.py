"""Content whose bytes on disk are not those that were received: told, marked, and never served as if they were."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from structlog.testing import capture_logs

from app.model.attachment import AttachmentKind
from app.model.errors import CatalogError
from app.model.records import AttachmentRecord
from tests.web.stock import Stock

LARGE = np.arange(3 << 20, dtype=">u4").tobytes()
SMALL = bytes(range(256)) * 4


def get(http: httpx.Client, record: AttachmentRecord, **headers: str) -> httpx.Response:
    return http.get(f"/v1/attachments/{record.id}/content", headers=headers)


def file_of(stock: Stock, record: AttachmentRecord) -> Path:
    assert record.object_name is not None
    return Path(stock.store.local_path(record.object_name) or "")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def assert_refused(response: httpx.Response) -> None:
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "/problems/damaged"
    assert response.json()["detail"].startswith("the content is not served: ")


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flip(path, 700),
        lambda path: cut(path, len(SMALL) - 1),
        lambda path: cut(path, 0),
        lambda path: path.write_bytes(SMALL + b"?"),
        Path.unlink,
    ],
    ids=["flipped", "cut", "emptied", "longer", "missing"],
)
@pytest.mark.parametrize("ranged", [False, True])
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
def test_a_damaged_object_is_a_problem(
    stock: Stock, http: httpx.Client, damage: Callable[[Path], Any], *, checked: bool, ranged: bool
) -> None:
    record = stock.stored(SMALL, checked=checked)
    path = file_of(stock, record)
    damage(path)
    with capture_logs() as logs:
        if ranged and not checked:
            get(http, record)  # what a range cannot see, a whole read does, and marks
        for _ in range(3):
            assert_refused(get(http, record, **({"Range": "bytes=0-9"} if ranged else {})))
    (told,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert (told["event"], told["attachment"], told["where"]) == ("content_damaged", record.id, "serving")
    (event,) = stock.catalog.events_after(0, 10)
    assert (event.type, event.subject, event.data["code"]) == ("attachment.damaged", record.id, "damaged-content")
    shown = http.get(f"/v1/attachments/{record.id}").json()
    assert (shown["state"], shown["reason"]["code"]) == ("finished", "damaged-content")
    content = http.get("/health/live").json()["checks"]["content"]
    assert (content["ok"], content["damaged"], content["attachments"][0]["attachment"]) == (False, 1, record.id)
    metrics = http.get("/metrics").text
    assert 'attachment_gateway_damage_total{where="serving"}' in metrics
    assert "attachment_gateway_damaged_attachments 1.0" in metrics

    path.write_bytes(SMALL)
    assert get(http, record, Range="bytes=0-9").content == SMALL[:10]
    assert http.get(f"/v1/attachments/{record.id}").json()["reason"] is None
    assert http.get("/health/live").json()["checks"]["content"]["ok"]


@pytest.mark.usefixtures("one_process")
def test_damage_that_the_catalog_could_not_record_is_recorded_at_the_next_reading(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = stock.stored(SMALL)
    flip(file_of(stock, record), 700)

    def broken(*_: object) -> bool:
        raise CatalogError("the catalog cannot be written")

    with monkeypatch.context() as catalog, capture_logs() as logs:
        catalog.setattr(stock.catalog, "mark_damaged", broken)
        assert_refused(get(http, record))
        assert_refused(get(http, record))
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["content_damaged"]
    assert not stock.catalog.events_after(0, 10)
    for _ in range(2):
        assert_refused(get(http, record))
        assert [event.type for event in stock.catalog.events_after(0, 10)] == ["attachment.damaged"]
    assert http.get(f"/v1/attachments/{record.id}").json()["reason"]["code"] == "damaged-content"


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("found", ["before", "while"])
def test_damage_of_a_deleted_attachment_is_forgotten(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    record = stock.stored(SMALL)
    flip(file_of(stock, record), 700)
    mark_damaged = stock.catalog.mark_damaged

    def deleted_just_before(*arguments: Any) -> bool:
        assert stock.gateway.deletion.attachment(record.id)
        stock.gateway.events.read()
        return mark_damaged(*arguments)

    if found == "while":
        monkeypatch.setattr(stock.catalog, "mark_damaged", deleted_just_before)
        assert_refused(get(http, record))
    else:
        assert_refused(get(http, record))
        assert "attachment_gateway_damaged_attachments 1.0" in http.get("/metrics").text
        assert http.delete(f"/v1/attachments/{record.id}").status_code == 204
        stock.gateway.events.read()
    assert http.get("/health/live").json()["checks"]["content"]["ok"]
    assert "attachment_gateway_damaged_attachments 0.0" in http.get("/metrics").text


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
def test_the_event_loop_never_waits_for_the_catalog(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch, *, checked: bool
) -> None:
    """Reads that are quick are the event loop's. The mark of damage is not, neither to set it nor to remove it."""
    record = stock.stored(LARGE, checked=checked)
    mark_damaged, loops = stock.catalog.mark_damaged, []

    def watched(*arguments: Any) -> bool:
        loops.append(asyncio._get_running_loop())
        return mark_damaged(*arguments)

    monkeypatch.setattr(stock.catalog, "mark_damaged", watched)
    monkeypatch.setattr("app.web.responses.content_response._QUICK_SECONDS", inf)
    flip(file_of(stock, record), 5 << 20)
    with pytest.raises(httpx.RemoteProtocolError):
        get(http, record)
    flip(file_of(stock, record), 5 << 20)
    assert get(http, record).content == LARGE
    assert loops == [None] * len(loops)
    assert len(loops) >= 2


@pytest.mark.parametrize("at", [5 << 20, len(LARGE) - 1])
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
def test_a_large_object_that_is_damaged_never_ends_well(
    stock: Stock, http: httpx.Client, at: int, *, checked: bool
) -> None:
    record = stock.stored(LARGE, checked=checked)
    flip(file_of(stock, record), at)
    with pytest.raises(httpx.RemoteProtocolError):
        get(http, record)
    for headers in ({}, {"Range": "bytes=0-9"}, {"Range": "bytes=0-9,20-30"}):
        assert_refused(get(http, record, **headers))


def test_a_range_is_refused_for_damage_in_its_own_blocks(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(LARGE)
    flip(file_of(stock, record), (5 << 20) + 7)
    for first, last in ((0, 9), (1000, (5 << 20) - 1), (6 << 20, len(LARGE) - 1), (len(LARGE) - 3, len(LARGE) - 1)):
        assert get(http, record, Range=f"bytes={first}-{last}").content == LARGE[first : last + 1]
    assert_refused(get(http, record, Range=f"bytes={(6 << 20) - 1}-{len(LARGE) - 1}"))


@pytest.mark.parametrize("at", [5 << 20, len(LARGE) - 1])
def test_content_in_the_journal_that_is_damaged_never_ends_well(stock: Stock, http: httpx.Client, at: int) -> None:
    record = stock.journalled(LARGE)
    stock.journal.seal()
    stock.journalled(bytes(32 << 20))  # so that nothing is read from memory
    (segment, *_) = sorted((stock.settings.data / "journal").glob("*.arrows"))
    flip(segment, segment.read_bytes().index(LARGE[at - 16 : at + 1]) + 16)
    try:
        assert_refused(get(http, record))
    except httpx.RemoteProtocolError:
        assert_refused(get(http, record))
    assert get(http, record, **{"If-None-Match": f'"{record.sha256}"'}).status_code in (304, 500)


def test_other_formats_are_made_of_sound_content_only(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(b"PAR1 and no more of it", kind=AttachmentKind.DATA_SET)
    flip(file_of(stock, record), 6)
    for path in ("content?format=csv", "content?format=json&limit=1", "schema"):
        assert_refused(http.get(f"/v1/attachments/{record.id}/{path}"))


def test_deleted_content_is_gone_and_not_damaged(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(SMALL)
    assert http.delete(f"/v1/attachments/{record.id}").status_code == 204
    assert get(http, record).status_code == 410
    assert http.get("/health/live").json()["checks"]["content"]["ok"]


def test_a_catalog_that_cannot_be_read_is_a_problem_that_passes(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(SMALL)
    path = stock.settings.data / "catalog.sqlite"
    whole = path.read_bytes()
    path.write_bytes(b"\xa5" * len(whole))
    (path.parent / "catalog.sqlite-wal").write_bytes(b"")
    response = http.get("/v1/attachments")
    assert response.status_code == 503
    assert response.json()["detail"] == "the catalog cannot be read or written at present"
    assert response.headers["retry-after"] == "5"
    assert record.id


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    "damage",
    [
        "evidence = '[{'",
        "evidence = '[1]'",
        "files = '[1]'",
        "dialects = 'xyz'",
        "kind = 999",
        "state = 'finisjed'",
        "qualifier_2 = X'616263'",
        "size = 'large'",
        "ordinal = 1.5",
        "warnings = 'null'",
    ],
)
def test_a_row_that_cannot_be_read_is_a_problem_and_not_believed(stock: Stock, http: httpx.Client, damage: str) -> None:
    record = stock.stored(SMALL)
    with closing(sqlite3.connect(stock.settings.data / "catalog.sqlite", isolation_level=None)) as database:
        database.execute(f"UPDATE attachments SET {damage}")
    for path in ("/v1/attachments", f"/v1/attachments/{record.id}", f"/v1/attachments/{record.id}/content"):
        with capture_logs() as logged:
            response = http.get(path)
        assert (response.status_code, response.json()["type"]) == (503, "/problems/unavailable")
        assert [each["event"] for each in logged if each["log_level"] == "error"] == ["catalog_damaged"]
