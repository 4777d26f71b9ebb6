"""Receipts go to the reply addresses of the messages, once they are made: over Mosquitto and over a queue manager."""

from collections import Counter
from hashlib import sha256
from pathlib import Path
from random import Random
from time import sleep
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from app.codecs.ibm_mq.image import write_image
from app.codecs.sas.dialect import Dialect
from app.model.message import PhysicalMessage
from tests.support.forked_gateway import ForkedGateway, shared
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.length import IS_LONG
from tests.support.mosquitto import Mosquitto
from tests.support.mq import connected as mq_connected
from tests.support.mq import mq_source, taken
from tests.support.mqi import load
from tests.support.publish import connected, envelope
from tests.support.queue_manager import QueueManager
from tests.support.receipts import verified, write_key
from tests.support.sas_client import Program, binary_file, message

pytestmark = pytest.mark.broker

KILLS = 30 if IS_LONG else 3
LENGTHS = (24, 16, None, 0, 1, 25, 40_000, 65_535)
"""The bytes of correlation data of the files that are sent before each kill; None for no correlation data."""
MQRO_PASS_CORREL_ID, MQRO_PASS_MSG_ID, MQMT_REPLY = 64, 128, 2


class Sent(NamedTuple):
    """What a sender knows of a file: the SHA-256, and the physical messages, the first of which is the header."""

    digest: str
    messages: list[PhysicalMessage]


def sent(program: Program) -> Sent:
    content = program.random.randbytes(3000)
    return Sent(sha256(content).hexdigest(), message(program, [binary_file(program, "a.bin", content)]))


def header_with(length: int | None, header: PhysicalMessage, random: Random) -> tuple[bytes, Properties]:
    """Return a header as the payload and the properties of a publish with that many bytes of correlation data: as an
    image where they cannot be its CorrelId, whose last eight bytes are zeros."""
    if length in (16, 24):
        properties = envelope(header)
        properties.CorrelationData = header.correl_id[:length]
        return bytes(header.body), properties
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if length is not None:
        properties.CorrelationData = random.randbytes(length)
    return write_image(header), properties


def settings(folder: Path, source: str) -> str:
    write_key(folder / "key.pem", folder / "pub.pem", 1)
    return f'{source}reply_receipts = true\n[receipts]\nkey_file = "{folder / "key.pem"}"\nissuer = "gateway"\n'


def outcomes(process: GatewayProcess) -> dict[str, float]:
    total = process.samples().total
    return {each: total("receipt_replies_total", outcome=each) for each in ("sent", "refused", "no-address", "busy")}


def test_kills_lose_no_receipt_on_its_way_to_a_response_topic(tmp_path: Path) -> None:
    """At least once, with the sender's correlation data byte for byte, and to no topic that is not allowed."""
    program = Program(Random(1), Dialect.parse("big-4-excluded-packed"), ccsid=819, encoding=273)
    with Mosquitto(tmp_path) as broker:
        source = mqtt_source("in", broker.port, "files", "5", 'request_missing_to = ["replies/+", "files"]\n')
        gateway = ForkedGateway(tmp_path, settings(tmp_path, source))
        gateway.start()
        gateway.await_source("in")
        sleep(2)  # until it has noted where the log was when this was switched on
        came: list[MQTTMessage] = []
        listener, sender = connected(broker.port, "5", "listener"), connected(broker.port, "5")
        listener.on_message = lambda _client, _data, each: came.append(each)
        listener.subscribe("#", 1)

        def send(file: Sent, topic: str | None, length: int | None = 24) -> bytes | None:
            """Send a file, and return the correlation data of its header."""
            header = header_with(length, file.messages[0], program.random)
            for body, properties in (header, *((bytes(each.body), envelope(each)) for each in file.messages[1:])):
                if topic is not None:
                    properties.ResponseTopic = topic
                sender.publish("files", body, 1, properties=properties).wait_for_publish(30)
            return getattr(header[1], "CorrelationData", None)

        expected: dict[str, bytes | None] = {}
        for number in range(KILLS):
            for length in LENGTHS:
                file = sent(program)
                expected[file.digest] = send(file, "replies/sender", length)
            for topic in ("elsewhere/sender", "files", None):
                send(sent(program), topic)
            sleep(0.3 * number + 0.8)
            gateway.kill()
            gateway.start()

        def receipts() -> list[MQTTMessage]:
            return [each for each in came if each.topic != "files"]

        public = (tmp_path / "pub.pem").read_bytes()
        gateway.until(lambda: len({bytes(each.payload) for each in receipts()}) >= len(expected), 90)
        gateway.until(lambda: gateway.client.get("/v1/receipt-log").json().get("size", 0) == len(expected) + 3 * KILLS)
        sleep(3)  # what is confirmed is not sent again
        got = receipts()
        assert {each.topic for each in got} == {"replies/sender"}
        times: Counter[str] = Counter()
        for each in got:
            said, properties = verified(bytes(each.payload), public), each.properties
            assert getattr(properties, "ContentType", None) == "application/scitt-statement+cose"
            assert getattr(properties, "CorrelationData", None) == expected[said["sha256"]]
            times[said["sha256"]] += 1
        assert times.keys() == expected.keys()
        assert max(times.values()) <= 1 + KILLS
        sleep(2)
        assert len(receipts()) == len(got)
        for client in (listener, sender):
            client.disconnect()
            client.loop_stop()
        assert gateway.listing("/v1/quarantine") == []
        gateway.stop()


