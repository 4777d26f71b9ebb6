"""Attachments through a Rendezvous daemon and a gateway of its own, both ways.

With RENDEZVOUS_DAEMON=host:port the daemon is a real one; then nothing breaks its connections."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from adapters.rendezvous.client import DaemonClient
from adapters.rendezvous.settings import DaemonSettings
from app.cli.application import application
from app.codecs.rendezvous.daemon import publish, publish_head
from app.model.attachment import AttachmentKind
from app.testing.waiting import until
from tests.evidence.senders import sas_rendezvous as foreign
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.loads import assert_same_table, await_finished, mixed, table
from tests.support.mosquitto import Mosquitto
from tests.support.publish import connected
from tests.support.publish import publish as publish_mqtt
from tests.support.rendezvous_daemon import RendezvousDaemon, real_daemon
from tests.support.rendezvous_program import messages
from tests.support.sas_client import Attached, Program, binary_file, data_set, message

pytestmark = pytest.mark.broker

ATTACHMENTS = 50


class Place:
    """A daemon, and a subject of the test's own."""

    def __init__(self, host: str, port: int, daemon: RendezvousDaemon | None) -> None:
        self.address, self.daemon = f"tcp:{host}:{port}", daemon
        self.subject = f"TEST.{uuid4().hex}"

    def source(self, name: str = "sas", **more: str) -> str:
        return self._table("sources", name, self.subject, **more)

    def destination(self, name: str = "back", **more: str) -> str:
        return self._table("destinations", name, self.subject, **more)

    def _table(self, kind: str, name: str, subject: str, **more: str) -> str:
        said = {"transport": "rendezvous", "framing": "sas_rendezvous", "daemon": self.address, "subject": subject}
        return f"[{kind}.{name}]\n" + "".join(f'{key} = "{value}"\n' for key, value in (said | more).items())

    def break_connections(self) -> None:
        """Break every connection, and wait until the source listens again; a real daemon's are left alone."""
        if self.daemon is None:
            return
        before = self._listening()
        self.daemon.break_connections()
        until(lambda: self._listening() - before)

    def _listening(self) -> set[str]:
        assert self.daemon is not None
        return {each.session for each in self.daemon.connections() if each.subscriptions[self.subject]}

    @contextmanager
    def client(self) -> Iterator[DaemonClient]:
        made = DaemonClient(DaemonSettings.model_validate({"daemon": self.address}), 1 << 20)
        try:
            yield made
        finally:
            made.close()

    def send(self, bodies: Iterable[bytes], reply: str | None = None) -> None:
        """Publish messages, and wait until the daemon has them."""
        with self.client() as client:
            head = publish_head(self.subject, reply)
            for body in bodies:
                client.publish(publish(head, body, is_message=True), 10)
            client.confirm(10)


@pytest.fixture
def place() -> Iterator[Place]:
    if (real := real_daemon()) is not None:
        yield Place(*real, None)
        return
    with RendezvousDaemon() as daemon:
        yield Place("127.0.0.1", daemon.port, daemon)


def check(process: GatewayProcess, sent: Sequence[Attached]) -> None:
    """Each attachment came once, as it was sent, and nothing else did."""
    found = await_finished(process, len(sent))
    by_name = {(item["name"], item["description"]): item for item in found}
    assert len(by_name) == len(found) == len(sent)
    for each in sent:
        item = by_name[each.definition.qualifier_2, each.definition.description]
        assert item["kind"] == each.definition.kind.word
        if each.definition.kind is AttachmentKind.DATA_SET:
            assert_same_table(process.client, item, each.content)
        else:
            assert (item["size"], item["sha256"]) == (len(each.content), each.sha256), item
    assert process.listing("/v1/quarantine") == []


def test_attachments_of_a_program_come_out_once_and_whole(place: Place, tmp_path: Path) -> None:
    sent = mixed(Program(Random(5)), ATTACHMENTS)
    with ForkedGateway(tmp_path, place.source()) as process:
        process.await_source("sas")
        for at in range(0, ATTACHMENTS, 5):
            if at == ATTACHMENTS // 2:
                place.break_connections()
            place.send(messages(sent[at : at + 2]) + messages(sent[at + 2 : at + 5], application=None))
        check(process, sent)
        process.until(lambda: all(each["complete_at"] for each in process.listing("/v1/messages")))


