"""Source and destination: what is told, what is lost, and what is sent again."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from adapters.rendezvous.client import DaemonClient, Oversized
from adapters.rendezvous.receiver import RendezvousReceiver
from adapters.rendezvous.sender import RendezvousSender
from adapters.rendezvous.settings import DestinationSettings, SourceSettings
from app.codecs.rendezvous import rendezvous_envelope as envelope_of_messages
from app.codecs.rendezvous.daemon import read_frame
from app.codecs.rendezvous.tibrv_message import Field, encode_message
from app.framing.sas_queue import SAS_QUEUE
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from app.model.message import PhysicalMessage
from app.ports import DeliveryProgress, SendFailed
from app.testing.collecting_intake import Collector, receiving
from app.testing.transport_contract import message
from app.testing.waiting import until
from tests.support.rendezvous_daemon import RendezvousDaemon, envelope

LST = encode_message([Field("LST", 1, "I32", 5)])


@pytest.fixture
def daemon() -> Iterator[RendezvousDaemon]:
    with RendezvousDaemon() as running:
        yield running


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


def source(port: int, **more: object) -> RendezvousReceiver:
    settings = {"daemon": f"tcp:127.0.0.1:{port}", "subject": ["SAS.*.OUT", "SAS.>"], **more}
    return RendezvousReceiver("sas", SAS_RENDEZVOUS.traits, SourceSettings.model_validate(settings))


@pytest.fixture
def sender(daemon: RendezvousDaemon) -> Iterator[RendezvousSender]:
    settings = {"daemon": f"tcp:127.0.0.1:{daemon.port}", "subject": "SAS.A.OUT", "send_timeout": 5}
    made = RendezvousSender("sas", DestinationSettings.model_validate(settings))
    yield made
    made.close()


def tibrv(number: int) -> PhysicalMessage:
    return PhysicalMessage("", "sas_rendezvous", body=encode_message([Field("LST", 1, "I32", number)]))


def test_a_tibrvmsg_travels_as_it_is_and_its_subjects_are_told(
    daemon: RendezvousDaemon, sender: RendezvousSender
) -> None:
    collector = Collector()
    with receiving(source(daemon.port), collector):
        sender.send([tibrv(5)])
        collector.wait_for(1)
    (received,) = collector.messages
    assert bytes(received.body) == LST
    assert (received.source, received.framing) == ("sas", "sas_rendezvous")
    assert received.properties["rendezvous.subject"] == "SAS.A.OUT"
    assert received.properties["rendezvous.reply"].startswith("_INBOX.7F000001.")
    assert LST in daemon.published[-2][1]


def test_a_source_listens_again_after_each_broken_connection(
    daemon: RendezvousDaemon, sender: RendezvousSender, logged: list[Any]
) -> None:
    receiver, collector = source(daemon.port), Collector()
    with receiving(receiver, collector):
        for number in range(5):
            sender.resume("delivery", None)
            sender.send([tibrv(number)])
            collector.wait_for(number + 1)
            session = receiver.status()["session"]
            daemon.break_connections()
            until(lambda: receiver.status()["connected"] and receiver.status()["session"] != session)  # noqa: B023
    assert collector.bodies() == [bytes(tibrv(number).body) for number in range(5)]
    assert "connection_failed" in [entry["event"] for entry in logged]
    assert "messages_possibly_lost" in [entry["event"] for entry in logged]


def test_a_source_waits_for_its_daemon() -> None:
    with RendezvousDaemon() as first:
        port = first.port
    receiver, collector = source(port), Collector()
    with pytest.raises(TimeoutError), receiving(receiver, collector, patience=0.5):
        pass
    with RendezvousDaemon(port), receiving(receiver, collector):
        assert receiver.status()["error"] is None


def test_advisories_are_logged_and_counted(daemon: RendezvousDaemon, logged: list[Any]) -> None:
    receiver, collector = source(daemon.port), Collector()
    with receiving(receiver, collector):
        daemon.advise("_RV.ERROR.SYSTEM.DATALOSS.INBOUND.BCAST", host="10.0.0.1", lost="7")
        daemon.advise("_RV.WARN.SYSTEM.LICENSE.EXPIRE")
        daemon.advise("_RV.INFO.SYSTEM.HOST.STATUS.7F000001")
        until(lambda: sum(receiver.status()["advisories"].values()) == 2)
    found = {entry["subject"]: entry for entry in logged if entry["event"] == "advisory_received"}
    loss = found["_RV.ERROR.SYSTEM.DATALOSS.INBOUND.BCAST"]
    assert (loss["log_level"], loss["advisory_lost"], loss["advisory_class"]) == ("error", "7", "ERROR")
    assert found["_RV.WARN.SYSTEM.LICENSE.EXPIRE"]["log_level"] == "warning"
    assert not collector.messages


def test_what_is_not_understood_is_refused_and_the_rest_goes_on(daemon: RendezvousDaemon) -> None:
    collector = Collector()
    with receiving(source(daemon.port, max_message=100_000), collector):
        bad = bytearray(envelope("SAS.X", "D", [Field("y", 0, "I32", 1)]))
        bad[bad.index(b"mtype") - 1] = 200
        daemon.publish("SAS.X", bytes(bad))
        daemon.publish("SAS.X", envelope("SAS.X", "D", [Field("y", 0, "OPAQUE", bytes(200_000))]))
        daemon.publish(
            "SAS.X",
            encode_message(
                [
                    Field("sub", 0, "SUBJECT", "SAS.X"),
                    Field("mtype", 0, "STRING", "D"),
                    Field("data", 0, "OPAQUE", b"MD  \0\0\0\x01"),
                ]
            ),
        )
        daemon.publish("SAS.X", envelope("SAS.X", "D", [Field("y", 0, "I32", 2)]))
        collector.wait_for(1)
    assert [code for _, code, _ in collector.refused] == ["bad-rendezvous-frame", "message-too-large", "bad-mq-image"]
    assert bytes(collector.refused[2][0].body) == b"MD  \0\0\0\x01", "its error tells a byte of the image"
    assert len(collector.messages) == 1


class Stalled(Collector):
    """An intake that takes nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()

    def submit(self, messages: Any, on_durable: Any) -> None:
        self.open.wait()
        super().submit(messages, on_durable)


