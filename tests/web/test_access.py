"""Who may do what: every operation of the OpenAPI document without a key, without its scope, and of another source."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import FastAPI

from app.codecs.receipts.merkle import appended, leaf_hash, pair_hash
from app.codecs.receipts.statements import signed_head
from app.codecs.sas import correlid
from app.codecs.sas.constants import SUBORDINATE_MSG_TYPE
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.message import PhysicalMessage
from app.model.principals import Scope
from app.model.receipt_records import KeptHead, NewReceipt
from app.model.records import Checkpoint, DeliveryRecord, NewEvent
from app.service.access.api_keys import UNLIMITED, KeyLimits, make_key
from app.web.access.operations import OPERATIONS
from app.web.app import create_app
from app.web.responses import event_feed, long_polling
from tests.support.receipts import KEY, PEM
from tests.support.tables import parquet, pupils
from tests.support.webhook_receiver import SECRET
from tests.web.stock import Stock, serving
from tests.web.uploads.uploading import OCTETS, TUS

PARQUET = "application/vnd.apache.parquet"
LIMITED = KeyLimits(sources=frozenset({"orders"}), destinations=frozenset({"partner"}))
HIDDEN = "secret"
WEBHOOK = {"url": "https://hook.example/in", "secrets": [SECRET]}
LAST = ("delete_delivery", "delete_message", "delete_upload")
"""What can be done after the rest: with a delivery that is over, a message without attachments."""


class Route(NamedTuple):
    """An operation of the OpenAPI document."""

    name: str
    method: str
    path: str

    @property
    def needed(self) -> Scope | None:
        return OPERATIONS[self.name].scope

    @property
    def is_open(self) -> bool:
        return self.needed is None and not OPERATIONS[self.name].any_scope


def routes(client: httpx.Client) -> list[Route]:
    described = client.get("/openapi.json").json()
    found = [
        Route(operation["operationId"], method.upper(), path)
        for path, item in described["paths"].items()
        for method, operation in item.items()
    ]
    order = {"delete_attachment": 1, "dismiss_quarantined": 1, "cancel_delivery": 1} | dict.fromkeys(LAST, 2)
    return sorted(found, key=lambda route: order.get(route.name, 0))


class World:
    """A served gateway with things of the source `orders` and of another, and keys for it."""

    def __init__(self, stock: Stock, app: FastAPI, client: httpx.Client) -> None:
        self.stock, self.app, self.client = stock, app, client
        self.everything = self.key("everything", *Scope)
        hidden = self.journalled(HIDDEN)
        self.identifiers = {
            "attachment_id": hidden.id,
            "position": self.position,
            "destination": "archive",
            "quarantine_id": stock.quarantined(b"x", source=HIDDEN).id,
            "delivery_id": self.delivery("archive", DeliveryState.FAILED).id,
            "name": "WORK.HIDDEN",
            "word": "not-found",
            "journal": stock.receiver("pod-0", 3600),
        }
        stock.receiver("pod-1")  # when another one receives, one may leave
        self.identifiers["upload_id"] = self.upload()
        self.identifiers["message_id"] = stock.message([hidden], source=HIDDEN).id
        stock.table("WORK.HIDDEN", "orders", HIDDEN)
        self.receipts()

    def receipts(self) -> None:
        """Make receipts of the hidden attachment and the hidden delivery."""
        log, places = self.stock.catalog.begin_receipt_log("urn:log"), {"attachment_id": "source"}
        new = [
            NewReceipt(self.identifiers[name], json.dumps({places.get(name, "destination"): place}).encode())
            for name, place in (("attachment_id", HIDDEN), ("delivery_id", "archive"))
        ]
        leaves = [leaf_hash(each.statement) for each in new]
        tiles, root = appended(0, leaves, {}), pair_hash(*leaves)
        signed = signed_head(KEY, "gateway", log.name, 2, root, 0)
        self.stock.catalog.append_receipts(log, new, tiles, 0, KeptHead(2, signed.protected, root, signed.signature))

    def key(self, name: str, *scopes: Scope, limits: KeyLimits = UNLIMITED) -> str:
        key, text = make_key(name, frozenset(scopes), self.stock.clock.now(), limits)
        self.stock.catalog.add_key(key)
        self.refresh()
        return text

    def refresh(self) -> None:
        """Have the keys read again with the next request."""
        self.app.state.authenticator.keys._read_at = None

    def data_set(self, source: str, **fields: Any) -> Any:
        fields |= {"kind": AttachmentKind.DATA_SET, "qualifier_2": "PUPILS", "source": source}
        return self.stock.stored(parquet(pupils(), 100), PARQUET, **fields)

    def journalled(self, source: str) -> Any:
        """A finished data set, whose only part the journal still has."""
        key = (self.stock._count + 1).to_bytes(16)
        part = PhysicalMessage(source, "sas_queue", SUBORDINATE_MSG_TYPE, correlid.join(key, 1), b"x")
        (position,) = self.stock.journal.append([part])
        self.position = f"{position.pack():016x}"
        found = self.data_set(source, first_position=position.pack(), last_position=position.pack())
        assert found.correl_id == key
        return found

    def delivery(self, destination: str, state: DeliveryState = DeliveryState.SENT) -> DeliveryRecord:
        now = self.stock.clock.now()
        made = DeliveryRecord(f"{now:032x}", destination, bytes(24), bytes(24), (), now, now, state)
        self.stock.catalog.add_delivery(made, [])
        return made

    def upload(self) -> str:
        """An upload of the key for everything."""
        headers = {"Authorization": f"Bearer {self.everything}", **TUS, "Upload-Length": "3"}
        return str(self.client.post("/v1/uploads", headers=headers).json()["id"])

    def path(self, route: Route) -> str:
        name = {"name": "audit"} if route.path.startswith("/v1/webhooks/") else {}
        return route.path.format(**self.identifiers | name)

    def call(self, route: Route, key: str | None, **how: Any) -> httpx.Response:
        headers = ({"Authorization": f"Bearer {key}"} if key else {}) | how.pop("headers", {})
        with self.client.stream(route.method, self.path(route), headers=headers, **how) as response:
            if route.name != "stream_events" or response.is_error:
                response.read()
            return response

    def audit(self, **wanted: Any) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self.everything}"}
        found = self.client.get("/v1/audit", params={"limit": 500, **wanted}, headers=headers)
        assert found.status_code == 200, found.text
        items: list[dict[str, Any]] = found.json()["items"]
        return items


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    stock = Stock(tmp_path_factory.mktemp("access"), webhooks={"audit": WEBHOOK}, receipts={"key": PEM})
    app = create_app(stock.gateway)
    with serving(app) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield World(stock, app, client)
    stock.close()


def told(answer: httpx.Response) -> tuple[int, str]:
    """The status and the type of a problem; the answer to HEAD has no body."""
    kinds = {401: "/problems/unauthorized", 403: "/problems/forbidden"}
    is_head = answer.request.method == "HEAD"
    return answer.status_code, kinds[answer.status_code] if is_head else answer.json()["type"]


def test_without_a_key_only_what_is_public_answers(world: World) -> None:
    for route in routes(world.client):
        for key, challenge in ((None, "Bearer"), ("wrong", 'Bearer error="invalid_token"')):
            answer = world.call(route, key)
            if route.is_open:
                assert answer.status_code not in (401, 403), route
                continue
            assert told(answer) == (401, "/problems/unauthorized"), route
            assert answer.headers["www-authenticate"] == challenge
            (entry, *_) = world.audit(action="sign-in")
            noted = (entry["path"], entry["method"], entry["status"], entry["from"], entry["who"])
            assert noted == (world.path(route), route.method, 401, "127.0.0.1", None)


def test_every_operation_needs_its_scope_and_says_so(world: World) -> None:
    keys = {
        missing: world.key(f"without {missing}", *(scope for scope in Scope if scope not in (missing, Scope.ADMIN)))
        for missing in Scope
    }
    described = world.client.get("/openapi.json").json()["paths"]
    for route in routes(world.client):
        security = described[route.path][route.method.lower()]["security"]
        scopes = [route.needed] if route.needed else []
        assert security == ([] if route.is_open else [{"HTTPBearer": scopes}])
        if route.needed is None:
            continue
        answer = world.call(route, keys[route.needed])
        assert told(answer) == (403, "/problems/forbidden"), route
        assert f'scope="{route.needed}"' in answer.headers["www-authenticate"]
        (entry, *_) = world.audit(result="refused")
        assert (entry["path"], entry["status"]) == (world.path(route), 403)
        assert entry["who"]["name"] == f"without {route.needed}"
        assert "scope" in entry["reason"]


ABOUT_NO_SOURCE = {
    *("live", "ready", "ready_to_read", "ready_to_receive", "get_root", "list_problems", "get_problem"),
    *("trace", "stream_events", "create_link", "get_caller", "list_tools", "get_sign_in", "sign_in"),
    *("describe_uploads", "create_upload", "get_receipt_log", "get_receipt_log_head"),
}
"""`stream_events` has a test of its own; `test_links.py` has what a limited key can link."""


ABOUT_ALL = {
    *("get_pipeline", "list_pipeline_runs"),
    *("metrics", "list_audit", "list_webhooks", "get_webhook", "enable_webhook", "replay_webhook"),
    *("list_receivers", "leave_receiver", "forget_receiver"),
    *("list_dead_letters", "replay_dead_letters", "delete_dead_letters"),
}
OF_WHAT_IS_KNOWN = {
    "get_summary",
    "list_quarantine_groups",
    "query_tables",
    "replay_many_quarantined",
    "dismiss_many_quarantined",
}
"""They are about all that the caller knows; their own tests have what that is."""


SENDING = {"send_message", "send_file"}
WITH_A_RUNNING_GATEWAY = {"replay_quarantined", "delete_message"}
"""They wait for a gateway that runs; their entries are those of others."""


HOW: dict[str, dict[str, Any]] = {
    "query_tables": {"json": {"sql": "SELECT table_name FROM information_schema.tables"}},
    "replay_many_quarantined": {"json": {"ids": ["1"]}},
    "dismiss_many_quarantined": {"json": {"ids": ["1"]}},
    "send_message": {
        "files": {"file": b"x", "destination": (None, "archive")},
        "params": {"dry_run": "true"},
    },
    "send_file": {"content": b"x"},
    "replay_webhook": {"json": {"after": 0}},
    "create_upload": {"headers": {**TUS, "Upload-Length": "3"}},
    "head_upload": {"headers": TUS},
    "append_upload": {
        "content": b"x",
        "headers": {**TUS, **OCTETS, "Upload-Offset": "0"},
    },
}


def test_a_caller_of_any_scope_is_told_what_it_may_do(world: World) -> None:
    limited = world.key("sender", Scope.SEND, limits=LIMITED)
    told = world.client.get("/v1/caller", headers={"Authorization": f"Bearer {limited}"}).json()
    assert told.pop("id")
    assert told == {
        "kind": "key",
        "name": "sender",
        "scopes": ["send"],
        "sources": ["orders"],
        "destinations": ["partner"],
        "expires_at": None,
    }
    unlimited = world.client.get("/v1/caller", headers={"Authorization": f"Bearer {world.everything}"}).json()
    assert (unlimited["scopes"], unlimited["sources"]) == (sorted(Scope), None)


def test_what_is_of_another_source_does_not_exist(world: World) -> None:
    scopes = [scope for scope in Scope if scope is not Scope.ADMIN]
    limited = world.key("limited", *scopes, limits=LIMITED)
    for route in routes(world.client):
        how = dict(HOW.get(route.name, {}))
        if route.name in ABOUT_NO_SOURCE:
            continue
        answer = world.call(route, limited, **how)
        if route.name in SENDING:
            assert (answer.status_code, answer.json()["known"]) == (422, ["partner"])
        elif route.name in ABOUT_ALL:
            assert answer.status_code == 403, route
        elif route.name in OF_WHAT_IS_KNOWN:
            assert answer.status_code == 200, route
            assert HIDDEN not in answer.text, route
            continue
        elif "{" in route.path:
            assert answer.status_code == 404, route
        else:
            assert (answer.status_code, answer.json()) == (200, {"items": [], "next": None}), route
            continue
        (entry, *_) = world.audit(result="refused")
        assert (entry["path"], entry["who"]["name"]) == (world.path(route), "limited"), route
        if route.name not in WITH_A_RUNNING_GATEWAY:
            allowed = world.call(route, world.everything, **HOW.get(route.name, {}))
            assert allowed.is_success, (route, allowed.text)


def test_a_limited_key_knows_its_own(world: World) -> None:
    limited = world.key("own", Scope.READ, limits=LIMITED)
    own, delivery = world.data_set("orders"), world.delivery("partner")
    message = world.stock.message([world.stock.attachment()])
    entry = world.stock.quarantined(b"x")
    world.stock.table("WORK.OWN", "orders")
    client = world.client
    headers = {"Authorization": f"Bearer {limited}"}

    def listed(path: str) -> list[str]:
        return [item.get("id", item.get("name")) for item in client.get(f"/v1/{path}", headers=headers).json()["items"]]

    assert own.id in listed("attachments")
    assert listed("attachments?source=secret") == []
    assert listed("messages") == [message.id]
    assert listed("quarantine") == [entry.id]
    assert listed("deliveries") == [delivery.id]
    assert listed("tables") == ["WORK.OWN"]
    for given, count in (("", len(listed("attachments"))), ("&source=secret", 0)):
        counted = client.get(f"/v1/attachments?count=true&limit=1{given}", headers=headers)
        assert counted.headers["total-count"] == str(count)
    assert client.get("/v1/tables/work.own/rows?format=csv", headers=headers).text.startswith("source")
    assert client.get(f"/v1/attachments/{own.id[:12]}/content", headers=headers).status_code == 200


def test_what_a_limited_key_does_not_know_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the answer would tell that it exists."""

    def never(*_: object) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(long_polling, "while_connected", never)
    limited = world.key("waiting", Scope.READ, limits=LIMITED)
    hidden = world.stock.receiving([(1, 2)], 3, source=HIDDEN).id
    queued = world.delivery("archive", DeliveryState.QUEUED).id
    for path in (f"attachments/{hidden}", f"attachments/{hidden[:9]}", f"deliveries/{queued}"):
        answer = world.client.get(f"/v1/{path}?wait=20", headers={"Authorization": f"Bearer {limited}"})
        assert answer.status_code == 404, path


