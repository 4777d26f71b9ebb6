"""Scenarios: traffic, a world, and the kinds of faults that are drawn for it."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.faults import traffic
from tests.faults.judging import Verdict, judge
from tests.faults.kinds import KINDS
from tests.faults.traffic import Letter, Message
from tests.faults.world import Hung, Setting, World

SHUFFLED_OVER = 60
"""The number of messages within which they are shuffled."""

Slices = list[list[Message]]
Traffic = Callable[[Random, int], tuple[list[Letter], Slices]]
"""Letters, and their messages in slices."""


class Fault(NamedTuple):
    """A kind of fault, and the seed of everything that is drawn for it."""

    kind: str
    seed: str


def mixed(random: Random, count: int, *, attachments: int = 8, largest: int = 60_000) -> tuple[list[Letter], Slices]:
    """Return slices of attachments of every kind.

    Their messages are in nearly random order, so that most attachments are unfinished for a while.
    """
    letters = list(traffic.mixed(random, attachments * count, largest))
    ordered = [message for letter in letters for message in letter.messages]
    stream: list[Message] = []
    for at in range(0, len(ordered), SHUFFLED_OVER):
        some = ordered[at : at + SHUFFLED_OVER]
        random.shuffle(some)
        stream += some
    each = len(stream) // count + 1
    return letters, [stream[at * each : (at + 1) * each] for at in range(count)]


def halves(random: Random, count: int, *, attachments: int = 1000) -> tuple[list[Letter], Slices]:
    """Return attachments whose first halves are in the first slice and whose other halves are in the second."""
    letters = [
        traffic.letter(random, [traffic.binary_file(random, f"file-{n}", 2_000, 500)]) for n in range(attachments)
    ]
    early = [message for letter in letters for message in letter.messages[: len(letter.messages) // 2]]
    late = [message for letter in letters for message in letter.messages[len(letter.messages) // 2 :]]
    return letters, [early, late, *([] for _ in range(count - 2))]


class Scenario(NamedTuple):
    """A scenario and its `kinds` of faults.

    Each kind is drawn before one is repeated, in an order that the seed decides.
    """

    kinds: tuple[str, ...]
    setting: Setting = Setting()
    make: Traffic = mixed
    most: int = 12
    """The maximum number of faults that one run draws."""

    def faults(self, seed: str, count: int | None = None) -> list[Fault]:
        """Return the faults of a seed: this number of them, or each kind once."""
        random = Random(f"faults {seed}")
        kinds: list[str] = []
        while len(kinds) < (count or len(self.kinds)):
            kinds += random.sample(self.kinds, len(self.kinds))
        return [Fault(kind, f"{seed} {number}") for number, kind in enumerate(kinds[: count or len(self.kinds)])]


def run(scenario: Scenario, seed: str, folder: Path, count: int | None = None) -> Verdict:
    """Send a scenario's traffic, each slice during one of its faults, and judge the result."""
    faults = scenario.faults(seed, count)
    letters, slices = scenario.make(Random(f"traffic {seed}"), len(faults) + 1)
    with ExitStack() as ending:
        try:
            world = ending.enter_context(World(folder, scenario.setting, Random(f"world {seed}")))
        except Hung as standstill:
            return Verdict(hung=1, notes=(str(standstill),))
        world.ledger.expect(letters)
        world.note(f"seed {seed}: {[fault.kind for fault in faults]}")
        try:
            world.send(slices[0])
            for fault, messages in zip(faults, slices[1:], strict=True):
                world.note(f"-- {fault.kind}")
                with KINDS[fault.kind](world, Random(fault.seed)):
                    world.send(messages)
                world.receipts.keep_head(world.client)
        except (Hung, TimeoutError) as standstill:
            world.misdeeds.append(str(standstill))
        return judge(world)


def _kinds(*beginnings: str) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind.startswith(beginnings))


_NO_LIMIT = '[limits]\nfree_bytes = "0"\n'

SCENARIOS: dict[str, Scenario] = {
    "processes": Scenario(_kinds("killed", "broker", "disconnected", "acknowledgements", "repeated"), most=24),
    "failing calls": Scenario(("failing calls",) * 8 + ("failing start",), most=60),
    "full disk": Scenario(("full disk",) * 2, Setting(_NO_LIMIT, disk=24 << 20, catalog_disk=6 << 20), most=6),
    "clock": Scenario(("clock jumped",) * 3),
    "long absence": Scenario(("long absence",), Setting(segment_bytes="256 KiB"), halves, most=1),
    "rotten journal": Scenario(
        (*_kinds("torn", "open segment", "sealed segment", "segment flipped"),), Setting(segment_bytes="256 KiB")
    ),
    "bad blocks": Scenario(("bad block",) * 2, Setting(segment_bytes="256 KiB", settle_after="1h"), most=4),
    "lost journal": Scenario(("newest segment lost", "journal replaced"), Setting(segment_bytes="256 KiB"), most=4),
    "rotten catalog": Scenario(_kinds("catalog")),
    "rotten content": Scenario(_kinds("content")),
    "poison": Scenario(
        ("poison",) * 6,
        Setting('[retention]\njournal = "1s"\n', segment_bytes="64 KiB", journal_bound=1 << 20),
        most=40,
    ),
    "property flood": Scenario(("property flood",) * 2, Setting(memory_bound=600 << 20)),
    "two gateways": Scenario(_kinds("second gateway"), most=3),
    "everything": Scenario(
        (*_kinds("killed", "broker", "failing calls", "clock", "torn", "open segment", "sealed segment", "catalog"),),
        Setting(segment_bytes="256 KiB"),
        most=30,
    ),
}

SHORT = tuple(name for name in SCENARIOS if name != "everything")
"""The scenarios that together have each kind of fault."""
