"""What goes over the wire and when, against a broker that follows a script."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from threading import Event
from time import monotonic
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters import mqtt
from app.codecs.mqtt.packets import PacketType
from app.codecs.rendezvous.subjects import SUBJECT_PROPERTY
from app.framing.registry import traits
from app.model.message import GAP, PhysicalMessage
from app.ports import AskingReceiver, DeliveryProgress, KeptSender, Receiver, Reply, ReplyEnd, Sender, SendFailed
from app.testing.collecting_intake import Collector
from app.testing.waiting import until
from tests.support.scripted_broker import ScriptedBroker

ACCEPTED_311, ACCEPTED_5 = "20020000", "2003000000"
SESSION_311, SESSION_5 = "20020100", "2003010000"
"""The broker has kept the session."""
REFUSED_311, REFUSED_5 = "20020001", "2003008400"
PINGREQ = "c000"
MESSAGE = PhysicalMessage("", "", 100001, b"C" * 24, b"body", encoding=273)
BARE = b"\0"
"""An empty property section."""


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as running:
        yield running


def receiver(broker: ScriptedBroker, framing: str = "order_packet", **more: object) -> Receiver:
    settings = {"url": f"mqtt://127.0.0.1:{broker.port}", "topic": "t", "qos": 2, "connect_timeout": 5, **more}
    return mqtt.plugin.receiver("here", traits(framing), mqtt.plugin.source_settings.model_validate(settings))


def sender(broker: ScriptedBroker, **more: object) -> Sender:
    settings = {"url": f"mqtt://127.0.0.1:{broker.port}", "topic": "t", "connect_timeout": 5, **more}
    return mqtt.plugin.sender("there", mqtt.plugin.destination_settings.model_validate(settings))


@contextmanager
def running(broker: ScriptedBroker, receiver: Receiver, collector: Collector) -> Iterator[None]:
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(receiver.run, collector, stop)
        try:
            yield
        finally:
            stop.set()
            broker.hang_up()
        future.result(10)


@contextmanager
def sending(broker: ScriptedBroker, sender: Sender, *messages: PhysicalMessage) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(sender.send, messages)
        finally:
            broker.hang_up()
    sender.close()


def subscribed(broker: ScriptedBroker, answer: str = ACCEPTED_5, granted: str = "02") -> None:
    broker.accept(answer)
    mid = broker.expect(PacketType.SUBSCRIBE).rest[:2].hex()
    broker.send(f"9003{mid}{granted}" if answer in (ACCEPTED_311, SESSION_311) else f"9004{mid}00{granted}")


def test_a_session_that_was_taken_over_is_not_fought_for(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.mqtt.receiver._TAKEN_OVER_PAUSE", 0.8)
    source = receiver(broker, client_id="mine")
    with capture_logs() as logs, running(broker, source, Collector()):
        for _ in range(2):
            subscribed(broker)
            until(lambda: source.status()["connected"])
            broker.send("e0028e00")
            ended = monotonic()
            until(lambda: not source.status()["connected"])
            assert "another client took over the session of client_id 'mine'" in source.status()["error"]
        subscribed(broker)
        assert monotonic() - ended > 0.6
    (told,) = [entry for entry in logs if "took over" in entry.get("reason", "")]
    assert "give each client its own client_id" in told["reason"]


@pytest.mark.parametrize(("qos", "acknowledged"), [(1, PacketType.PUBACK), (2, PacketType.PUBREC)])
def test_a_publish_is_acknowledged_when_durable_and_not_before(
    broker: ScriptedBroker, qos: int, acknowledged: PacketType
) -> None:
    collector = Collector(durable_at_once=False)
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        broker.publish(7, qos, "t", BARE + b"body")
        collector.wait_for(1)
        broker.send(PINGREQ)
        broker.expect(PacketType.PINGRESP)
        collector.release()
        assert broker.expect(acknowledged).rest == b"\0\7"


def test_a_publish_of_qos_2_is_completed_and_its_identifier_used_again(broker: ScriptedBroker) -> None:
    collector = Collector()
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        for body in (b"first", b"second"):
            broker.publish(7, 2, "t", BARE + body)
            assert broker.expect(PacketType.PUBREC).rest == b"\0\7"
            broker.send("62020007")
            assert broker.expect(PacketType.PUBCOMP).rest == b"\0\7"
        assert collector.bodies() == [b"first", b"second"]


def test_a_release_of_what_is_not_known_is_completed(broker: ScriptedBroker) -> None:
    with running(broker, receiver(broker), Collector()):
        subscribed(broker)
        broker.send("62020009")
        assert broker.expect(PacketType.PUBCOMP).rest == b"\0\x09"


@pytest.mark.parametrize("qos", [1, 2])
def test_word_of_an_old_connection_is_not_passed_on_to_the_next(broker: ScriptedBroker, qos: int) -> None:
    collector = Collector(durable_at_once=False)
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        broker.publish(7, qos, "t", BARE + b"one")
        collector.wait_for(1)
        old = collector.held.copy()
        collector.held.clear()
        broker.hang_up()
        subscribed(broker)
        broker.publish(7, qos, "t", BARE + b"other")
        collector.wait_for(2)
        old[0]()
        broker.send(PINGREQ)
        broker.expect(PacketType.PINGRESP)
        collector.release()
        assert broker.expect(PacketType.PUBACK, PacketType.PUBREC).rest == b"\0\7"
    assert collector.bodies() == [b"one", b"other"]


@pytest.mark.parametrize(("qos", "times"), [(1, 2), (2, 1)])
def test_a_message_of_qos_2_that_comes_again_is_not_handed_on_again(
    broker: ScriptedBroker, qos: int, times: int
) -> None:
    collector = Collector(durable_at_once=False)
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        for dup in (False, True):
            broker.publish(7, qos, "t", BARE + b"body", dup=dup)
        broker.send(PINGREQ)
        broker.expect(PacketType.PINGRESP)
        collector.wait_for(times)
        collector.release()
        assert [broker.expect(PacketType.PUBACK, PacketType.PUBREC).rest for _ in range(2)] == [b"\0\7"] * 2
    assert collector.bodies() == [b"body"] * times


@pytest.mark.parametrize("is_durable", [False, True])
def test_nor_on_the_next_connection_of_its_session(broker: ScriptedBroker, is_durable: bool) -> None:
    collector = Collector(durable_at_once=is_durable)
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        broker.publish(7, 2, "t", BARE + b"body")
        collector.wait_for(1)
        if is_durable:
            broker.expect(PacketType.PUBREC)
        broker.hang_up()
        subscribed(broker, SESSION_5)
        broker.publish(7, 2, "t", BARE + b"body", dup=True)
        if not is_durable:
            broker.send(PINGREQ)
            broker.expect(PacketType.PINGRESP)
            collector.release()
        assert broker.expect(PacketType.PUBREC).rest == b"\0\7"
        broker.send("62020007")
        broker.expect(PacketType.PUBCOMP)
        broker.publish(7, 2, "t", BARE + b"body", dup=True)
        collector.wait_for(2)
        collector.release()
        assert broker.expect(PacketType.PUBREC).rest == b"\0\7"
    assert collector.bodies() == [b"body"] * 2, "it was released: this is another one"


@pytest.mark.parametrize(
    ("answer", "body", "dup"),
    [(ACCEPTED_5, b"body", True), (SESSION_5, b"other", True), (SESSION_5, b"body", False)],
    ids=["the session is lost", "the content is another", "it is a new one"],
)
def test_a_packet_identifier_may_stand_for_another_message(
    broker: ScriptedBroker, answer: str, body: bytes, dup: bool
) -> None:
    """A duplicate is better than a loss."""
    collector = Collector()
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        broker.publish(7, 2, "t", BARE + b"body")
        broker.expect(PacketType.PUBREC)
        broker.hang_up()
        subscribed(broker, answer)
        broker.publish(7, 2, "t", BARE + body, dup=dup)
        broker.expect(PacketType.PUBREC)
    assert collector.bodies() == [b"body", body]


def test_a_message_of_qos_2_that_cannot_be_read_is_refused_once(broker: ScriptedBroker) -> None:
    collector = Collector()
    with running(broker, receiver(broker, "sas_queue"), collector):
        subscribed(broker)
        broker.publish(7, 2, "t", BARE + b"body")
        broker.expect(PacketType.PUBREC)
        broker.hang_up()
        subscribed(broker, SESSION_5)
        broker.publish(7, 2, "t", BARE + b"body", dup=True)
        broker.expect(PacketType.PUBREC)
    assert [code for _, code, _ in collector.refused] == ["no-envelope"]


def test_what_cannot_be_read_keeps_its_place_among_the_others(broker: ScriptedBroker) -> None:
    collector = Collector()
    bodies = [BARE + b"first", b"\1\x7f", BARE + b"last"]
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        packets = [b"\0\1t" + mid.to_bytes(2, "big") + body for mid, body in enumerate(bodies, 1)]
        broker.send(b"".join(b"\x32" + bytes([len(packet)]) + packet for packet in packets).hex())
        assert [broker.expect(PacketType.PUBACK).rest[1] for _ in bodies] == [1, 2, 3]
    assert collector.in_order == [b"first", b"bad-envelope", b"last"]


# --- framings whose messages are numbered as they come ------------------------------------------------------------


def gaps(collector: Collector) -> list[str | None]:
    return [message.properties.get(GAP) for message in collector.messages]


def received(broker: ScriptedBroker, mid: int, *, qos: int = 2, dup: bool = False, body: bytes = b"body") -> None:
    broker.publish(mid, qos, "t", BARE + body, dup=dup)
    assert broker.expect(PacketType.PUBREC, PacketType.PUBACK).rest == mid.to_bytes(2, "big")


def restarted(broker: ScriptedBroker, before: Sequence[PhysicalMessage], **more: object) -> tuple[Receiver, bool]:
    """Return a receiver that begins behind these messages, which an earlier one has journalled, and whether it can."""
    source = receiver(broker, "sas_rendezvous", **more)
    return source, source.resume(each._replace(body=b"") for each in reversed(before))


QOS = pytest.mark.parametrize("qos", [1, 2])


def test_messages_that_the_broker_has_lost_are_told_of_where_they_are_numbered(broker: ScriptedBroker) -> None:
    collector = Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), collector):
        for mid, answer in enumerate((SESSION_5, SESSION_5, ACCEPTED_5), 1):
            subscribed(broker, answer)
            received(broker, mid)
            received(broker, 10 + mid)
            broker.hang_up()
    begun, none, same, also, lost, no_more = gaps(collector)
    assert begun == "the source begins to receive"
    assert (none, same, also, no_more) == (None,) * 4
    assert lost == "the broker has no session of the source: what it held is lost"


@QOS
@pytest.mark.parametrize("is_durable", [False, True])
def test_what_comes_again_is_not_numbered_again(broker: ScriptedBroker, qos: int, is_durable: bool) -> None:
    """With every QoS that repeats, whether the acknowledgement was sent and lost or was not sent."""
    collector = Collector(durable_at_once=is_durable)
    with running(broker, receiver(broker, "sas_rendezvous"), collector):
        subscribed(broker, SESSION_5)
        for mid in (1, 2):
            broker.publish(mid, qos, "t", BARE + b"body")
        collector.wait_for(2)
        if is_durable:
            for _ in range(2):
                broker.expect(PacketType.PUBACK, PacketType.PUBREC)
        broker.hang_up()
        subscribed(broker, SESSION_5)
        for mid, dup in ((1, True), (2, True), (3, True), (4, False)):
            broker.publish(mid, qos, "t", BARE + b"body", dup=dup)
        collector.wait_for(4)
        if not is_durable:
            collector.release()
        mids = [broker.expect(PacketType.PUBACK, PacketType.PUBREC).rest[1] for _ in range(4)]
    assert sorted(mids) == [1, 2, 3, 4]
    assert len(collector.messages) == 4
    assert gaps(collector)[1:] == [None] * 3


@QOS
@pytest.mark.parametrize("answer", [SESSION_5, SESSION_311])
def test_after_a_restart_what_comes_again_is_known_by_the_journal(
    broker: ScriptedBroker, qos: int, answer: str
) -> None:
    """One message was acknowledged, one was journalled only, one was taken and not journalled."""
    version = "5" if answer == SESSION_5 else "3.1.1"
    body = BARE if answer == SESSION_5 else b""
    before, after = Collector(), Collector()
    with running(broker, receiver(broker, "sas_rendezvous", version=version), before):
        subscribed(broker, answer)
        for mid in (65_534, 65_535):
            broker.publish(mid, qos, "t", body + b"same")
            broker.expect(PacketType.PUBACK, PacketType.PUBREC)
        broker.hang_up()
        source, continues = restarted(broker, before.messages, version=version)
    assert continues
    with running(broker, source, after):
        subscribed(broker, answer)
        for mid, dup in ((65_535, True), (1, True), (2, False)):
            broker.publish(mid, qos, "t", body + b"same", dup=dup)
            broker.expect(PacketType.PUBACK, PacketType.PUBREC)
        if qos == 2:
            broker.send("6202fffe")
            assert broker.expect(PacketType.PUBCOMP).rest == b"\xff\xfe", "its release was pending"
    assert after.bodies() == [b"same"] * 2
    assert gaps(after) == [None, None]


@QOS
@pytest.mark.parametrize(
    ("answer", "mid", "dup", "why"),
    [
        (ACCEPTED_5, 3, False, "the broker has no session of the source: what it held is lost"),
        (SESSION_5, 4, False, "packet identifier 4 follows 2: nothing proves that no message is missing"),
        (SESSION_5, 4, True, "packet identifier 4 follows 2: nothing proves that no message is missing"),
        (SESSION_5, 2, True, "packet identifier 2 follows 2: nothing proves that no message is missing"),
        (SESSION_5, 1, False, "packet identifier 1 follows 2: nothing proves that no message is missing"),
    ],
    ids=["no session", "one is missing", "one that was sent is missing", "other bytes", "the broker begins again"],
)
def test_after_a_restart_what_is_not_proved_is_told(
    broker: ScriptedBroker, qos: int, answer: str, mid: int, dup: bool, why: str
) -> None:
    before, after = Collector(), Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), before):
        subscribed(broker, SESSION_5)
        for each in (1, 2):
            received(broker, each, qos=qos)
        broker.hang_up()
        source, continues = restarted(broker, before.messages)
    assert continues
    with running(broker, source, after):
        subscribed(broker, answer)
        received(broker, mid, qos=qos, dup=dup, body=b"other")
        received(broker, mid + 1, qos=qos)
    assert gaps(after) == [why, None]


@pytest.mark.parametrize(
    "change",
    [{"client_id": "another"}, {"qos": 0}, {"session_expiry": 0}],
    ids=["another session", "QoS 0", "no session is kept"],
)
def test_a_restart_that_proves_nothing_does_not_resume(broker: ScriptedBroker, change: dict[str, object]) -> None:
    before = Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), before):
        subscribed(broker, SESSION_5)
        received(broker, 1)
        broker.hang_up()
        source, continues = restarted(broker, before.messages, **change)
    assert restarted(broker, before.messages)[1]
    assert not restarted(broker, [])[1]
    assert not continues
    after = Collector()
    with running(broker, source, after):
        subscribed(broker, SESSION_5)
        received(broker, 2)
    assert gaps(after) == ["the source begins to receive"]


@QOS
def test_of_a_broker_that_gives_identifiers_again_nothing_is_thrown_away(broker: ScriptedBroker, qos: int) -> None:
    """The lowest identifier that is free: it stands for another message each time, which may have the same bytes."""
    before, after = Collector(), Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), before):
        subscribed(broker, SESSION_5)
        for _ in range(3):
            received(broker, 1, qos=qos)
            broker.send("62020001" if qos == 2 else PINGREQ)
            broker.expect(PacketType.PUBCOMP, PacketType.PINGRESP)
        broker.hang_up()
        subscribed(broker, SESSION_5)
        received(broker, 1, qos=qos, dup=True)
        broker.hang_up()
        source, continues = restarted(broker, before.messages)
    assert gaps(before)[1:] == [
        None,
        None,
        "packet identifier 1 comes again: nothing proves which message it stands for" if qos == 1 else None,
    ]
    assert not continues
    with running(broker, source, after):
        subscribed(broker, SESSION_5)
        received(broker, 1, qos=qos, dup=True)
    assert gaps(after) == ["the source begins to receive"]


def test_a_message_whose_time_runs_out_comes_again_with_less_of_it(broker: ScriptedBroker) -> None:
    collector = Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), collector):
        subscribed(broker, SESSION_5)
        broker.publish(1, 1, "t", bytes.fromhex("0902000000ff030001") + b"abody")
        broker.expect(PacketType.PUBACK)
        broker.hang_up()
        subscribed(broker, SESSION_5)
        broker.publish(1, 1, "t", bytes.fromhex("09020000000a030001") + b"abody", dup=True)
        broker.expect(PacketType.PUBACK)
    assert collector.bodies() == [b"body"]


@pytest.mark.parametrize("granted", ["00", "01"])
def test_messages_of_qos_0_are_missing_after_each_broken_connection(broker: ScriptedBroker, granted: str) -> None:
    collector = Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), collector):
        for _ in range(2):
            subscribed(broker, SESSION_5, granted)
            broker.send(PINGREQ)
            broker.expect(PacketType.PINGRESP)
            broker.send("300400017400")
            broker.send(PINGREQ)
            broker.expect(PacketType.PINGRESP)
            broker.hang_up()
    begun, lost = gaps(collector)
    assert begun == "the source begins to receive"
    assert lost == "the broker keeps no messages of QoS 0 while the connection is broken"


def test_what_another_client_may_have_received_is_told_of(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.mqtt.receiver._TAKEN_OVER_PAUSE", 0.1)
    collector = Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), collector):
        subscribed(broker, SESSION_5)
        received(broker, 1)
        broker.send("e0028e00")
        subscribed(broker, SESSION_5)
        received(broker, 2)
    assert gaps(collector)[1:] == ["another client had the session of the source, and may have received messages"]


def test_the_subject_of_a_message_is_its_topic_even_if_it_cannot_be_read(broker: ScriptedBroker) -> None:
    collector = Collector()
    with running(broker, receiver(broker, "sas_rendezvous"), collector):
        subscribed(broker)
        broker.publish(1, 1, "one/topic", BARE + b"body")
        broker.expect(PacketType.PUBACK)
        broker.publish(2, 1, "another", b"\1\x7f")
        broker.expect(PacketType.PUBACK)
    (message,), ((refused, code, _),) = collector.messages, collector.refused
    assert (message.properties[SUBJECT_PROPERTY], refused.properties[SUBJECT_PROPERTY]) == ("one/topic", "another")
    assert code == "bad-envelope"


def test_where_messages_say_what_they_belong_to_nothing_is_told(broker: ScriptedBroker) -> None:
    collector = Collector()
    with running(broker, receiver(broker), collector):
        for mid in (1, 2):
            subscribed(broker)
            received(broker, mid)
            broker.hang_up()
    assert gaps(collector) == [None, None]


# --- acknowledging many, and connecting ---------------------------------------------------------------------------


def test_many_acknowledgements_are_sent_in_order(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.mqtt.client._BATCH_MESSAGES", 128)
    collector = Collector(durable_at_once=False)
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        for mid in range(1, 301):
            broker.publish(mid, 1, "t", BARE)
        collector.wait_for(300)
        collector.release()
        mids = [int.from_bytes(broker.expect(PacketType.PUBACK).rest, "big") for _ in range(300)]
    assert mids == list(range(1, 301))
    assert max(collector.batches) <= 128


@pytest.mark.parametrize(
    "packet",
    ["3200", "32020005", "320400017400", "320600017400017f", "3606000174000100", "320a00017400018080808001", "6200"],
)
def test_a_malformed_packet_ends_the_connection_and_a_new_one_is_made(broker: ScriptedBroker, packet: str) -> None:
    collector = Collector()
    with running(broker, receiver(broker), collector):
        subscribed(broker)
        broker.send(packet)
        broker.expect_end()
        subscribed(broker)
        broker.publish(1, 1, "t", BARE + b"body")
        broker.expect(PacketType.PUBACK)
    assert collector.bodies() == [b"body"]


def test_the_session_is_asked_to_stay(broker: ScriptedBroker) -> None:
    with running(broker, receiver(broker, client_id="me", session_expiry=258, receive_maximum=3), Collector()):
        connect = broker.accept(ACCEPTED_5)
        assert connect.rest[7] & 0b10 == 0
        assert bytes.fromhex("1100000102") in connect.rest
        assert bytes.fromhex("210003") in connect.rest
        assert connect.rest.endswith(b"\0\2me")


def test_auto_falls_back_when_the_broker_does_not_speak_5(broker: ScriptedBroker) -> None:
    with running(broker, chosen := receiver(broker), Collector()):
        assert broker.accept(REFUSED_311).rest[6] == 5
        connect = broker.accept(ACCEPTED_311)
        assert (connect.rest[6], connect.rest[7] & 0b10) == (4, 0)
        mid = broker.expect(PacketType.SUBSCRIBE).rest[:2].hex()
        broker.send(f"9003{mid}02")
        until(lambda: chosen.status()["connected"])
        assert chosen.status()["version"] == "3.1.1"
        broker.hang_up()
        assert broker.accept(ACCEPTED_311).rest[6] == 4


@pytest.mark.parametrize(
    ("version", "answer", "why"),
    [
        ("5", REFUSED_5, "Unsupported protocol version"),
        ("5", "2003008600", "Bad user name or password"),
        ("3.1.1", "20020005", "Not authorized"),
        ("auto", "2003008800", "Server unavailable"),
        ("3.1.1", "2000", "did not accept"),
        ("5", "300000", "did not accept"),
    ],
)
def test_a_refusal_is_said_and_tried_again(broker: ScriptedBroker, version: str, answer: str, why: str) -> None:
    with running(broker, refused := receiver(broker, version=version), Collector()):
        broker.accept(answer)
        until(lambda: refused.status()["error"])
        assert why in refused.status()["error"]
        assert not refused.status()["connected"]
        broker.accept(ACCEPTED_311 if version == "3.1.1" else ACCEPTED_5)
        broker.expect(PacketType.SUBSCRIBE)


def test_a_refused_subscription_is_said(broker: ScriptedBroker) -> None:
    with running(broker, refused := receiver(broker), Collector()):
        subscribed(broker, granted="87")
        until(lambda: refused.status()["error"])
        assert "subscription to t" in refused.status()["error"]


@pytest.mark.parametrize(
    ("answer", "permanent"),
    [
        ("4004{mid}8000", False),
        ("4004{mid}8700", True),
        ("4004{mid}9000", True),
        ("4004{mid}9700", False),
        ("4004{mid}9900", True),
        ("e0029500", True),
        ("e0028b00", False),
        ("e000", False),
    ],
)
def test_a_message_turned_down_fails_the_send(broker: ScriptedBroker, answer: str, *, permanent: bool) -> None:
    with sending(broker, sender(broker), MESSAGE) as sent:
        broker.accept(ACCEPTED_5)
        mid = broker.expect(PacketType.PUBLISH).rest[3:5].hex()
        broker.send(answer.format(mid=mid))
        with pytest.raises(SendFailed) as failure:
            sent.result(10)
    assert failure.value.permanent is permanent
    assert str(failure.value)


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        ("4004{mid}0000", ReplyEnd.SENT),
        ("4004{mid}1000", ReplyEnd.SENT),
        ("4004{mid}8700", ReplyEnd.REFUSED),
        ("4004{mid}9700", ReplyEnd.BUSY),
        ("e0028900", ReplyEnd.BUSY),
        ("e0029700", ReplyEnd.BUSY),
        ("e0028b00", ReplyEnd.LOST),
    ],
)
def test_a_reply_ends_as_the_broker_says(broker: ScriptedBroker, answer: str, end: ReplyEnd) -> None:
    ends: list[ReplyEnd] = []
    here = receiver(broker)
    with running(broker, here, Collector()):
        subscribed(broker)
        assert isinstance(here, AskingReceiver)
        here.reply(Reply("replies/me", b"receipt", MESSAGE, "text/plain", ends.append))
        mid = broker.expect(PacketType.PUBLISH).rest[12:14].hex()
        assert ends == []
        broker.send(answer.format(mid=mid))
        until(lambda: ends)
    assert ends == [end]


def test_a_message_of_qos_2_turned_down_fails_the_send(broker: ScriptedBroker) -> None:
    with sending(broker, sender(broker, qos=2), MESSAGE) as sent:
        broker.accept(ACCEPTED_5)
        mid = broker.expect(PacketType.PUBLISH).rest[3:5].hex()
        broker.send(f"5004{mid}9900")
        with pytest.raises(SendFailed, match="Payload format invalid"):
            sent.result(10)


def test_sending_of_qos_2_ends_with_the_completion(broker: ScriptedBroker) -> None:
    with sending(broker, sender(broker, qos=2), MESSAGE) as sent:
        broker.accept(ACCEPTED_5)
        mid = broker.expect(PacketType.PUBLISH).rest[3:5].hex()
        broker.send(f"5002{mid}")
        broker.expect(PacketType.PUBREL)
        assert not sent.done()
        broker.send(f"7002{mid}")
        sent.result(10)


def test_a_broker_that_falls_silent_fails_the_send(broker: ScriptedBroker) -> None:
    with sending(broker, sender(broker, send_timeout=0.2), MESSAGE) as sent:
        broker.accept(ACCEPTED_5)
        with pytest.raises(SendFailed, match="no confirmation") as failure:
            sent.result(10)
    assert not failure.value.permanent


def test_a_broker_that_never_answers_fails_the_send(broker: ScriptedBroker) -> None:
    with sending(broker, sender(broker, connect_timeout=0.3), MESSAGE) as sent:
        broker.accept("")
        with pytest.raises(SendFailed, match="no answer"):
            sent.result(10)


@pytest.mark.parametrize(
    ("answer", "granted", "why"),
    [
        (ACCEPTED_5, None, "did not answer a subscription within 0.3 s"),
        (ACCEPTED_311, None, "did not answer a subscription within 0.3 s"),
        (ACCEPTED_5, "9003{mid}00", "not for each topic"),
        (ACCEPTED_5, "9005{mid}000202", "not for each topic"),
        (ACCEPTED_311, "9002{mid}", "not for each topic"),
        (ACCEPTED_5, "9004{other}0002", "was not asked for"),
        (ACCEPTED_5, "b004{mid}0000", "was not asked for"),
        (ACCEPTED_5, "9003{mid}05", "broke"),
    ],
)
def test_a_subscription_counts_when_each_topic_is_answered(
    broker: ScriptedBroker, answer: str, granted: str | None, why: str
) -> None:
    source = receiver(broker, connect_timeout=0.3, version="5" if answer == ACCEPTED_5 else "3.1.1")
    with running(broker, source, Collector()):
        broker.accept(answer)
        mid = int.from_bytes(broker.expect(PacketType.SUBSCRIBE).rest[:2], "big")
        if granted is not None:
            broker.send(granted.format(mid=f"{mid:04x}", other=f"{mid + 1:04x}"))
        broker.expect_end()
        until(lambda: source.status()["error"])
        assert why in source.status()["error"]
        assert not source.status()["connected"]
        subscribed(broker, answer)
        until(lambda: source.status()["connected"])


@pytest.mark.parametrize(("most", "qos"), [(0, 1), (0, 2), (1, 2)])
def test_no_message_has_a_higher_qos_than_the_broker_takes(broker: ScriptedBroker, most: int, qos: int) -> None:
    to = sender(broker, qos=qos)
    with sending(broker, to, MESSAGE) as sent:
        broker.accept(f"2005000002240{most}")
        with pytest.raises(SendFailed, match=f"QoS {most} at most, and qos of the destination is {qos}") as failure:
            sent.result(10)
    assert failure.value.permanent
    assert not to.status()["connected"]


@pytest.mark.parametrize(("qos", "answers"), [(2, ["4002"]), (2, ["7002"]), (1, ["7002"]), (1, ["5002", "7002"])])
def test_a_confirmation_of_another_qos_confirms_nothing(broker: ScriptedBroker, qos: int, answers: list[str]) -> None:
    with sending(broker, sender(broker, qos=qos), MESSAGE) as sent:
        broker.accept(ACCEPTED_5)
        mid = broker.expect(PacketType.PUBLISH).rest[3:5].hex()
        for answer in answers:
            broker.send(f"{answer}{mid}")
        with pytest.raises(SendFailed, match=f"for a message of QoS {qos} that is not confirmed so") as failure:
            sent.result(10)
    assert failure.value.confirmed == 0


def test_what_a_broker_says_in_addition_is_shown(broker: ScriptedBroker) -> None:
    more = "1f0004" + b"away".hex() + "1c0005" + b"other".hex()
    said = r"\(away\) \(the server to use is other\)"
    with sending(broker, sender(broker), MESSAGE) as sent:
        broker.accept(f"2012009d0f{more}")
        with pytest.raises(SendFailed, match=f"refused the connection: Server moved {said}"):
            sent.result(10)
    with sending(broker, sender(broker), MESSAGE) as sent:
        broker.accept(ACCEPTED_5)
        broker.send(f"e0119d0f{more}")
        with pytest.raises(SendFailed, match=f"ended the connection: Server moved {said}"):
            sent.result(10)


def test_a_connection_without_work_is_kept_and_a_broken_one_noticed(broker: ScriptedBroker) -> None:
    """By the broker's own time where it names one, in seconds."""
    to = sender(broker, keepalive=5)
    assert isinstance(to, KeptSender)
    assert to.keep_alive() == inf
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(to.max_batch)
        connect = broker.accept("2006000003130001")
        opened.result(10)
    assert connect.rest[8:10].hex() == "0005"
    assert to.keep_alive() == 0.25
    until(lambda: to.keep_alive() and broker.has_more())
    broker.expect(PacketType.PINGREQ)
    broker.send("d000")
    to.keep_alive()
    assert to.status()["connected"]
    broker.hang_up()
    until(lambda: to.keep_alive() == inf)
    assert not to.status()["connected"]
    assert to.status()["error"]


