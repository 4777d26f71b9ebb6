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
    """What a header says, as its sender knows it: the names of attachments by key, and the application message."""

    names: dict[bytes, str]
    application: bytes
    body: bytes
    is_broken: bool


class Sent(NamedTuple):
    """A physical message, and what it announces if it is a header."""

    message: PhysicalMessage
    announcing: Announcing | None


@dataclass
class Known:
    """What is known after some messages have come."""

    names: dict[bytes, str] = field(default_factory=dict)
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
        elif not said.is_broken and all(self.names.get(key, name) == name for key, name in said.names.items()):
            self.names |= said.names
            self.explained[said.application] = said.body
            if said.application in self.came:
                self.waited.add(said.application)

    @property
    def announced(self) -> set[bytes]:
        return set(self.names)

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
        program = Program(_Numbering(next(_seeds)), numbers_messages=draw(st.booleans()))
        sizes = draw(st.lists(st.integers(0, 60_000), max_size=2))
        attached = [binary_file(program, f"{number}.{at}", program.random.randbytes(n)) for at, n in enumerate(sizes)]
        is_renamed = draw(st.booleans())
        again = [_renamed(earlier[0])] if earlier and is_renamed else []
        is_broken = draw(st.booleans())
        sent += _sent(program, [*attached, *again], is_broken=is_broken)
        earlier += attached
    kept = [each for each in sent if draw(st.integers(0, 5))]
    twice = [each for each in kept if not draw(st.integers(0, 9))]
    coming = draw(st.permutations([*kept, *twice]))
    cuts = sorted(draw(st.lists(st.integers(0, len(coming)), max_size=3)))
    pieces = [coming[a:b] for a, b in zip([0, *cuts], [*cuts, len(coming)], strict=True)]
    return [piece for piece in pieces if piece]


def _renamed(attached: Attached) -> Attached:
    """The same attachment, announced under another name by another header."""
    definition = attached.definition
    renamed = type(definition)(definition.kind, definition.correl_id, definition.qualifier_1, "another name", "")
    return Attached(renamed, (), b"")


def _sent(program: Program, attached: Sequence[Attached], *, is_broken: bool) -> list[Sent]:
    body = f"application message {next(_bodies)}".encode()
    header, application, *others = message(program, attached, body)
    assert header.msg_type == HEADER_MSG_TYPE
    if is_broken:
        header = header._replace(body=header.body[:BYTE])
    names = {each.definition.correl_id: each.definition.qualifier_2 for each in attached}
    said = Announcing(names, application.correl_id, body, is_broken)
    # Nobody sends parts or counts for the other name.
    rest = [each for each in others if names[each.correl_id[:KEY]] != "another name"]
    return [Sent(header, said), Sent(application, None), *(Sent(each, None) for each in rest)]
