"""Passwords that change while the gateway runs: it logs in with the new one, and loses nothing."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import psycopg
import pytest

from app.model.message import PhysicalMessage
from tests.support import mq
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.group_loads import upload
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.mq import mq_destination, mq_source
from tests.support.mqi import load
from tests.support.publish import publish
from tests.support.queue_manager import QueueManager
from tests.support.sas_client import Program

pytestmark = pytest.mark.broker

FIRST, SECOND = "marker-0f4c-first", "marker-0f4c-second"
TOPIC, QUEUE, SENT_TO = "sas/attachments", "SAS.ATTACHMENTS", "SENT.TO"
FILE = ("a.txt", b"one line\n", "text/plain")


@pytest.fixture(scope="module")
def pymqi() -> ModuleType:
    return load("pymqi")


def checks(process: GatewayProcess) -> dict[str, Any]:
    found: dict[str, Any] = process.client.get("/health/ready").json()["checks"]
    return found


def refused(process: GatewayProcess, *names: str) -> bool:
    """Tell whether these checks say that a credential is refused."""
    told = checks(process)
    return all(told[name]["refused_since"] for name in names)


def accepted(process: GatewayProcess, *names: str) -> bool:
    told = checks(process)
    return all(told[name].get("connected", True) and told[name]["refused_since"] is None for name in names)


def exercise(
    process: GatewayProcess,
    credentials: dict[str, str],
    change: Callable[[], None],
    tell: Callable[[], None],
    send: Callable[[list[PhysicalMessage]], None],
) -> None:
    """Change a password at the server first and in the gateway's file later, with work before, in between and after.

    `credentials` are the settings that must be told as refused, by the names of their checks.
    """
    program = Program(Random(31))
    attached = mixed(program, 9)
    stream = messages(program, attached)
    has_destination = any(name.startswith("destination") for name in credentials)
    assert process.client.get("/health/ready").status_code == 200

    third = len(stream) // 3
    send(stream[:third])
    if has_destination:
        upload(process, "there", [FILE])
        process.until(lambda: [each["state"] for each in process.listing("/v1/deliveries")] == ["sent"])

    change()
    send(stream[third : 2 * third])
    if has_destination:
        upload(process, "there", [FILE])
    process.until(lambda: refused(process, *credentials))
    told = checks(process)
    assert {name: told[name]["credential"] for name in credentials} == credentials
    assert not any(told[name]["ok"] for name in credentials)
    for setting in credentials.values():
        assert process.samples().total("credential_refused", setting=setting) == 1

    tell()
    process.until(lambda: accepted(process, *credentials))
    for setting in credentials.values():
        assert process.samples().total("credential_refused", setting=setting) == 0
    send(stream[2 * third :])
    assert_received(process, attached)
    if has_destination:
        process.until(lambda: {each["state"] for each in process.listing("/v1/deliveries")} == {"sent"})
    assert "marker-0f4c" not in process.log + process.client.get("/health/ready").text


OF_BOTH = {
    "source here": "sources.here.password_file",
    "destination there": "destinations.there.password_file",
}
"""The checks of health, and the settings whose credentials they name."""


def test_of_mqtt(tmp_path: Path) -> None:
    passwords, secret = tmp_path / "passwords", tmp_path / "secret"
    passwords.touch()

    def set_password(password: str) -> None:
        subprocess.run(["mosquitto_passwd", "-b", passwords, "gateway", password], check=True, capture_output=True)

    set_password(FIRST)
    secret.write_text(f"{FIRST}\n")
    login = f'username = "gateway"\npassword_file = "{secret}"\n'
    with Mosquitto(tmp_path, settings=f"password_file {passwords}\n") as broker:

        def change() -> None:
            set_password(SECOND)
            broker.reload()

        settings = mqtt_source("here", broker.port, TOPIC, options=login)
        settings += mqtt_destination("there", broker.port, "out", f'no_subscribers = "accept"\nattempts = 2\n{login}')
        with ForkedGateway(tmp_path, settings) as process:
            process.await_source("here")
            exercise(
                process,
                OF_BOTH,
                change,
                lambda: rename(secret, SECOND),
                lambda some: publish(some, broker.port, TOPIC, "5"),
            )


def test_of_ibm_mq(tmp_path: Path, pymqi: ModuleType) -> None:
    """The test's own programs have no user. A broken connection is an attempt, a refused log-in is none."""
    secret = tmp_path / "secret"
    secret.write_text(FIRST)
    login = f'user = "gateway"\npassword_file = "{secret}"\n'
    with QueueManager(tmp_path / "manager", users={"gateway": FIRST, "": ""}) as manager:
        manager.define(QUEUE)
        manager.define(SENT_TO)
        settings = mq_source("here", manager, QUEUE, login) + mq_destination(
            "there", manager, SENT_TO, f"attempts = 2\n{login}"
        )
        with ForkedGateway(tmp_path, settings) as process:
            process.await_source("here")
            exercise(
                process,
                OF_BOTH,
                lambda: manager.restart(users={"gateway": SECOND, "": ""}),
                lambda: rename(secret, SECOND),
                lambda some: mq.put(pymqi, manager, QUEUE, some),
            )


@contextmanager
def role(server: Path) -> Iterator[Callable[[str], None]]:
    """Make a role that needs a password. Yield a function that changes it and ends the role's connections."""
    rules = server / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all rotating scram-sha-256\n{before}")
    with psycopg.connect(f"host={server} user=postgres dbname=postgres", autocommit=True) as administrator:
        administrator.execute("SELECT pg_reload_conf()")
        administrator.execute(f"CREATE ROLE rotating LOGIN PASSWORD '{FIRST}'")
        administrator.execute("CREATE DATABASE rotating OWNER rotating")

        def change(password: str) -> None:
            administrator.execute(f"ALTER ROLE rotating PASSWORD '{password}'")
            administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotating'")

        yield change
        administrator.execute("DROP DATABASE rotating WITH (FORCE)")
        administrator.execute("DROP ROLE rotating")
    rules.write_text(before)


def test_of_postgresql(tmp_path: Path, postgresql: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GatewayProcess, "storage", staticmethod(lambda _folder: {}))
    secret = tmp_path / "secret"

    def tell(password: str) -> None:
        rename(secret, f"postgresql+psycopg://rotating:{password}@/rotating?host={postgresql}")

    tell(FIRST)
    with role(postgresql) as change, Mosquitto(tmp_path) as broker:
        settings = f'[catalog]\nurl_file = "{secret}"\n' + mqtt_source("here", broker.port, TOPIC)
        with ForkedGateway(tmp_path, settings) as process:
            process.await_source("here")
            exercise(
                process,
                {"catalog": "catalog.url_file"},
                lambda: change(SECOND),
                lambda: tell(SECOND),
                lambda some: publish(some, broker.port, TOPIC, "5"),
            )


def rename(secret: Path, text: str) -> None:
    """Replace a file as programs that rotate secrets do."""
    new = secret.with_suffix(".new")
    new.write_text(f"{text}\n")
    new.rename(secret)
