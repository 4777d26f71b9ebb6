"""How an attachment arrived: parts, timeline and physical messages."""

from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import numpy as np
import pytest

from app.codecs.ibm_mq.constants import MQMF_MSG_IN_GROUP
from app.codecs.sas import correlid
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.principals import Scope
from app.model.records import Checkpoint, GroupProgress, NewEvent, PartRun, StoredObject
from app.model.times import to_microseconds
from app.service.access.api_keys import UNLIMITED, KeyLimits, make_key
from app.service.monitoring import physical_messages
from app.testing.waiting import until
from app.web import app
from tests.support.sas_client import Program, binary_file, message
from tests.web.conftest import connected
from tests.web.stock import Stock, arriving

BODY = bytes(range(256)) * 600


class Arrived:
    """A running gateway, and the messages of a binary file: header, parts and count."""

    def __init__(self, stock: Stock, http: httpx.Client) -> None:
        self.stock, self.http = stock, http
        program = Program(Random(5))
        self.attached = binary_file(program, "a.bin", BODY)
        self.header, *rest = message(program, [self.attached])
        self.parts = [each for each in rest if correlid.split(each.correl_id)[1]]
        (self.count,) = (
            each for each in rest if correlid.split(each.correl_id)[0] == self.key and each not in self.parts
        )
        self.id = attachment_id("orders", self.key)

    @property
    def key(self) -> bytes:
        return self.attached.definition.correl_id

    def get(self, what: str = "", **query: Any) -> Any:
        return self.http.get(f"/v1/attachments/{self.id}{what}", params=query).raise_for_status().json()

    def runs(self, **query: Any) -> list[tuple[int, int, str]]:
        return [(each["first"], each["count"], each["state"]) for each in self.get("/parts", **query)["runs"]]


@pytest.fixture
def arrived(tmp_path: Path) -> Iterator[Arrived]:
    stock = Stock(tmp_path, **arriving())
    stock.gateway.start()
    with connected(stock) as http:
        yield Arrived(stock, http)
    stock.close()


def test_gaps_close_and_what_came_again_is_told(arrived: Arrived) -> None:
    header, parts, count = arrived.header, arrived.parts, arrived.count
    assert len(parts) >= 6
    arrived.stock.deliver([header, parts[0], parts[1], parts[4]])
    assert arrived.runs() == [(1, 2, "received"), (3, 2, "missing"), (5, 1, "received")]
    seen = arrived.get("/parts")
    assert (seen["expected"], seen["received"], seen["first"], seen["last"]) == (None, 3, 1, 5)
    assert seen["runs"][1]["first_received_at"] is None
    assert seen["runs"][0]["first_received_at"] <= seen["runs"][0]["last_received_at"]
    arrived.stock.deliver([count, parts[1], parts[4]._replace(body=b"other bytes")])
    last = len(parts)
    expected = [
        (1, 1, "received"),
        (2, 1, "duplicate"),
        (3, 2, "missing"),
        (5, 1, "conflict"),
        (6, last - 5, "missing"),
    ]
    assert arrived.runs() == expected
    assert arrived.runs(first=2, last=4) == expected[1:3]
    assert arrived.get("/parts", first=2, last=4)["received"] == 1
    arrived.stock.deliver([parts[2], parts[3], *parts[5:]])
    until(lambda: arrived.get()["state"] == "quarantined")
    assert "messages of it contradict each other" in str(arrived.get()["reason"])
    states = [state for _, _, state in arrived.runs()]
    assert "missing" not in states
    assert arrived.get("/parts")["received"] == last


