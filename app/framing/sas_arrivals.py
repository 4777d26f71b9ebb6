"""The messages of attachments on TIB/Rendezvous, numbered on arrival.

Nothing in such a message says which attachment it belongs to. A header (HDR) opens its attachments, what follows on
the same subject from the same sender belongs to them in turn, and a last message (LST) closes one, or all. So a message
gets its key and its number when it is received, before it is journalled, and never again.

Rules.

- Senders are distinguished by the session in the subject that they want replies on, where they name one.
- Where a header comes before the attachments of the one before it have ended, two senders may share the line. What
  follows cannot be assigned; all of it is refused, up to the last message of an attachment, and nothing is mixed.
- Where the transport may have missed messages (`GAP`), every line is closed: what was open stays unfinished, and what
  comes without a header is refused. A message that the transport could not read closes its own line, where it is known.
- A data set begins with its definition (DAT), a file with its descriptor (FDC): each begins the next attachment of the
  header. So does any part after a last message: then the first one is missing. A sender may send a last message for
  each attachment, or one for all.
- What a last message counts is decided by all evidence (`app.framing.counting`), subject by subject. The decision is a
  property of it. One that is in doubt says why; when it is decided later, a copy of the last message says the number.
  If attachments of the header have not begun, the last message may be theirs: an attachment whose content does not show
  that it is whole is decided when the last one begins.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.codecs.rendezvous.subjects import INBOX, REPLY_PROPERTY, SUBJECT_PROPERTY
from app.codecs.sas import correlid
from app.codecs.sas.correlid import attachment_key, header_key, key_of
from app.codecs.sas.numbered import message_name
from app.codecs.sas.rendezvous_messages import MAP_NAMES, read_header, read_last
from app.framing.counting import AttachmentArrival, AttachmentDecision, Decision, LastMessage, SubjectCounting
from app.framing.protocol import NO_OPTIONS, ArrivalOptions
from app.framing.rendezvous_progress import AttachmentProgress, Completeness
from app.model.attachment import AttachmentKind
from app.model.evidence import Choice, Ground, Question
from app.model.message import GAP, UNREADABLE, PhysicalMessage
from app.wire import WireError

PARTS: Final = "rendezvous.parts"
"""What a last message says, in parts of its attachment: a property of it."""
COUNTED: Final = "rendezvous.counted"
"""By which rule that was decided, what decided it, and the other rules that fit: words with blanks between."""
DOUBT: Final = "rendezvous.doubt"
"""Why it is in doubt what a last message says, or, together with `PARTS`, why the decision may be wrong: a sentence."""
REFUTED: Final = "rendezvous.refuted"
"""Why an attachment that was finished by its last message may lack messages: a sentence."""
COPY: Final = "rendezvous.copy"
"""Marks a message that was journalled before, and is journalled again with what is known of it now."""

_BEGINS: Final = frozenset({"DAT", "FDC"})
_MOST_LINES: Final = 10_000
"""Headers that are open at the same time, and subjects whose counting is known; the one that was heard of longest ago
is closed or forgotten."""
_COMPARED: Final = 16
"""The messages of an attachment that one is compared with: what comes twice, comes twice soon."""
_SESSION_ELEMENTS: Final = 3
"""An inbox begins with a word and the two elements of its session."""


class SubjectSender(NamedTuple):
    """On which subject a message came, and from whom."""

    subject: str
    sender: str


@dataclass(slots=True)
class _Coming:
    """An attachment that a header has opened: its key, what has come of it, whether it is closed, and how many messages
    are missing before those that came."""

    key: bytes
    progress: AttachmentProgress
    closed: bool = False
    lost: int = 0
    repeats: int = 0

    @property
    def came(self) -> AttachmentArrival:
        whole = Completeness.CONTRADICTED if self.lost else self.progress.whole()
        return AttachmentArrival(self.progress.messages, whole, self.repeats, self.lost > 0)


class _Last(NamedTuple):
    """A last message that was returned, with the keys of the attachments that it may end. Its body is a copy: it may be
    kept for long."""

    message: PhysicalMessage
    keys: tuple[bytes, ...]


@dataclass(slots=True)
class _Open:
    """What a header has opened: its key, its attachments, and the number of application messages.

    What is `doubtful` is refused. `recent` are hashes of the last parts. `deferred` are decisions that wait for the
    last attachment to begin.
    """

    base: bytes
    coming: Sequence[_Coming]
    doubtful: bool = False
    applications: int = 0
    current: int = -1
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=_COMPARED))
    deferred: list[AttachmentDecision[_Last]] = field(default_factory=list)

    @property
    def is_at_last(self) -> bool:
        return self.current >= len(self.coming) - 1

    @property
    def unbegun(self) -> int:
        return len(self.coming) - 1 - self.current

    def attachment(self, name: str) -> _Coming:
        """Return the attachment that a message of this name is a part of."""
        now = self.coming[self.current]
        is_next = self.current < 0 or now.closed or (name in _BEGINS and now.progress.messages > 0)
        if is_next and not self.is_at_last:
            self.current += 1
            now = self.coming[self.current]
            now.lost = int(name not in _BEGINS)
        return now


class NumberedArrivals:
    """Numbers the messages of one source, in the order in which they come; see `app.framing.protocol.Arrivals`."""

    def __init__(self, options: ArrivalOptions = NO_OPTIONS) -> None:
        self._open: dict[SubjectSender, _Open] = {}
        self._options, self._known = options, dict(options.known)
        self._counting: dict[str, SubjectCounting[_Last]] = {}
        self._learned: dict[str, str] = {}
        self._headers = 0

    def number(self, message: PhysicalMessage) -> list[PhysicalMessage]:
        """Return the message with its key and number, or as one that was refused. One last message may end several
        attachments: it is returned once for each. Earlier last messages that are decided now come again."""
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
        """Take note of a message that was journalled before, as `number` returned it."""
        if COPY in message.properties:
            return
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
        """Return what has been learnt of subjects since the last call, in words that a later `known` understands."""
        learned, self._learned = self._learned, {}
        return learned

    def _numbered(self, message: PhysicalMessage, name: str, line: SubjectSender) -> list[PhysicalMessage]:
        if name == "HDR":
            return [self._header(message, line)]
        opened = self._open.pop(line, None)
        if opened is None or not opened.coming:
            on = f" on {line.subject}" if line.subject else ""
            why = f"{name or 'a message without fields'}{on}, but no header has opened an attachment"
            return [message.unreadable("no-header", why)]
        if not (opened.doubtful and name == "LST"):
            self._open[line] = opened
        if opened.doubtful:
            return [message.unreadable("interleaved-attachments", _INTERLEAVED)]
        if name in MAP_NAMES:
            opened.applications += 1
            return [message._replace(correl_id=correlid.join(opened.base, 0))]
        return self._last(message, line, opened) if name == "LST" else self._part(message, name, opened)

    def _part(self, message: PhysicalMessage, name: str, opened: _Open) -> list[PhysicalMessage]:
        coming = opened.attachment(name)
        coming.progress.add(name, message.body)
        content = hash(bytes(message.body))
        coming.repeats += content in opened.recent
        opened.recent.append(content)
        numbered = message._replace(correl_id=correlid.join(coming.key, coming.lost + coming.progress.messages))
        if not (opened.deferred and opened.is_at_last):
            return [numbered]
        deferred, opened.deferred = opened.deferred, []
        return [*map(_again, deferred), numbered]

    def _header(self, message: PhysicalMessage, line: SubjectSender, base: bytes = b"") -> PhysicalMessage:
        """Open the attachments of a header, whose key is `base` if it has one already."""
        before = self._open.pop(line, None)
        header = read_header(message.body)
        self._headers += 1
        on, of = (each.encode("utf-8", "surrogatepass") for each in line)
        facts = (message.body, on, of, self._options.capture or b"%d" % message.received_at)
        base = base or key_of(header.header_correlid) or header_key(*map(bytes, facts), b"%d" % self._headers)
        is_interleaved = before is not None and not all(each.closed for each in before.coming)
        coming = [
            _Coming(attachment_key(entry.correlid, base, number), AttachmentProgress(AttachmentKind(entry.type)))
            for number, entry in enumerate(header.attachments)
        ]
        self._open[line] = _Open(base, coming, is_interleaved)
        if len(self._open) > _MOST_LINES:
            del self._open[next(iter(self._open))]
        if is_interleaved:
            return message.unreadable("interleaved-attachments", _INTERLEAVED)
        return message._replace(correl_id=correlid.join(base, 0))

    def _last(self, message: PhysicalMessage, line: SubjectSender, opened: _Open) -> list[PhysicalMessage]:
        """Return a last message once for each attachment that it may end, and earlier ones that are decided by it."""
        count = read_last(message.body)
        opened.current = max(opened.current, 0)
        ended = [opened.coming[opened.current]]
        if opened.is_at_last:
            self._open.pop(line)
            ended = [each for each in opened.coming if not each.closed]
        for coming in ended:
            coming.closed = True
        came = [each.came for each in ended]
        facts = LastMessage(count, came, opened.unbegun, opened.applications)
        last = _Last(message._replace(body=bytes(message.body)), tuple(each.key for each in ended))
        decided = self._decided(line.subject, last, facts)
        found: list[PhysicalMessage] = []
        for each in decided:
            if each.token is not last:
                found.append(_again(each))
            elif opened.unbegun and each.decision.parts is not None and came[-1].whole is Completeness.UNKNOWN:
                opened.deferred.append(each)
                found.append(_with_decision(each._replace(decision=Decision(doubt=_UNBEGUN))))
            else:
                found.append(_with_decision(each))
        return found

    def _decided(self, subject: str, last: _Last, facts: LastMessage) -> list[AttachmentDecision[_Last]]:
        counting = self._counting.pop(subject, None)
        if counting is None:
            counting = SubjectCounting.of(self._known.get(subject, ""), self._options.counts, self._options.on_doubt)
        self._counting[subject] = counting
        if len(self._counting) > _MOST_LINES:
            del self._counting[next(iter(self._counting))]
        decided = counting.decide(last, facts)
        if not counting.is_set and counting.known != self._known.get(subject, ""):
            self._known[subject] = self._learned[subject] = counting.known
        return decided


def _with_decision(decided: AttachmentDecision[_Last]) -> PhysicalMessage:
    """Return a last message with what was decided of one of its attachments."""
    (message, keys), attachment, (parts, choice, doubt, _) = decided
    properties = dict(message.properties)
    if parts is not None:
        properties[PARTS] = str(parts)
    if choice is not None:
        properties[COUNTED] = " ".join((choice.reading, choice.ground, *choice.others))
    if doubt:
        properties[DOUBT] = doubt
    return message._replace(correl_id=correlid.join(keys[attachment], 0), properties=properties)


def _again(decided: AttachmentDecision[_Last]) -> PhysicalMessage:
    """Return a last message that was returned before, with what was decided now."""
    message = _with_decision(decided)
    properties = {**message.properties, COPY: "1"}
    if decided.decision.is_refuted:
        properties[REFUTED] = properties.pop(DOUBT)
    return message._replace(properties=properties)


def choice_of(message: PhysicalMessage) -> Choice | None:
    """Return how it was decided what a last message counts; None where nothing says so."""
    reading, *words = message.properties.get(COUNTED, "").split(" ")
    if not words or words[0] not in frozenset(Ground):
        return None
    return Choice(Question.COUNT, reading, Ground(words[0]), tuple(words[1:]))


_INTERLEAVED: Final = (
    "its header came before the attachments of the one before it had ended: they may be of two senders on one subject "
    "that name no subject to reply to, and cannot be distinguished"
)
_UNBEGUN: Final = (
    "attachments of its header have not begun, so its last message may belong to another one whose beginning was lost"
)


def _line(message: PhysicalMessage) -> SubjectSender:
    reply = message.properties.get(REPLY_PROPERTY, "").split(".")
    sender = ".".join(reply[:_SESSION_ELEMENTS]) if reply[0] == INBOX else ""
    return SubjectSender(message.properties.get(SUBJECT_PROPERTY, ""), sender)
