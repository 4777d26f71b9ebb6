"""Receipts: kills lose none, a rotated key signs on, and the command line verifies them with the public key alone."""

import json
from hashlib import sha256
from pathlib import Path
from random import Random
from time import sleep

import pytest

from adapters.sql_catalog import SqlCatalog
from app.codecs.receipts import cose
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # noqa: PLC0414 - a fixture
from tests.support.forked_gateway import ForkedGateway
from tests.support.length import IS_LONG
from tests.support.mosquitto import Mosquitto
from tests.support.receipts import write_key
from tests.support.webhook_receiver import SECRET, WebhookReceiver

pytestmark = pytest.mark.broker

KILLS = 30 if IS_LONG else 3
FILES = 12
"""Files sent before each kill."""


def test_kills_lose_no_receipt(tmp_path: Path, run: Run) -> None:
    private, public, newer = tmp_path / "key.pem", tmp_path / "pub.pem", tmp_path / "newer.pem"
    write_key(private, public, 1)
    with Mosquitto(tmp_path) as broker, WebhookReceiver() as hook:
        endpoint = f'transport = "mqtt"\nurl = "mqtt://127.0.0.1:{broker.port}"\ntopic = "loop"\n'
        settings = (
            f"[sources.loop]\n{endpoint}qos = 1\n[destinations.loop]\n{endpoint}qos = 1\n"
            f'[receipts]\nkey_file = "{private}"\nissuer = "https://gateway.example"\n'
            f'[webhooks.audit]\nurl = "{hook.url}"\nsecrets = ["{SECRET}"]\ntypes = ["receipt.made"]\n'
            'networks = ["127.0.0.0/8"]\nretry_first = "100ms"\n'
        )
        gateway = ForkedGateway(tmp_path, settings)
        gateway.start()
        gateway.await_source("loop")
        contents: dict[str, bytes] = {}
        for number in range(KILLS):
            for _ in range(FILES):
                name = f"{len(contents)}.bin"
                contents[name] = Random(name).randbytes(40_000)
                sent = gateway.client.put(f"/v1/files/loop/{name}", content=contents[name])
                assert sent.status_code == 202, sent.text
            sleep(0.2 * number + 0.3)
            gateway.kill()
            gateway.start()
        url = ("--url", f"http://127.0.0.1:{gateway.port}")
        gateway.until(lambda: count(gateway, "attachments", "finished") == len(contents))
        gateway.until(lambda: count(gateway, "deliveries", "sent") == len(contents))
        gateway.until(lambda: gateway.client.get("/v1/receipt-log").json().get("size", 0) >= 2 * len(contents))
        gateway.until(lambda: len({each.id for each in hook.taken}) >= 2 * len(contents))
        check_told(gateway, hook)
        old = tmp_path / "old.cose"
        assert run("receipt", "head", "-o", old, *url).code == 0

        write_key(private, newer, 2)  # rotated while the gateway runs
        gateway.until(lambda: gateway.client.get("/v1/receipt-log").json()["key_id"] == key_id(newer))
        attachments = gateway.listing("/v1/attachments")
        first = attachments[0]
        receipt, head, content = (tmp_path / each for each in ("r.cose", "new.cose", first["name"]))
        content.write_bytes(contents[first["name"]])
        assert run("receipt", first["id"], "-o", receipt, "--head", old, *url).code == 0
        assert run("receipt", "head", "-o", head, "--head", old, *url).code == 0
        assert gateway.client.delete(f"/v1/attachments/{first['id']}").status_code == 204
        kept = gateway.client.get(f"/v1/attachments/{first['id']}/receipt")
        assert (kept.status_code, kept.headers["content-type"]) == (200, 'application/cose; cose-type="cose-sign1"')
        delivery = gateway.listing("/v1/deliveries")[0]
        of_delivery = tmp_path / "d.cose"
        assert run("receipt", delivery["id"], "-o", of_delivery, *url).code == 0
        shown = tmp_path / "shown.pem"
        assert run("receipt", "key", "-o", shown, *url).code == 0
        assert shown.read_bytes() == newer.read_bytes()
        text = private.read_text().splitlines()[1]
        assert text not in gateway.log
        assert text not in gateway.client.get("/health/ready").text
        gateway.stop()

    # Without the gateway: each statement is there once, and the files prove what they say.
    catalog = SqlCatalog(f"sqlite:///{tmp_path / 'var' / 'catalog.sqlite'}")
    log = catalog.receipt_log()
    assert log is not None
    with catalog._database.read() as connection:
        rows = connection.exec_driver_sql("SELECT number, subject FROM receipt_statements ORDER BY number").all()
    catalog.close()
    assert [row.number for row in rows] == [*range(log.size)]
    assert len({row.subject for row in rows}) == len(rows) == 2 * len(contents)
    verified = run("receipt", "verify", receipt, "-k", public, "-k", newer, "-f", content, "--head", old, "--json")
    assert verified.code == 0, verified.err
    said = json.loads(verified.out)["statement"]
    assert (said["subject"], said["source"], said["name"]) == (first["id"], "loop", first["name"])
    assert said["sha256"] == sha256(contents[first["name"]]).hexdigest()
    assert said["message"]["id"] == first["message"]
    assert said["journal"]["first"] <= said["journal"]["last"]
    assert run("receipt", "verify", head, "-k", public, "-k", newer, "--head", old).code == 0
    one = tmp_path / "one"
    one.write_bytes(contents[delivery["attachments"][0]["name"]])
    assert run("receipt", "verify", of_delivery, "-k", newer, "-f", one).code == 0
    content.write_bytes(bytes([content.read_bytes()[0] ^ 1]) + content.read_bytes()[1:])
    for arguments, why in (
        (("-k", newer, "-f", content), "has the SHA-256"),
        (("-k", public), "it is signed by the key"),
        (("-k", newer, "--head", old), "it is signed by the key"),
    ):
        refused = run("receipt", "verify", receipt, *arguments)
        assert (refused.code, why in refused.err) == (1, True), refused


