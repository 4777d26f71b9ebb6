"""Sending while the gateway and its queue manager are killed repeatedly, and a queue is sometimes full.

The reader is slow: the queue is emptied only between two kills.
"""

from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import sleep
from types import ModuleType

from app.framing.protocol import message_identifier
from app.testing.waiting import until
from tests.support import mq
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination
from tests.support.mq import mq_destination
from tests.support.mqi import load
from tests.support.queue_manager import QueueManager
from tests.support.recording_broker import Published, RecordingBroker

QUEUE, STATE_QUEUE = "SAS.REQUESTS", "GATEWAY.STATE"
MAXDEPTH = 200
BODY = 1024
UNIT = 20
MESSAGES_A_KILL = 150
SIZES = (10, 3_000, 90_000, 400_000)
SETTINGS = f'body_limit = {BODY}\nbatch_messages = {UNIT}\nretry_first = "50ms"\nretry_longest = "200ms"\n'


@dataclass(slots=True)
class Outcome:
    """The messages that were sent and received, by MsgId."""

    expected: set[bytes] = field(default_factory=set)
    received: Counter[bytes] = field(default_factory=Counter)
    states_left: int = 0
    most_attempts: int = 0

    repeats_without_dup: int = 0
    repeats_with_other_identifiers: int = 0

    @property
    def lost(self) -> int:
        return len(self.expected - self.received.keys())

    @property
    def unexpected(self) -> int:
        return len(self.received.keys() - self.expected)

    @property
    def surplus(self) -> int:
        """Return the number of copies beyond the first of each message."""
        return self.received.total() - len(self.received)

    def __str__(self) -> str:
        return (
            f"{len(self.expected):,} messages: {self.lost} lost, {self.surplus} surplus copies, "
            f"{self.unexpected} unexpected, {self.states_left} state messages left, "
            f"{self.repeats_without_dup} repeats without DUP, {self.repeats_with_other_identifiers} with other "
            f"identifiers, at most {self.most_attempts} attempts"
        )


def send_under_fire(folder: Path, kills: int, manager_kills: int, *, state_queue: bool, seed: int = 1) -> Outcome:
    """Send everything, during this number of kills of the gateway and of the queue manager."""
    library, random, outcome = load("pymqi"), Random(seed), Outcome()
    with ExitStack() as ending:
        manager = ending.enter_context(QueueManager(folder / "queue-manager"))
        manager.define(QUEUE, maxdepth=MAXDEPTH)
        manager.define(STATE_QUEUE)
        options = SETTINGS + (f'state_queue = "{STATE_QUEUE}"\n' if state_queue else "")
        process = ForkedGateway(folder, mq_destination("out", manager, QUEUE, options))
        ending.callback(process.stop)
        process.start()
        _upload(process, random, kills * MESSAGES_A_KILL)
        for number in range(kills):
            _await_messages(manager, random)
            process.kill()
            if (number + 1) * manager_kills // kills > number * manager_kills // kills:
                manager.kill()
                manager.start()
            outcome.received.update(taken(library, manager))
            process.spawn()
        process.until(process.is_up)
        process.until(lambda: outcome.received.update(taken(library, manager)) or _all_sent(process), 300, 0.05)
        outcome.received.update(taken(library, manager))
        _expect(process, outcome)
        process.stop()
        outcome.states_left = manager.depth(STATE_QUEUE)
    return outcome


def publish_under_fire(folder: Path, kills: int, breaks: int, *, qos: int, seed: int = 1) -> Outcome:
    """Send everything over MQTT; the broker breaks connections with publishes that it never answers."""
    random, outcome = Random(seed), Outcome()
    with RecordingBroker() as broker, ExitStack() as ending:
        options = SETTINGS.replace(
            f"batch_messages = {UNIT}", f'max_inflight = {UNIT}\nqos = {qos}\nclient_id = "out"\nsend_timeout = 1'
        )
        process = ForkedGateway(folder, mqtt_destination("out", broker.port, "t", options))
        ending.callback(process.stop)
        process.start()
        _upload(process, random, kills * MESSAGES_A_KILL)
        for number in range(kills):
            if (number + 1) * breaks // kills > number * breaks // kills:
                broker.break_after(random.randrange(1, UNIT))
            enough = len(broker.packets) + random.randrange(1, MAXDEPTH)
            with suppress(TimeoutError):
                until(lambda: len(broker.packets) >= enough, 5, 0.001)  # noqa: B023 - used at once
            process.kill()
            process.spawn()
        process.until(process.is_up)
        process.until(lambda: _all_sent(process), 300, 0.05)
        _expect(process, outcome)
    outcome.received.update(broker.delivered)
    first: dict[bytes, Published] = {}
    for packet in broker.packets:
        before = first.setdefault(packet.message_id, packet)
        if before is not packet:
            outcome.repeats_without_dup += not packet.dup
            outcome.repeats_with_other_identifiers += packet != before._replace(dup=packet.dup)
    return outcome


def _expect(process: GatewayProcess, outcome: Outcome) -> None:
    """Record the messages that the deliveries report as sent."""
    for delivery in process.listing("/v1/deliveries"):
        numbers = range(delivery["messages_total"])
        outcome.expected |= {message_identifier(delivery["id"], number) for number in numbers}
        outcome.most_attempts = max(outcome.most_attempts, delivery["attempts"])


def _upload(process: GatewayProcess, random: Random, messages: int) -> None:
    """Upload deliveries with this number of messages in all, small ones among them."""
    left = messages * BODY
    while left > 0:
        content = random.randbytes(random.choice(SIZES))
        files = {"file": ("f.bin", content, "application/octet-stream")}
        process.client.post("/v1/messages", data={"destination": "out"}, files=files).raise_for_status()
        left -= len(content)


def _await_messages(manager: QueueManager, random: Random) -> None:
    """Wait until the queue has some messages, is full, or gets no more messages."""
    enough = random.randrange(1, MAXDEPTH + 1)
    for _ in range(5_000):
        if manager.depth(QUEUE) >= enough:
            return
        sleep(0.001)


def taken(library: ModuleType, manager: QueueManager) -> list[bytes]:
    """Get all messages of the queue, and return their MsgIds."""
    return [descriptor.MsgId for descriptor, _ in mq.taken(library, manager, QUEUE)]


def _all_sent(process: GatewayProcess) -> bool:
    return {delivery["state"] for delivery in process.listing("/v1/deliveries")} == {"sent"}
