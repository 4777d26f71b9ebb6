"""Publishing physical messages like an independent program: with paho's client, without the gateway's adapter."""

from collections.abc import Iterable
from threading import BoundedSemaphore, Event
from typing import Any, Literal

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from app.codecs.ibm_mq.image import write_image
from app.model.message import PhysicalMessage
from app.testing.waiting import until

Version = Literal["5", "3.1.1"]
PROTOCOLS = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}

_IN_FLIGHT = 500
_CONFIRMED_WITHIN = 60.0


def connected(port: int, version: Version, client_id: str = "") -> Client:
    """Yield a client with a clean session on the loopback interface, with its network thread running."""
    clean = None if version == "5" else True
    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=PROTOCOLS[version], clean_session=clean)
    client.max_inflight_messages_set(_IN_FLIGHT)
    client.connect("127.0.0.1", port)
    client.loop_start()
    until(client.is_connected)
    return client


def publish(
    messages: Iterable[PhysicalMessage],
    port: int,
    topic: str,
    version: Version,
    qos: int = 1,
    *,
    bare: bool = False,
    matched: bool = False,
) -> None:
    """Returns when the broker has confirmed all of them: by properties with MQTT 5, as MQ images with 3.1.1; or `bare`,
    as their bodies alone.

    If they must be `matched`, raises ConnectionError when the broker had no subscriber for one of them.
    """
    client = connected(port, version)
    room, unmatched = BoundedSemaphore(_IN_FLIGHT), Event()

    def on_publish(_client: Client, _data: Any, _mid: int, reason: ReasonCode, _properties: Properties) -> None:
        if reason.getName() == "No matching subscribers":
            unmatched.set()
        room.release()

    client.on_publish = on_publish
    last: MQTTMessageInfo | None = None
    for message in messages:
        if not room.acquire(timeout=_CONFIRMED_WITHIN):
            raise TimeoutError("the broker confirms nothing")
        is_image = version != "5" and not bare
        properties = envelope(message) if version == "5" and not bare else None
        body = write_image(message) if is_image else bytes(message.body)
        last = client.publish(topic, body, qos, properties=properties)
    if last is not None:
        for _ in range(_IN_FLIGHT):
            if not room.acquire(timeout=_CONFIRMED_WITHIN):
                raise TimeoutError("the broker confirms nothing")
    client.disconnect()
    client.loop_stop()
    if matched and unmatched.is_set():
        raise ConnectionError(f"the broker has no subscriber for {topic}")


def envelope(message: PhysicalMessage) -> Properties:
    """Return a message's descriptor as the properties of an MQTT 5 publish."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.CorrelationData = message.correl_id
    user = [("msg-type", str(message.msg_type))]
    user += [("encoding", str(message.encoding))] if message.encoding else []
    user += [("ccsid", str(message.ccsid))] if message.ccsid else []
    user += [("format", message.format)] if message.format else []
    if message.group_id:
        user += [
            ("group-id", message.group_id.hex()),
            ("msg-seq-number", str(message.msg_seq_number)),
            ("offset", str(message.offset)),
            ("msg-flags", str(message.msg_flags)),
            ("original-length", str(message.original_length)),
        ]
    user += [("message-id", message.message_id.hex())] if message.message_id else []
    own = dict(message.properties)
    if (response_topic := own.pop("response-topic", None)) is not None:
        properties.ResponseTopic = response_topic
    properties.UserProperty = [*user, *own.items()]
    return properties
