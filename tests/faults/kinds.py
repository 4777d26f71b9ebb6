"""A table of all kinds of fault.

A kind is a context around a slice of traffic. It causes its fault before, during or after the slice, and repairs what
an operator or a supervisor would repair.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import EINTR, EIO, EMFILE, ENOSPC
from functools import partial
from pathlib import Path
from random import Random
from threading import Timer
from time import sleep

from app.testing.waiting import until
from tests.faults.damage import BLOCK, DAMAGE
from tests.faults.shim import SHORT, Call
from tests.faults.traffic import Message
from tests.faults.world import SOURCE, World

DAY = 86_400.0
FIRED_WITHIN = 3.0
REFUSED_WITHIN = 20.0
TAKING_TURNS = 8.0
TAKEN_OVER = re.compile(r"taken over|took over|another client|session.taken", re.IGNORECASE)
SAID_AT_MOST = 20
Kind = Callable[[World, Random], AbstractContextManager[None]]


# --- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def killed(world: World, random: Random) -> Iterator[None]:
    """Kill the gateway at some moment, and start it again."""
    yield
    sleep(random.uniform(0, 0.3))
    world.kill()
    world.faults += 1
    world.start()


@contextmanager
def killed_while_starting(world: World, random: Random) -> Iterator[None]:
    """Kill the gateway, and again while it recovers."""
    yield
    world.kill()
    for _ in range(2):
        world.gateway.spawn()
        sleep(random.uniform(0, 0.8))
        world.kill()
        world.faults += 1
    world.start()


@contextmanager
def paused(world: World, random: Random) -> Iterator[None]:
    """Pause the broker for a moment, with connections open."""
    world.broker.pause()
    timer = Timer(random.uniform(0.2, 1.0), world.broker.resume)
    timer.start()
    yield
    timer.join()
    world.faults += 1


@contextmanager
def broker_killed(world: World, random: Random) -> Iterator[None]:
    """Kill the broker, which loses what it had not saved."""
    yield
    sleep(random.uniform(0, 0.3))
    world.broker_lost = True
    world.broker.kill()
    world.broker.start()
    world.faults += 1


@contextmanager
def broker_restarted(world: World, random: Random) -> Iterator[None]:
    yield
    world.broker.stop()
    sleep(random.uniform(0, 0.5))
    world.broker.start()
    world.faults += 1


@contextmanager
def disconnected(world: World, random: Random) -> Iterator[None]:
    """Break the gateway's connection in the middle of a packet."""
    timer = Timer(random.uniform(0, 0.2), world.proxy.cut)
    timer.start()
    yield
    timer.join()
    world.faults += 1


@contextmanager
def unheard(world: World, random: Random) -> Iterator[None]:
    """Suppress the gateway's acknowledgements, so that the broker delivers everything again."""
    world.proxy.swallow(True)
    yield
    sleep(random.uniform(0.1, 0.5))
    world.proxy.cut()
    world.proxy.swallow(False)
    world.faults += 1


