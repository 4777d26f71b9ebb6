"""What is MQTT's own, against a real Mosquitto: restarts, credentials, TLS, retained messages, what a broker drops."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any
from uuid import uuid4

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from structlog.testing import capture_logs

from adapters import mqtt
from app.codecs.ibm_mq.image import write_image
from app.codecs.rendezvous.subjects import SUBJECT_PROPERTY
from app.framing.registry import traits
from app.model.message import DELIVERY, GAP, PhysicalMessage
from app.ports import Receiver, Sender, SendFailed
from app.testing.collecting_intake import Collector, receiving
from app.testing.transport_contract import assert_soon_back, message
from app.testing.waiting import until
from tests.support.breaking import breaking
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, connected, envelope

pytestmark = pytest.mark.broker


@pytest.fixture
def topic() -> str:
    return uuid4().hex


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as running:
        yield running


def receiver(broker: Mosquitto, topic: str | list[str], framing: str = "sas_queue", **more: object) -> Receiver:
    given = {"url": f"mqtt://127.0.0.1:{broker.port}", "topic": topic, "client_id": f"client of {topic}", **more}
    return mqtt.plugin.receiver("here", traits(framing), mqtt.plugin.source_settings.model_validate(given))


def sender(broker: Mosquitto, topic: str, **more: object) -> Sender:
    settings = {"url": f"mqtt://127.0.0.1:{broker.port}", "topic": topic, **more}
    return mqtt.plugin.sender("there", mqtt.plugin.destination_settings.model_validate(settings))


def publish(broker: Mosquitto, topic: str, payload: bytes, version: Version = "5", **more: Any) -> None:
    client = connected(broker.port, version)
    client.publish(topic, payload, **{"qos": 1, **more}).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def texts(logs: list[Any]) -> list[str]:
    return [entry["event"] for entry in logs if entry["log_level"] == "warning"]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_restart_of_the_broker_loses_nothing(tmp_path: Path, topic: str, version: str, qos: int) -> None:
    with Mosquitto(tmp_path, persistent=True) as broker:
        to = sender(broker, topic, version=version, qos=qos)
        held, collector = Collector(durable_at_once=False), Collector()
        with receiving(source := receiver(broker, topic, version=version, qos=qos), held):
            to.send([message(number) for number in range(40)])
            held.wait_for(40)
            before = held.held.copy()
            broker.stop()
            until(lambda: not source.status()["connected"])
            for on_durable in before:
                on_durable()
            broker.start()
            held.wait_for(80 if qos == 1 else 40)
            until(lambda: source.status()["connected"])
        to.send([message(number) for number in range(40, 50)])
        durable = [] if qos == 1 else held.bodies()
        with receiving(receiver(broker, topic, version=version, qos=qos), collector):
            until(lambda: len({*durable, *collector.bodies()}) == 50)
        to.close()


def test_two_with_one_identifier_say_so_and_slow_down(broker: Mosquitto, topic: str) -> None:
    """Mosquitto before 2.1 ends the older connection without a word; a later one says why."""
    sources = [receiver(broker, topic, client_id=topic) for _ in range(2)]
    hint = re.compile(f"another client (may use|took over the session of) client_id '{topic}'")
    with capture_logs() as logs, receiving(sources[0], Collector()), receiving(sources[1], Collector()):
        until(lambda: any(hint.search(source.status()["error"] or "") for source in sources), 60)
    told = [entry["reason"] for entry in logs if entry["event"] == "connection_failed"]
    assert len(told) <= 5, "each tells each reason once"
    assert any(hint.search(reason) for reason in told)


def test_a_shared_subscription_is_warned_of(broker: Mosquitto, topic: str) -> None:
    shared = f"$share/group/{topic}"
    with capture_logs() as logs, receiving(source := receiver(broker, shared), collected := Collector()):
        publish(broker, topic, b"?")
        until(lambda: collected.messages or collected.refused)
        assert shared in source.status()["warning"]
        assert "Only one receiver" in source.status()["warning"]
    assert texts(logs) == ["subscription_shared"]
    with capture_logs() as logs, receiving(source := receiver(broker, shared), Collector(has_others=True)):
        assert "warning" not in source.status(), "where several receivers have one journal, this is right"
    assert texts(logs) == []
    with receiving(source := receiver(broker, topic), Collector()):
        assert "warning" not in source.status()


def test_a_flood_of_properties_is_refused_unread(broker: Mosquitto, topic: str) -> None:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("n" * 10, "v" * 10)] * 50_000
    with receiving(receiver(broker, topic), collected := Collector()):
        publish(broker, topic, b"payload", properties=properties)
        publish(broker, topic, b"after", properties=envelope(message(1)))
        until(lambda: collected.refused and collected.messages, 30)
    ((kept, code, why),) = collected.refused
    assert (bytes(kept.body), code) == (b"payload", "properties-too-large")
    assert len(kept.body.obj) == len(b"payload"), "the packet with the properties is let go"  # type: ignore[union-attr,arg-type]
    assert "the properties have 1250000 bytes" in why
    assert collected.bodies() == [b"after"]


def test_a_lost_session_is_said(tmp_path: Path, topic: str) -> None:
    with Mosquitto(tmp_path) as broker, capture_logs() as logs:
        with receiving(source := receiver(broker, topic), Collector()):
            broker.stop()
            until(lambda: not source.status()["connected"])
            broker.start()
            until(lambda: source.status()["connected"])
        assert "session_lost" in texts(logs)


def test_a_broker_that_is_away_is_named_once(tmp_path: Path, topic: str) -> None:
    away = Mosquitto(tmp_path)
    with capture_logs() as logs, pytest.raises(TimeoutError), receiving(receiver(away, topic), Collector(), patience=1):
        pass
    assert len([text for text in texts(logs) if text == "connection_failed"]) == 1
    with pytest.raises(SendFailed, match="cannot be reached") as failure:
        sender(away, topic).send([message(1)])
    assert not failure.value.permanent


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_an_image_is_read_whatever_the_version(broker: Mosquitto, topic: str, version: Version) -> None:
    sent = message(1)._replace(group_id=b"g" * 24)
    collector = Collector()
    with receiving(receiver(broker, topic, version=version), collector):
        publish(broker, topic, write_image(sent), version)
        collector.wait_for(1)
    assert (collector.messages[0].group_id, collector.bodies()) == (b"g" * 24, [sent.body])


@pytest.mark.parametrize("qos", [1, 2])
def test_what_cannot_be_read_is_refused_and_the_stream_goes_on(broker: Mosquitto, topic: str, qos: int) -> None:
    collector = Collector()
    wrong_type, long_id = envelope(message(1)), envelope(message(1))
    wrong_type.UserProperty = ("msg-type", "many")
    long_id.CorrelationData = bytes(25)
    with receiving(receiver(broker, topic, qos=qos), collector):
        publish(broker, topic, b"neither", qos=qos)
        publish(broker, topic, b"MD  and no more", qos=qos)
        publish(broker, topic, b"body", qos=qos, properties=wrong_type)
        publish(broker, topic, b"body", qos=qos, properties=long_id)
        publish(broker, topic, b"good", qos=qos, properties=envelope(message(1)))
        collector.wait_for(1)
    assert [code for _, code, _ in collector.refused] == ["no-envelope", "bad-mq-image", "bad-envelope", "bad-envelope"]
    assert bytes(collector.refused[0][0].body) == b"neither"
    assert all(why for _, _, why in collector.refused)
    assert collector.bodies() == [b"good"]
    again = Collector()
    with receiving(receiver(broker, topic, qos=qos), again):
        publish(broker, topic, b"last", properties=envelope(message(1)))
        again.wait_for(1)
    assert not again.refused


def test_a_framing_without_a_descriptor_travels_bare(broker: Mosquitto, topic: str) -> None:
    collector = Collector()
    with receiving(receiver(broker, topic, "sas_rendezvous"), collector):
        sender(broker, topic).send([PhysicalMessage("", "", body=b"tibrv", properties={"content-type": "a", "b": "c"})])
        publish(broker, topic, b"also", "3.1.1")
        collector.wait_for(2)
    assert collector.bodies() == [b"tibrv", b"also"]
    told = {GAP: "the source begins to receive", SUBJECT_PROPERTY: topic}
    properties = dict(collector.messages[0].properties)
    assert properties.pop(DELIVERY)
    assert properties == {"content-type": "a", "b": "c", **told}


def test_own_properties_and_the_content_type_arrive(broker: Mosquitto, topic: str) -> None:
    collector = Collector()
    properties = {"content-type": "text/plain", "title": "Größe", "offset-of": "1"}
    with receiving(receiver(broker, topic), collector):
        sender(broker, topic).send([message(1)._replace(properties=properties)])
        collector.wait_for(1)
    assert collector.messages[0].properties == properties


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize(("retained", "expected"), [("accept", [b"kept", b"new"]), ("ignore", [b"new"])])
def test_retained_messages(broker: Mosquitto, topic: str, version: str, retained: str, expected: list[bytes]) -> None:
    publish(broker, topic, b"kept", retain=True)
    collector = Collector()
    with receiving(receiver(broker, topic, "order_packet", version=version, retained=retained), collector):
        publish(broker, topic, b"new")
        collector.wait_for(len(expected))
    assert collector.bodies() == expected


def test_several_topics_and_wildcards(broker: Mosquitto, topic: str) -> None:
    collector = Collector()
    filters = [f"{topic}/a/+", f"{topic}/b/#"]
    with receiving(receiver(broker, filters, "order_packet"), collector):
        for level in ("a/1", "b/2/3", "a/4"):
            publish(broker, f"{topic}/{level}", level.encode())
        collector.wait_for(3)
    assert collector.bodies() == [b"a/1", b"b/2/3", b"a/4"]


@pytest.mark.parametrize(("asked", "sent", "warning"), [(0, 1, "qos_0_granted"), (1, 0, "qos_0_received")])
def test_quality_0_is_warned_of_once(broker: Mosquitto, topic: str, asked: int, sent: int, warning: str) -> None:
    collector = Collector()
    with capture_logs() as logs, receiving(receiver(broker, topic, "order_packet", qos=asked), collector):
        publish(broker, topic, b"1", qos=sent)
        collector.wait_for(1)
        publish(broker, topic, b"2", qos=sent)
        collector.wait_for(2)
    assert len([text for text in texts(logs) if warning in text]) == 1


def test_sending_to_nobody_fails_until_somebody_subscribes(broker: Mosquitto, topic: str) -> None:
    to = sender(broker, topic)
    messages = [message(number) for number in range(30)]
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(SendFailed, match="nobody is subscribed") as failure:
                to.send(messages)
            assert (failure.value.permanent, failure.value.confirmed) == (False, 0)
    assert texts(logs) == ["message_discarded"]
    since = to.status()["since"]
    with receiving(receiver(broker, topic), collected := Collector()):
        assert to.send(messages) is None
        assert to.send([message(30)]) is None
        collected.wait_for(31)
    assert collected.bodies() == [each.body for each in [*messages, message(30)]]
    assert to.status()["since"] == since, "the connection stays"


def test_what_was_discarded_in_the_middle_is_sent_again(broker: Mosquitto, topic: str) -> None:
    to = sender(broker, topic, max_inflight=4)
    messages = [message(number) for number in range(8)]
    with receiving(receiver(broker, topic, session_expiry=0), first := Collector()):
        to.send(messages[:2])
        first.wait_for(2)
    with pytest.raises(SendFailed) as failure:
        to.send(messages[2:])
    assert failure.value.confirmed == 0
    with receiving(receiver(broker, topic), second := Collector()):
        to.send(messages[2:])
        second.wait_for(6)
    assert first.bodies() + second.bodies() == [each.body for each in messages]


@pytest.mark.parametrize(
    ("more", "subscribers"),
    [
        ({"no_subscribers": "accept"}, "none"),
        ({"version": "3.1.1"}, "unknown"),
        ({"qos": 2}, "unknown"),
    ],
)
def test_a_sender_says_what_it_knows_of_subscribers(
    broker: Mosquitto, topic: str, more: dict[str, Any], subscribers: str
) -> None:
    assert sender(broker, topic, **more).send([message(1), message(2)]) == subscribers


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [1, 2])
def test_sending_keeps_to_a_brokers_own_limits(tmp_path: Path, topic: str, version: str, qos: int) -> None:
    limits = "max_inflight_messages 20\nmax_packet_size 20000\n"
    with Mosquitto(tmp_path, settings=limits) as broker:
        collector = Collector()
        with receiving(receiver(broker, topic, version=version, qos=qos), collector):
            to = sender(broker, topic, version=version, qos=qos, max_packet_size=20000)
            most = to.max_body()
            to.send([message(number, most) for number in range(100)])
            with pytest.raises(SendFailed) as refusal:
                to.send([message(1, 20000)])
            collector.wait_for(100)
        assert refusal.value.permanent
        assert 19000 < most < 20000


def test_credentials(tmp_path: Path, topic: str) -> None:
    passwords, rights = tmp_path / "passwords", tmp_path / "rights"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "me", "S3cret"], check=True)
    rights.write_text(f"user me\ntopic read {topic}\ntopic write {topic}\n")
    passwords.chmod(0o644)
    settings = f"allow_anonymous false\npassword_file {passwords}\nacl_file {rights}\n"
    with Mosquitto(tmp_path, settings=settings) as broker, capture_logs() as logs:
        credentials = {"username": "me", "password": "S3cret"}
        collector = Collector()
        with receiving(receiver(broker, topic, **credentials), collector):
            sender(broker, topic, **credentials).send([message(1)])
            collector.wait_for(1)
        with pytest.raises(SendFailed, match="Not authorized") as refusal:
            sender(broker, "elsewhere", **credentials).send([message(1)])
        assert refusal.value.permanent
        for version in ("5", "3.1.1"):
            for wrong in ({}, {"username": "me", "password": "other"}):
                to = sender(broker, topic, version=version, **wrong)
                with pytest.raises(SendFailed, match="refused the connection") as refusal:
                    to.send([message(1)])
                assert not refusal.value.permanent
                assert (to.status()["credential"], bool(to.status()["refused_since"])) == ("password", True)
    assert "S3cret" not in str(logs)
    assert "S3cret" not in repr(
        mqtt.plugin.source_settings.model_validate({"url": "mqtt://h", "topic": "t", **credentials})
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority and certificates for the broker and for the gateway."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    signs = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    openssl("req", "-x509", *key, *signs, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("broker", "gateway"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
        (folder / "extensions").write_text(f"{extensions}subjectKeyIdentifier=hash\n")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "extensions"]
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
        openssl("verify", "-x509_strict", "-CAfile", "ca.pem", f"{name}.pem")  # as Python 3.13 and newer do
    return folder


def test_tls(tmp_path: Path, authority: Path, topic: str) -> None:
    settings = (
        f"cafile {authority}/ca.pem\ncertfile {authority}/broker.pem\nkeyfile {authority}/broker.key\n"
        "require_certificate true\n"
    )
    with Mosquitto(tmp_path, settings=settings) as broker:
        tls: dict[str, Any] = {
            "url": f"mqtts://127.0.0.1:{broker.port}",
            "ca_file": authority / "ca.pem",
            "cert_file": authority / "gateway.pem",
            "key_file": authority / "gateway.key",
        }
        collector = Collector()
        with receiving(receiver(broker, topic, **tls), collector):
            sender(broker, topic, **tls).send([message(1), message(2, 3 << 20), message(3)])
            collector.wait_for(3)
        assert collector.bodies() == [message(1).body, message(2, 3 << 20).body, message(3).body]
        with pytest.raises(SendFailed, match="certificate"):
            sender(broker, topic, url=tls["url"]).send([message(1)])


@pytest.mark.parametrize(
    ("version", "end"), [("5", Mosquitto.stop), ("3.1.1", Mosquitto.stop), ("3.1.1", Mosquitto.kill)]
)
def test_a_broker_that_restarts_again_and_again_is_no_other_client(
    tmp_path: Path, topic: str, version: str, end: Callable[[Mosquitto], None]
) -> None:
    with Mosquitto(tmp_path) as broker:
        source = receiver(broker, topic, version=version)
        with capture_logs() as logs, receiving(source, Collector()):
            for _ in range(3):
                end(broker)
                until(lambda: not source.status()["connected"])
                broker.start()
                until(lambda: source.status()["connected"])
    assert not [entry for entry in logs if "another client" in str(entry)]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_limit_that_the_broker_does_not_announce_is_named(tmp_path: Path, topic: str, qos: int) -> None:
    """Mosquitto ends a connection of MQTT 3.1.1 with a packet over its limit, without a word."""
    with Mosquitto(tmp_path, settings="max_packet_size 2000\n") as broker, capture_logs() as logs:
        to = sender(broker, topic, version="3.1.1", qos=qos)
        messages = [message(number, size) for number, size in enumerate([100, 1000, 5000, 100])]
        sent = 0
        reasons: list[str] = []
        for _ in range(4):
            with pytest.raises(SendFailed) as failure:
                to.send(messages[sent:])
            assert not failure.value.permanent, "the broker's limit may be raised"
            sent += failure.value.confirmed
            reasons.append(str(failure.value))
            assert to.status()["error"] == reasons[-1]
        assert sent == 2
        size = len(write_image(messages[2])) + 2 + len(topic) + 2 + 3
        assert f"a packet of {size:,} bytes was sent" in reasons[0]
        assert "it is probably over the broker's limit (the largest that it has taken has 1," in reasons[-1]
        assert "set max_packet_size" in reasons[-1]
        told = [entry["reason"] for entry in logs if entry["event"] == "connection_failed"]
        assert reasons[-1] in told
        to.send([messages[3]])
        to.close()


def test_a_broker_that_ends_connections_says_nothing_of_sizes_that_it_has_taken(tmp_path: Path, topic: str) -> None:
    with Mosquitto(tmp_path) as broker:
        to = sender(broker, topic, version="3.1.1")
        to.send([message(1, 5000)])
        for _ in range(3):
            broker.pause()
            ended = Timer(0.5, broker.kill)
            ended.start()
            with pytest.raises(SendFailed) as failure:
                to.send([message(2, 4000)])
            ended.join()
            assert "bytes" not in str(failure.value)
            broker.start()
        to.send([message(2, 4000)])
        to.close()


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_limit_of_the_gateways_own_setting_is_permanent(broker: Mosquitto, topic: str, version: str) -> None:
    to = sender(broker, topic, version=version, max_packet_size=1024)
    with pytest.raises(SendFailed, match=r"the packet has 2,\d\d\d bytes; the broker takes at most 1,024") as failure:
        to.send([message(1, 2000)])
    assert failure.value.permanent
    to.close()


def test_a_connection_that_has_done_work_is_soon_replaced(broker: Mosquitto, topic: str) -> None:
    to = sender(broker, topic)
    with breaking(f"127.0.0.1:{broker.port}") as relay:
        source = receiver(broker, topic, url=relay.url.replace("http:", "mqtt:"))
        assert_soon_back(source, lambda each: to.send([each]), relay.break_all)
