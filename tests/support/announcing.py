"""Messages of which any may be withheld, come before its header, or have a header that is refused; and what is known
of them at each moment, by what came alone.

What is known is told by the correlids that the sender chose, without anything of the gateway's assembly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from app.codecs.sas.constants import HEADER_MSG_TYPE
from app.model.message import PhysicalMessage
from tests.support.sas_client import Attached, Program, binary_file, message

KEY = 16
"""The number of bytes of a correlid that tell to what a message belongs, before its number."""
BYTE = 3
"""Where a header is broken."""
_numbers = count(1)
_bodies = count(1)
_seeds = count(1)


class _Numbering(Random):
    """Gives the correlids of application messages small numbers that differ, as parts have them."""

    def randrange(self, *_: Any) -> int:
        return next(_numbers)


@dataclass(frozen=True)
class Announcing:
    """What a header says, as its sender knows it: the keys of attachments, and the application message."""

    keys: frozenset[bytes]
    application: bytes
    body: bytes
    is_broken: bool


class Sent(NamedTuple):
    """A physical message, and what it announces if it is a header."""

    message: PhysicalMessage
    announcing: Announcing | None

    def __repr__(self) -> str:
        """Return what tells it from the others, without the bytes of its body."""
        what = "message" if self.announcing is None else f"header of {[key.hex() for key in self.announcing.keys]}"
        return f"<{what}, {self.message.correl_id.hex()}>"


@dataclass
class Known:
    """What is known after some messages have come."""

    owners: dict[bytes, bytes] = field(default_factory=dict)
    """The application message with which each attachment was announced first."""
    explained: dict[bytes, bytes] = field(default_factory=dict)
    """The bodies of application messages whose header has come, by their whole correlid."""
    came: set[bytes] = field(default_factory=set)
    """The correlids of everything but headers."""
    waited: set[bytes] = field(default_factory=set)
    """Those of application messages that came before their header."""

    def come(self, sent: Sent) -> None:
        said = sent.announcing
        if said is None:
            self.came.add(sent.message.correl_id)
        elif not said.is_broken and {self.owners.get(key, said.application) for key in said.keys} <= {said.application}:
            self.owners |= dict.fromkeys(said.keys, said.application)
            if said.application in self.came - self.explained.keys():
                self.waited.add(said.application)
            self.explained[said.application] = said.body

    @property
    def announced(self) -> set[bytes]:
        return set(self.owners)

    @property
    def unannounced(self) -> set[bytes]:
        """The keys of what came and has no header."""
        unexplained = {correl_id[:KEY] for correl_id in self.came - self.explained.keys()}
        return unexplained - self.announced

    def bodies(self, key: bytes) -> set[bytes]:
        """The application messages that waited under a key."""
        return {self.explained[each] for each in self.waited if each[:KEY] == key}


@st.composite
def traffic(draw: st.DrawFn) -> list[list[Sent]]:
    """What a source receives, in pieces: messages in any order, some of them twice, some never."""
    sent: list[Sent] = []
    earlier: list[Attached] = []
    for number in range(draw(st.integers(1, 3))):
        program = Program(_Numbering(next(_seeds)), body_limit=2000, numbers_messages=draw(st.booleans()))
        sizes = draw(st.lists(st.integers(0, 4000), max_size=2))
        attached = [binary_file(program, f"{number}.{at}", program.random.randbytes(n)) for at, n in enumerate(sizes)]
        is_again = draw(st.booleans())
        again = [_without_parts(earlier[0])] if earlier and is_again else []
        is_broken = draw(st.booleans())
        sent += _sent(program, [*attached, *again], is_broken=is_broken)
        earlier += attached
    kept = [each for each in sent if draw(st.integers(0, 5))]
    twice = [each for each in kept if not draw(st.integers(0, 9))]
    coming = draw(st.permutations([*kept, *twice]))
    cuts = sorted(draw(st.lists(st.integers(0, len(coming)), max_size=3)))
    pieces = [coming[a:b] for a, b in zip([0, *cuts], [*cuts, len(coming)], strict=True)]
    return [piece for piece in pieces if piece]


def _without_parts(attached: Attached) -> Attached:
    """The same attachment, as another header announces it."""
    return Attached(attached.definition, (), b"")


def _sent(program: Program, attached: Sequence[Attached], *, is_broken: bool) -> list[Sent]:
    body = f"application message {next(_bodies)}".encode()
    header, application, *others = message(program, attached, body)
    assert header.msg_type == HEADER_MSG_TYPE
    if is_broken:
        header = header._replace(body=header.body[:BYTE])
    said = Announcing(frozenset(each.definition.correl_id for each in attached), application.correl_id, body, is_broken)
    own = {each.definition.correl_id for each in attached if each.bodies}
    rest = [each for each in others if each.correl_id[:KEY] in own]
    return [Sent(header, said), Sent(application, None), *(Sent(each, None) for each in rest)]
