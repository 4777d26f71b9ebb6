"""Persistent sessions at a broker, as plain paho subscribers have them."""

from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.publish import PROTOCOLS, Version

SESSION_SECONDS = 3600


def session(port: int, client_id: str, version: Version) -> Client:
    """A subscriber that acknowledges by hand; its CONNECT is sent, nothing is read yet."""
    is_5 = version == "5"
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        protocol=PROTOCOLS[version],
        clean_session=None if is_5 else False,
        manual_ack=True,
    )
    if is_5:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = SESSION_SECONDS
        client.connect("127.0.0.1", port, clean_start=False, properties=properties)
    else:
        client.connect("127.0.0.1", port)
    return client


def subscribe(port: int, client_id: str, topic: str, version: Version) -> None:
    """Makes a session for which the broker keeps messages (QoS 1)."""
    _until_subscribed(session(port, client_id, version), topic)


def left_in_session(port: int, client_id: str, topic: str, version: Version) -> int:
    """How many messages the broker still keeps for a session: it sends them before it answers a SUBSCRIBE."""
    client = session(port, client_id, version)
    received: list[MQTTMessage] = []
    client.on_message = lambda _client, _data, message: received.append(message)
    _until_subscribed(client, topic)
    return len(received)


def _until_subscribed(client: Client, topic: str) -> None:
    def on_connect(*_: Any) -> None:
        client.subscribe(topic, 1)

    def on_subscribe(*_: Any) -> None:
        client.disconnect()

    client.on_connect = on_connect
    client.on_subscribe = on_subscribe
    client.loop_forever()
