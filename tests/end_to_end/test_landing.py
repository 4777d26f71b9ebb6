"""A gateway that only takes, and a Spark job that puts together, through a real Mosquitto and one REST."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from app.pipeline.commit import commit_intent
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.receipts import assert_version_added, verified, write_key
from tests.support.sas_client import Program, binary_file, disordered, message
from tests.support.stream_job import StreamJob

pytestmark = pytest.mark.broker

TOPIC = "sas/landing"
SPARK = (
    'assembler = "spark"\n[journal]\nsegment_age = "1s"\n[pipeline]\ntrigger = "1s"\n[content]\nsettle_after = "1s"\n'
)
PATIENCE = 150.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


@pytest.mark.timeout(900)
def test_what_lands_is_assembled_by_spark_shown_by_the_gateway_and_heals(broker: Mosquitto, tmp_path: Path) -> None:
    program = Program(Random(1))
    early, late = mixed(program, 6), mixed(program, 4)
    large = binary_file(program, "begun.bin", program.random.randbytes(300_000))
    begun = message(program, [large])
    rotting = binary_file(program, "rotting.bin", program.random.randbytes(100_000))
    again = message(program, [rotting])
    private, public = tmp_path / "key.pem", tmp_path / "pub.pem"
    write_key(private, public, 1)
    settings = mqtt_source("sas", broker.port, TOPIC) + f'[receipts]\nkey_file = "{private}"\nissuer = "gateway"\n'
    with GatewayProcess(tmp_path, settings, first=SPARK) as gateway, StreamJob(tmp_path) as job:
        gateway.await_source("sas")
        publish([*begun[:5], *again], broker.port, TOPIC, "5")
        publish(disordered(messages(program, early), program.random), broker.port, TOPIC, "5")
        gateway.until(lambda: len(gateway.listing("/v1/attachments", state="finished")) == len(early) + 1, PATIENCE)
        (partial,) = gateway.listing("/v1/attachments", state="receiving")
        assert (partial["name"], partial["progress"]["parts_received"]) == ("begun.bin", 3)
        publish(messages(program, late), broker.port, TOPIC, "5")
        committing = tmp_path / "var/content" / commit_intent.NAME
        gateway.until(committing.exists, PATIENCE, pause=0.002)
        job.kill()  # a commit takes some hundred milliseconds
        publish(begun[5:], broker.port, TOPIC, "5")
        gateway.until(lambda: gateway.client.get("/health/ready").json()["checks"]["assembly"]["behind"]["segments"])
        job.start()
        gateway.until(lambda: not gateway.listing("/v1/attachments", state="receiving"), PATIENCE)
        assert_received(gateway, [*early, *late, large, rotting], PATIENCE)
        tables = {table["name"]: table["row_count"] for table in gateway.listing("/v1/tables")}
        files = [item for item in gateway.listing("/v1/attachments") if item["kind"] != "data-set"]
        assert tables["files"] == len(files)
        assert_receipts_name_the_versions_with_the_rows(gateway, tmp_path / "var/tables", public.read_bytes())
        (found,) = gateway.listing("/v1/attachments", name="rotting.bin")
        content = f"/v1/attachments/{found['id']}/content"
        stored = tmp_path / "var/content/attachments" / found["id"]
        gateway.until(stored.exists, PATIENCE)
        for path in (stored, *(tmp_path / "var/journal").glob("*.arrows")):
            rot(path, rotting.content[5000:5100])
        assert gateway.client.get(content).status_code != 200
        publish(again, broker.port, TOPIC, "5")
        gateway.until(lambda: gateway.client.get(content).status_code == 200, PATIENCE)
        assert gateway.client.get(content).content == rotting.content
        assert job.stop() == 0, job.log[-4000:]


def assert_receipts_name_the_versions_with_the_rows(gateway: GatewayProcess, tables: Path, key: bytes) -> None:
    for attachment in gateway.listing("/v1/attachments"):
        receipt = f"/v1/attachments/{attachment['id']}/receipt"
        gateway.until(lambda path=receipt: gateway.client.get(path).status_code == 200)  # type: ignore[misc]
        said = verified(gateway.client.get(receipt).content, key)
        assert said["subject"] == attachment["id"]
        assert_version_added(said, tables, attachment["kind"], attachment.get("observations"))


def rot(path: Path, body: bytes) -> None:
    """Flip a byte of a body, if a file has it."""
    data = bytearray(path.read_bytes())
    if (at := data.find(body)) >= 0:
        data[at] ^= 1
        path.write_bytes(data)
