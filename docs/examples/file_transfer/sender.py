"""Send a file over MQTT by file transfer, and send again what the gateway says has not come.

python sender.py HOST PORT FILE [PREFIX]

The gateway has a source with `framing = "file_transfer"` and the topic `PREFIX-async/#`; PREFIX is `$file` by default.
"""

import json
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from queue import Empty, Queue
from threading import Event
from typing import Any
from uuid import uuid4

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PIECE = 30_000
SUCCESS, SEND_AGAIN = 0, 128
SECONDS = 10
"""How long an answer is waited for."""


class Sender:
    """The commands of one file. Segments may be lost (QoS 0): the gateway names what is missing."""

    def __init__(self, client: Client, prefix: str, answers: str, name: str, content: bytes) -> None:
        self._client, self._answers, self._content = client, answers, content
        self._file = f"{prefix}-async/{uuid4()}"
        self._init = json.dumps({"name": name, "size": len(content), "checksum": sha256(content).hexdigest()})

    def send(self, first: int, last: int) -> None:
        """Publish the segments that have bytes of this range."""
        for at in range(first - first % PIECE, min(last + 1, len(self._content)), PIECE):
            self._publish(str(at), self._content[at : at + PIECE], 0)

    def begin(self) -> None:
        self._publish("init", self._init, 1)

    def end(self) -> None:
        """Publish `fin`, which is answered."""
        self._publish(f"fin/{len(self._content)}", b"", 1)

    def _publish(self, command: str, payload: bytes | str, qos: int) -> None:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ResponseTopic = self._answers
        self._client.publish(f"{self._file}/{command}", payload, qos, properties=properties)


def answers_to_fin(received: "Queue[MQTTMessage]") -> Iterator[dict[str, Any] | None]:
    """Yield each answer to `fin`, and None when none comes."""
    while True:
        try:
            answer = json.loads(received.get(timeout=SECONDS).payload)
        except Empty:
            yield None
        else:
            if "/fin/" in answer["topic"]:
                yield answer


def main(host: str, port: str, file: str, prefix: str = "$file") -> None:
    """Send a file until the gateway has all of it. Exits with 1 if it refuses the file."""
    content, received = Path(file).read_bytes(), Queue[MQTTMessage]()
    topic = f"{prefix}-response/{uuid4().hex}"
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.on_message = lambda _client, _data, message: received.put(message)
    subscribed = Event()

    def on_connect(_client: Client, *_: object) -> None:
        client.subscribe(topic, 1)

    client.on_connect = on_connect
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect(host, int(port))
    client.loop_start()
    subscribed.wait()
    sender = Sender(client, prefix, topic, Path(file).name, content)
    sender.begin()
    sender.send(0, len(content) - 1)
    sender.end()
    for answer in answers_to_fin(received):
        code, why = (SEND_AGAIN, "") if answer is None else (answer["reason_code"], answer["reason_description"])
        sys.stderr.write(f"{code} {why}\n")
        if code != SEND_AGAIN:
            break
        if "init" in why:
            sender.begin()
        for first, last in re.findall(r"(\d+)-(\d+)", why):
            sender.send(int(first), int(last))
        sender.end()
    client.disconnect()
    client.loop_stop()
    sys.exit(0 if code == SUCCESS else f"the file is refused: {why}")


if __name__ == "__main__":
    main(*sys.argv[1:])
