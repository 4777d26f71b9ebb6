"""`keys` and `audit`: keys made by the command line work at a gateway that runs, and all of it is in the audit log."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from app.testing.waiting import until
from app.web.app import create_app
from tests.cli.conftest import Run
from tests.web.stock import Stock, serving


class Served(NamedTuple):
    """A gateway, and the configuration file that the command line has of it."""

    stock: Stock
    url: str
    config: Path


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    stock = Stock(tmp_path / "data")
    config = tmp_path / "gateway.toml"
    source = '[sources.orders]\ntransport = "memory"\nqueue = "q"\n'
    config.write_text(
        f'data = "{tmp_path / "data"}"\n{source}[destinations.partner]\ntransport = "memory"\nqueue = "p"\n'
    )
    with serving(create_app(stock.gateway)) as address:
        monkeypatch.setenv("ATTACHMENT_GATEWAY_URL", address)
        monkeypatch.setenv("ATTACHMENT_GATEWAY_CONFIG", str(config))
        yield Served(stock, address, config)
    stock.close()


def status(served: Served, key: str, path: str = "/v1/attachments") -> int:
    return httpx.get(served.url + path, headers={"Authorization": f"Bearer {key}"}, timeout=60).status_code


def test_a_key_from_its_making_to_its_end(served: Served, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("keys", "ls").err.strip() == "no keys"
    assert httpx.get(served.url + "/v1/attachments", timeout=60).status_code == 200
    made = run("keys", "create", "billing", "--scope", "read", "--source", "orders", "--expires", "90d")
    assert made.code == 0, made.err
    key = made.out.strip()
    assert re.fullmatch(r"agw_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
    assert key not in made.err
    until(lambda: httpx.get(served.url + "/v1/attachments", timeout=60).status_code == 401)
    assert status(served, key) == 200
    for name in ("two\nlines", "", " ", "x" * 201, "\u202e"):
        wrong = run("keys", "create", name, "-s", "read")
        assert (wrong.code, wrong.out) == (1, "")
        assert "give 1 to 200 printable characters" in wrong.err
    boss = run("keys", "create", "boss", "-s", "admin").out.strip()
    until(lambda: status(served, boss) == 200)

    (listed, _) = map(json.loads, run("keys", "ls", "--json").out.splitlines())
    expected = ("billing", "valid", ["read"], ["orders"], None)
    assert tuple(listed[name] for name in ("name", "state", "scopes", "sources", "destinations")) == expected
    assert "digest" not in listed
    shown = run("keys", "ls").out
    assert re.search(r"billing +valid +read +orders +all", shown)

    assert run("keys", "revoke", "billing").code == 0
    until(lambda: status(served, key) == 401)
    again = run("keys", "revoke", "billing")
    assert (again.code, "no valid key" in again.err) == (1, True)
    assert "revoked" in run("keys", "ls").out

    monkeypatch.setenv("ATTACHMENT_GATEWAY_TOKEN", boss)
    entries = [*map(json.loads, run("audit", "--json").out.splitlines())]
    of_keys = [(each["action"], each["name"], each["who"]["kind"]) for each in entries if "key" in each]
    assert of_keys == [
        ("revoke-key", "billing", "command-line"),
        ("create-key", "boss", "command-line"),
        ("create-key", "billing", "command-line"),
    ]
    refused = run("audit", "--result", "refused", "--action", "sign-in", "-n", "1").out
    assert re.search(r"sign-in +refused +- +127\.0\.0\.1 +401 +/v1/attachments +the key 'billing' was revoked", refused)
    assert key not in (served.stock.settings.audit_folder / "audit.jsonl").read_text()
    monkeypatch.setenv("ATTACHMENT_GATEWAY_TOKEN", key)
    assert run("audit").code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scope", "read", "--source", "order"), "unknown source 'order': the configuration has orders"),
        (("--scope", "send", "--destination", "x"), "unknown destination 'x': the configuration has partner"),
        (("--scope", "admin", "--source", "orders"), "cannot be limited"),
        (("--scope", "read", "--expires", "soon"), "unknown duration 'soon'"),
    ],
)
def test_a_key_that_cannot_be_made(served: Served, run: Run, arguments: tuple[str, ...], said: str) -> None:
    made = run("keys", "create", "x", *arguments)
    assert (made.code, made.out) == (1, "")
    assert said in made.err
    assert served.stock.catalog.api_keys() == []


def test_names_of_valid_keys_differ(served: Served, run: Run) -> None:
    assert run("keys", "create", "x", "-s", "read").code == 0
    again = run("keys", "create", "x", "-s", "read")
    assert (again.code, "already" in again.err) == (1, True)
    assert run("keys", "create", "x").code == 2, "a key needs a scope"
