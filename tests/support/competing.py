"""Several receivers of the same queues of a queue manager and of the same groups of subscribers of a broker: their
sources, what programs send there, and the checks of what is received."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from app.model.message import PhysicalMessage
from tests.support.division import TOPIC, Division
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.group_loads import assert_groups
from tests.support.loads import assert_received, table
from tests.support.mosquitto import Mosquitto
from tests.support.mq import mq_destination, mq_source, put
from tests.support.mq_client import Sent, any_bodies, group
from tests.support.mqi import load
from tests.support.publish import publish
from tests.support.queue_manager import QueueManager
from tests.support.sas_client import Attached, Program, binary_file, data_set, disordered, message, text_file
from tests.support.subscribe import subscribe

QUEUE, GROUPS, ORDERS = "SAS.ATTACHMENTS", "GROUPS", "ORDERS"
GROUP = f"$share/gateways/{TOPIC}"
SHARED = "exclusive = false\nbatch_messages = 5\n"
"""Units of work so small that several receivers have some of a few messages."""
PATIENCE = 120.0
SENDERS = 4
"""The programs that put to a queue at the same time."""
SOURCES = ("sas", "queue", "groups", "order")

Send = Callable[[], None]


class Size(NamedTuple):
    """The size of an attachment: its bytes or its rows, the most of it in a message of SAS, and the most messages of a
    group."""

    bytes: int
    rows: int
    body_limit: int
    messages: int


LARGE = Size(20_000, 300, 2_000, 20)
"""An attachment has a dozen parts and more."""
SMALL = Size(1_000, 15, 400, 4)
ALONE = "alone"
"""What the queues and the topic of one gateway, which receives all of it, have in their names."""

Identity = tuple[str, bytes, int, int, bytes]
"""What tells a message from others: its source, its correlid or its group and its place there, and its body."""


def identity(source: str, sent: PhysicalMessage) -> Identity:
    if source == "groups":
        return source, sent.group_id, sent.msg_seq_number, sent.offset, bytes(sent.body)
    return source, sent.correl_id, 0, 0, bytes(sent.body)


def once(send: Send) -> None:
    """Send something, without another attempt."""
    send()


class Competing:
    """The queues and topics from which `receivers` receive, and all that was sent there."""

    def __init__(
        self,
        broker: Mosquitto,
        manager: QueueManager,
        receivers: tuple[str, ...],
        random: Random,
        size: Size = LARGE,
        reply_topic: str | None = None,
    ) -> None:
        """With a `reply_topic`, receipts of the attachments of the source `sas` are wanted there."""
        self._broker, self._manager, self._receivers = broker, manager, receivers
        self._pymqi, self._random, self._size, self._reply_topic = load("pymqi"), random, size, reply_topic
        self._programs = {
            "sas": Program(random, body_limit=size.body_limit),
            "queue": Program(random, ccsid=500, encoding=785, body_limit=size.body_limit),
        }
        self.attachments: dict[str, list[Attached]] = {name: [] for name in self._programs}
        self.groups: list[Sent] = []
        self._messages: dict[str, list[PhysicalMessage]] = {name: [] for name in (*self._programs, "groups")}
        self.needed: dict[tuple[str, Any], set[Identity]] = {}
        """What has to come of each attachment, but tables."""
        self.tables: list[pa.Table] = []
        self.destination = self._destination(ORDERS)
        for queue in (QUEUE, GROUPS, ORDERS):
            manager.define(queue, maxdepth=100_000)
            manager.define(f"{queue}.{ALONE}", maxdepth=1_000_000)
        for name in receivers:
            subscribe(broker.port, name, GROUP, "5")

    def sources(self, name: str) -> str:
        """Return the tables of the sources of the process `name`."""
        replies = f'request_missing_to = ["{self._reply_topic}"]\nreply_receipts = true\n' if self._reply_topic else ""
        topic = mqtt_source("sas", self._broker.port, GROUP, client_id=name, options=replies)
        return topic + self._queues("", SHARED)

    def alone(self) -> str:
        """Return the tables of one gateway that receives all of it; see `repeat`."""
        topic = mqtt_source("sas", self._broker.port, f"{TOPIC}/{ALONE}", client_id=ALONE)
        return topic + self._queues(f".{ALONE}", "") + self._destination(f"{ORDERS}.{ALONE}")

    def _queues(self, suffix: str, options: str) -> str:
        return (
            mq_source("queue", self._manager, QUEUE + suffix, options)
            + mq_source("groups", self._manager, GROUPS + suffix, f'framing = "mq_group"\n{options}')
            + mq_source("order", self._manager, ORDERS + suffix, f'framing = "order_packet"\n{options}')
        )

    def _destination(self, queue: str) -> str:
        return mq_destination("order", self._manager, queue, 'framing = "order_packet"\nbody_limit = 4096\n')

    @property
    def count(self) -> int:
        """The number of attachments that were sent."""
        return len(self.sent)

    @property
    def sent(self) -> set[tuple[str, Any]]:
        """Return the source of each attachment that was sent, and what identifies it there."""
        named = {(source, each.definition.correl_id.hex()) for source, of in self.attachments.items() for each in of}
        groups = {("groups", each.identifier.hex()) for each in self.groups}
        return named | groups | {("order", each.num_rows) for each in self.tables}

    def send(self, count: int, deliver: Callable[[Send], None] = once) -> int:
        """Send so many attachments of each source but `order`, their messages in any order, some of them twice. Return
        the number of messages. `deliver` may send them more than once."""
        total = 0
        for source, program in self._programs.items():
            made = len(self.attachments[source])
            attachments = [_made(program, self._size, made + number) for number in range(count)]
            self.attachments[source] += attachments
            messages = [message(program, [each]) for each in attachments]
            for attached, (header, _application, *parts) in zip(attachments, messages, strict=True):
                needed = {identity(source, each) for each in (header, *parts)}
                self.needed[source, attached.definition.correl_id.hex()] = needed
            sent = disordered(chain.from_iterable(messages), self._random)
            if source == "sas" and self._reply_topic is not None:
                sent = [each._replace(properties={"response-topic": self._reply_topic}) for each in sent]
            self._messages[source] += sent
            total += len(sent)
            if source == "sas":
                deliver(partial(publish, sent, self._broker.port, TOPIC, "5", matched=True))
            else:
                deliver(partial(put, self._pymqi, self._manager, QUEUE, sent))
        contents = (self._random.randbytes(self._size.bytes) for _ in range(count))
        groups = [group(self._random, any_bodies(self._random, each, self._size.messages)) for each in contents]
        self.groups += groups
        self.needed |= {
            ("groups", one.identifier.hex()): {identity("groups", each) for each in one.messages} for one in groups
        }
        sent = disordered([each for one in groups for each in one.messages], self._random)
        self._messages["groups"] += sent
        deliver(partial(put, self._pymqi, self._manager, GROUPS, sent))
        return total + len(sent)

    def order(self, gateway: GatewayProcess, deliver: Callable[[Send], None] = once) -> None:
        """Have a gateway send a table as order packets. Each table has another number of rows."""
        self.tables.append(table(self._programs["sas"], self._size.rows + len(self.tables)))
        deliver(partial(self._post, gateway, self.tables[-1]))

    def _post(self, gateway: GatewayProcess, made: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(made, sink)
        files = {"file": ("T.parquet", sink.getvalue().to_pybytes(), "application/vnd.apache.parquet")}
        form, key = {"destination": "order"}, {"Idempotency-Key": f"table-of-{made.num_rows}-rows"}
        answer = gateway.client.post("/v1/messages", data=form, files=files, headers=key, timeout=PATIENCE)
        answer.raise_for_status()

    def repeat(self, gateway: GatewayProcess) -> None:
        """Send everything again, to a gateway with the sources `alone`."""
        gateway.await_source("sas")
        publish(self._messages["sas"], self._broker.port, f"{TOPIC}/{ALONE}", "5", matched=True)
        queues = {f"{QUEUE}.{ALONE}": self._messages["queue"], f"{GROUPS}.{ALONE}": self._messages["groups"]}
        with ThreadPoolExecutor() as senders:
            some = [(queue, of[at::SENDERS]) for queue, of in queues.items() for at in range(SENDERS)]
            sending = [senders.submit(put, self._pymqi, self._manager, *each) for each in some]
            sending += [senders.submit(self._post, gateway, made) for made in self.tables]
        for each in sending:
            each.result()

    def found(self, gateway: GatewayProcess) -> dict[tuple[str, Any], str]:
        """Return the state of each attachment that a gateway has, by what identifies it."""
        return {_key(item): item["state"] for item in gateway.listing("/v1/attachments")}

    def content(self, gateway: GatewayProcess) -> dict[tuple[str, Any], tuple[Any, ...]]:
        """Return what each attachment is that a gateway has, with the SHA-256 of its content."""
        return {
            _key(item): tuple(item[name] for name in ("state", "kind", "name", "size", "sha256", "observations"))
            for item in gateway.listing("/v1/attachments")
        }

    def assert_received(self, gateway: GatewayProcess) -> None:
        """Assert that all that was sent is received once and unchanged, and nothing else is."""
        for source, attachments in self.attachments.items():
            assert_received(gateway, attachments, source=source)
        assert_groups(gateway, self.groups, with_names=False)
        received = {item["observations"]: item for item in gateway.listing("/v1/attachments", source="order")}
        assert sorted(received) == [each.num_rows for each in self.tables]
        for sent in self.tables:
            path = f"/v1/attachments/{received[sent.num_rows]['id']}/content"
            answer = gateway.client.get(path, params={"format": "parquet"}).raise_for_status()
            assert pq.read_table(BytesIO(answer.content)).to_pydict() == sent.to_pydict()

    def shares(self, division: Division) -> dict[tuple[str, str], int]:
        """Return how many messages each receiver has received from each source since it was started."""
        return {
            (name, source): int(division[name].samples().total("messages_received_total", source=source))
            for name in self._receivers
            for source in SOURCES
        }


def _key(item: dict[str, Any]) -> tuple[str, Any]:
    """Return what identifies an attachment: of an order, the number of its rows."""
    return item["source"], item["observations"] if item["source"] == "order" else item["correl_id"]


def _made(program: Program, size: Size, number: int) -> Attached:
    """Return a binary file, a text file or a data set in turn. Data sets are of ten names."""
    content = program.random.randbytes(size.bytes)
    if number % 3 == 0:
        return binary_file(program, f"file {number}", content)
    if number % 3 == 1:
        return text_file(program, f"text {number}", content.hex(sep="\n", bytes_per_sep=20).encode() + b"\n")
    return data_set(program, "WORK", f"T{number % 30}", table(program, size.rows))
