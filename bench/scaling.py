"""A model of many receivers: where they saturate, how long an attachment takes, and what that costs.

    python -m bench.scaling
    python -m bench.scaling --store cloud --days 1e8 1e9 --size 200000 --messages 8

one       a process that does all, with its own disk
keeper    receivers with disks, the shared journal, and a keeper that assembles
Spark     the same, assembled by a job on Spark
no disks  receivers that acknowledge what the archive has, and a keeper; with Spark: no disks, Spark

It is a discrete-event simulation: attachments come at random times, the messages of each go to random receivers, and
every step is a queue with one server that takes what waits as a batch. The batches, the turns of receivers and the
pauses between two looks are the program's own. At high loads attachments that come one after the other are one event.

receive … the share of its time that each step is busy, if its batches are full; with 100 % it is saturated
busy      the cores that are busy on average, those of the database's server included
ack       seconds from broker to acknowledgement, median and 99th percentile
finish    seconds from broker until the last part is assembled, median and 99th percentile
puts      millions of objects a day

The number of receivers, and that of Spark's cores, is the least that leaves two fifths of their time unused. The store
`bench` answers like the tests' S3 server on this machine. The store `cloud` is assumed and not measured. The ratios
compare the model with the benches that measured the same thing: 1 is the same, above 1 the model is faster.
"""

import argparse
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, inf
from random import Random
from typing import NamedTuple

from adapters.object_store.bucket_objects import PUT_AT_ONCE
from app.service.assembling.following import FOLLOW_SECONDS
from app.service.content.settling import AT_ONCE
from app.service.receiving.backlog import BATCH_BYTES
from app.service.receiving.publishing import TOGETHER_BYTES
from app.service.roles.receiving_together import PUBLISH_SECONDS, UPKEEP_SECONDS
from app.settings.storage import SEGMENTS_FOR_OTHERS, PipelineSettings
from bench.queues import Amount, Came, Events, Piece, Queue, total
from bench.scaling_costs import COSTS, STORES, chosen

DAY = 86_400
TRIGGER = PipelineSettings().trigger.total_seconds()
TRIGGER_BYTES = int(PipelineSettings().bytes_per_trigger)
SEGMENT_BYTES = int(SEGMENTS_FOR_OTHERS["segment_bytes"])  # type: ignore[call-overload]
SEGMENT_AGE: float = SEGMENTS_FOR_OTHERS["segment_age"].total_seconds()  # type: ignore[attr-defined]
UNUSED = 0.4
MOST_RECEIVERS, MOST_CORES = 100, 256
SECONDS, WARM_UP, GROUPS_A_SECOND = 60.0, 20.0, 100.0
"""The simulated seconds, those before them, and the most events a second in which something comes."""
STEPS = ("receive", "publish", "assemble", "content", "catalog")


class Shape(NamedTuple):
    name: str
    is_shared: bool = True
    has_spark: bool = False
    has_disks: bool = True


ONE, KEEPER, SPARK = Shape("one", is_shared=False), Shape("keeper"), Shape("Spark", has_spark=True)
NO_DISKS = Shape("no disks", has_disks=False)
SHAPES = (ONE, KEEPER, SPARK, NO_DISKS, Shape("no disks, Spark", has_spark=True, has_disks=False))


class Step(NamedTuple):
    """The seconds of a batch, the most bytes of one, and the number of servers."""

    seconds: Callable[[Amount], float]
    most: float
    servers: int = 1

    def rate(self, each: Amount) -> float:
        """Return how many attachments like `each` a second it takes at most."""
        number = max(1.0, self.most / each.size)
        return self.servers * number / self.seconds(Amount(*(number * field for field in each)))


