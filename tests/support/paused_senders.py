"""Two processes that send to the same queues of IBM MQ, while those that have claimed deliveries are paused.

Each destination has a queue of its own and one delivery. The queue manager holds one call of each, at a moment that is
drawn: before the call has its effect, or before its reply. When all are held, the process is stopped, and its claims
end, so that the other process goes on. In half of the rounds that one is stopped, too, while the first one continues.
Meanwhile the queue manager breaks some of the stopped connections, as it does when nobody answers its heartbeats.

Over MQTT, the process is stopped before it gets the answer to one of its publishes.

As a program: `python -m tests.support.paused_senders 7 20` runs 20 rounds from the seed 7, and prints what arrived.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import sleep
from typing import Literal, NamedTuple

import psycopg

from app.framing.protocol import message_identifier
from app.testing.waiting import until
from tests.support import mq
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import mqtt_destination
from tests.support.mqi import load
from tests.support.postgresql import binaries, running_postgresql
from tests.support.queue_manager import QueueManager
from tests.support.recording_broker import RecordingBroker

STATE_QUEUE = "GATEWAY.STATE"
QUEUES = tuple(f"OUT.{number}" for number in range(8))
BODY, UNIT, SIZE = 1024, 3, 6_500
CALLS = 34
"""The calls that one delivery takes: to resume, to find out how long a body may be, for three units, to forget it."""
SOON = f"""body_limit = {BODY}
retry_first = "200ms"
retry_longest = "400ms"
"""
PUTTING = f"""{SOON}batch_messages = {UNIT}
state_queue = "{STATE_QUEUE}"
"""
PUBLISHING = f"{SOON}max_inflight = {UNIT}\n"
SETTINGS = """[limits]
free_bytes = 0
[catalog]
url = "postgresql+psycopg://postgres@/{database}?host={host}"
[content]
url = "{shared}/content"
[journal]
archive_url = "{shared}/archive"
"""


class Moment(NamedTuple):
    """Which call of a destination's connection is held, when, and what happens to the connection while its process is
    stopped."""

    skip: int
    when: Literal["before", "after"]
    goes_on_early: bool
    is_broken: bool


Moments = Mapping[str, Moment]
"""The moment of each queue."""


def drawn(random: Random) -> Moments:
    """Return any moments."""
    return {
        queue: Moment(
            random.randrange(CALLS),
            random.choice(("before", "after")),
            goes_on_early=random.random() < 0.5,
            is_broken=random.random() < 0.5,
        )
        for queue in QUEUES
    }


@dataclass(slots=True)
class Arrived:
    """What the queues had in the end, compared with what was to be sent."""

    deliveries: int = 0
    messages: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    sent_twice: list[str] = field(default_factory=list)
    """Deliveries of which the catalog says more or less than once that they were sent."""
    moments: Counter[str] = field(default_factory=Counter)
    """The calls in which a process was stopped."""
    states_left: int = 0

    @property
    def wrong(self) -> list[str]:
        return [*self.lost, *self.twice, *self.out_of_order, *self.sent_twice]

    def __str__(self) -> str:
        return (
            f"{self.deliveries} deliveries of {self.messages} messages: lost={len(self.lost)} twice={len(self.twice)} "
            f"out_of_order={len(self.out_of_order)} sent_twice={len(self.sent_twice)} states_left={self.states_left}; "
            f"stopped in {dict(self.moments.most_common())}"
        )


class Pair:
    """Two processes that send, and what they share."""

    def __init__(
        self,
        database: str,
        manager: QueueManager,
        brokers: Mapping[int, RecordingBroker],
        gateways: list[ForkedGateway],
    ) -> None:
        self._database, self._manager, self._brokers, self._gateways = database, manager, brokers, gateways
        self.arrived = Arrived()

    def send(self, random: Random, first: Moments, second: Moments | None = None) -> None:
        """Send one delivery to each queue. Stop the process that has claimed most of them at its first moments, and
        then the one that goes on at its second ones, if there are any. Wait until all are sent."""
        self._plan(first)
        deliveries = {queue: self._upload(queue, random) for queue in QUEUES}
        stopped = self._stop(deliveries, first)
        if second is not None:
            self._plan(second)
            self._end_claims(deliveries)
            before, stopped = stopped, self._stop(deliveries, second, besides=stopped)
            self._continue(before)
        claims = self._claims(deliveries)
        self._end_claims(deliveries)
        until(lambda: self._have_moved(deliveries, claims))
        sleep(random.choice((0, 0.1, 1)))
        self._continue(stopped)
        until(lambda: self._are_sent(deliveries))
        for queue, delivery in deliveries.items():
            arrived = [descriptor.MsgId for descriptor, _ in mq.taken(load("pymqi"), self._manager, queue)]
            self._judge(delivery, arrived)

    def publish(self, qos: int, publishes: int) -> None:
        """Send one delivery over MQTT, and stop its process after so many publishes, before the answer to the last one.
        Wait until the other process has sent it, and the stopped one has noticed that."""
        broker = self._brokers[qos]
        broker.hold_after(publishes)
        before = len(broker.delivered)
        deliveries = {"mqtt": self._upload(f"mqtt.{qos}", Random(publishes))}
        assert broker.is_holding.wait(60)
        with psycopg.connect(self._database) as connection:
            asked = "SELECT claimed_by FROM deliveries WHERE id = %s"
            ((instance,),) = connection.execute(asked, [deliveries["mqtt"]])
        (holder,) = [each for each in self._gateways if instance in each.log]
        assert holder.process is not None
        lost = holder.log.count("delivery_claim_lost")
        os.kill(holder.process.pid, signal.SIGSTOP)
        self._end_claims(deliveries)
        until(lambda: self._are_sent(deliveries))
        broker.go_on()
        os.kill(holder.process.pid, signal.SIGCONT)
        holder.until(lambda: holder.log.count("delivery_claim_lost") > lost)
        self._judge(deliveries["mqtt"], broker.delivered[before:])

    def finish(self) -> Arrived:
        """Start a process again, which removes the state messages that no delivery needs. Return what has arrived."""
        self._gateways[0].kill()
        self._gateways[0].start()
        with suppress(TimeoutError):
            until(lambda: self._manager.depth(STATE_QUEUE) == 0, 10)
        arrived, self.arrived = self.arrived, Arrived()
        arrived.states_left = self._manager.depth(STATE_QUEUE)
        return arrived

    def _plan(self, moments: Moments) -> None:
        for queue, moment in moments.items():
            self._manager.hold(queue, moment.skip, moment.when)

    def _upload(self, queue: str, random: Random) -> str:
        files = {"file": ("f.bin", random.randbytes(SIZE), "application/octet-stream")}
        client = self._gateways[0].client
        answer = client.post("/v1/messages", data={"destination": destination(queue)}, files=files)
        return str(answer.raise_for_status().json()["id"])

    def _stop(self, deliveries: Mapping[str, str], moments: Moments, besides: int = 0) -> int:
        """Stop the process that most calls are held of, when each delivery is held or sent. Return its number."""

        def held() -> list[tuple[str, int, str]]:
            return [each for each in self._manager.held() if each[1] != besides]

        until(lambda: {queue for queue, _, _ in held()} >= deliveries.keys() - self._sent(deliveries))
        self._manager.forget_faults()
        processes = [gateway.process.pid for gateway in self._gateways if gateway.process is not None]
        counted = Counter({each: 0 for each in processes if each != besides})
        counted.update(process for _, process, _ in held())
        ((chosen, _),) = counted.most_common(1)
        os.kill(chosen, signal.SIGSTOP)
        for queue, process, verb in held():
            if process != chosen:
                self._manager.go_on(queue, process)
                continue
            self.arrived.moments[f"{moments[queue].when} {verb}"] += 1
            if moments[queue].goes_on_early:
                self._manager.go_on(queue, process)
            if moments[queue].is_broken:
                self._manager.break_connections(queue, process)
        return chosen

    def _continue(self, stopped: int) -> None:
        for queue, process, _ in self._manager.held():
            if process == stopped:
                self._manager.go_on(queue, process)
        os.kill(stopped, signal.SIGCONT)

    def _end_claims(self, deliveries: Mapping[str, str]) -> None:
        """End the claims at once, as the clock of the database would do after some seconds. The stopped process has
        counted less of them, so this is harder than what happens."""
        with psycopg.connect(self._database) as connection:
            connection.execute(
                "UPDATE deliveries SET claimed_until = 0 WHERE claimed_until IS NOT NULL AND id = ANY(%s)",
                [[*deliveries.values()]],
            )

    def _rows(self, deliveries: Mapping[str, str]) -> dict[str, tuple[str, int]]:
        """Return state and number of claims of each delivery, by queue."""
        with psycopg.connect(self._database) as connection:
            asked = "SELECT id, state, claim FROM deliveries WHERE id = ANY(%s)"
            found = {each: (state, claim) for each, state, claim in connection.execute(asked, [[*deliveries.values()]])}
        return {queue: found[delivery] for queue, delivery in deliveries.items()}

    def _claims(self, deliveries: Mapping[str, str]) -> dict[str, int]:
        return {queue: claim for queue, (_, claim) in self._rows(deliveries).items()}

    def _sent(self, deliveries: Mapping[str, str]) -> set[str]:
        return {queue for queue, (state, _) in self._rows(deliveries).items() if state == "sent"}

    def _are_sent(self, deliveries: Mapping[str, str]) -> bool:
        return self._sent(deliveries) == deliveries.keys()

    def _have_moved(self, deliveries: Mapping[str, str], claims: Mapping[str, int]) -> bool:
        """Tell whether each delivery has been claimed once more, or is sent."""
        rows = self._rows(deliveries)
        return all(state == "sent" or claim > claims[queue] for queue, (state, claim) in rows.items())

    def _judge(self, delivery: str, arrived: list[bytes]) -> None:
        """Compare the messages that have arrived with those of the delivery."""
        with psycopg.connect(self._database) as connection:
            ((total,),) = connection.execute("SELECT messages_total FROM deliveries WHERE id = %s", [delivery])
            asked = "SELECT count(*) FROM events WHERE type = 'delivery.sent' AND subject = %s"
            ((told,),) = connection.execute(asked, [delivery])
        expected = [message_identifier(delivery, number) for number in range(total)]
        counted = Counter(arrived)
        twice = [number for number, each in enumerate(expected) if counted[each] > 1]
        self.arrived.deliveries += 1
        self.arrived.messages += total
        self.arrived.lost += [f"{delivery}: {number} lost" for number, each in enumerate(expected) if not counted[each]]
        self.arrived.twice += [f"{delivery}: {number} twice" for number in twice]
        self.arrived.out_of_order += [] if [*counted] == expected else [f"{delivery}: in another order, or unexpected"]
        self.arrived.sent_twice += [] if told == 1 else [f"{delivery}: recorded as sent {told} times"]


def destination(queue: str) -> str:
    """Return the name of the destination with this queue."""
    return queue.lower().replace(".", "-")


@contextmanager
def sending_pair(folder: Path, postgresql: Path) -> Iterator[Pair]:
    """Yield two processes that send."""
    server = f"host={postgresql} user=postgres dbname="
    with psycopg.connect(f"{server}postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE paused_senders")
    with ExitStack() as ending:
        manager = ending.enter_context(QueueManager(folder / "queue-manager"))
        for queue in (STATE_QUEUE, *QUEUES):
            manager.define(queue)
        (folder / "shared" / "archive").mkdir(parents=True)
        settings = SETTINGS.format(database="paused_senders", host=postgresql, shared=(folder / "shared").as_uri())
        settings += "".join(mq.mq_destination(destination(queue), manager, queue, PUTTING) for queue in QUEUES)
        brokers = {qos: ending.enter_context(RecordingBroker()) for qos in (1, 2)}
        settings += "".join(
            mqtt_destination(destination(f"mqtt.{qos}"), broker.port, "t", PUBLISHING + f"qos = {qos}\n")
            for qos, broker in brokers.items()
        )
        gateways = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            gateways.append(ForkedGateway(folder / name, settings, first='roles = ["serve"]\n'))
            ending.callback(_stop, gateways[-1])
            gateways[-1].start()
        yield Pair(f"{server}paused_senders", manager, brokers, gateways)


def _stop(gateway: ForkedGateway) -> None:
    if gateway.process is not None and gateway.process.poll() is None:
        os.kill(gateway.process.pid, signal.SIGCONT)
        gateway.stop()


def main() -> None:
    seed, rounds = sys.argv[1], int(sys.argv[2])
    programs = binaries()
    assert programs is not None, "PostgreSQL's programs are not installed"
    random = Random(seed)
    with (
        running_postgresql(programs) as postgresql,
        TemporaryDirectory() as folder,
        sending_pair(Path(folder), postgresql) as pair,
    ):
        for number in range(rounds):
            pair.send(random, drawn(random), drawn(random) if number % 2 else None)
            sys.stdout.write(f"{number + 1}: {pair.arrived}\n")
            sys.stdout.flush()
        arrived = pair.finish()
    sys.stdout.write("\n".join((str(arrived), *arrived.wrong)) + "\n")


if __name__ == "__main__":
    main()