@contextmanager
def repeated(world: World, random: Random) -> Iterator[None]:
    """Send a part of the messages again, in another order."""
    again = random.sample(sorted(world.ledger.sent), len(world.ledger.sent) // 5)
    yield
    world.send([world.ledger.sent[identity] for identity in again])
    world.faults += 1


# --- system calls -----------------------------------------------------------------------------------------------------

_JOURNAL, _CATALOG, _CONTENT = "/journal/", "catalog.sqlite", "/content/"
CALLS: tuple[tuple[Call, str, tuple[int, ...]], ...] = (
    (Call.WRITE, _JOURNAL, (ENOSPC, EIO, EINTR, SHORT)),
    (Call.SYNC, _JOURNAL, (EIO, ENOSPC)),
    (Call.OPEN, _JOURNAL, (EMFILE, ENOSPC, EIO)),
    (Call.RENAME, _JOURNAL, (EIO, ENOSPC)),
    (Call.TRUNCATE, _JOURNAL, (EIO,)),
    (Call.READ, _JOURNAL, (EIO, EINTR)),
    (Call.UNLINK, _JOURNAL, (EIO,)),
    (Call.WRITE, _CATALOG, (ENOSPC, EIO, SHORT)),
    (Call.SYNC, _CATALOG, (EIO,)),
    (Call.READ, _CATALOG, (EIO,)),
    (Call.OPEN, _CATALOG, (EMFILE, EIO)),
    (Call.TRUNCATE, _CATALOG, (EIO,)),
    (Call.WRITE, _CONTENT, (ENOSPC, EIO, EINTR, SHORT)),
    (Call.SYNC, _CONTENT, (EIO, ENOSPC)),
    (Call.OPEN, _CONTENT, (EMFILE, ENOSPC)),
    (Call.RENAME, _CONTENT, (EIO, ENOSPC)),
    (Call.UNLINK, _CONTENT, (EIO,)),
)
"""The failing operations, the parts of their paths, and their errors."""


@contextmanager
def failing_calls(world: World, random: Random) -> Iterator[None]:
    """Let some system calls in a row fail, of one or two kinds, after some that succeed."""
    for call, path, errors in random.sample(CALLS, random.randint(1, 2)):
        world.shim.fail(call, path, random.choice(errors), skip=random.randrange(6), times=random.choice((1, 1, 2, 5)))
    yield
    for _ in range(int(FIRED_WITHIN / 0.05)):
        if world.shim.fired() or not world.ledger.unacknowledged():
            break
        sleep(0.05)
    world.faults += world.shim.fired()
    world.shim.clear()


@contextmanager
def failing_start(world: World, random: Random) -> Iterator[None]:
    """Let system calls fail while the gateway starts; its supervisor starts it again."""
    yield
    world.kill()
    for _ in range(2):
        call, path, errors = random.choice(CALLS)
        world.shim.fail(call, path, random.choice(errors), skip=random.randrange(8), times=1)
        world.gateway.spawn()
        process = world.gateway.process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.5)
        world.faults += world.shim.fired()
        world.shim.clear()
        world.kill()
    world.start()


# --- disks and clocks -------------------------------------------------------------------------------------------------


@contextmanager
def full_disk(world: World, random: Random) -> Iterator[None]:
    """Fill the disk except for some KiB, and free it again."""
    places = [world.place, *([world.catalog_place] if world.has_catalog_disk else [])]
    fillers = [place / "filler" for place in random.sample(places, random.randint(1, len(places)))]
    for filler in fillers:
        left = random.choice((0, 1, 64, 300)) << 10
        with suppress(OSError), filler.open("wb") as file:  # the gateway may have filled it before
            free = shutil.disk_usage(filler.parent).free - left
            for at in range(0, max(free, 0), 1 << 16):
                file.write(bytes(min(1 << 16, free - at)))
                file.flush()
    yield
    sleep(random.uniform(0.5, 1.5))
    if random.random() < 0.3:
        world.kill()
    for filler in fillers:
        filler.unlink(missing_ok=True)
        world.faults += 1
    if not world.is_running:
        world.gateway.process = None
        world.start()


@contextmanager
def clock_jumped(world: World, random: Random) -> Iterator[None]:
    """Set the clock forward or back, by seconds or by years; some time later it may be correct again."""
    before = world.shim.clock
    world.shim.clock = before + random.choice((-1, 1)) * random.choice((5.0, 3600.0, 8 * DAY, 30 * DAY, 800 * DAY))
    yield
    sleep(random.uniform(1.2, 2.5))  # long enough for timed work
    world.faults += 1
    if random.random() < 0.7:
        world.shim.clock = 0
        world.faults += 1


@contextmanager
def long_absence(world: World, random: Random) -> Iterator[None]:
    """Stop the gateway for a month, while the other messages wait at the broker, which answers late."""
    world.await_acknowledged()
    world.kill()
    yield
    world.shim.clock += random.uniform(30, 40) * DAY
    world.faults += 1
    world.broker.pause()
    world.start()
    sleep(random.uniform(4, 6))
    world.broker.resume()


# --- bytes that rot ---------------------------------------------------------------------------------------------------