def test_no_more_are_in_flight_than_the_broker_takes(broker: ScriptedBroker) -> None:
    with sending(broker, sender(broker), *[MESSAGE] * 5) as sent:
        broker.accept("20060000" + "03210002")
        open_ = [broker.expect(PacketType.PUBLISH).rest[3:5].hex() for _ in range(2)]
        for turn in range(3):
            broker.send(PINGREQ)
            broker.expect(PacketType.PINGRESP)
            broker.send(f"4002{open_[turn]}")
            open_.append(broker.expect(PacketType.PUBLISH).rest[3:5].hex())
        broker.send("".join(f"4002{mid}" for mid in open_[3:]))
        sent.result(10)


def test_what_the_broker_announces_bounds_a_body(broker: ScriptedBroker) -> None:
    to = sender(broker)
    with ThreadPoolExecutor(1) as pool:
        most = pool.submit(to.max_body)
        broker.accept("20080000" + "0527" + "00000400")
        largest = most.result(10)
    assert 0 < largest < 1024
    with pytest.raises(SendFailed, match="1,024") as failure:
        to.send([MESSAGE._replace(body=bytes(1024))])
    assert failure.value.permanent
    broker.hang_up()
    to.close()


def test_a_lost_connection_is_replaced_at_the_next_send(broker: ScriptedBroker) -> None:
    to = sender(broker)
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(to.send, [MESSAGE])
            broker.accept(ACCEPTED_5)
            broker.send("4002" + broker.expect(PacketType.PUBLISH).rest[3:5].hex())
            sent.result(10)
        broker.hang_up()
    to.close()


