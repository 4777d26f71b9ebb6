import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.framing.arrivals import ArrivalsBySource
from app.model.attachment import AttachmentKind
from app.model.errors import DamagedError, InvalidInputError
from app.model.message import PhysicalMessage, Position
from app.model.principals import Scope
from app.model.records import Checkpoint
from app.service.access.api_keys import KeyLimits, make_key
from app.service.context import ReceiverContext
from app.service.quarantine.quarantine_records import copy_quarantined, quarantine_entry
from app.service.sending.framer import Framer
from app.testing.outgoing_files import delivery, framing_options
from tests.framing.order_packets import bare, parquet, table, written
from tests.support.kept import flip
from tests.web.conftest import connected
from tests.web.stock import Stock


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let replays wait for what became of them, however busy the machine is."""
    monkeypatch.setattr("app.service.quarantine.replays.WAIT_SECONDS", 60.0)


def test_an_entry_shows_the_reason_and_the_bytes(stock: Stock, http: httpx.Client) -> None:
    body = bytes(range(256)) * 2
    record = stock.quarantined(body)
    (listed,) = http.get("/v1/quarantine", params={"state": "kept", "source": "orders"}).json()["items"]
    seen = http.get(listed["links"]["self"]).json()
    assert seen == {**listed, "preview": body[:256].hex(), "properties": {"mqmd.put_appl_name": "sas.exe"}}
    assert (seen["code"], seen["row"], seen["at"]) == ("truncated", "AttachmentHeader.attachments", 7)
    whole = http.get(seen["links"]["body"])
    assert (whole.content, whole.headers["content-type"]) == (body, "application/octet-stream")
    assert record.id == seen["id"]


def test_the_fields_before_the_error_are_explained(stock: Stock, http: httpx.Client) -> None:
    """A header whose end is missing: all that came of it is told, and the rest as it is."""
    sent = delivery(stock.gateway.context, [(AttachmentKind.BINARY_FILE, "a.bin", b"x" * 100)])
    header = next(iter(Framer(framing_options(), stock.store).frame(sent)))
    record = stock.quarantined(bytes(header.body)[:-7])
    (frame,) = http.get(f"/v1/quarantine/{record.id}/trace").json()
    assert frame["format"] == "sas-attachment-header"
    assert frame["note"].startswith("incomplete: at byte ")
    cells = frame["cells"]
    assert [cell["name"] for cell in cells[:2]] == [
        "AttachmentHeader.header_correlid",
        "AttachmentHeader.original_msg_type",
    ]
    ends = [0, *(cell["offset"] + cell["size"] for cell in cells)]
    assert ends[:-1] == [cell["offset"] for cell in cells]
    assert (cells[-1]["name"], ends[-1]) == ("rest", record.size)
    (spoilt,) = http.get(f"/v1/quarantine/{stock.quarantined(b'x').id}/trace").json()
    assert (spoilt["format"], spoilt["cells"][0]["value"]) == ("bytes", "78")


def test_dismissing(stock: Stock, http: httpx.Client) -> None:
    record = stock.quarantined(b"x")
    assert http.delete(f"/v1/quarantine/{record.id}").status_code == 204
    assert http.get(f"/v1/quarantine/{record.id}").json()["state"] == "dismissed"
    assert http.get("/v1/quarantine", params={"state": "kept"}).json()["items"] == []


@pytest.mark.usefixtures("one_process")
def test_replaying_tries_again(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    record = stock.quarantined(b"still no header")
    replayed = http.post(f"/v1/quarantine/{record.id}/replay").json()
    assert (replayed["id"], replayed["state"]) == (record.id, "replayed")
    (kept,) = http.get("/v1/quarantine", params={"state": "kept"}).json()["items"]
    assert replayed["outcome"] == {"result": "quarantined", "entry": kept, "attachments": []}
    assert kept["id"] != record.id


@pytest.mark.usefixtures("one_process")
def test_a_replay_says_what_became_of_the_attachments(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    sent = delivery(stock.gateway.context, [(AttachmentKind.BINARY_FILE, "a.bin", b"x" * 100)])
    header, *others = (
        each._replace(source="orders", framing="sas_queue")
        for each in Framer(framing_options(), stock.store).frame(sent)
    )
    outcomes = [replayed(stock, http, message) for message in (header, *others)]
    assert {each["result"] for each in outcomes} == {"processed"}
    seen = [[(its["name"], its["state"]) for its in each["attachments"]] for each in outcomes]
    assert seen[0] == [("a.bin", "receiving")]
    assert seen[-2:].count([("a.bin", "finished")]) == 1, "the last part or the application message comes last"
    assert outcomes[0]["attachments"][0]["parts_received"] == 0


def replayed(stock: Stock, http: httpx.Client, message: PhysicalMessage) -> dict[str, Any]:
    """What a replay says of a message that was quarantined, as if settings had been wrong."""
    message = message._replace(received_at=stock.clock.now())  # retention leaves what has just come
    (position,) = stock.journal.append([message])
    record, copy = quarantine_entry(position.pack(), message, InvalidInputError("wrong-settings", "", -1, "why"))
    copies = [] if copy is None else [copy]
    stock.catalog.checkpoint(Checkpoint(quarantine=[record], quarantine_copies=copies))
    response = http.post(f"/v1/quarantine/{record.id}/replay")
    assert response.status_code == 200, response.text
    outcome: dict[str, Any] = response.json()["outcome"]
    return outcome


@pytest.mark.usefixtures("one_process")
def test_while_assembly_is_behind_a_replay_is_pending(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.quarantine.replays.WAIT_SECONDS", 0.0)
    monkeypatch.setattr(stock.gateway.catalog, "progress", lambda: None)
    stock.gateway.start()
    record = stock.quarantined(b"still no header")
    outcome = http.post(f"/v1/quarantine/{record.id}/replay").json()["outcome"]
    assert outcome == {"result": "pending", "entry": None, "attachments": []}


def test_when_the_segment_is_gone(stock: Stock, http: httpx.Client) -> None:
    record = stock.quarantined(b"x")
    stock.journal.seal()
    stock.journal.retire(Position.unpack(record.position).segment)
    assert http.get(f"/v1/quarantine/{record.id}").json()["preview"] is None
    assert http.get(f"/v1/quarantine/{record.id}/body").status_code == 410
    assert http.post(f"/v1/quarantine/{record.id}/replay").status_code == 410


@pytest.mark.usefixtures("one_process")
def test_many_are_replayed_at_once(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    records = [stock.quarantined(b"no header %d" % number) for number in range(3)]
    ids = [record.id for record in records]
    done = http.post("/v1/quarantine/replay", json={"ids": [*ids, "ffff", ids[0]]}).json()["items"]
    assert [(each["id"], each["result"]) for each in done] == [
        *((identifier, "replayed") for identifier in ids),
        ("000000000000ffff", "not-found"),
    ]
    assert {each["outcome"]["result"] for each in done[:3]} == {"quarantined"}
    assert done[3]["outcome"] is None
    assert len(http.get("/v1/quarantine", params={"state": "replayed"}).json()["items"]) == 3


@pytest.mark.usefixtures("one_process")
def test_a_replay_of_many_goes_on_after_one_that_is_gone(stock: Stock, http: httpx.Client) -> None:
    stock.gateway.start()
    gone = stock.quarantined(b"gone")
    stock.journal.seal()
    stock.journal.retire(Position.unpack(gone.position).segment)
    there = stock.quarantined(b"there")
    done = http.post("/v1/quarantine/replay", json={"ids": [gone.id, there.id]}).json()["items"]
    assert [each["result"] for each in done] == ["gone", "replayed"]


@pytest.mark.usefixtures("one_process")
def test_a_replay_of_many_goes_on_after_one_that_is_damaged(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock.gateway.start()
    damaged, there = stock.quarantined(b"damaged"), stock.quarantined(b"there")
    read = stock.journal.read

    def unreadable(position: Position) -> PhysicalMessage:
        if position.pack() == damaged.position:
            raise DamagedError("a bad block")
        return read(position)

    monkeypatch.setattr(stock.journal, "read", unreadable)
    done = http.post("/v1/quarantine/replay", json={"ids": [damaged.id, there.id]}).json()["items"]
    assert [each["result"] for each in done] == ["damaged", "replayed"]
    assert http.post(f"/v1/quarantine/{damaged.id}/replay").json()["type"] == "/problems/damaged"


@pytest.mark.usefixtures("one_process")
def test_a_group_is_dismissed_and_replayed_however_large_it_is(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page; what cannot be done, and what is quarantined again meanwhile, is not met twice."""
    stock.gateway.start()
    monkeypatch.setattr("app.web.resources.quarantine.endpoints.MOST_AT_ONCE", 2)
    for number in range(5):
        stock.quarantined(b"no header %d" % number)
    stock.quarantined(b"x", source="other")
    seen = http.get("/v1/quarantine/groups", params={"state": "kept"}).json()
    assert (seen["groups"], seen["entries"], seen["is_exact"]) == (2, 6, True)
    largest = seen["items"][0]
    assert (largest["source"], largest["code"], largest["count"]) == ("orders", "truncated", 5)
    group = {name: largest[name] for name in ("source", "code", "why")}
    assert len(http.get("/v1/quarantine", params=group).json()["items"]) == 5

    def all_of(action: str) -> list[str]:
        results: list[str] = []
        cursor = None
        while cursor is not None or not results:
            body = {"group": group, "cursor": cursor}
            done = http.post(f"/v1/quarantine/{action}", json=body).raise_for_status().json()
            results += [each["result"] for each in done["items"]]
            cursor = done["next"]
        return results

    assert all_of("replay") == ["replayed"] * 5
    again = http.get("/v1/quarantine/groups", params={"state": "kept", "source": "orders"}).json()
    assert again["entries"] == 5, "they cannot be read this time either"
    group = {name: again["items"][0][name] for name in ("source", "code", "why")}
    assert all_of("dismiss") == ["dismissed"] * again["items"][0]["count"]
    (left,) = http.get("/v1/quarantine/groups", params={"state": "kept"}).json()["items"]
    assert (left["source"], left["count"]) == ("other", 1)
    wrong: list[dict[str, Any]] = [{"ids": ["1"], "group": group}, {"group": {}}, {"ids": ["1"], "cursor": "x"}]
    for body in wrong:
        assert http.post("/v1/quarantine/dismiss", json=body).status_code == 422
    assert http.post("/v1/quarantine/dismiss", json={"group": group, "cursor": "x"}).status_code == 422


