"""What can go wrong between a sender and the gateway, once: a message is withheld, swapped, duplicated or cut."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from tests.evidence.senders.sent import Physical


class Change(NamedTuple):
    """One change: what is done to which messages (their places in what was sent), and where a cut was made."""

    what: str
    at: tuple[int, ...]
    where: str = ""
    size: int = 0


class Mutated(NamedTuple):
    """What comes instead of what was sent, and the changes that were made, in the words of the messages' roles."""

    changes: tuple[Change, ...]
    messages: tuple[Physical, ...]

    def told(self, sent: Sequence[Physical]) -> str:
        return "; ".join(
            " ".join([each.what, ", ".join(f"{sent[at].role} ({at + 1})" for at in each.at), each.where]).strip()
            for each in self.changes
        )


Numbered = tuple[tuple[int, Physical], ...]
"""Messages with their places in what was sent."""


def unchanged(sent: Sequence[Physical]) -> Mutated:
    return Mutated((), tuple(sent))


def withheld(sent: Sequence[Physical], number: int) -> Iterator[Mutated]:
    """Yield what comes when so many messages are lost, whichever they are."""
    for lost in combinations(range(len(sent)), number):
        changes = tuple(Change("withhold", (at,)) for at in lost)
        yield Mutated(changes, tuple(each for at, each in enumerate(sent) if at not in lost))


def once(sent: Sequence[Physical]) -> Iterator[Mutated]:
    """Yield every single change."""
    for change, messages in _once(tuple(enumerate(sent))):
        yield Mutated((change,), tuple(each for _, each in messages))


def twice(sent: Sequence[Physical]) -> Iterator[Mutated]:
    """Yield every single change of every single change, those that give the same messages once."""
    seen = {tuple(sent)}
    for first, some in _once(tuple(enumerate(sent))):
        for second, messages in _once(some):
            made = tuple(each for _, each in messages)
            if made not in seen:
                seen.add(made)
                yield Mutated((first, second), made)


def _once(messages: Numbered) -> Iterator[tuple[Change, Numbered]]:
    for place, (at, each) in enumerate(messages):
        before, after = messages[:place], messages[place + 1 :]
        yield Change("withhold", (at,)), before + after
        yield Change("duplicate", (at,), "at once"), (*before, messages[place], *messages[place:])
        if after:
            yield Change("duplicate", (at,), "at the end"), (*messages, messages[place])
        for size, where in _cuts(each).items():
            cut = each._replace(body=each.body[:size], records=())
            yield Change("truncate", (at,), where, size), (*before, (at, cut), *after)
    for one, other in combinations(range(len(messages)), 2):
        swapped = list(messages)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        yield Change("swap", (messages[one][0], messages[other][0])), tuple(swapped)


def _cuts(message: Physical) -> dict[int, str]:
    """Return the sizes to which a message is cut; ends of records come before others of the same size."""
    size = len(message.body)
    cuts = {0: "to nothing"}
    cuts |= dict.fromkeys((end for end in message.records if end < size), "behind a record")
    for place, where in ((size // 2, "in the middle"), (size - 1, "by its last byte"), (4, "to four bytes")):
        if 0 < place < size:
            cuts.setdefault(place, where)
    return cuts
