"""Send a file over MQTT as a group of messages with QoS 0, and send again what a gateway asks for.

python sender.py HOST PORT TOPIC FILE [SECONDS]

The gateway has a source with `framing = "mq_group"`, `request_missing_after`, and `request_missing_to = "replies/#"`.
"""

import sys
import time
from itertools import count
from pathlib import Path
from uuid import uuid4

from attachment_gateway_client import MissingParts
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PIECE = 30_000
IN_GROUP, LAST_IN_GROUP = 8, 24


class Sender:
    """The messages of one file, which stays readable as long as a gateway may ask."""

    def __init__(self, client: Client, topic: str, replies: str, content: bytes) -> None:
        self._client, self._topic, self._replies = client, topic, replies
        self._pieces = [content[at : at + PIECE] for at in range(0, len(content), PIECE)] or [b""]
        self._group = uuid4().bytes + bytes(8)

    def send(self, numbers: "range | list[int]") -> None:
        """Publish the messages with these numbers; 1 is the first."""
        for number in numbers:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            properties.ResponseTopic = self._replies
            flags = LAST_IN_GROUP if number == len(self._pieces) else IN_GROUP
            properties.UserProperty = [
                ("msg-type", "8"),
                ("group-id", self._group.hex()),
                ("msg-seq-number", str(number)),
                ("msg-flags", str(flags)),
            ]
            self._client.publish(self._topic, self._pieces[number - 1], qos=0, properties=properties)

    def send_all(self) -> None:
        """Publish the whole file."""
        self.send(range(1, len(self._pieces) + 1))

    def answer(self, body: bytes) -> None:
        """Publish again what is asked for, if it is of this file."""
        asked = MissingParts.of_document(body)
        if asked.attachment == self._group:
            numbers = list(asked.numbers(len(self._pieces)))
            sys.stderr.write(f"asked for {numbers}\n")
            self.send(numbers)


def main(host: str, port: str, topic: str, file: str, seconds: str = "inf") -> None:
    """Send a file, and answer for some seconds."""
    replies = f"replies/{uuid4().hex}"
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    sender = Sender(client, topic, replies, Path(file).read_bytes())

    def on_message(_client: Client, _data: object, message: MQTTMessage) -> None:
        sender.answer(bytes(message.payload))

    def on_connect(_client: Client, *_: object) -> None:
        client.subscribe(replies, 1)

    def on_subscribe(_client: Client, *_: object) -> None:
        if next(connections) == 0:  # again after a lost connection, when nothing is sent again by itself
            sender.send_all()

    connections = count()
    client.on_message, client.on_connect, client.on_subscribe = on_message, on_connect, on_subscribe
    client.connect(host, int(port))
    client.loop_start()
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        time.sleep(0.1)
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
