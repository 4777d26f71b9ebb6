"""Cases: what a sender sends, and what comes of it instead; all of them, or one of each sort."""

from collections.abc import Iterable, Iterator
from itertools import chain
from random import Random
from typing import NamedTuple

from tests.evidence import mutations
from tests.evidence.hosts import Found, Traffic
from tests.evidence.mutations import Mutated
from tests.evidence.senders import mq_group, order_packets, sas_queue, sas_rendezvous
from tests.evidence.senders.sent import Sending

SENDINGS: dict[str, list[Sending]] = {
    "sas_queue": [each for dialect in sas_queue.DIALECTS for each in sas_queue.sendings(dialect)],
    "sas_rendezvous": [each for counting in sas_rendezvous.COUNTINGS for each in sas_rendezvous.sendings(counting)],
    "mq_group": list(mq_group.sendings()),
    "order_packet": [each for order in "<>" for each in order_packets.sendings(order)],
}
"""What is sent, by framing."""


class Case(NamedTuple):
    """What was sent and what came of it.

    The gateway is restarted before message number `restart`, unless it is 0. The same came whole `before`, so often.
    """

    sending: Sending
    mutated: Mutated
    restart: int = 0
    before: int = 0

    @property
    def traffic(self) -> Traffic:
        messages, at = self.sending.messages * self.before + self.mutated.messages, self.restart
        return Traffic(self.sending.framing, [messages[:at], messages[at:]] if at else [messages])

    @property
    def changes(self) -> list[str]:
        """What was done, in the roles of the messages: "swap ATX, LST", "truncate records to nothing"."""
        sent = self.sending.messages
        told = ((each.what, ", ".join(sent[at].role for at in each.at), each.where) for each in self.mutated.changes)
        return sorted(" ".join(each).strip() for each in told)

    def __repr__(self) -> str:
        sending, sent = self.sending, self.sending.messages
        places = (f"{change.what} {[at + 1 for at in change.at]} of {len(sent)}" for change in self.mutated.changes)
        restarted = f", restarted before number {self.restart + 1} of what comes" if self.restart else ""
        restarted += f", after the same {self.before} times whole" if self.before else ""
        said = f"{sending.framing}: {sending.kind} ({sending.told}; {sending.manner})"
        return f"{said}: {'; '.join(self.changes) or 'nothing changed'} ({', '.join(places)}{restarted})"

    def faults(self, found: Found, source: str) -> list[str]:
        """Return what is finished of it with other content than was sent, or more often than it was sent."""
        wanted = {each.name: each.content for each in self.sending.attachments}
        finished = [each for each in found.get(source, []) if each.content is not None]
        names = [each.name for each in finished]
        wrong = [f"{each.name} is {each.content!r}" for each in finished if wanted.get(each.name) != each.content]
        too_often = (name for name in sorted(set(names)) if names.count(name) > 1 + self.before)
        return [*wrong, *(f"{name} came too often" for name in too_often)]

    def is_whole(self, found: Found, source: str) -> bool:
        """Tell whether all that was sent is finished, as often as it was sent."""
        finished = sorted(each.name for each in found.get(source, []) if each.content is not None)
        return finished == sorted(each.name for each in self.sending.attachments * (1 + self.before))


def single(sendings: Iterable[Sending]) -> Iterator[Case]:
    """Yield everything unchanged, and every single change of it."""
    for sending in sendings:
        whole = mutations.unchanged(sending.messages)
        # `mq_group` puts segments together, and names the file of a message alone by the GroupId that they get.
        cut = () if sending.framing == "mq_group" else mutations.segmented(sending.messages)
        # On Rendezvous, a message has no place: another one is one more.
        others = () if sending.framing == "sas_rendezvous" else mutations.contradicted(sending.messages)
        for mutated in chain([whole], mutations.changed(whole), cut, others):
            yield Case(sending, mutated)


def two_lost(sendings: Iterable[Sending]) -> Iterator[Case]:
    """Yield everything without two of its messages."""
    for sending in sendings:
        for mutated in mutations.withheld(sending.messages, 2):
            yield Case(sending, mutated)


def double(sendings: Iterable[Sending]) -> Iterator[Case]:
    """Yield every change after every change of everything."""
    for sending in sendings:
        for mutated in mutations.twice(sending.messages):
            yield Case(sending, mutated)


def restarted(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield each case with a restart of the gateway before each of its messages but the first."""
    for case in cases:
        for at in range(1, len(case.mutated.numbered)):
            yield case._replace(restart=at)


def in_any_manner(sendings: Iterable[Sending], random: Random) -> Iterator[Case]:
    """Yield every single change of every kind of attachment, each in one dialect or manner of sending; and without two
    messages, one case for each two roles."""
    kinds: dict[tuple[str, str], list[Sending]] = {}
    for sending in sendings:
        kinds.setdefault((sending.kind, sending.told), []).append(sending)
    for alike in kinds.values():
        for number, case in enumerate(single([max(alike, key=lambda each: len(each.messages))])):
            others = [*single([random.choice(alike)])]
            yield others[number] if number < len(others) else case
    lost: dict[tuple[str, ...], list[Case]] = {}
    for case in two_lost(chain.from_iterable(kinds.values())):
        lost.setdefault((case.sending.kind, case.sending.told, *case.changes), []).append(case)
    yield from map(random.choice, lost.values())


def at_random(framing: str, random: Random, changes: int, *, restarts: bool = False) -> Case:
    """Return a case with so many changes; with `restarts`, the gateway is restarted somewhere."""
    sending = random.choice(SENDINGS[framing])
    mutated = mutations.unchanged(sending.messages)
    for _ in range(changes):
        if mutated.numbered:
            mutated = random.choice([*mutations.changed(mutated)])
    case = Case(sending, mutated)
    return random.choice([*restarted([case])] or [case]) if restarts else case