def test_a_limited_caller_has_its_own_groups(stock: Stock, http: httpx.Client) -> None:
    for source in ("orders", "other"):
        stock.quarantined(b"x", source=source)
    key, text = make_key("own", frozenset({Scope.OPERATE, Scope.READ}), 1, KeyLimits(sources=frozenset({"orders"})))
    stock.catalog.add_key(key)
    headers = {"Authorization": f"Bearer {text}"}
    seen = http.get("/v1/quarantine/groups", headers=headers).json()
    assert ([group["source"] for group in seen["items"]], seen["entries"]) == (["orders"], 1)
    body = {"group": {"source": "other", "code": "truncated", "why": "ends early"}}
    assert http.post("/v1/quarantine/dismiss", json=body, headers=headers).json()["items"] == []


def test_many_are_dismissed_at_once(stock: Stock, http: httpx.Client) -> None:
    records = [stock.quarantined(b"x", source=source) for source in ("orders", "other")]
    key, text = make_key("own", frozenset({Scope.OPERATE}), 1, KeyLimits(sources=frozenset({"orders"})))
    stock.catalog.add_key(key)
    headers = {"Authorization": f"Bearer {text}"}
    ids = [record.id for record in records]
    done = http.post("/v1/quarantine/dismiss", json={"ids": ids}, headers=headers).json()["items"]
    assert [each["result"] for each in done] == ["dismissed", "not-found"]
    assert [stock.catalog.quarantine_entry(each).state for each in ids] == ["dismissed", "kept"]  # type: ignore[union-attr]
    wrong: list[dict[str, Any]] = [{"ids": []}, {"ids": ["1"] * 501}, {}, {"id": "1"}]
    for body in wrong:
        assert http.post("/v1/quarantine/dismiss", json=body, headers=headers).status_code == 422