def test_the_timeline_has_what_happened_in_order(arrived: Arrived) -> None:
    first, second, *rest = arrived.parts
    conflicting = [second._replace(body=bytes([number])) for number in range(150)]
    for some in ([first], [arrived.header], [second], conflicting, [arrived.count], rest):
        arrived.stock.deliver(some)
    until(lambda: arrived.get()["state"] == "quarantined")
    # The attachment has an entry in quarantine, too, with its first part.
    items = [item for item in arrived.get("/timeline")["items"] if "doubtful-content" not in (item["detail"] or "")]
    types = [item["type"] for item in items]
    assert types[:2] == ["first-part", "header"]
    assert types.index("message-quarantined") < types.index("count") < types.index("last-part")
    assert types.index("last-part") < types.index("complete")
    assert [item["time"] for item in items] == sorted(item["time"] for item in items)
    details = {item["type"]: item["detail"] for item in items}
    assert details["count"] == f"{len(arrived.parts)} parts"
    assert details["first-part"] == "part 1"
    (folded,) = (item for item in items if item["type"] == "message-quarantined")
    assert folded["detail"].startswith("conflicting-part: ")
    assert (folded["count"], folded["last_time"] >= folded["time"]) == (150, True)
    assert {(item["count"], item["last_time"]) for item in items if item is not folded} == {(1, None)}


def test_events_are_in_the_timeline(stock: Stock, http: httpx.Client) -> None:
    record = stock.attachment(state=AttachmentState.EXPIRED)
    now = stock.clock.now()
    told = NewEvent("attachment.expired", record.id, now, {"source": "orders", "reason": "nothing came"})
    other = NewEvent("attachment.expired", "another", now, {"source": "orders"})
    stock.catalog.checkpoint(Checkpoint(events=[told, told._replace(time=now + 1), other]))
    items = http.get(f"/v1/attachments/{record.id}/timeline").json()["items"]
    assert [(item["type"], item["detail"], item["count"]) for item in items] == [
        ("first-message", None, 1),
        ("last-message", None, 1),
        ("expired", "nothing came", 2),
    ]


def test_copying_and_reading_are_in_the_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "FILE_BYTES", 4096)
    stock = Stock(tmp_path)
    keys = {}
    for name, scope, limits in (
        ("boss", Scope.ADMIN, UNLIMITED),
        ("clerk", Scope.READ, UNLIMITED),
        ("limited", Scope.READ, KeyLimits(sources=frozenset({"orders"}))),
    ):
        key, text = make_key(name, frozenset({scope}), stock.clock.now(), limits)
        stock.catalog.add_key(key)
        keys[name] = {"Authorization": f"Bearer {text}"}
    with connected(stock) as http:
        record, other = stock.journalled(b"read"), stock.stored(b"other")
        for name, times, of in (("clerk", 30, record), ("boss", 1, record), ("boss", 2, other)):
            for _ in range(times):
                http.get(f"/v1/attachments/{of.id}/content", headers=keys[name]).raise_for_status()
            # The timeline is read after all of this is written.
            http.get(f"/v1/attachments/{of.id}/timeline", headers=keys["boss"]).raise_for_status()
        refused = http.get(f"/v1/attachments/{record.id}/content?format=csv", headers=keys["boss"])
        assert refused.status_code == 406
        settled_at = stock.clock.now()
        stock.catalog.settle({record.id: StoredObject("attachments/copy")}, settled_at)

        def told(name: str) -> list[dict[str, Any]]:
            items = http.get(f"/v1/attachments/{record.id}/timeline", headers=keys[name]).raise_for_status().json()
            assert [item["type"] for item in items["items"]][:3] == ["first-message", "last-message", "finished"]
            found: list[dict[str, Any]] = items["items"][3:]
            return found

        everything = told("boss")
        assert [item["type"] for item in everything] == ["read", "read", "settled"]
        assert (everything[0]["count"], everything[0]["detail"]) == (30, "by clerk (key)")
        assert everything[0]["last_time"] > everything[0]["time"]
        assert (everything[1]["count"], everything[1]["detail"]) == (1, "by boss (key)")
        assert to_microseconds(datetime.fromisoformat(everything[2]["time"])) == settled_at
        for name in ("clerk", "limited"):
            assert [told(name)[0][part] for part in ("count", "detail")] == [31, None], "who has read is not told"
            assert [item["type"] for item in told(name)] == ["read", "settled"]
        assert len(list((tmp_path / "audit").iterdir())) > 1, "the reads are in several files"
    stock.close()