def test_what_is_sent_comes_back_whole_though_connections_break(place: Place, tmp_path: Path) -> None:
    random = Random(6)
    contents = {f"{number}.bin": random.randbytes(random.choice([0, 1, 31_000, 90_000])) for number in range(25)}
    contents |= {f"{number}.txt": b"line \xc3\xa4\n" * random.randrange(3000) for number in range(25)}
    with ForkedGateway(tmp_path, place.source() + place.destination(retry_first="0.1s")) as process:
        process.await_source("sas")
        deliveries = []
        for number, (name, content) in enumerate(contents.items()):
            kind = "text/plain" if name.endswith("txt") else "application/octet-stream"
            answer = process.client.post(
                "/v1/messages", data={"destination": "back"}, files={"file": (name, content, kind)}
            )
            deliveries.append(answer.raise_for_status().headers["Location"])
            if number in (20, 40):
                for each in deliveries:
                    process.until(lambda: process.client.get(each).json()["state"] == "sent")  # noqa: B023
                place.break_connections()
        found = await_finished(process, len(contents))
        assert {item["name"] for item in found} == set(contents)
        for item in found:
            got = process.client.get(f"/v1/attachments/{item['id']}/content").content
            assert got == contents[item["name"]], item["name"]
        assert {process.client.get(each).json()["state"] for each in deliveries} == {"sent"}


def missing(process: GatewayProcess, item: dict[str, Any]) -> Any:
    return process.client.get(f"/v1/attachments/{item['id']}").json()["progress"]["missing_parts"]


def test_what_the_daemon_lost_is_listed_and_never_mixed(place: Place, tmp_path: Path) -> None:
    """A part that does not come is missing by its number; parts behind a broken connection are quarantined."""
    if place.daemon is None:
        pytest.skip("nothing breaks the connections of a real daemon")
    program = Program(Random(7))
    first, second, third = (
        binary_file(program, f"{number}.bin", program.random.randbytes(90_000)) for number in range(3)
    )
    with ForkedGateway(tmp_path, place.source()) as process:
        process.await_source("sas")
        place.send(messages([third]))
        bodies = messages([first])
        place.send(bodies[:4] + bodies[5:])
        await_finished(process, 1)
        process.until(lambda: process.listing("/v1/attachments", state="receiving"))
        (item,) = process.listing("/v1/attachments", state="receiving")
        number = len(bodies) - 3
        process.until(lambda: missing(process, item) == [[number, number]])
        bodies = messages([second])
        place.send(bodies[:4])
        place.break_connections()
        place.send(bodies[4:])
        process.until(lambda: len(process.listing("/v1/quarantine")) == len(bodies) - 4)
        assert {each["code"] for each in process.listing("/v1/quarantine")} == {"no-header"}
        assert len(process.listing("/v1/attachments", state="finished")) == 1
        assert len(process.listing("/v1/attachments", state="receiving")) == 2


def test_a_data_set_is_the_same_over_rendezvous_as_over_mqtt(place: Place, tmp_path: Path) -> None:
    program = Program(Random(9))
    sent = data_set(program, "WORK", "CLASS", table(program, 3000))
    with Mosquitto(tmp_path) as broker:
        settings = place.source() + mqtt_source("queue", broker.port, "sas/queue")
        with ForkedGateway(tmp_path, settings) as process:
            process.await_source("sas")
            process.await_source("queue")
            place.send(messages([sent]))
            publish_mqtt(message(program, [sent]), broker.port, "sas/queue", "5")
            found = {item["source"]: item for item in await_finished(process, 2)}
            tables = {}
            for source, item in found.items():
                content = process.client.get(f"/v1/attachments/{item['id']}/content", params={"format": "parquet"})
                tables[source] = pq.read_table(BytesIO(content.content))
            assert tables["sas"].equals(tables["queue"], check_metadata=True)
            assert tables["sas"].schema.metadata == tables["queue"].schema.metadata