@pytest.fixture(scope="module")
def pymqi() -> ModuleType:
    return load("pymqi")


def test_over_ibm_mq_the_reply_to_queue_gets_receipts(pymqi: ModuleType, tmp_path: Path) -> None:
    """CorrelId and MsgId are those that the Report of the header asks for. A queue that is missing, or full, delays no
    other receipt. What the full one refused is sent when it has room, also by the next process."""
    program = Program(Random(1), Dialect.parse("big-4-excluded-packed"), ccsid=819, encoding=273)
    with QueueManager(tmp_path / "queue-manager") as manager:
        for queue in ("IN", "REPLY", "OTHER"):
            manager.define(f"SAS.{queue}")
        manager.define("SAS.REFULL", maxdepth=1)
        options = 'framing = "sas_queue"\nrequest_missing_to = ["SAS.RE*", "SAS.IN"]\n'
        source = mq_source("in", manager, "SAS.IN", options)
        with ForkedGateway(tmp_path, settings(tmp_path, source), shared("pymqi")) as process:
            process.await_source("in")
            sleep(2)
            expected: dict[str, tuple[bytes, bytes]] = {}
            identifiers: set[bytes] = set()
            ways = [(f"SAS.{queue}", 0) for queue in ("REFULL", "REMOVED", "OTHER", "IN", "REPLY")]
            passing = (MQRO_PASS_CORREL_ID, MQRO_PASS_MSG_ID, MQRO_PASS_CORREL_ID | MQRO_PASS_MSG_ID)
            with mq_connected(pymqi, manager) as connection:
                pymqi.Queue(connection, "SAS.REFULL", pymqi.CMQC.MQOO_OUTPUT).put(b"what fills it")
                opened = pymqi.Queue(connection, "SAS.IN", pymqi.CMQC.MQOO_OUTPUT)
                for queue, report in (*ways, *(("SAS.REPLY", each) for each in passing)):
                    file = sent(program)
                    msg_id, *_ = [put(pymqi, opened, each, queue, report) for each in file.messages]
                    identifiers.add(msg_id)
                    if queue in ("SAS.REPLY", "SAS.REFULL"):
                        correl_id = file.messages[0].correl_id if report & MQRO_PASS_CORREL_ID else msg_id
                        expected[file.digest] = correl_id, msg_id if report & MQRO_PASS_MSG_ID else b""
                opened.close()
            process.until(lambda: sum(outcomes(process).values()) == 7, 60)
            assert outcomes(process) == {"sent": 4, "refused": 1, "no-address": 2, "busy": 0}
            found = taken(pymqi, manager, "SAS.REPLY")
            assert taken(pymqi, manager, "SAS.OTHER") == []
            assert all(each in process.log for each in ("2085", "2053", "receipt_postponed"))
            process.kill()
            process.start()
            process.await_source("in")
            assert [body for _, body in taken(pymqi, manager, "SAS.REFULL")] == [b"what fills it"]
            process.until(lambda: outcomes(process)["sent"] == 1, 60)
            found += taken(pymqi, manager, "SAS.REFULL")
            public = (tmp_path / "pub.pem").read_bytes()
            for descriptor, body in found:
                assert (descriptor.MsgType, descriptor.Format, descriptor.Report) == (MQMT_REPLY, b"AGRECEPT", 0)
                correl_id, msg_id = expected.pop(verified(body, public)["sha256"])
                assert descriptor.CorrelId == correl_id
                assert descriptor.MsgId == msg_id or (not msg_id and descriptor.MsgId not in identifiers)
            assert not expected
            assert [taken(pymqi, manager, queue) for queue in ("SAS.REPLY", "SAS.REFULL")] == [[], []]
            assert process.listing("/v1/quarantine") == []


def put(library: ModuleType, queue: Any, message: PhysicalMessage, reply_to: str, report: int) -> bytes:
    """Put a message that names a reply-to queue, and return its MsgId."""
    descriptor = library.MD(
        Version=2,
        MsgType=message.msg_type,
        CorrelId=message.correl_id,
        Encoding=message.encoding,
        CodedCharSetId=message.ccsid,
        Format=message.format.encode(),
        ReplyToQ=reply_to.encode(),
        Report=report,
    )
    queue.put(bytes(message.body), descriptor, library.PMO(Options=library.CMQC.MQPMO_NO_SYNCPOINT))
    identifier: bytes = descriptor.MsgId
    return identifier