def test_uploads_of_others_are_listed_only_for_operators_without_limits(world: World) -> None:
    keys = {
        "sender": world.key("uploader", Scope.SEND),
        "operator": world.key("operator", Scope.SEND, Scope.OPERATE),
        "administrator": world.key("administrator", Scope.ADMIN),
        "limited": world.key("limited operator", Scope.SEND, Scope.OPERATE, limits=LIMITED),
    }
    listed = {}
    for name, key in keys.items():
        headers = {"Authorization": f"Bearer {key}"}
        own = world.client.post("/v1/uploads", headers={**headers, **TUS, "Upload-Length": "3"}).json()
        items = world.client.get("/v1/uploads", headers=headers).json()["items"]
        listed[name] = {each["owner"] for each in items} == {own["owner"]}
    assert listed == {"sender": True, "operator": False, "administrator": False, "limited": True}


@pytest.mark.parametrize(
    ("name", "action", "facts"),
    [
        ("send_file", "send", {"destination": "archive"}),
        ("retry_delivery", "retry", {"destination": "archive"}),
        ("cancel_delivery", "cancel", {"destination": "archive"}),
        ("delete_delivery", "delete", {"destination": "archive"}),
        ("get_message_content", "read-content", {"source": HIDDEN}),
        ("enable_webhook", "enable", {"webhook": "audit"}),
        ("replay_webhook", "replay", {"webhook": "audit"}),
        ("replay_dead_letters", "replay", {"webhook": "audit"}),
        ("delete_dead_letters", "delete", {"webhook": "audit"}),
    ],
)
def test_the_audit_log_says_what_was_done_to_what(
    world: World, name: str, action: str, facts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = DeliveryState.QUEUED if name == "cancel_delivery" else DeliveryState.FAILED
    own = world.stock.message([world.data_set(HIDDEN)], source=HIDDEN)
    for key, made in (("delivery_id", world.delivery("archive", state)), ("message_id", own)):
        monkeypatch.setitem(world.identifiers, key, made.id)
    (route,) = (each for each in routes(world.client) if each.name == name)
    answer = world.call(route, world.everything, **HOW.get(name, {}))
    assert answer.is_success, answer.text
    (entry, *_) = world.audit(action=action)
    assert (entry["path"], entry["result"]) == (world.path(route), "done")
    assert entry | facts == entry


def test_first_digits_tell_nothing_of_another_source(world: World) -> None:
    limited = world.key("digits", Scope.READ, limits=LIMITED)
    own, hidden = (f"abcd{digit}{'0' * 27}" for digit in "01")
    world.stock.attachment(id=own)
    world.stock.attachment(id=hidden, source=HIDDEN)
    seen = world.client.get("/v1/attachments/abcd", headers={"Authorization": f"Bearer {limited}"})
    assert (seen.status_code, seen.json()["id"]) == (200, own)
    assert (
        world.client.get("/v1/attachments/abcd", headers={"Authorization": f"Bearer {world.everything}"}).status_code
        == 409
    )


def test_events_of_another_source_are_not_sent(world: World) -> None:
    limited = world.key("events", Scope.READ, limits=LIMITED)
    stock = world.stock
    own, hidden = stock.attachment(), stock.attachment(source=HIDDEN)
    begin = stock.catalog.event_logs().identify(stock.catalog.last_event())
    about: list[tuple[str, str, dict[str, object]]] = [
        ("attachment.finished", hidden.id, {"source": HIDDEN}),
        ("attachment.expired", "gone", {"source": None}),
        ("message.complete", stock.message([hidden], source=HIDDEN).id, {"source": HIDDEN}),
        ("message.quarantined", "q", {"source": HIDDEN}),
        ("delivery.sent", "d", {"destination": "archive"}),
        ("message.quarantined", "p", {"source": "orders"}),
        ("message.complete", stock.message([own]).id, {"source": own.source}),
        ("delivery.sent", "e", {"destination": "partner"}),
        ("attachment.finished", own.id, {"source": own.source}),
    ]
    stock.catalog.checkpoint(
        Checkpoint(events=[NewEvent(kind, subject, 1, dict(data)) for kind, subject, data in about])
    )
    stock.gateway.notifier.notify()
    headers = {"Authorization": f"Bearer {limited}"}
    seen: list[str] = []
    with world.client.stream("GET", f"/v1/events?after={begin}", headers=headers) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: "))["subject"])
                if seen[-1] == own.id:
                    break
    assert seen == [subject for _, subject, _ in about[5:]]


def test_a_stream_ends_with_its_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "HEARTBEAT_SECONDS", 0.01)
    text = world.key("listener", Scope.READ)
    with world.client.stream("GET", "/v1/events", headers={"Authorization": f"Bearer {text}"}) as response:
        lines = response.iter_lines()
        assert next(lines) == ": attachment gateway"
        world.stock.catalog.revoke_key(text.split("_")[1], 1)
        world.refresh()
        assert [line for line in lines if line.startswith("data:")] == []