MANY = [MESSAGE._replace(message_id=bytes([number]) * 24) for number in range(5)]
FIRST_TRY, AGAIN = DeliveryProgress("d", 7, 1), DeliveryProgress("d", 8, 2, in_doubt=True)


def published(broker: ScriptedBroker, count: int, *, dup: bool) -> list[int]:
    """The packet identifiers of the next publishes."""
    packets = [broker.expect(PacketType.PUBLISH) for _ in range(count)]
    assert [packet.header.dup for packet in packets] == [dup] * count
    return [int.from_bytes(packet.rest[3:5], "big") for packet in packets]


@pytest.mark.parametrize("client_id", ["me", None])
def test_what_was_not_confirmed_comes_again_with_dup_and_the_same_packet_identifiers(
    broker: ScriptedBroker, client_id: str | None
) -> None:
    to = sender(broker, client_id=client_id)
    with ThreadPoolExecutor(1) as pool:
        assert to.resume("d", None) == 0
        sent = pool.submit(to.send, MANY, FIRST_TRY)
        assert broker.accept(ACCEPTED_5).rest[7] & 0b10
        assert published(broker, 5, dup=False) == [8, 9, 10, 11, 12]
        broker.send("40020008")
        broker.send(PINGREQ)
        broker.expect(PacketType.PINGRESP)
        broker.hang_up()
        with pytest.raises(SendFailed) as failure:
            sent.result(10)
        assert failure.value.confirmed == 1
        assert to.resume("d", 8) == 8
        sent = pool.submit(to.send, MANY[1:], AGAIN)
        connect = broker.accept(SESSION_5 if client_id else ACCEPTED_5)
        assert bool(connect.rest[7] & 0b10) is (client_id is None)
        assert published(broker, 4, dup=True) == [9, 10, 11, 12]
        broker.send("".join(f"4002{mid:04x}" for mid in (9, 10, 11, 12)))
        sent.result(10)
        sent = pool.submit(to.send, MANY, DeliveryProgress("d", 12, 2))
        assert published(broker, 5, dup=False) == [13, 14, 15, 16, 17]
        broker.send("".join(f"4002{mid:04x}" for mid in range(13, 18)))
        sent.result(10)
    broker.hang_up()
    to.close()


