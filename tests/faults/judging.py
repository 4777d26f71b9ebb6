"""The check of the gateway's promises: nothing lost, nothing twice, nothing wrong served, and no standstill.

An attachment is *lost* when the gateway acknowledged all of it and does not serve it, *twice* when it is listed twice,
*wrong* when a successful response (200, 206) has other bytes than were sent. The same counts tell of its receipt. An
attachment that damage made unrecoverable is *named* when the gateway reports that attachment, or when it reports damage
and the attachment is among those whose bytes were damaged.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any, Literal, NamedTuple

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.traffic import DATA_SET, Attachment
from tests.faults.world import Hung, World

Answer = Literal["right", "wrong", "refused", "broken"]
NAMED_STATES = ("quarantined", "expired")
RANGES = 0.3


class Verdict(NamedTuple):
    """The result of a scenario.

    `named` are attachments that damage made unrecoverable and that the gateway reported; `notes` describe the events.
    """

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
    return Verdict._make([*map(sum, zip(*counts, strict=True)), ()])


class Found(NamedTuple):
    """The findings of an audit, with a note each; `named` are attachments."""

    lost: list[str]
    twice: list[str]
    wrong: list[str]
    hung: list[str]
    named: set[bytes]


def judge(world: World) -> Verdict:
    """Wait until everything has arrived that can, and compare the served content with the sent one.

    Then repair the attachments that were named, send them again, and compare again.
    """
    found = _audited(world)
    named = len(found.named)
    if found.named and world.is_running:
        world.note(f"{named} attachments are named: repairing, and sending them again")
        again = _healed(world, found.named)
        for mine, more in zip(found[:4], again[:4], strict=True):
            mine += [note for note in more if note not in mine]
    notes = [f"{name}: {note}" for name, each in zip(Found._fields, found[:4], strict=False) for note in each]
    world.note(f"judged; the log says {world.log_events()}")
    return Verdict._make([world.faults, *map(len, found[:4]), named, (*notes, *world.notes)])


def _audited(world: World) -> Found:
    found = Found(
        [], [], [], [*world.misdeeds, *[f"the gateway died {world.deaths} times"] * bool(world.deaths)], set()
    )
    try:
        world.revive()
        await_everything(world)
        _check_well(world)
    except Hung as standstill:
        found.hung.append(str(standstill))
    if not world.is_running:
        held = [key.hex() for key in world.ledger.attachments if world.ledger.is_acknowledged(key)]
        found.lost.extend(f"{key}: the gateway is down" for key in held)
        return found
    items = _listed(world)
    counted = Counter(item["correl_id"] for item in items)
    found.twice.extend(f"{correl_id} is listed {count} times" for correl_id, count in counted.items() if count > 1)
    by_key = {bytes.fromhex(item["correl_id"]): item for item in items}
    strange = {key for key in by_key if not world.ledger.about(key)}
    if not world.exposed:  # an application message whose header was damaged looks like an attachment
        strange = by_key.keys() - world.ledger.attachments.keys()
    found.twice.extend(f"{key.hex()} was never sent" for key in strange)
    for key in filter(world.ledger.is_sent, world.ledger.attachments):
        _compare(world, key, by_key.get(key), found)
    if not world.is_catalog_damaged:
        served = {
            item["id"]: world.ledger.attachments[key]
            for key, item in by_key.items()
            if item["state"] == "finished" and key in world.ledger.attachments
        }
        notes = world.receipts.judge(world.client, served, is_damaged=bool(world.exposed))
        found.lost.extend(notes.lost)
        found.twice.extend(notes.twice)
        found.wrong.extend(notes.wrong)
    return found


def _listed(world: World) -> list[dict[str, Any]]:
    """Return all attachments that REST lists. If the gateway says that its catalog is damaged, repair that first, like
    an operator."""
    try:
        return world.listing()
    except httpx.HTTPStatusError:
        if not world.is_catalog_damaged or "catalog_damaged" not in world.gateway.log:
            raise
    world.shim.clear()
    world.kill()
    world.run("fsck --repair")
    world.start()
    await_everything(world)
    return world.listing()


def _compare(world: World, key: bytes, item: dict[str, Any] | None, found: Found) -> None:
    """Compare the served content of an attachment with the sent one."""
    attachment = world.ledger.attachments[key]
    is_finished = item is not None and item["state"] == "finished"
    answer: Answer = fetched(world.client, item, attachment, world.random) if item and is_finished else "refused"
    if answer == "right":
        return
    note = f"{attachment.name} {key.hex()}: {answer} {item}"
    if answer == "wrong":
        found.wrong.append(note)
    elif _is_named(world, key, item):
        found.named.add(key)
    elif world.ledger.is_acknowledged(key):
        found.lost.append(note)
    else:
        found.hung.append(f"not acknowledged: {note}")


def _healed(world: World, named: set[bytes]) -> Found:
    """Repair damage like an operator, and repeat lost messages like a sender.

    After that nothing may be missing except finished content that cannot be restored.
    """
    world.shim.clear()
    world.kill()
    try:
        world.run("fsck --repair")
        world.start()
        for letter in {id(letter): letter for letter in map(world.ledger.letter_of, named)}.values():
            world.send(letter.messages)
    except (Hung, TimeoutError) as standstill:
        world.misdeeds.append(str(standstill))
    found = _audited(world)
    left = [item for item in world.listing() if bytes.fromhex(item["correl_id"]) in found.named]
    found.hung.extend(f"not healed: {item}" for item in left if item["state"] != "finished")
    world.note(f"{len(found.named)} attachments remain named")
    return found


def await_everything(world: World) -> None:
    """Return when the gateway has acknowledged and finished everything, except attachments with damaged bytes.

    Everything is what the broker has confirmed to the sender. Raises Hung.
    """
    ledger = world.ledger
    world.await_acknowledged()
    world.note("everything is acknowledged")
    wanted = {key for key in ledger.attachments if ledger.is_sent(key)}
    world.progressing(
        lambda: wanted - world.exposed <= world.finished(), lambda: len(world.finished() & wanted), "finishing"
    )
    world.note("everything is finished that can be")
    if not wanted <= world.finished():
        world.await_still(lambda: sorted((item["correl_id"], item["state"]) for item in world.listing()))


def _check_well(world: World) -> None:
    if not world.is_live():
        raise Hung(f"the gateway says that it should not live on: {world.gateway.log[-2000:]}")
    peak = world.peak_memory()
    world.note(f"the gateway took at most {peak >> 20} MiB of memory")
    if world.setting.memory_bound and peak > world.setting.memory_bound:
        raise Hung(f"the gateway took {peak} bytes of memory")
    if bound := world.setting.journal_bound:

        def size() -> int:
            # The open segment has at least one whole batch, which may be larger than the bound.
            sealed = (path for path in world.journal.glob("*.arrows") if not path.name.endswith(".open.arrows"))
            sizes = []
            for path in sealed:
                with suppress(FileNotFoundError):  # retired meanwhile
                    sizes.append(path.stat().st_size)
            return sum(sizes)

        world.progressing(lambda: size() <= bound, size, f"the journal's way down to {bound} bytes")


def _is_named(world: World, key: bytes, item: dict[str, Any] | None) -> bool:
    if key not in world.exposed:
        return False
    return (item is not None and item["state"] in NAMED_STATES) or world.speaks_of_damage()


def fetched(client: httpx.Client, item: dict[str, Any], attachment: Attachment, random: Random) -> Answer:
    """Read an attachment as a whole; read a file by a range too, sometimes, and whenever the whole cannot be read."""
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
