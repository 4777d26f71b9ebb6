"""A backup made under load, the gateway killed, and all that it had acknowledged served elsewhere."""

import shutil
import subprocess
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.support.forked_command import program
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file, disordered

pytestmark = pytest.mark.broker

TOPIC = "sas/attachments"
SETTINGS = '[limits]\nfree_bytes = "0"\n[content]\nsettle_after = "0s"\n[retention]\njournal = "0s"\n'
SMALL_SEGMENTS = '[journal]\nsegment_bytes = "1 MiB"\nsegment_age = "1s"\n'


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), *map(str, arguments)], check=False, capture_output=True, text=True)


def configuration(process: GatewayProcess) -> Path:
    return process.folder / "gateway.toml"


def test_backed_up_under_load_killed_and_restored_elsewhere(tmp_path: Path) -> None:
    """The first load is acknowledged before the backups begin; the second comes while they run. What came too late for
    the last backup is sent again, as a sender that lost its gateway would."""
    program = Program(Random(21))
    first = [*mixed(program, 30), *(binary_file(program, f"{n}", program.random.randbytes(1 << 20)) for n in range(4))]
    second = mixed(program, 30)
    stream = disordered(messages(program, second), program.random)
    backups, old, new = tmp_path / "backups", tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    with Mosquitto(tmp_path) as broker:
        settings = SETTINGS + SMALL_SEGMENTS + mqtt_source("sas", broker.port, TOPIC)
        process = ForkedGateway(old, settings)
        process.start(120)
        process.await_source("sas")
        publish(disordered(messages(program, first), program.random), broker.port, TOPIC, "5")
        wanted = sum(len(each.bodies) for each in first)
        process.until(lambda: process.samples().total("messages_received_total") >= wanted)
        load = Thread(target=publish, args=(stream, broker.port, TOPIC, "5"))
        load.start()
        made = [command("backup", "--config", configuration(process), "--to", backups) for _ in range(3)]
        load.join()
        process.kill()
        process.client.close()
        assert [each.returncode for each in made] == [0, 0, 0], made
        shutil.rmtree(old)
        restored = ForkedGateway(new, settings)
        done = command("restore", "--from", backups, "--config", configuration(restored))
        assert done.returncode == 0, done
        with restored:
            restored.await_source("sas")
            publish(stream, broker.port, TOPIC, "5")
            assert_received(restored, [*first, *second])
        checked = command("fsck", "--config", configuration(restored))
        assert checked.returncode == 0, checked


def test_checked_while_it_runs_and_repaired_when_it_is_stopped(tmp_path: Path) -> None:
    program = Program(Random(22))
    attachments = mixed(program, 30)
    with (
        Mosquitto(tmp_path) as broker,
        ForkedGateway(tmp_path, SETTINGS + mqtt_source("sas", broker.port, TOPIC)) as process,
    ):
        process.await_source("sas")
        publish(disordered(messages(program, attachments), program.random), broker.port, TOPIC, "5")
        assert_received(process, attachments)
        checked = command("fsck", "--config", configuration(process))
        assert checked.returncode == 0, checked
        refused = command("fsck", "--config", configuration(process), "--repair", "--yes")
        assert refused.returncode == 2
        assert "in use" in refused.stderr
        process.kill()
        objects = sorted((tmp_path / "var" / "content" / "attachments").iterdir())
        objects[0].unlink()
        objects[1].write_bytes(b"rot")
        for path in (tmp_path / "var").glob("catalog.sqlite*"):
            path.write_bytes(b"rot" * 1000)
        repaired = command("fsck", "--config", configuration(process), "--repair", "--yes")
        assert repaired.returncode == 0, repaired
        process.start(120)
        assert_received(process, attachments)