@pytest.mark.parametrize("completed", ["70020009", "7003000992"])
def test_what_the_broker_has_received_of_qos_2_is_released_and_not_published_again(
    broker: ScriptedBroker, completed: str
) -> None:
    to = sender(broker, qos=2, client_id="me")
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(to.send, MANY[:3], FIRST_TRY)
        broker.accept(ACCEPTED_5)
        assert published(broker, 3, dup=False) == [8, 9, 10]
        broker.send("50020008" + "50020009")
        for _ in range(2):
            broker.expect(PacketType.PUBREL)
        broker.send("70020008" + PINGREQ)
        broker.expect(PacketType.PINGRESP)
        broker.hang_up()
        with pytest.raises(SendFailed) as failure:
            sent.result(10)
        assert failure.value.confirmed == 1
        to.resume("d", 8)
        sent = pool.submit(to.send, MANY[1:3], AGAIN)
        broker.accept(SESSION_5)
        assert broker.expect(PacketType.PUBREL).rest == b"\0\x09"
        assert published(broker, 1, dup=True) == [10]
        broker.send("5002000a" + completed)
        broker.expect(PacketType.PUBREL)
        broker.send("7002000a")
        sent.result(10)
    broker.hang_up()
    to.close()


def test_a_session_that_the_broker_has_lost_gets_everything_again(broker: ScriptedBroker) -> None:
    to = sender(broker, qos=2, client_id="me")
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(to.send, MANY[:1], FIRST_TRY)
        broker.accept(ACCEPTED_5)
        published(broker, 1, dup=False)
        broker.send("50020008")
        broker.expect(PacketType.PUBREL)
        broker.hang_up()
        with pytest.raises(SendFailed):
            sent.result(10)
        to.resume("d", 7)
        sent = pool.submit(to.send, MANY[:1], FIRST_TRY._replace(in_doubt=True))
        broker.accept(ACCEPTED_5)
        assert published(broker, 1, dup=True) == [8]
        broker.send("50020008")
        broker.expect(PacketType.PUBREL)
        broker.send("70020008")
        sent.result(10)
    broker.hang_up()
    to.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_another_delivery_does_not_continue_the_session(broker: ScriptedBroker, is_restarted: bool) -> None:
    """The broker has a message of the first one under a packet identifier that the second one uses, too."""
    to = sender(broker, qos=2, client_id="me")
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(to.send, MANY[:1], DeliveryProgress("first", 0, 1))
        broker.accept(ACCEPTED_5)
        assert published(broker, 1, dup=False) == [1]
        broker.send("50020001")
        broker.expect(PacketType.PUBREL)
        broker.hang_up()
        with pytest.raises(SendFailed):
            sent.result(10)
        if is_restarted:
            to.close()
            to = sender(broker, qos=2, client_id="me")
        assert to.resume("second", 0) == 0
        sent = pool.submit(to.send, MANY[1:2], DeliveryProgress("second", 0, 2, in_doubt=True))
        assert broker.accept(ACCEPTED_5).rest[7] & 0b10, "a clean start"
        assert published(broker, 1, dup=True) == [1]
        broker.send("50020001")
        broker.expect(PacketType.PUBREL)
        broker.send("70020001")
        sent.result(10)
    broker.hang_up()
    to.close()