def test_a_source_reads_on_while_nothing_can_be_written_and_says_what_it_drops(
    daemon: RendezvousDaemon, logged: list[Any]
) -> None:
    receiver, stalled = source(daemon.port, buffer=1 << 20), Stalled()
    with receiving(receiver, stalled):
        frame = envelope("SAS.X", "D", [Field("y", 0, "OPAQUE", bytes(100_000))])
        for _ in range(400):
            daemon.publish("SAS.X", frame)
        until(lambda: receiver.status()["dropped"] > 380 - 50)
        assert receiver.status()["buffered_bytes"] <= 1 << 20
        assert "were dropped" in receiver.status()["warning"]
        stalled.open.set()
        until(lambda: len(stalled.messages) + receiver.status()["dropped"] == 400)
    assert [entry["event"] for entry in logged].count("messages_dropped") >= 1


class Broken(Collector):
    """An intake that fails."""

    def submit(self, messages: Any, on_durable: Any) -> None:
        raise OSError("the journal is gone")


def test_an_intake_that_fails_ends_the_source(daemon: RendezvousDaemon, sender: RendezvousSender) -> None:
    receiver, failures = source(daemon.port), list[BaseException]()

    def run() -> None:
        try:
            receiver.run(Broken(), threading.Event())
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: receiver.status()["connected"])
    sender.send([tibrv(1)])
    thread.join(10)
    assert [str(error) for error in failures] == ["the journal is gone"]


def test_what_comes_while_a_source_begins_to_listen_is_not_lost(daemon: RendezvousDaemon) -> None:
    """A publication that the daemon sends before it confirms the subscription, and one right behind."""
    client = DaemonClient(SourceSettings.model_validate({"daemon": str(daemon.port), "subject": "A"}), 1 << 20)
    client.listen("A")
    frames = [envelope("A", "D", [Field("x", 0, "I32", number)]) for number in range(3)]
    client.publish(frames[:2], 5)
    taken: list[bytes | Oversized] = []
    client.confirm(5, taken.append)
    assert taken == frames[:2]
    client.close()


def begun(sender: RendezvousSender, delivery: str) -> None:
    """Send the first message of a delivery."""
    assert sender.resume(delivery, None) == 0
    sender.send([tibrv(1)], DeliveryProgress(delivery, 0, 1))


def inboxes(daemon: RendezvousDaemon) -> list[str | None]:
    """The inbox that each message on the subject names as its sender."""
    return [read_frame(frame).reply for subject, frame in daemon.published if subject == "SAS.A.OUT"]


