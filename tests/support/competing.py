"""Several receivers of the same queues of a queue manager and of the same groups of subscribers of a broker: their
sources, what programs send there, and the checks of what is received."""

from collections import Counter
from io import BytesIO
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.division import TOPIC, Division
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.group_loads import assert_groups
from tests.support.loads import assert_received, messages, mixed, table
from tests.support.mosquitto import Mosquitto
from tests.support.mq import mq_source, put
from tests.support.mq_client import Sent, any_bodies, group
from tests.support.mqi import load
from tests.support.publish import publish
from tests.support.queue_manager import QueueManager
from tests.support.sas_client import Attached, Program, disordered
from tests.support.subscribe import subscribe

QUEUE, GROUPS = "SAS.ATTACHMENTS", "GROUPS"
ORDER_TOPIC = "order/packets"
SHARED_QUEUE = "exclusive = false\nbatch_messages = 5\n"
"""Units of work so small that several receivers have some of a few messages."""
GROUP_BYTES = 40_000
SOURCES = ("sas", "queue", "groups", "order")


class Competing:
    """The queues and topics from which `receivers` receive, and all that was sent there."""

    def __init__(self, broker: Mosquitto, manager: QueueManager, receivers: tuple[str, ...], random: Random) -> None:
        self._broker, self._manager = broker, manager
        self._pymqi, self._random = load("pymqi"), random
        self._programs = {"sas": Program(random), "queue": Program(random, ccsid=500, encoding=785)}
        self.attachments: dict[str, list[Attached]] = {name: [] for name in self._programs}
        self.groups: list[Sent] = []
        self.tables: list[pa.Table] = []
        self.destination = mqtt_destination("order", broker.port, ORDER_TOPIC, 'framing = "order_packet"\n')
        for queue in (QUEUE, GROUPS):
            manager.define(queue, maxdepth=100_000)
        for name in receivers:
            for source, topic in (("sas", TOPIC), ("order", ORDER_TOPIC)):
                subscribe(broker.port, f"{name}-{source}", f"$share/gateways/{topic}", "5")

    def sources(self, name: str) -> str:
        """Return the tables of the sources of the process `name`."""

        def shared(source: str, topic: str, framing: str) -> str:
            filter_ = f"$share/gateways/{topic}"
            return mqtt_source(source, self._broker.port, filter_, framing=framing, client_id=f"{name}-{source}")

        return (
            shared("sas", TOPIC, "sas_queue")
            + shared("order", ORDER_TOPIC, "order_packet")
            + mq_source("queue", self._manager, QUEUE, SHARED_QUEUE)
            + mq_source("groups", self._manager, GROUPS, f'framing = "mq_group"\n{SHARED_QUEUE}')
        )

    @property
    def count(self) -> int:
        """The number of attachments that were sent."""
        return sum(map(len, (*self.attachments.values(), self.groups, self.tables)))

    def send(self, count: int) -> None:
        """Send so many attachments of each source but `order`, their messages in any order, some of them twice."""
        for source, program in self._programs.items():
            attachments = mixed(program, count)
            self.attachments[source] += attachments
            sent = disordered(messages(program, attachments), self._random)
            if source == "sas":
                publish(sent, self._broker.port, TOPIC, "5")
            else:
                put(self._pymqi, self._manager, QUEUE, sent)
        groups = [
            group(self._random, any_bodies(self._random, self._random.randbytes(GROUP_BYTES), 20)) for _ in range(count)
        ]
        self.groups += groups
        put(
            self._pymqi,
            self._manager,
            GROUPS,
            disordered([each for sent in groups for each in sent.messages], self._random),
        )

    def order(self, gateway: GatewayProcess) -> None:
        """Have a gateway send a table as order packets. Each table has another number of rows."""
        made = table(self._programs["sas"], 1_000 + len(self.tables))
        sink = pa.BufferOutputStream()
        pq.write_table(made, sink)
        name = f"T{len(self.tables)}.parquet"
        files = {"file": (name, sink.getvalue().to_pybytes(), "application/vnd.apache.parquet")}
        gateway.client.post("/v1/messages", data={"destination": "order"}, files=files).raise_for_status()
        self.tables.append(made)

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

    def shares(self, division: Division, receivers: tuple[str, ...]) -> Counter[tuple[str, str]]:
        """Return how many messages each receiver has received from each source."""
        samples = {name: division[name].samples() for name in receivers}
        return Counter(
            {
                (name, source): int(found.total("messages_received_total", source=source))
                for name, found in samples.items()
                for source in SOURCES
            }
        )