def test_an_older_brokers_session_of_another_delivery_is_cleared_first(broker: ScriptedBroker) -> None:
    to = sender(broker, qos=2, client_id="me", version="3.1.1")
    with ThreadPoolExecutor(1) as pool:
        to.resume("other", None)
        most = pool.submit(to.max_batch)
        assert broker.accept(ACCEPTED_311).rest[7] & 0b10
        assert not broker.accept(ACCEPTED_311).rest[7] & 0b10
        assert most.result(10) == 20
    broker.hang_up()
    to.close()


def test_packet_identifiers_begin_again_at_1(broker: ScriptedBroker) -> None:
    to = sender(broker)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(to.send, MANY[:3], DeliveryProgress("d", 65533, 2, in_doubt=True))
        broker.accept(ACCEPTED_5)
        assert published(broker, 3, dup=True) == [65534, 65535, 1]
        broker.send("4002fffe" + "4002ffff" + "40020001")
        sent.result(10)
    broker.hang_up()
    to.close()


def test_the_envelope_travels_as_properties(broker: ScriptedBroker) -> None:
    with sending(broker, sender(broker), MESSAGE) as sent:
        broker.accept(ACCEPTED_5)
        packet = broker.expect(PacketType.PUBLISH).rest
        broker.send("4002" + packet[3:5].hex())
        sent.result(10)
    assert packet[6:].startswith(b"\x09\0\x18" + b"C" * 24)
    assert b"\x26\0\x08msg-type\0\x06100001" in packet
    assert packet.endswith(b"body")
