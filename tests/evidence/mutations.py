"""What can go wrong between a sender and the gateway: messages are withheld, swapped, duplicated, cut or segmented, or
another message comes first for the same place."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from tests.evidence.senders.sent import Physical

HEADER_BYTES = 24
"""The most bytes of a header that are changed, one at a time."""
MQMF_SEGMENT, MQMF_LAST_SEGMENT = 2, 4


class Change(NamedTuple):
    """One change: what is done to which messages (by their places in what was sent), and where a cut was made."""

    what: str
    at: tuple[int, ...]
    where: str = ""


class Mutated(NamedTuple):
    """What comes instead of what was sent: messages with their places in it, and the changes that were made."""

    changes: tuple[Change, ...]
    numbered: tuple[tuple[int, Physical], ...]

    @property
    def messages(self) -> tuple[Physical, ...]:
        return tuple(message for _, message in self.numbered)


def unchanged(sent: Sequence[Physical]) -> Mutated:
    return Mutated((), tuple(enumerate(sent)))


def withheld(sent: Sequence[Physical], number: int) -> Iterator[Mutated]:
    """Yield what comes when so many messages are lost, whichever they are."""
    for lost in combinations(range(len(sent)), number):
        changes = tuple(Change("withhold", (at,)) for at in lost)
        yield Mutated(changes, tuple((at, each) for at, each in enumerate(sent) if at not in lost))


def segmented(sent: Sequence[Physical]) -> Iterator[Mutated]:
    """Yield what comes when a message comes in two segments, in either order, that nothing has put together."""
    for place, each in enumerate(sent):
        if len(each.body) < 2:
            continue
        size = next((end for end in each.records if end < len(each.body)), len(each.body) // 2)
        first, last = (
            each._replace(body=body, group_id=b"G" * 24, offset=at, msg_flags=flags, records=())
            for body, at, flags in (
                (each.body[:size], 0, MQMF_SEGMENT),
                (each.body[size:], size, MQMF_SEGMENT | MQMF_LAST_SEGMENT),
            )
        )
        for where, both in (("", (first, last)), ("backwards", (last, first))):
            numbered = [*enumerate(sent)]
            numbered[place : place + 1] = [(place, segment) for segment in both]
            yield Mutated((Change("segment", (place,), where),), tuple(numbered))


def contradicted(sent: Sequence[Physical]) -> Iterator[Mutated]:
    """Yield what comes when another message comes first for the place of a message.

    Not for the last message: with the other one all has come.
    """
    numbered = tuple(enumerate(sent))
    for place, (at, each) in enumerate(numbered[:-1]):
        if each.body:
            between = range(0, len(each.body), len(each.body) // HEADER_BYTES + 1) if each.role == "header" else ()
            for changed_at in {0, len(each.body) - 1, *between}:
                body = bytes(octet ^ (number == changed_at) for number, octet in enumerate(each.body))
                other = each._replace(body=body, records=())
                changes = (Change("contradict", (at,), f"byte {changed_at}"),)
                yield Mutated(changes, (*numbered[:place], (at, other), *numbered[place:]))


def twice(sent: Sequence[Physical]) -> Iterator[Mutated]:
    """Yield every change after every change; those that come to the same messages once."""
    seen = {tuple(sent)}
    for first in changed(unchanged(sent)):
        for made in changed(first):
            if made.messages not in seen:
                seen.add(made.messages)
                yield made


def changed(before: Mutated) -> Iterator[Mutated]:
    """Yield every single change of messages."""
    messages = before.numbered

    def made(what: str, at: tuple[int, ...], where: str, after: Sequence[tuple[int, Physical]]) -> Mutated:
        return Mutated((*before.changes, Change(what, at, where)), tuple(after))

    for place, (at, each) in enumerate(messages):
        head, tail = messages[:place], messages[place + 1 :]
        yield made("withhold", (at,), "", head + tail)
        yield made("duplicate", (at,), "at once", (*head, messages[place], *messages[place:]))
        if tail:
            yield made("duplicate", (at,), "at the end", (*messages, messages[place]))
        for size, where in _cuts(each).items():
            cut = each._replace(body=each.body[:size], records=())
            yield made("truncate", (at,), where, (*head, (at, cut), *tail))
    for one, other in combinations(range(len(messages)), 2):
        swapped = list(messages)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        yield made("swap", (messages[one][0], messages[other][0]), "", swapped)


def _cuts(message: Physical) -> dict[int, str]:
    """Return the sizes to which a message is cut, and what each means."""
    size = len(message.body)
    cuts = {0: "to nothing"} if size else {}
    cuts |= dict.fromkeys((end for end in message.records if end < size), "behind a record")
    for place, where in ((size // 2, "in the middle"), (size - 1, "by its last byte"), (4, "to four bytes")):
        if 0 < place < size:
            cuts.setdefault(place, "behind a record" if _is_in_padding(message, place) else where)
    return cuts


def _is_in_padding(message: Physical, place: int) -> bool:
    """Tell whether only zeros are between the end of a record and a place: a sender may fill up each record."""
    return any(end <= place and not any(message.body[end:place]) for end in message.records)