def check_told(gateway: ForkedGateway, hook: WebhookReceiver) -> None:
    """Assert that a webhook got one signed event of each receipt, which says where it is and what it is of."""
    sleep(1)  # for what should not come
    told = {each.id: each.event for each in hook.taken}
    assert hook.forged == []
    assert {each["type"] for each in told.values()} == {"receipt.made"}
    subjects = [each["id"] for kind in ("attachments", "deliveries") for each in gateway.listing(f"/v1/{kind}")]
    assert sorted(each["subject"] for each in told.values()) == sorted(subjects)
    assert sorted(each["data"]["leaf_index"] for each in told.values()) == [*range(len(subjects))]
    for event in told.values():
        said = event["data"]
        receipt = gateway.client.get(said["receipt"]).content
        statement = cose.decode(receipt).payload
        assert statement is not None
        assert sha256(b"\0" + statement).hexdigest() == said["leaf_hash"]
        assert json.loads(statement)["subject"] == event["subject"]
        assert said["tree_size"] > said["leaf_index"]


def key_id(public: Path) -> str:
    return cose.key_id(cose.public_key(public.read_bytes())).hex()


def count(gateway: ForkedGateway, what: str, state: str) -> int:
    return len(gateway.listing(f"/v1/{what}", state=state))


def test_receipts_go_back_to_the_sender(tmp_path: Path, run: Run) -> None:
    """A source's receipts come to the sender as files, each once, also over a kill; they get no receipts themselves."""
    private, public = tmp_path / "key.pem", tmp_path / "pub.pem"
    write_key(private, public, 1)
    with Mosquitto(tmp_path) as broker:
        at = f'transport = "mqtt"\nurl = "mqtt://127.0.0.1:{broker.port}"\nqos = 1\n'
        settings = "".join(f'[{each}s.loop]\n{at}topic = "loop"\n' for each in ("source", "destination"))
        settings += f'[sources.sender]\n{at}topic = "back"\n[destinations.sender]\n{at}topic = "back"\n'
        back = '[receipts.send_back]\nloop = "sender"\nsender = "sender"\n'
        gateway = ForkedGateway(tmp_path, f'{settings}[receipts]\nkey_file = "{private}"\n{back}')
        gateway.start()
        for name in ("loop", "sender"):
            gateway.await_source(name)
        sleep(2)  # until it has noted where the log was when this was switched on
        for number in range(4):
            sent = gateway.client.put(f"/v1/files/loop/{number}.bin", content=bytes(50_000))
            assert sent.status_code == 202, sent.text
        gateway.until(lambda: count(gateway, "attachments", "finished") >= 4)
        gateway.kill()
        gateway.start()
        gateway.until(lambda: len(gateway.listing("/v1/attachments", source="sender", state="finished")) == 4)
        gateway.until(lambda: gateway.client.get("/v1/receipt-log").json()["size"] >= 16)
        sleep(2)
        assert len(gateway.listing("/v1/attachments")) == 8
        timeline = gateway.client.get(f"/v1/attachments/{gateway.listing('/v1/attachments')[0]['id']}/timeline").json()
        assert "receipt-made" not in {each["type"] for each in timeline["items"]}  # nobody gets this event
        for each in gateway.listing("/v1/attachments", source="sender"):
            content = gateway.client.get(f"/v1/attachments/{each['id']}/content").content
            (tmp_path / each["name"]).write_bytes(content)
            told = run("receipt", "verify", tmp_path / each["name"], "-k", public, "--json")
            assert told.code == 0, told.err
            said = json.loads(told.out)["statement"]
            assert (each["name"], said["source"]) == (f"{said['subject']}.receipt.cose", "loop")
            answer = gateway.client.get(each["links"]["message"]).json()
            assert answer["original_correl_id"].startswith(said["message"]["header_correl_id"][:32])
        gateway.stop()
