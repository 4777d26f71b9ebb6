"""Whether a gateway kept its promises: nothing lost, nothing twice, nothing wrong served, and no standstill.

An attachment is *lost* when the gateway acknowledged everything of it and does not serve it, *twice* when it is listed
twice, *wrong* when an answer that ended well (200, 206) has other bytes than were sent. What damage made unsavable is
*named* when the gateway says so of that very attachment, or when it speaks of damage and the attachment is among those
whose bytes were damaged.
"""

from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from random import Random
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.traffic import DATA_SET, Attachment
from tests.faults.world import PROGRESS_LIMIT, Hung, World

Answer = Literal["right", "wrong", "refused", "broken"]
NAMED_STATES = ("quarantined", "expired")
RANGES = 0.3
STILL = 2.0
"""Seconds without a change after which nothing more is expected of attachments that were damaged."""


class Verdict(NamedTuple):
    """`named` are attachments that damage made unsavable, and that the gateway named; `notes` tell what happened."""

    faults: int = 0
    lost: int = 0
    twice: int = 0
    wrong: int = 0
    hung: int = 0
    named: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        return not (self.lost or self.twice or self.wrong or self.hung)

    @property
    def line(self) -> str:
        counts = zip(self._fields[:6], self[:6], strict=True)
        return " ".join(f"{name}={count}" for name, count in counts)


def summed(verdicts: Iterable[Verdict]) -> Verdict:
    """Return all counts together, without the notes."""
    counts = (verdict[:6] for verdict in verdicts)
    return Verdict(*map(sum, zip(*counts, strict=True)))


def judge(world: World) -> Verdict:
    """Wait until everything has arrived that can, and compare what the gateway serves with what was sent."""
    hung = [*world.misdeeds, *[f"the gateway died {world.deaths} times"] * bool(world.deaths)]
    try:
        world.revive()
        await_everything(world)
        _check_well(world)
    except Hung as standstill:
        hung.append(str(standstill))
    if not world.is_running:
        held = [key.hex() for key in world.ledger.attachments if world.ledger.is_acknowledged(key)]
        return _verdict(world, [f"{key}: the gateway is down" for key in held], [], [], hung, 0)
    items = world.listing()
    counted = Counter(item["correl_id"] for item in items)
    twice = [f"{correl_id} is listed {count} times" for correl_id, count in counted.items() if count > 1]
    by_key = {bytes.fromhex(item["correl_id"]): item for item in items}
    twice += [f"{key.hex()} was never sent" for key in by_key.keys() - world.ledger.attachments.keys()]
    lost: list[str] = []
    wrong: list[str] = []
    named = 0
    for key, attachment in world.ledger.attachments.items():
        if not world.ledger.is_sent(key):
            continue
        item = by_key.get(key)
        answer: Answer = "refused"
        if item is not None and item["state"] == "finished":
            answer = fetched(world.client, item, attachment, world.random)
        if answer == "wrong":
            wrong.append(f"{attachment.name} {key.hex()}: {item}")
        elif answer != "right" and _is_named(world, key, item):
            named += 1
        elif answer != "right":
            acknowledged = world.ledger.is_acknowledged(key)
            (lost if acknowledged else hung).append(f"{attachment.name} {key.hex()}: {answer} {acknowledged=} {item}")
    return _verdict(world, lost, twice, wrong, hung, named)


def _verdict(world: World, lost: list[str], twice: list[str], wrong: list[str], hung: list[str], named: int) -> Verdict:
    kinds = {"lost": lost, "twice": twice, "wrong": wrong, "hung": hung}
    notes = [f"{kind}: {each}" for kind, found in kinds.items() for each in found]
    world.note(f"judged; the log says {world.log_events()}")
    counts = {kind: len(found) for kind, found in kinds.items()}
    return Verdict(world.faults, **counts, named=named, notes=(*notes, *world.notes))


def await_everything(world: World) -> None:
    """Return when all that the broker has confirmed is acknowledged, and all attachments are finished but those whose
    bytes were damaged. Raises Hung."""
    ledger = world.ledger
    if world.broker_lost:
        _await_still(world, lambda: len(ledger.acknowledged))
        world.send([message for message in ledger.sent.values() if message.identity not in ledger.acknowledged])
    world.await_acknowledged()
    world.note("everything is acknowledged")
    wanted = {key for key in ledger.attachments if ledger.is_sent(key)}
    world.progressing(
        lambda: wanted - world.exposed <= world.finished(), lambda: len(world.finished() & wanted), "finishing"
    )
    world.note("everything is finished that can be")
    if not wanted <= world.finished():
        _await_still(world, lambda: sorted((item["correl_id"], item["state"]) for item in world.listing()))


def _check_well(world: World) -> None:
    if not world.is_live():
        raise Hung(f"the gateway says that it should not live on: {world.gateway.log[-2000:]}")
    if bound := world.journal_bound:

        def size() -> int:
            return sum(path.stat().st_size for path in world.journal.glob("*.arrows"))

        world.progressing(lambda: size() <= bound, size, f"the journal's way down to {bound} bytes")


def _await_still(world: World, measure: Any) -> None:
    last, since, begun = measure(), monotonic(), monotonic()
    while monotonic() - since < STILL and monotonic() - begun < PROGRESS_LIMIT:
        sleep(0.2)
        world.revive()
        if (now := measure()) != last:
            last, since = now, monotonic()


def _is_named(world: World, key: bytes, item: dict[str, Any] | None) -> bool:
    if key not in world.exposed:
        return False
    return (item is not None and item["state"] in NAMED_STATES) or world.speaks_of_damage()


def fetched(client: httpx.Client, item: dict[str, Any], attachment: Attachment, random: Random) -> Answer:
    """Read an attachment as a whole; a file by a range too, now and then, and whenever it cannot be read as a whole."""
    whole = _whole(client, item, attachment)
    if attachment.kind != DATA_SET and attachment.content and (whole != "right" or random.random() < RANGES):
        part = _range(client, item, attachment, random)
        return part if part != "right" else whole
    return whole


def _whole(client: httpx.Client, item: dict[str, Any], attachment: Attachment) -> Answer:
    try:
        answer = client.get(f"/v1/attachments/{item['id']}/content")
    except httpx.HTTPError:
        return "broken"
    if answer.status_code != 200:
        return "refused"
    if attachment.kind != DATA_SET:
        return "right" if answer.content == attachment.content else "wrong"
    try:
        table = pq.read_table(BytesIO(answer.content))
    except (pa.ArrowException, OSError):
        return "wrong"
    numbers, texts = (table.column(at).to_pylist() for at in (0, 1))
    return "right" if list(zip(numbers, texts, strict=True)) == list(attachment.rows) else "wrong"


def _range(client: httpx.Client, item: dict[str, Any], attachment: Attachment, random: Random) -> Answer:
    size = len(attachment.content)
    first = random.randrange(size)
    last = random.randrange(first, size)
    try:
        answer = client.get(f"/v1/attachments/{item['id']}/content", headers={"Range": f"bytes={first}-{last}"})
    except httpx.HTTPError:
        return "broken"
    if answer.status_code != 206:
        return "refused"
    return "right" if answer.content == attachment.content[first : last + 1] else "wrong"