def test_physical_messages_are_found_in_the_journal(arrived: Arrived) -> None:
    others = message(Program(Random(9)), [binary_file(Program(Random(9)), "b.bin", b"y" * 90_000)])
    mixed = [others[0], arrived.header, *others[1:2], *arrived.parts, arrived.parts[0], *others[2:], arrived.count]
    arrived.stock.deliver(mixed)
    until(lambda: arrived.get()["state"] == "finished")
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = arrived.get("/physical-messages", **query)
        assert len(page["items"]) <= 3
        assert page["gone"] is False
        found += page["items"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    kinds = [(each["kind"], each["sequence"]) for each in found]
    numbers = [*range(1, len(arrived.parts) + 1), 1]
    assert kinds == [("header", None), *(("part", number) for number in numbers), ("count", None)]
    assert [each["size"] for each in found[1:3]] == [len(each.body) for each in arrived.parts[:2]]
    assert found[1]["descriptor"]["correl_id"] == arrived.parts[0].correl_id.hex()
    assert found[1]["descriptor"]["msg_type"] == arrived.parts[0].msg_type
    whole = arrived.get(f"/physical-messages/{found[1]['position']}")
    assert b64decode(whole["body"]) == bytes(arrived.parts[0].body)
    assert {name: value for name, value in whole.items() if name != "body"} == found[1]
    (frame, *_) = arrived.get(f"/physical-messages/{found[0]['position']}/trace")
    assert frame["format"] == "sas-attachment-header"
    assert [cell["offset"] for cell in frame["cells"]] == sorted(cell["offset"] for cell in frame["cells"])


def test_messages_of_others_are_not_served(arrived: Arrived) -> None:
    other = message(Program(Random(9)), [binary_file(Program(Random(9)), "b.bin", b"y")])
    arrived.stock.deliver([arrived.header, *other, *arrived.parts, arrived.count])
    position = int(arrived.get("/physical-messages")["items"][0]["position"], 16) + 1
    for given in (f"{position:016x}", "ffff", "xyz", "0" * 17):
        answer = arrived.http.get(f"/v1/attachments/{arrived.id}/physical-messages/{given}")
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found"), given
    answer = arrived.http.get(f"/v1/attachments/{arrived.id}/physical-messages", params={"cursor": "nonsense"})
    assert answer.status_code == 422


def test_a_page_ends_after_some_batches(arrived: Arrived, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (arrived.header, *arrived.parts, arrived.count):
        arrived.stock.deliver([each])
    page = physical_messages.PhysicalMessages.page
    monkeypatch.setattr(
        physical_messages.PhysicalMessages, "page", lambda self, after, limit: page(self, after, limit, 2)
    )
    first = arrived.get("/physical-messages")
    assert (len(first["items"]), first["next"] is None) == (2, False)
    following = arrived.get("/physical-messages", cursor=first["next"])
    assert [each["sequence"] for each in following["items"]] == [2, 3]


def test_when_segments_are_retired_it_says_so(arrived: Arrived) -> None:
    journal = arrived.stock.journal
    for some in ([arrived.header, arrived.parts[0]], arrived.parts[1:3]):
        arrived.stock.deliver(some)
        journal.seal()
    first, second = journal.segments()
    journal.retire(first.number)
    page = arrived.get("/physical-messages")
    assert ([each["sequence"] for each in page["items"]], page["gone"]) == ([2, 3], True)
    journal.retire(second.number)
    gone = arrived.http.get(f"/v1/attachments/{arrived.id}/physical-messages")
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/gone")
    types = [item["type"] for item in arrived.get("/timeline")["items"]]
    assert types == ["first-message", "header", "last-message"]


def test_messages_of_a_group_are_found(tmp_path: Path) -> None:
    settings = arriving()
    settings["sources"]["orders"]["framing"] = "mq_group"
    stock = Stock(tmp_path, **settings)
    stock.gateway.start()
    try:
        with connected(stock) as http:
            stock.deliver([grouped(1, b"one"), grouped(2, b"two")])
            (seen,) = http.get("/v1/attachments").json()["items"]
            parts = http.get(f"{seen['links']['self']}/parts").json()
            listed = http.get(f"{seen['links']['self']}/physical-messages").json()
    finally:
        stock.close()
    assert [(each["first"], each["count"], each["state"]) for each in parts["runs"]] == [(1, 2, "received")]
    assert [(each["kind"], each["sequence"], each["size"]) for each in listed["items"]] == [
        ("part", 1, 3),
        ("part", 2, 3),
    ]


def test_a_million_parts_in_any_order(stock: Stock, http: httpx.Client) -> None:
    number = 1_000_000
    record = stock.attachment(parts_expected=number, parts_received=number // 8)
    order = np.random.default_rng(1).permutation(number)[: number // 8] + 1
    runs = [PartRun(int(sequence), 1, 1 << 32 | at) for at, sequence in enumerate(order)]
    stock.catalog.checkpoint(Checkpoint(part_runs={record.id: runs}))
    seen = http.get(f"/v1/attachments/{record.id}/parts").json()
    assert len(seen["runs"]) <= 10_000
    assert {each["state"] for each in seen["runs"]} == {"mixed"}
    assert sum(each["count"] for each in seen["runs"]) == number
    assert sum(each["received"] for each in seen["runs"]) == seen["received"] == number // 8
    assert all(a["first"] + a["count"] == b["first"] for a, b in zip(seen["runs"], seen["runs"][1:], strict=False))
    near = http.get(f"/v1/attachments/{record.id}/parts", params={"first": 10, "last": 60}).json()
    have = set(order.tolist())
    for each in near["runs"]:
        numbers = range(each["first"], each["first"] + each["count"])
        assert {sequence in have for sequence in numbers} == {each["state"] == "received"}


@pytest.mark.usefixtures("one_process")
def test_parts_that_are_forgotten_are_all_there(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(b"x" * 10, parts_expected=7, parts_received=7, kind=AttachmentKind.TEXT_FILE)
    seen = http.get(f"/v1/attachments/{record.id}/parts").json()
    (run,) = seen["runs"]
    assert (run["first"], run["count"], run["state"], seen["expected"]) == (1, 7, "received", 7)
    assert run["first_received_at"] is not None
    (part,) = http.get(f"/v1/attachments/{record.id}/parts?first=3&last=4").json()["runs"]
    assert (part["first"], part["count"]) == (3, 2)
    for sequence in (1, 4):
        stock.gateway.context.repeated.add(record.id, sequence)
    runs = http.get(f"/v1/attachments/{record.id}/parts").json()["runs"]
    assert [(each["first"], each["count"], each["state"]) for each in runs] == [
        *((1, 1, "duplicate"), (2, 2, "received"), (4, 1, "duplicate"), (5, 3, "received")),
    ]


def test_little_endian_numbers_are_in_order(stock: Stock, http: httpx.Client) -> None:
    record = stock.attachment(parts_expected=4)
    numbers = [int.from_bytes(number.to_bytes(4, "little"), "big") for number in (1, 2, 4)]
    runs = [PartRun(number, 1, at) for at, number in enumerate(numbers)]
    stock.catalog.checkpoint(Checkpoint(part_runs={record.id: runs}))
    seen = http.get(f"/v1/attachments/{record.id}/parts").json()
    assert [(each["first"], each["count"], each["state"]) for each in seen["runs"]] == [
        *((1, 2, "received"), (3, 1, "missing"), (4, 1, "received")),
    ]


def test_of_a_group_the_messages_that_are_not_whole_are_missing(stock: Stock, http: httpx.Client) -> None:
    record = stock.receiving([(1, 2), (4, 4)], None, group=GroupProgress(last=6, ended=3))
    seen = http.get(f"/v1/attachments/{record.id}/parts").json()
    assert seen["expected"] == 6
    assert [(each["first"], each["count"], each["state"]) for each in seen["runs"]] == [
        *((1, 2, "received"), (3, 1, "missing"), (4, 1, "received"), (5, 2, "missing")),
    ]


def grouped(number: int, body: bytes) -> PhysicalMessage:
    return PhysicalMessage("", "", body=body, group_id=b"G" * 24, msg_seq_number=number, msg_flags=MQMF_MSG_IN_GROUP)