class Model:
    """The steps of a shape, with so many receivers and cores of Spark."""

    def __init__(self, costs: Mapping[str, float], shape: Shape, receivers: int = 1, cores: int = 2) -> None:
        self.costs, self.shape, self.receivers, self.cores = costs, shape, receivers, cores

    def steps(self) -> dict[str, Step]:
        found = {"receive": Step(self.receive, BATCH_BYTES, self.receivers)}
        if self.shape.is_shared:
            found["publish"] = Step(self.publish, TOGETHER_BYTES)
        found["assemble"] = Step(self.spark, TRIGGER_BYTES) if self.shape.has_spark else Step(self.keep, TOGETHER_BYTES)
        if not self.shape.has_spark:
            found["content"] = Step(self.settle, TOGETHER_BYTES)
        if self.shape.is_shared:
            found["catalog"] = Step(lambda all_: all_.attachments * self.costs["catalog_attachment"], TOGETHER_BYTES)
        return found

    def received(self, all_: Amount) -> float:
        """Return the processor seconds of receiving."""
        each = self.costs["receive_message"] + self.shape.is_shared * self.costs["shared_message"]
        return all_.messages * each + all_.size * self.costs["receive_byte"]

    def receive(self, all_: Amount) -> float:
        """While a full batch is written, the next one is encoded."""
        flush = self.costs["flush"] + all_.size * self.costs["flush_byte"] if self.shape.has_disks else self.put(all_)
        encode = self.received(all_)
        return max(flush, encode) if all_.size >= BATCH_BYTES else flush + encode

    def publish(self, all_: Amount) -> float:
        """A receiver without a disk has its own objects in memory still."""
        return self.costs["publish"] + self.put(all_)

    def kept(self, all_: Amount) -> float:
        """Return the processor seconds of assembly in a process of the gateway."""
        costs = self.costs
        each = costs["keep_attachment"] + self.shape.is_shared * costs["shared_attachment"]
        return all_.attachments * each + all_.messages * costs["keep_message"] + all_.size * costs["keep_byte"]

    def keep(self, all_: Amount) -> float:
        return self.kept(all_) + (self.put(all_, all_.objects) if self.shape.is_shared else 0.0)

    def tasks(self, all_: Amount) -> float:
        """Return the seconds of a core for all tasks of a micro-batch; they read the segments and write the content."""
        costs, puts = self.costs, all_.attachments * self.costs["put"] / PUT_AT_ONCE
        each = all_.attachments * costs["spark_attachment"] + puts
        return each + all_.size * (costs["spark_byte"] + 2 * costs["put_byte"])

    def spark(self, all_: Amount) -> float:
        driver = self.costs["spark_batch"] + all_.attachments * self.costs["driver_attachment"]
        return driver + max(self.tasks(all_) / self.cores, all_.attachments * self.costs["put_alone"])

    def settle(self, all_: Amount) -> float:
        """A page of content is put at once, and then the next one."""
        if not self.shape.is_shared:
            return all_.attachments * self.costs["settle_attachment"]
        page = AT_ONCE / (ceil(AT_ONCE / PUT_AT_ONCE) * PUT_AT_ONCE)
        waits = self.put(all_, all_.attachments) / PUT_AT_ONCE / page
        return max(waits, all_.attachments * max(self.costs["put_alone"], self.costs["settle_attachment"]))

    def put(self, all_: Amount, objects: float = 1) -> float:
        """Return the seconds of putting or getting bytes as so many objects, one after the other."""
        return objects * self.costs["put"] + all_.size * self.costs["put_byte"]


def sized(costs: Mapping[str, float], shape: Shape, rate: float, each: Amount) -> Model:
    """Return a model with as many receivers and cores as `rate` attachments a second need."""
    wanted = rate / (1 - UNUSED)
    alone = Model(costs, shape).steps()["receive"].rate(each)
    receivers = min(MOST_RECEIVERS, max(2, ceil(wanted / alone))) if shape.is_shared else 1
    sizes = [2**power for power in range(1, MOST_CORES.bit_length())]
    rates = [Model(costs, shape, receivers, cores).steps()["assemble"].rate(each) for cores in sizes]
    cores = sizes[min(bisect_left(rates, wanted), len(sizes) - 1)] if shape.has_spark else 0
    return Model(costs, shape, receivers, cores)


