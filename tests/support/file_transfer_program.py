"""A program that sends files over MQTT by EIP-0021, written from the specification alone: it shares nothing with the
gateway."""

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from random import Random


@dataclass
class SentFile:
    """A file, and the topic and payload of each of its publishes: `init`, the segments in their order, `fin`."""

    name: str
    content: bytes
    publishes: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def sent_file(
    random: Random, name: str, content: bytes, *, prefixes: tuple[str, ...] = ("$file",), checksum: str = "fin"
) -> SentFile:
    """Send a file in segments of any length, some of which overlap. Its checksum is in `fin`, in `init` or nowhere, and
    any of the prefixes is before each command."""
    file_id = str(uuid.UUID(int=random.getrandbits(128)))
    whole = hashlib.sha256(content).hexdigest()
    begin: dict[str, object] = {"name": name, "size": len(content), "expire_at": 1_900_000_000, "segments_ttl": 600}
    if checksum == "init":
        begin["checksum"] = whole
    publishes = [(f"{random.choice(prefixes)}/{file_id}/init", json.dumps(begin).encode())]
    longest = max(len(content) // random.randint(1, 12), 1)
    offset = 0
    while offset < len(content):
        start = max(offset - random.choice([0, 0, 0, random.randint(0, longest)]), 0)
        segment = content[start : offset + random.randint(1, longest)]
        topic = f"{random.choice(prefixes)}/{file_id}/{start}"
        digest = hashlib.sha256(segment).hexdigest()
        publishes.append((random.choice([topic, f"{topic}/{digest}", f"{topic}/{digest.upper()}"]), segment))
        offset = max(offset, start + len(segment))
    end = f"{random.choice(prefixes)}/{file_id}/fin/{len(content)}"
    publishes.append((f"{end}/{whole}" if checksum == "fin" else end, b""))
    return SentFile(name, content, publishes)