def _segments(world: World, *, sealed: bool | None = None) -> list[Path]:
    """Return the journal's non-empty segments: all, only sealed ones, or only open ones."""
    found = sorted(path for path in world.journal.glob("*.arrows") if path.stat().st_size)
    return [path for path in found if sealed is None or sealed == (".open." not in path.name)]


def _pass_some_time(world: World, random: Random) -> None:
    """Wait a moment, or until the gateway has acknowledged everything."""
    if random.random() < 0.5:
        sleep(random.uniform(0, 0.5))
    else:
        world.await_acknowledged()


def _rot(world: World, random: Random, path: Path, how: str) -> None:
    places, change = DAMAGE[how](path, random)
    if path.parent == world.journal:
        world.expose(path, places)
    change()
    world.faults += len(places)
    world.note(f"{how} {path.name} at {places}")


@contextmanager
def rotten_journal(world: World, random: Random, *, sealed: bool | None, how: str) -> Iterator[None]:
    """Damage a segment while the gateway is down."""
    yield
    _pass_some_time(world, random)
    world.kill()
    if segments := _segments(world, sealed=sealed):
        _rot(world, random, random.choice(segments), how)
    world.start()


@contextmanager
def rotten_live_journal(world: World, random: Random) -> Iterator[None]:
    """Flip bits of a sealed segment while the gateway runs."""
    if segments := _segments(world, sealed=True):
        _rot(world, random, random.choice(segments), random.choice(("flipped", "zeroed")))
    yield


@contextmanager
def torn_tail(world: World, random: Random) -> Iterator[None]:
    """Append what a power cut leaves after the last durable byte: zeros, random bytes, a part of a batch."""
    yield
    world.kill()
    for path in _segments(world, sealed=False):
        whole = path.read_bytes()
        torn = random.choice((bytes(8192), random.randbytes(5000), whole[-3 * BLOCK :][: random.randrange(2 * BLOCK)]))
        with path.open("ab") as file:
            file.write(torn)
        world.faults += 1
    world.start()


@contextmanager
def bad_block(world: World, random: Random) -> Iterator[None]:
    """Make a block of a segment unreadable: EIO when it is read, SIGBUS when it is mapped."""
    yield
    until(lambda: _segments(world))
    world.kill()
    path = random.choice(_segments(world))
    first = random.randrange(path.stat().st_size) // BLOCK * BLOCK
    block = (first, first + BLOCK)
    world.expose(path, [block])
    name, inode = path.name.partition(".")[0], path.stat().st_ino
    # A new file of the same name has other blocks.
    world.shim.fail(Call.READ, f"{_JOURNAL}{name}", EIO, block=block, inode=inode)
    world.shim.fail(Call.MAP, f"{_JOURNAL}{name}", EIO, block=block, inode=inode)
    world.faults += 1
    world.note(f"bad block {path.name} at {block}")
    world.start()


@contextmanager
def replaced_journal(world: World, random: Random) -> Iterator[None]:
    """Replace the journal's folder with an empty one."""
    yield
    world.await_acknowledged()
    settled = world.await_settled()  # what is finished later may not be settled when the gateway is killed
    world.exposed |= world.ledger.attachments.keys() - settled
    world.kill()
    shutil.rmtree(world.journal)
    world.faults += 1
    world.start()


@contextmanager
def lost_newest_segment(world: World, random: Random) -> Iterator[None]:
    yield
    world.await_acknowledged()
    world.kill()
    if segments := _segments(world):
        _rot(world, random, segments[-1], "deleted")
    world.start()


@contextmanager
def rotten_catalog(world: World, random: Random, *, how: str) -> Iterator[None]:
    """Damage the catalog's database, or its log, while the gateway is down. The journal has everything but the log of
    receipts."""
    yield
    world.is_catalog_damaged = True
    _pass_some_time(world, random)
    world.kill()
    database = world.catalog
    log = database.with_name(database.name + "-wal")
    path = log if log.exists() and log.stat().st_size and random.random() < 0.4 else database
    _rot(world, random, path, how)
    if how == "deleted" and path is database:
        for rest in ("-wal", "-shm"):
            database.with_name(database.name + rest).unlink(missing_ok=True)
    world.start()