class Simulation:
    """A model with `rate` attachments like `each` a second."""

    def __init__(self, model: Model, rate: float, each: Amount, seed: int = 1) -> None:
        self._model, self._rate, self._each, self._random = model, rate, each, Random(seed)
        self.events = events = Events()
        self.acknowledged: list[float] = []
        self.finished: list[float] = []
        self.came = self.done = self.puts = 0.0
        """Attachments, and objects without those of content."""
        shape = model.shape
        step, pause = model.steps()["assemble"], TRIGGER if shape.has_spark else FOLLOW_SECONDS
        self._assembly = Queue(
            events, lambda all_: step.seconds(total(all_)), self._assembled, step.most, pause * shape.is_shared
        )
        self._open: list[list[Piece]] = [[] for _ in range(model.receivers)]
        self._sealed: list[list[list[Piece]]] = [[] for _ in range(model.receivers)]
        self._published: list[Piece] = []
        """What the receiver whose turn it is publishes."""
        self._receivers = [
            Queue(events, lambda batch: model.receive(total(batch)), self._journaled(number), BATCH_BYTES)
            for number in range(model.receivers)
        ]
        if shape.is_shared:
            for number in range(model.receivers):
                events.at(self._random.random() * PUBLISH_SECONDS, self._turn(number))
        self._arrive()

    def held(self) -> Iterator[float]:
        """Yield the attachments of all pieces that are not assembled."""
        queues = [*self._receivers, self._assembly]
        places = [self._published, *self._open, *(each for sealed in self._sealed for each in sealed)]
        for pieces in (*places, *(queue.waiting for queue in queues), *(queue.served for queue in queues)):
            yield from (each.has.attachments for each in pieces)

    def _arrive(self) -> None:
        number = max(1.0, self._rate / GROUPS_A_SECOND)
        parts = min(round(number * self._each.messages), self._model.receivers)
        came = Came(self.events.now, parts)
        has = Amount(*(number * field / parts for field in (1, self._each.messages, self._each.size)))
        for receiver in self._random.sample(self._receivers, parts):
            receiver.put([Piece(came, has)])
        self.came += number
        self.events.at(self.events.now + self._random.expovariate(self._rate / number), self._arrive)

    def _journaled(self, number: int) -> Callable[[list[Piece]], None]:
        def done(batch: list[Piece]) -> None:
            if self.events.now > WARM_UP:
                self.acknowledged += [self.events.now - piece.came.at for piece in batch]
            if not self._model.shape.is_shared:
                self._assembly.put(batch)
            elif not self._model.shape.has_disks:
                self.puts += 1
                self._sealed[number].append(batch)
            else:
                if not self._open[number]:
                    segment = self._open[number] = []
                    late = SEGMENT_AGE + self._random.random() * UPKEEP_SECONDS
                    self.events.at(self.events.now + late, lambda: self._seal(number, segment))
                self._open[number] += batch
                if total(self._open[number]).size >= SEGMENT_BYTES:
                    self._seal(number, self._open[number])

        return done

    def _seal(self, number: int, segment: list[Piece]) -> None:
        if segment is self._open[number]:
            self._sealed[number].append(segment)
            self._open[number] = []

    def _turn(self, number: int) -> Callable[[], None]:
        """Return the look of a receiver: whether it has something to publish, and whether it is its turn."""

        def look() -> None:
            if not self._published:
                self._publish(number)
            self.events.at(self.events.now + PUBLISH_SECONDS, look)

        return look

    def _publish(self, number: int) -> None:
        sealed, segment, objects = self._sealed[number], self._published, 0
        while sealed and (not objects or total(segment).size + total(sealed[0]).size <= TOGETHER_BYTES):
            segment += sealed.pop(0)
            objects += 1
        if not objects:
            return
        self.puts += 1

        def published() -> None:
            self._published = []
            self._assembly.put(segment)
            self._publish(number)

        self.events.at(self.events.now + self._model.publish(total(segment, objects)), published)

    def _assembled(self, batch: list[Piece]) -> None:
        for piece in batch:
            self.done += piece.has.attachments
            piece.came.left -= 1
            if not piece.came.left and self.events.now > WARM_UP:
                self.finished.append(self.events.now - piece.came.at)


def quantile(times: Sequence[float], part: float) -> float:
    return sorted(times)[int(part * (len(times) - 1))] if times else inf


def used(model: Model, rate: float, each: Amount) -> dict[str, float]:
    """Return the share of its time that each step is busy."""
    steps = model.steps()
    receiving = rate / steps["receive"].rate(each)
    each = each._replace(objects=each.size / TOGETHER_BYTES)
    found = {name: receiving if name == "receive" else rate / step.rate(each) for name, step in steps.items()}
    if not model.shape.has_disks:  # a receiver puts what has come during the last put, as an object of its own
        parts = rate * min(each.messages, model.receivers) / model.receivers
        objects = model.receivers * min(parts, max(0.0, 1 - receiving) / model.costs["put"]) / rate
        full = each.size / BATCH_BYTES
        found["publish"] = rate / steps["publish"].rate(each._replace(objects=max(objects, full)))
    return found


