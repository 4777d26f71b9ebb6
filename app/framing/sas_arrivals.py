"""The messages of attachments on TIB/Rendezvous, numbered as they come in.

Nothing in such a message says which attachment it belongs to. A header (HDR) opens its attachments, what follows on
the same subject from the same sender belongs to them in turn, and a last message (LST) closes one, or all. So a message
gets its key and its number when it is received, before it is journalled, and never again.

Rules.

- Senders are told apart by the session in the subject that they want replies on, where they name one.
- Where a header comes before the attachments of the one before it have ended, two senders may share the line. What
  follows cannot be told apart; all of it is refused, up to the last message of an attachment, and nothing is mixed.
- Where the transport may have missed messages (`GAP`), every line is closed: what was open stays unfinished, and what
  comes without a header is refused. A message that the transport could not read closes its own line, where it is known.
- A last message says how many messages carry the attachment. Senders may count the header and the application message,
  too: how they do it is learnt from what comes on the subject. A sender has a new session each time that it starts, so
  a session is too short to learn from.
- A data set begins with its definition (DAT), a file with its descriptor (FDC): each begins the next attachment of the
  header. A sender may send a last message for each of them, or one for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from app.codecs.rendezvous.subjects import INBOX, REPLY_PROPERTY, SUBJECT_PROPERTY
from app.codecs.sas import correlid
from app.codecs.sas.numbered import message_name
from app.codecs.sas.rendezvous import MAP_NAMES, read_header, read_last
from app.codecs.sas.rendezvous_keys import attachment_key, key_of, made
from app.model.message import GAP, UNREADABLE, PhysicalMessage
from app.wire import WireError

PARTS: Final = "rendezvous.parts"
"""What a last message says, in parts of its attachment: a property of it."""

_BEGINS: Final = frozenset({"DAT", "FDC"})
_MOST_LINES: Final = 10_000
"""Headers that are open at the same time, and subjects whose counting is known; the one that was heard of longest ago
is closed or forgotten."""
_SESSION_ELEMENTS: Final = 3
"""An inbox begins with a word and the two elements of its session."""


class Line(NamedTuple):
    """On which subject a message came, and from whom."""

    subject: str
    sender: str


@dataclass(slots=True)
class _Open:
    """What a header has opened: its key, and for each attachment its key, its parts so far, and whether it is closed.
    `others` are the header and application messages. What is `doubtful` is refused."""

    base: bytes
    keys: Sequence[bytes]
    doubtful: bool = False
    others: int = 1
    current: int = -1
    parts: list[int] = field(default_factory=list)
    closed: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [0] * len(self.keys)
        self.closed = [False] * len(self.keys)

    @property
    def is_at_last(self) -> bool:
        return self.current >= len(self.keys) - 1

    def begin(self, name: str) -> None:
        """Turn to the attachment that a message of this name is a part of."""
        is_next = name in _BEGINS and (self.closed[self.current] or self.parts[self.current] > 0)
        if self.current < 0 or (is_next and not self.is_at_last):
            self.current += 1


class _Rule(NamedTuple):
    """What a sender counts beside the parts: the header or not, the application messages or not."""

    header: bool
    messages: bool

    def beside(self, opened: _Open) -> int:
        return self.header + self.messages * (opened.others - 1)


_RULES: Final = frozenset(_Rule(*each) for each in product((False, True), repeat=2))


class NumberedArrivals:
    """Numbers the messages of one source, in the order in which they come; see `app.framing.protocol.Arrivals`."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._open: dict[Line, _Open] = {}
        self._rules = {subject: _read_rules(text) for subject, text in (known or {}).items()}
        """How the senders on a subject may count, by what has come so far."""
        self._learned: dict[str, str] = {}
        self._headers = 0

    def number(self, message: PhysicalMessage) -> list[PhysicalMessage]:
        """Return the message with its key and number, or as one that was refused. One last message may end several
        attachments: it is returned once for each."""
        if GAP in message.properties:
            self._open.clear()
        try:
            return self._numbered(message, message_name(message.body), _line(message))
        except WireError as error:
            self._open.pop(_line(message), None)
            return [message.unreadable("bad-rendezvous-message", str(error))]

    def interrupt(self, message: PhysicalMessage) -> None:
        """Close the line of a message that could not be read; every line, if it is not known which."""
        if SUBJECT_PROPERTY in message.properties:
            self._open.pop(_line(message), None)
        else:
            self._open.clear()

    def resume(self, message: PhysicalMessage) -> None:
        """Take note of a message that was journalled before: number it again. A header keeps its key."""
        if message.framing == UNREADABLE:
            self.interrupt(message)
            return
        try:
            name = message_name(message.body)
            if name == "HDR":
                self._header(message, _line(message), correlid.split(message.correl_id)[0])
            else:
                self._numbered(message, name, _line(message))
        except WireError:
            self.interrupt(message)

    def take_learned(self) -> Mapping[str, str]:
        """Return the rules that have been learnt since the last call, by subject."""
        learned, self._learned = self._learned, {}
        return learned

    def _numbered(self, message: PhysicalMessage, name: str, line: Line) -> list[PhysicalMessage]:
        if name == "HDR":
            return [self._header(message, line)]
        opened = self._open.pop(line, None)
        if opened is None or not opened.keys:
            on = f" on {line.subject}" if line.subject else ""
            why = f"{name or 'a message without fields'}{on}, where no header has opened an attachment"
            return [message.unreadable("no-header", why)]
        self._open[line] = opened
        if opened.doubtful:
            if name == "LST":
                self._open.pop(line)
            return [message.unreadable("interleaved-attachments", _INTERLEAVED)]
        if name in MAP_NAMES:
            opened.others += 1
            return [message._replace(correl_id=correlid.join(opened.base, 0))]
        if name == "LST":
            return self._last(message, line, opened)
        opened.begin(name)
        opened.parts[opened.current] += 1
        key, number = opened.keys[opened.current], opened.parts[opened.current]
        return [message._replace(correl_id=correlid.join(key, number))]

    def _header(self, message: PhysicalMessage, line: Line, known: bytes | None = None) -> PhysicalMessage:
        before = self._open.pop(line, None)
        header = read_header(message.body)
        self._headers += 1
        on, of = (each.encode("utf-8", "surrogatepass") for each in line)
        facts = (message.body, on, of, b"%d" % message.received_at)
        base = known or key_of(header.header_correlid) or made(*map(bytes, facts), b"%d" % self._headers)
        entries = enumerate(header.attachments)
        keys = [attachment_key(entry.correlid, base, number) for number, entry in entries]
        is_interleaved = before is not None and not all(before.closed)
        self._open[line] = _Open(base, keys, is_interleaved)
        if len(self._open) > _MOST_LINES:
            del self._open[next(iter(self._open))]
        if is_interleaved:
            return message.unreadable("interleaved-attachments", _INTERLEAVED)
        return message._replace(correl_id=correlid.join(base, 0))

    def _last(self, message: PhysicalMessage, line: Line, opened: _Open) -> list[PhysicalMessage]:
        count = read_last(message.body)
        opened.current = max(opened.current, 0)
        ended = [opened.current]
        if opened.is_at_last:
            self._open.pop(line)
            ended = [number for number, is_closed in enumerate(opened.closed) if not is_closed]
        came = sum(opened.parts[number] for number in ended)
        is_alone = len(ended) < len(opened.keys)
        lost = count - came - self._counted_beside(line.subject, count - came, opened, alone=is_alone)
        found = []
        for number in ended:
            opened.closed[number] = True
            parts = max(0, opened.parts[number] + (lost if number == ended[-1] else 0))
            correl_id = correlid.join(opened.keys[number], 0)
            found.append(message._replace(correl_id=correl_id, properties={**message.properties, PARTS: str(parts)}))
        return found

    def _counted_beside(self, subject: str, surplus: int, opened: _Open, *, alone: bool) -> int:
        """Return how many of the messages that a sender counts are no parts.

        The rules that fit what came are learnt. Where none fits, messages are missing, and the least that is possible
        is believed. But no loss makes the surplus smaller: then what was learnt was wrong, and all rules are tried
        again.
        """
        known = self._rules.get(subject, _RULES)
        least = min(rule.beside(opened) for rule in known)
        rules = known if surplus >= least else _RULES
        if fitting := frozenset(rule for rule in rules if rule.beside(opened) == surplus):
            if not alone:
                self._learn(subject, fitting)
            return surplus
        return 0 if alone and surplus == 0 else least

    def _learn(self, subject: str, rules: frozenset[_Rule]) -> None:
        if self._rules.pop(subject, None) != rules:
            self._learned[subject] = " ".join(sorted(f"{rule.header:d}{rule.messages:d}" for rule in rules))
        self._rules[subject] = rules
        if len(self._rules) > _MOST_LINES:
            del self._rules[next(iter(self._rules))]


def _read_rules(text: str) -> frozenset[_Rule]:
    rules = frozenset(_Rule(word[:1] == "1", word[1:] == "1") for word in text.split())
    return rules or _RULES


_INTERLEAVED: Final = (
    "its header came before the attachments of the one before it had ended: they may be of two senders on one subject "
    "that name no subject to reply to, and cannot be told apart"
)


def _line(message: PhysicalMessage) -> Line:
    reply = message.properties.get(REPLY_PROPERTY, "").split(".")
    sender = ".".join(reply[:_SESSION_ELEMENTS]) if reply[0] == INBOX else ""
    return Line(message.properties.get(SUBJECT_PROPERTY, ""), sender)
