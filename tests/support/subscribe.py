"""Persistent sessions at a broker, of plain paho subscribers."""

from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.publish import PROTOCOLS, Version

SESSION_SECONDS = 3600


def session(port: int, client_id: str, version: Version) -> Client:
    """Return a subscriber with manual acknowledgements; its CONNECT is sent, and it has read nothing yet."""
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
    """Create a session for which the broker keeps messages (QoS 1)."""
    _until_subscribed(session(port, client_id, version), topic)


def left_in_session(port: int, client_id: str, topic: str, version: Version) -> int:
    """Return the number of messages that the broker keeps for a session; it sends them before its SUBACK."""
    client = session(port, client_id, version)
    received: list[MQTTMessage] = []
    client.on_message = lambda _client, _data, message: received.append(message)
    _until_subscribed(client, topic)
    return len(received)


def has_session(port: int, client_id: str) -> bool:
    """Tell whether the broker has a session of this identifier. It has none afterwards."""
    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=PROTOCOLS["5"])
    found: list[bool] = []

    def on_connect(_client: Client, _data: Any, flags: Any, *_: Any) -> None:
        found.append(flags.session_present)
        client.disconnect()

    client.on_connect = on_connect
    client.connect("127.0.0.1", port, clean_start=False)
    client.loop_forever()
    return found[0]


def _until_subscribed(client: Client, topic: str) -> None:
    def on_connect(*_: Any) -> None:
        client.subscribe(topic, 1)

    def on_subscribe(*_: Any) -> None:
        client.disconnect()

    client.on_connect = on_connect
    client.on_subscribe = on_subscribe
    client.loop_forever()