def row(model: Model, rate: float, each: Amount) -> str:
    """Simulate attachments, and return the row of the table."""
    shares = used(model, rate, each)
    day = Amount(*(rate * field for field in each))
    cores = model.received(day) + (model.tasks(day) if model.shape.has_spark else model.kept(day))
    cores += 0.0 if model.shape.has_spark else rate * model.costs["settle_attachment"]
    cores += rate * model.costs["catalog_attachment"] if model.shape.is_shared else 0.0
    cells = f"{model.shape.name:>15} {rate * DAY:6.0e} {model.receivers:9} {model.cores or '-':>5} "
    cells += " ".join(f"{shares[name]:8.0%}" if name in shares else f"{'-':>8}" for name in STEPS)
    cells += f" {max(shares, key=shares.__getitem__):>8} {cores:6.1f}"
    if max(shares.values()) >= 1:
        return f"{cells} {'saturated':>9}"
    simulation = Simulation(model, rate, each)
    simulation.events.run(WARM_UP + SECONDS)
    puts = simulation.puts / (WARM_UP + SECONDS) + (rate if model.shape.is_shared else 0)
    for times in (simulation.acknowledged, simulation.finished):
        cells += f" {quantile(times, 0.5):7.3f} {quantile(times, 0.99):7.3f}"
    return f"{cells} {puts * DAY / 1e6:7.1f}"


def limit(costs: Mapping[str, float], shape: Shape, each: Amount) -> str:
    """Return the most attachments a day, and the step that is saturated first."""
    rate = 1.0
    while max((shares := used(sized(costs, shape, rate, each), rate, each)).values()) < 1:
        rate *= 1.02
    return f"{shape.name:>15} {rate * DAY:6.1e} {max(shares, key=shares.__getitem__)}"


def checks() -> Iterator[tuple[str, float]]:
    """Yield what the model says over what a bench has measured, with the store of the benches."""
    costs, message = chosen("bench", []), Amount(1, 1, 32_000)
    for name, size, measured in (("small", 32_000, 2_116), ("tiny", 1_000, 2_570)):
        yield f"one_{name}", Model(costs, ONE).steps()["assemble"].rate(Amount(1, 5, size)) / measured
    for delay, measured in ((20, 1_152), (100, 772)):
        steps = Model(costs | {"put": delay / 1e3}, NO_DISKS).steps()
        yield f"acked_{delay}ms", steps["receive"].rate(message) / measured
    published = TOGETHER_BYTES / Model(costs | {"put": 0.0}, KEEPER).publish(Amount(1, 1, TOGETHER_BYTES))
    yield "published", published / 35e6
    folder = Model(costs | {"put": 0.0, "put_byte": 0.0, "put_alone": 0.0}, SPARK)
    yield "spark_small", 100_000 / folder.spark(Amount(100_000, 500_000, 1.65e9)) / 5_887
    yield "spark_stream", 3.9 / folder.spark(Amount(2_525, 14_750, 183 * 2**20))
    yield "puts", 4.8 / Model(costs | {"put": 0.03}, KEEPER).settle(Amount(2_000, 2_000, 33 * 2**20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, nargs="+", default=[1e6, 1e7, 1e8, 1e9], help="attachments a day")
    parser.add_argument("--size", type=float, default=32_000, help="bytes of an attachment (32,000)")
    parser.add_argument("--messages", type=float, default=5, help="messages of one, with its share of a header (5)")
    parser.add_argument("--store", choices=STORES, default="bench", help="how the object store answers (bench)")
    parser.add_argument("--set", nargs="+", default=[], metavar="COST=VALUE", help="other costs")
    given = parser.parse_args()
    costs, each = chosen(given.store, given.set), Amount(1, given.messages, given.size)
    for name, value in costs.items():
        _, unit, source = COSTS.get(name, (0, "s", f"the store {given.store}"))
        print(f"{name:>20} {value:.2e} {unit} ({source})")
    print(
        f"\n{'shape':>15} {'a day':>6} receivers cores {' '.join(f'{name:>8}' for name in STEPS)} {'first':>8}", end=""
    )
    print(f" {'busy':>6} {'ack':>7} {'p99':>7} {'finish':>7} {'p99':>7} {'puts':>7}")
    for shape in SHAPES:
        for rate in (day / DAY for day in given.days):
            print(row(sized(costs, shape, rate, each), rate, each), flush=True)
    print("\nthe most attachments a day, and what is saturated first:")
    for shape in SHAPES:
        print(limit(costs, shape, each))
    print("ratios: " + " ".join(f"{name}={ratio:.2f}" for name, ratio in checks()))


if __name__ == "__main__":
    main()
