"""Requests for parts of deliveries: what is answered, with what, and how much of it in a minute."""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions, OutgoingAttachment
from app.ports import SendFailed
from app.service.context import ReceiverContext
from app.service.sending import resending
from app.service.sending.framer import Framer
from app.service.sending.resending import Resender
from app.testing.gateway_stages import service_context

RATE = 5
HOW = FramingOptions(1024, "big-4-excluded-packed", 1208, 273, framing="sas_queue")
CONTENT = bytes(range(256)) * 40


class Asked:
    """A sender that keeps what is sent, and whose requests a test gives."""

    answers_missing = True

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.sent: list[PhysicalMessage] = []
        self.is_away = False
        self.looks = 0

    def requests(self, most: int) -> Sequence[bytes]:
        self.looks += 1
        if self.is_away:
            raise SendFailed("the broker is away")
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken

    def send(self, messages: Sequence[PhysicalMessage], progress: object = None) -> None:
        assert progress is None
        self.sent += messages

    def max_batch(self) -> int:
        return 3

    def resume(self, *_: Any) -> int:
        return 0

    def max_body(self, *_: Any) -> int:
        return 0

    def forget(self, *_: Any) -> None: ...
    def tidy(self, *_: Any) -> None: ...
    def repeats(self) -> None: ...
    def close(self) -> None: ...

    def status(self) -> dict[str, Any]:
        return {}


class Place:
    """A destination, and time that a test lets pass."""

    def __init__(self, context: ReceiverContext, monkeypatch: pytest.MonkeyPatch) -> None:
        self.context, self.sender, self.now = context, Asked(), 1000.0
        monkeypatch.setattr(resending, "monotonic", lambda: self.now)
        self.resender = Resender("pier", self.sender, lambda how, one: Framer(how, context.store).frame(one), context)

    def add(self, number: int, state: DeliveryState = DeliveryState.SENT, *, files: int = 1) -> list[PhysicalMessage]:
        """Add a delivery, and return its messages."""
        attachments = []
        for file in range(files):
            name = f"outgoing/{number}/{file}"
            with self.context.store.create(name) as target:
                target.write(CONTENT)
            kind, digest = AttachmentKind.BINARY_FILE, sha256(CONTENT).hexdigest()
            key = bytes([number, file]) * 8
            attachments.append(OutgoingAttachment(key, kind, "FILENAME", "a.bin", "", 0, 0, name, len(CONTENT), digest))
        record = DeliveryRecord(
            f"d{number}", "pier", b"h" * 16 + bytes(8), b"m" * 16 + bytes(8), tuple(attachments), 1, 1, state, cut=HOW
        )
        self.context.catalog.add_delivery(record, [])
        return [*Framer(HOW, self.context.store).frame(record)]

    def ask(self, number: int, parts: list[list[int | None]], *, file: int = 0, **more: object) -> None:
        shared = {"type": "missing", "version": 1, "framing": "sas_queue", "parts": parts}
        self.sender.waiting.append(json.dumps(shared | {"attachment": bytes([number, file]).hex() * 8} | more).encode())

    def step(self, seconds: float = 1) -> list[PhysicalMessage]:
        """Let time pass; return what was sent."""
        self.now += seconds
        self.sender.sent = []
        self.resender.step()
        return self.sender.sent

    def answers(self, answer: str) -> float:
        labels = {"destination": "pier", "answer": answer}
        return self.context.metrics.registry.get_sample_value("attachment_gateway_missing_answers_total", labels) or 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    pier = {"transport": "memory", "queue": "one", "answer_missing_rate": RATE}
    with service_context(tmp_path, destinations={"pier": pier}) as context:
        yield Place(context, monkeypatch)


def test_what_is_asked_for_is_sent_alone_and_once(place: Place) -> None:
    messages = place.add(1, files=2)
    header, _, *parts = messages
    half = len(parts) // 2  # the parts of a file, and its count
    place.ask(1, [[2, 3], [half - 1, None]], header=True, count=True)
    place.ask(1, [[1, 1]], file=1, header=True)
    expected = [header, parts[1], parts[2], parts[half - 2], parts[half - 1], parts[half]]
    assert place.step() == expected
    assert place.step() == []
    assert place.answers("sent") == 2
    sizes = sum(len(each.body) for each in expected)
    assert (
        place.context.metrics.registry.get_sample_value(
            "attachment_gateway_missing_sent_bytes_total", {"destination": "pier"}
        )
        == sizes
    )


def test_what_cannot_be_sent_is_gone_and_what_will_come_is_left_out(place: Place) -> None:
    place.add(1, DeliveryState.SENDING)
    place.add(2, DeliveryState.FAILED)
    place.add(3)
    place.context.store.delete_all(["outgoing/3/0"])
    for number in range(1, 5):
        place.ask(number, [[1, 1]])
    answers = [json.loads(bytes(each.body)) for each in place.step()]
    assert place.answers("early") == 1
    assert {each["attachment"][:2]: each["reason"] for each in answers} == {
        "02": "its delivery is failed",
        "04": "no delivery to this destination has it any more",
        "03": "its content 'outgoing/3/0' is gone",
    }
    assert {each["type"] for each in answers} == {"gone"}
    assert {(each.msg_type, each.format, each.framing) for each in place.sender.sent} == {
        (100002, "AGMISSNG", "sas_queue")
    }


def test_a_flood_is_answered_within_the_rate_and_garbage_is_counted(place: Place) -> None:
    place.add(1)
    place.sender.waiting += [b"", b"[]", b'{"type":"gone","version":1,"framing":"","attachment":"00"}']
    for _ in range(4 * RATE):
        place.ask(1, [[1, 1]])
    assert len(place.step()) == 1  # asked for twice at once
    assert (place.answers("unreadable"), place.answers("sent")) == (3, RATE - 3)
    for _ in range(58):
        assert place.step() == []
    place.step()
    place.step()
    assert place.answers("sent") == 2 * RATE - 3


def test_a_broker_that_is_away_is_asked_less_often(place: Place) -> None:
    place.sender.is_away = True
    for _ in range(120):
        place.step(0.5)
    assert place.sender.looks < 10
    place.sender.is_away = False
    place.add(1)
    place.ask(1, [[1, 1]])
    assert len(place.step(30)) == 1