def memory_source(name: str, framing: str) -> dict[str, Any]:
    return {name: {"transport": "memory", "queue": f"{name}-{framing}", "framing": framing}}


def test_a_replay_reads_by_the_framing_that_the_source_has_now(tmp_path: Path) -> None:
    """Messages came while their source had another framing, and go to quarantine in each way that there is."""
    stock = Stock(tmp_path)
    context = stock.gateway.context
    assert isinstance(context, ReceiverContext)
    sent = delivery(context, [(AttachmentKind.BINARY_FILE, "a.bin", b"x" * 100)])
    queued = [each._replace(framing="order_packet") for each in Framer(framing_options(), stock.store).frame(sent)]
    packets = bare(written(context, [(AttachmentKind.DATA_SET, "T", parquet(table(9)))]))
    numbered = ArrivalsBySource().numbered([each._replace(framing="sas_rendezvous") for each in packets])
    undescribed = PhysicalMessage("groups", "mq_group", body=packets[0].body).unreadable("no-envelope", "no msg-type")
    torn = PhysicalMessage("orders", "sas_queue", body=b"x").unreadable("bad-envelope", "torn")
    stock.close()
    sources = {
        **memory_source("orders", "sas_queue"),
        **memory_source("packets", "order_packet"),
        **memory_source("others", "order_packet"),
        **memory_source("groups", "mq_group"),
        **memory_source("subjects", "sas_rendezvous"),
    }
    stock = Stock(tmp_path, sources=sources)
    stock.gateway.start()
    with connected(stock) as http:

        def last(messages: Iterable[PhysicalMessage], source: str) -> dict[str, Any]:
            return [replayed(stock, http, each._replace(source=source)) for each in messages][-1]

        for messages, source, name in (
            (queued, "orders", "a.bin"),
            (numbered, "packets", "T"),
            ([each._replace(framing="sas_queue") for each in packets], "others", "T"),
            ([PhysicalMessage("", "sas_queue", message_id=b"1" * 24, body=b"x")], "groups", (b"1" * 24).hex()),
        ):
            outcome = last(messages, source)
            assert [(each["name"], each["state"]) for each in outcome["attachments"]] == [(name, "finished")], outcome
        for kept, source, code in (
            (packets[0], "subjects", "other-framing"),
            (undescribed, "subjects", "other-framing"),
            (undescribed, "groups", "no-envelope"),
            (torn, "packets", "bad-envelope"),
        ):
            outcome = last([kept], source)
            assert (outcome["result"], outcome["entry"]["code"]) == ("quarantined", code)
            assert outcome["entry"]["state"] == "kept"
        why = "it came before its source had the framing sas_rendezvous, which numbers messages in the order in which"
        assert last([packets[0]], "subjects")["entry"]["why"].startswith(why)
        assert last([undescribed], "packets")["result"] == "processed"
    stock.close()


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("size", [100, 9_000])
def test_a_damaged_copy_is_told_and_never_served(stock: Stock, http: httpx.Client, size: int) -> None:
    record = stock.quarantined(bytes(size))
    stock.journal.seal()
    copy_quarantined(stock.gateway.context, Position.unpack(record.position).segment + 1)
    of_entry = f"/v1/quarantine/{record.id}"
    assert http.get(f"{of_entry}/body").content == bytes(size)
    found = stock.catalog.quarantine_entry(record.id)
    assert found is not None
    if found.object_name is None:
        damage = "UPDATE quarantine_copies SET body = CAST(replace(hex(body), '00', '01') AS BLOB)"
        with closing(sqlite3.connect(stock.settings.data / "catalog.sqlite", isolation_level=None)) as database:
            database.execute(damage)
    else:
        flip(Path(stock.store.local_path(found.object_name) or ""))
    for path in ("", "/body", "/trace"):
        assert_damaged(http.get(of_entry + path))
    assert_damaged(http.post(f"{of_entry}/replay"))
    many = http.post("/v1/quarantine/replay", json={"ids": [record.id]}).json()["items"]
    assert [each["result"] for each in many] == ["damaged"]
    (listed,) = http.get("/v1/quarantine").json()["items"]
    assert listed["id"] == record.id


def assert_damaged(response: httpx.Response) -> None:
    assert (response.status_code, response.json()["type"]) == (500, "/problems/damaged")
    assert "CRC-32C of quarantined message" in response.json()["detail"]