def test_several_files_in_one_attachment_are_fetched_by_ranges(place: Place, tmp_path: Path) -> None:
    """Text files with and without an end to their last line, and binary files of several messages."""
    random = Random(10)
    texts = [b"one\ntwo\n", b"no end", b"", b"last\n"]
    records = [[random.randbytes(30_000) for _ in range(count)] for count in (1, 4)]
    binaries = [b"".join(each) for each in records]
    made = foreign.several("texts", *(foreign.text_file(len(text), [text.splitlines()]) for text in texts))
    made_binary = (foreign.binary_file(len(b"".join(each)), [[one] for one in each], 30_000) for each in records)
    binary = foreign.several("binaries", *made_binary)
    mixed_up = foreign.several("mixed", foreign.text_file(0), foreign.binary_file(0))
    several = ([made, binary], [binary._replace(name="alone")], [mixed_up])
    sendings = [foreign.sending("", "", foreign.OWN, *some) for some in several]
    expected = {"texts": texts, "binaries": binaries, "alone": binaries}
    with ForkedGateway(tmp_path, place.source()) as process:
        process.await_source("sas")
        for each in sendings:
            place.send(message.body for message in each.messages)
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == len(expected))
        for item in process.listing("/v1/attachments", state="finished"):
            content = f"/v1/attachments/{item['id']}/content"
            found = []
            for file in item["files"]:
                asked = {"Range": f"bytes={file['offset']}-{file['offset'] + file['size'] - 1}"}
                found.append(process.client.get(content, headers=asked).content if file["size"] else b"")
            assert found == expected[item["name"]]
            assert [file["announced_size"] for file in item["files"]] == list(map(len, found))
            assert (item["announced_size"], item["warnings"]) == (None, [])
            target = tmp_path / item["name"]
            words = ["get", item["id"], "--apart", "-o", str(target), "--url", str(process.client.base_url)]
            assert CliRunner().invoke(application, words).exit_code == 0
            parts = [target.with_name(f"{target.name}.{number}") for number in range(1, len(found) + 1)]
            assert [part.read_bytes() for part in parts] == found
            assert not target.exists()
            shown = CliRunner().invoke(application, ["show", item["id"], *words[-2:]], env={"COLUMNS": "160"})
            assert f"{item['files'][-1]['offset']:,}" in shown.output
        place.send(message.body for message in sendings[0].messages[:6])
        process.until(lambda: process.listing("/v1/attachments", state="receiving", name="texts"))
        (begun,) = process.listing("/v1/attachments", state="receiving", name="texts")
        leading = f"/v1/attachments/{begun['id']}/content?partial=true"
        process.until(lambda: process.client.get(leading).content == b"".join(texts[:2]))
        process.until(lambda: process.listing("/v1/attachments", state="quarantined"))
        (held,) = process.listing("/v1/attachments", state="quarantined")
        assert (held["name"], held["reason"]["code"], held["files"]) == ("mixed", "mixed-files", [])


def test_advisories_are_counted_in_the_metrics(place: Place, tmp_path: Path) -> None:
    if place.daemon is None:
        pytest.skip("a real daemon advises what it likes")
    with ForkedGateway(tmp_path, place.source()) as process:
        process.await_source("sas")
        assert process.samples().total("source_advisories", source="sas") == 0
        place.daemon.advise("_RV.WARN.SYSTEM.CLIENT.SLOWCONSUMER")
        process.until(lambda: process.samples().total("source_advisories", source="sas", level="WARN") == 1)
        assert process.samples().total("source_dropped_messages", source="sas") == 0
        assert "advisory_received" in process.log


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_tibrvmsg_messages_over_mqtt_are_put_together(tmp_path: Path, version: str) -> None:
    sent = mixed(Program(Random(8)), 12)
    with Mosquitto(tmp_path) as broker:
        settings = mqtt_source("sas", broker.port, "rv/messages", version, "qos = 2\n", "sas_rendezvous")
        with ForkedGateway(tmp_path, settings) as process:
            process.await_source("sas")
            client = connected(broker.port, "3.1.1")
            for at in range(0, len(sent), 3):
                for body in messages(sent[at : at + 3]):
                    client.publish("rv/messages", body, 2).wait_for_publish(30)
            client.disconnect()
            client.loop_stop()
            check(process, sent)
