"""Other readings of a file's records: those that a reader of its own finds in parts made to allow several."""

from random import Random

from app.codecs.sas.dialect import ALL, DIALECTS, Dialect, frames, mask_of
from app.codecs.sas.file_messages import RivalDialects, detect
from app.wire import WireError
from tests.support.cases import for_each


def read(part: bytes, dialect: Dialect) -> list[bytes] | None:
    """The records of a part, read byte by byte; None if it does not consist of whole records."""
    found, at = [], 0
    while at < len(part):
        if dialect.aligned:
            pad = part[at : at + -at % dialect.long]
            if any(pad):
                return None
            at += len(pad)
            if at == len(part):
                break
        head = part[at : at + dialect.long]
        if len(head) < dialect.long:
            return None
        length = int.from_bytes(head, "big" if dialect.order == ">" else "little", signed=True)
        at += dialect.long
        end = at + length
        if length < 0 or end + (dialect.nul == "excluded") > len(part):
            return None
        found.append(part[at:end])
        if dialect.nul == "excluded":
            if part[end]:
                return None
            end += 1
        at = end
    return found


def made(random: Random) -> bytes:
    """A part of few small numbers, which is often read in several ways."""
    numbers = [random.choice([0, 0, 1, 4, 8]) for _ in range(random.randrange(1, 5))]
    order = random.choice(["big", "little"])
    return b"".join(each.to_bytes(random.choice([4, 4, 8]), order) for each in numbers) + bytes(random.randrange(3))  # type: ignore[arg-type]


@for_each("seed", range(300))
@for_each("joined", [True, False])
def test_rivals_are_the_dialects_in_which_every_part_is_read_and_one_differs(seed: int, joined: bool) -> None:
    random = Random(seed)
    parts = [made(random) for _ in range(random.choice([1, 1, 2]))]
    mask = random.choice([ALL, mask_of(*random.sample(DIALECTS, 6))])
    try:
        chosen = detect(lambda: parts, mask)
    except WireError:
        return
    own = [read(part, chosen) for part in parts]
    if None in own:
        return  # its records span parts
    rivals = RivalDialects(mask, chosen, joined=joined)
    for part in parts:
        rivals.see(part)
    wanted = set()
    for other in DIALECTS:
        if other.nul not in {"absent", "excluded"} or other == chosen or not mask_of(other) & frames(mask):
            continue
        found = [read(part, other) for part in parts]
        if None in found:
            continue
        if joined and [b"".join(each or ()) for each in found] == [b"".join(each or ()) for each in own]:
            continue
        if found != own:
            wanted.add(other)
    assert wanted <= set(rivals.found)
    for extra in set(rivals.found) - wanted:  # other places, which have the same bytes
        assert None not in [read(part, extra) for part in parts]


def test_a_record_that_two_dialects_read_differently() -> None:
    part = (12).to_bytes(8, "little") + b"eight ch" + bytes(4)
    chosen = detect(lambda: [part], ALL)
    rivals = RivalDialects(ALL, chosen, joined=True)
    rivals.see(part)
    assert chosen.name == "little-4-absent-packed"
    assert {each.name for each in rivals.found} >= {"little-8-absent-packed"}
    rivals.see(b"\1\0\0\0x")
    assert not [each for each in rivals.found if each.long == 8]