def broken(daemon: RendezvousDaemon) -> None:
    daemon.break_connections()
    until(lambda: not daemon.connections())


def test_a_delivery_begins_again_on_another_connection(daemon: RendezvousDaemon, sender: RendezvousSender) -> None:
    begun(sender, "one")
    assert sender.resume("one", 1) == 1
    broken(daemon)
    assert sender.resume("one", 1) == 0
    assert sender.resume("one", 1) == 0, "nothing of it has been sent on this connection"
    begun(sender, "one")
    assert sender.resume("one", 1) == 1
    sender.forget("one")
    assert sender.resume("one", 5) == 0


def test_a_delivery_does_not_go_on_from_another_inbox(daemon: RendezvousDaemon, sender: RendezvousSender) -> None:
    """The connection breaks between two batches."""
    begun(sender, "one")
    broken(daemon)
    with pytest.raises(SendFailed, match="begins again") as failed:
        sender.send([tibrv(2)], DeliveryProgress("one", 1, 1))
    assert not failed.value.permanent
    assert sender.resume("one", 1) == 0
    begun(sender, "one")
    first, second = inboxes(daemon)
    assert first != second


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_delivery_after_one_that_stopped_in_the_middle_has_another_inbox(
    daemon: RendezvousDaemon, sender: RendezvousSender, is_complete: bool
) -> None:
    """Receivers could not tell the two apart."""
    begun(sender, "one")
    if is_complete:
        sender.forget("one")
    begun(sender, "two")
    first, second = inboxes(daemon)
    assert (first == second) is is_complete


def test_a_daemon_that_is_gone_fails_a_sending_and_not_the_next(
    daemon: RendezvousDaemon, sender: RendezvousSender
) -> None:
    sender.send([tibrv(1)])
    port = daemon.port
    daemon.stop()
    with pytest.raises(SendFailed) as failed:
        sender.send([tibrv(2)])
    assert not failed.value.permanent
    assert not sender.status()["connected"]
    with RendezvousDaemon(port) as again:
        sender.send([tibrv(3)])
        assert len([1 for subject, _ in again.published if subject == "SAS.A.OUT"]) == 1


def test_a_descriptor_is_sent_also_with_a_body_that_is_a_tibrvmsg(
    daemon: RendezvousDaemon, sender: RendezvousSender
) -> None:
    sent = message(1)._replace(body=tibrv(5).body)
    sender.send([sent])
    (frame,) = [frame for subject, frame in daemon.published if subject == "SAS.A.OUT"]
    came = envelope_of_messages.read(read_frame(frame), "sas", SAS_QUEUE.traits, 0)
    assert (came.msg_type, came.correl_id, bytes(came.body)) == (sent.msg_type, sent.correl_id, sent.body)


def test_descriptor_fields_that_have_no_room_are_not_sent(sender: RendezvousSender) -> None:
    with pytest.raises(SendFailed, match="msg_type") as failed:
        sender.send([message(1)._replace(msg_type=1 << 40)])
    assert failed.value.permanent


@pytest.mark.parametrize(
    ("daemon_", "host", "port"),
    [
        ("tcp:rv.example:7474", "rv.example", 7474),
        ("rv.example:7474", "rv.example", 7474),
        ("rv.example", "rv.example", 7500),
        ("7474", "localhost", 7474),
        ("tcp:7474", "localhost", 7474),
        ("tcp:[::1]:7474", "::1", 7474),
    ],
)
def test_a_daemons_address_is_written_as_for_other_programs(daemon_: str, host: str, port: int) -> None:
    settings = SourceSettings.model_validate({"daemon": daemon_, "subject": "A"})
    assert (settings.host, settings.port, settings.subject) == (host, port, ["A"])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"daemon": "tcp:rv:0"}, "write tcp:host:7500"),
        ({"daemon": "ssl:rv:99999"}, "write tcp:host:7500"),
        ({"daemon": "http://rv:7500"}, "write tcp:host:7500"),
        ({"subject": "A..B"}, "a subject has"),
        ({"subject": []}, "at least 1 item"),
        ({"service": ""}, "at least 1 character"),
        ({"service": "7500\n"}, "match pattern"),
        ({"ledger": 1}, "not permitted"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SourceSettings.model_validate({"subject": "A", **given})


def test_a_destination_has_one_subject_without_wildcards() -> None:
    with pytest.raises(ValueError, match="one cannot publish"):
        DestinationSettings.model_validate({"subject": "A.>"})