@contextmanager
def rotten_content(world: World, random: Random, *, how: str) -> Iterator[None]:
    """Damage an object of the content store while the gateway runs. Raises Hung if nothing comes into the store."""
    yield
    world.await_acknowledged()
    world.progressing(lambda: _nonempty(world.objects()), lambda: len(world.finished()), "settling")
    path = random.choice(_nonempty(world.objects()))
    world.expose_object(path.name)
    _rot(world, random, path, how)


def _nonempty(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.stat().st_size]


# --- what others send and start ---------------------------------------------------------------------------------------


_UNKNOWN = 200_000
"""A message type that the gateway does not know."""


@contextmanager
def poison(world: World, random: Random) -> Iterator[None]:
    """Send unreadable messages of six bytes between good ones."""
    poisonous = [
        Message(_UNKNOWN + random.randrange(1000), random.randbytes(20), random.randbytes(6)) for _ in range(11)
    ]
    world.send(poisonous[:5])
    yield
    world.send(poisonous[5:])
    world.faults += 1


@contextmanager
def property_flood(world: World, random: Random) -> Iterator[None]:
    """Send messages with many MB of user properties and a very short body."""
    value = "x" * 60_000
    flood = [
        Message(_UNKNOWN, random.randbytes(20), b"", tuple((f"p{n}", value) for n in range(random.choice((1, 50)))))
        for _ in range(50)
    ]
    world.send(flood)
    yield
    world.faults += 1


@contextmanager
def second_gateway(world: World, random: Random, *, shares: str) -> Iterator[None]:
    """Start a second gateway by mistake: it must refuse with one message, and do no harm."""
    yield
    with world.second_gateway(shares) as second:
        process = second.process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(REFUSED_WITHIN)
        said = [line for line in second.log.splitlines() if line.startswith("error:")]
        if process.poll() != 1 or len(said) != 1:
            world.misdeeds.append(f"a second gateway on the same {shares}: {process.poll()} {second.log[-1500:]}")
    world.faults += 1


@contextmanager
def second_client(world: World, random: Random) -> Iterator[None]:
    """Start a second gateway that shares only the client identifier at the broker.

    Both must report it once. Messages that arrive after the second has ended must be received.
    """
    world.await_acknowledged()
    before = len(world.gateway.log)
    with world.second_gateway("client_id") as second:
        second.until(second.is_up)
        second.await_source(SOURCE)
        sleep(TAKING_TURNS)
    said = world.gateway.log[before:]
    if not TAKEN_OVER.search(said):
        world.misdeeds.append(f"a session that another client takes is not spoken of: {said[-1500:]}")
    if said.count("\n") > SAID_AT_MOST:
        world.misdeeds.append(f"two gateways that take turns fill the log: {said[:1500]}")
    world.gateway.await_source(SOURCE)
    world.faults += 1
    yield


KINDS: dict[str, Kind] = {
    "killed": killed,
    "killed while starting": killed_while_starting,
    "broker paused": paused,
    "broker killed": broker_killed,
    "broker restarted": broker_restarted,
    "disconnected": disconnected,
    "acknowledgements unheard": unheard,
    "repeated": repeated,
    "failing calls": failing_calls,
    "failing start": failing_start,
    "full disk": full_disk,
    "clock jumped": clock_jumped,
    "long absence": long_absence,
    "torn tail": torn_tail,
    **{f"open segment {how}": partial(rotten_journal, sealed=False, how=how) for how in ("flipped", "zeroed", "cut")},
    **{f"sealed segment {how}": partial(rotten_journal, sealed=True, how=how) for how in DAMAGE},
    "segment flipped below": rotten_live_journal,
    "newest segment lost": lost_newest_segment,
    "bad block": bad_block,
    "journal replaced": replaced_journal,
    **{f"catalog {how}": partial(rotten_catalog, how=how) for how in DAMAGE},
    **{f"content {how}": partial(rotten_content, how=how) for how in DAMAGE},
    "poison": poison,
    "property flood": property_flood,
    "second gateway on the folder": partial(second_gateway, shares="folder"),
    "second gateway on the catalog": partial(second_gateway, shares="catalog"),
    "second gateway at the broker": second_client,
}