def test_a_key_is_refused_when_it_has_ended(world: World) -> None:
    now = world.stock.clock.now()
    expired = world.key("expired", Scope.READ, limits=replace(UNLIMITED, expires_at=now - 1))
    revoked = world.key("revoked", Scope.READ)
    other = world.key("other", Scope.READ)
    world.stock.catalog.revoke_key(revoked.split("_")[1], now)
    world.refresh()
    swapped = f"{revoked[:17]}{other[17:]}"
    said = {}
    for name, key in {"expired": expired, "revoked": revoked, "swapped": swapped, "cut": other[:-1]}.items():
        answer = world.client.get("/v1/attachments", headers={"Authorization": f"Bearer {key}"})
        said[name] = (answer.status_code, answer.json()["detail"])
        (entry, *_) = world.audit(action="sign-in")
        assert key not in json.dumps(entry)
    assert said == {
        "expired": (401, "the key 'expired' has expired"),
        "revoked": (401, "the key 'revoked' was revoked"),
        "swapped": (401, "the key or token is not accepted"),
        "cut": (401, "the key or token is not accepted"),
    }
    assert world.client.get("/v1/attachments", headers={"Authorization": f"Bearer {other}"}).status_code == 200


def test_health_without_a_key_says_only_up_or_down(world: World) -> None:
    plain = world.client.get("/health/live")
    assert (plain.status_code, plain.json()) == (200, {"ok": True})
    headers = {"Authorization": f"Bearer {world.everything}"}
    checks = world.client.get("/health/ready", headers=headers).json()["checks"]
    assert {"journal", "destination partner", "destination archive"} <= checks.keys()
    limited = world.key("health", Scope.READ, limits=LIMITED)
    seen = world.client.get("/health/ready", headers={"Authorization": f"Bearer {limited}"}).json()["checks"]
    assert "destination archive" not in seen
    assert "connected" in seen["destination partner"]
    assert seen["journal"] == {"ok": True}
    newest = world.audit()[0]["time"]
    assert world.client.get("/health/live").json() == {"ok": True}
    later = [entry["action"] for entry in world.audit() if entry["time"] > newest]
    assert later == ["read-audit"], "a probe without a key is no failed sign-in; reading the log is an entry"
    assert world.client.get("/health/live", headers={"Authorization": "Bearer wrong"}).json() == {"ok": True}
    assert world.audit(action="sign-in")[0]["path"] == "/health/live"


def test_the_last_use_is_recorded_without_a_write_for_each_request(world: World) -> None:
    text = world.key("used", Scope.READ)
    identifier = text.split("_")[1]
    keys = world.app.state.authenticator.keys

    def recorded() -> int | None:
        (found,) = [key for key in world.stock.catalog.api_keys() if key.id == identifier]
        return found.last_used_at

    assert world.client.get("/v1/attachments", headers={"Authorization": f"Bearer {text}"}).status_code == 200
    assert recorded() is None
    keys.save_uses()
    assert recorded() is not None
