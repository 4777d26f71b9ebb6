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
- A data set begins with its definition (DAT), which begins the next attachment of the header. So does any part after a
  last message: if it is no descriptor, the first one is missing.
- A file begins with its descriptor (FDC). An attachment may be several files, so it begins the next file of the same
  attachment, as each attachment ends with a last message. It begins the next attachment where the subject's last
  messages are known to be for all attachments of a header, after a data set, and in the gateway's own deliveries.
- If fewer messages are counted than came of several files, or one is of another kind than its attachment, an earlier
  last message is missing. What follows up to the next header cannot be assigned, and is refused. But of two files, the
  second one is the next attachment if the last message counts it alone.
- What a last message counts is decided by all evidence (`app.framing.counting`), subject by subject. The decision is a
  property of it. One that is in doubt says why; when it is decided later, a copy of the last message says the number.
  If attachments of the header have not begun, the last message may be theirs: an attachment whose content does not show
  that it is whole is decided when the last one begins.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
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
        return AttachmentArrival(self.progress.messages, whole, self.repeats, self.lost > 0, self.tails)

    @property
    def tails(self) -> list[int]:
        """How many messages came from each file on that is not the first, whose descriptor may have been lost."""
        begins = self.progress.begins if self.lost else self.progress.begins[1:]
        return [self.progress.messages + 1 - begin for begin in begins]


class _Last(NamedTuple):
    """A last message that was returned, with the keys of the attachments that it may end. Its body is a copy: it may be
    kept for long."""

    message: PhysicalMessage
    keys: tuple[bytes, ...]


@dataclass(slots=True)
class _Open:
    """What a header has opened: its key, its attachments, and the number of application messages.

    What is `doubtful` is refused. If `one_file_each`, each descriptor begins an attachment. `recent` are hashes of the
    last parts. `deferred` are decisions that wait for the last attachment to begin. Files that came as one attachment
    before the current one may be several if it `was_shared`. `after_doubts` are last messages before which another one
    may be missing.
    """

    base: bytes
    coming: Sequence[_Coming]
    doubtful: bool = False
    one_file_each: bool = False
    was_shared: bool = False
    after_doubts: list[LastMessage] = field(default_factory=list)
    was_misplaced: bool = False
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

    def attachment(self, name: str, *, is_repeated: bool = False) -> _Coming:
        """Return the attachment that a message of this name is a part of. One that repeats the message before it begins
        nothing."""
        if self._is_next(name) and not self.is_at_last and (not is_repeated or self.coming[self.current].closed):
            self._begin_next(name)
        return self.coming[self.current]

    def known_attachment(self, name: str, key: bytes) -> _Coming:
        """Return the attachment of this key, of which a message of this name is a part."""
        while (self.current < 0 or self.coming[self.current].key != key) and not self.is_at_last:
            self._begin_next(name)
        return self.coming[self.current]

    def _is_next(self, name: str) -> bool:
        """Tell whether a message of this name begins the next attachment."""
        now = self.coming[self.current]
        if self.current < 0 or now.closed:
            return True
        if name == "FDC" and now.progress.kind is not AttachmentKind.DATA_SET:
            following = self.coming[min(self.current + 1, len(self.coming) - 1)].progress
            return self.one_file_each and now.progress.messages > 0 and following.kind is not AttachmentKind.DATA_SET
        return name in _BEGINS and now.progress.messages > 0

    def _begin_next(self, name: str) -> None:
        self.was_shared, self.was_misplaced = self.may_be_shared, self.is_misplaced
        self.current += 1
        self.coming[self.current].lost = int(name not in _BEGINS)

    def pass_over(self) -> None:
        """Close the next attachment, whose file came as the second one of the current attachment."""
        self.current += 1
        self.coming[self.current].closed = True

    @property
    def is_misplaced(self) -> bool:
        """Whether a message is of another kind than its attachment, this one or one before it."""
        return self.was_misplaced or (self.current >= 0 and self.coming[self.current].progress.is_misplaced)

    @property
    def has_ended_files(self) -> bool:
        """Whether a last message came behind several files, which may be other attachments of the header, too."""
        return self.current >= 0 and self.coming[self.current].closed and self.as_files > 0

    @property
    def as_files(self) -> int:
        """How many attachments that have not begun may have come as files of the current one, which are of its kind; or
        of one before it: then what came since may be of another header, which was lost."""
        if self.was_shared:
            return self.unbegun
        now = self.coming[self.current]
        behind = islice(self.coming, self.current + 1, self.current + 1 + len(now.tails))
        return sum(1 for _ in takewhile(lambda each: each.progress.kind is now.progress.kind, behind))

    @property
    def may_be_shared(self) -> bool:
        """Whether files that came as one attachment may be several: one beside it is of the same kind."""
        now, at = self.coming[self.current], self.current
        beside = (*self.coming[max(at - 1, 0) : max(at, 0)], *self.coming[at + 1 : at + 2])
        is_alike = any(each.progress.kind is now.progress.kind for each in beside)
        return self.was_shared or (bool(now.tails) and is_alike)


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
            return [message.unreadable("bad-rendezvous-message", error.why, error.row, error.at)]

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
                self._numbered(message, name, _line(message), correlid.split(message.correl_id)[0])
        except WireError:
            self.interrupt(message)

    def take_learned(self) -> Mapping[str, str]:
        """Return what has been learnt of subjects since the last call, in words that a later `known` understands."""
        learned, self._learned = self._learned, {}
        return learned

    def _numbered(
        self, message: PhysicalMessage, name: str, line: SubjectSender, key: bytes = b""
    ) -> list[PhysicalMessage]:
        """Return a message as `number` does; `key` is that of its attachment, if it has one already."""
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
        if name == "LST":
            return self._last(message, line, opened)
        return self._part(message, name, line.subject, opened, key)

    def _part(
        self, message: PhysicalMessage, name: str, subject: str, opened: _Open, key: bytes
    ) -> list[PhysicalMessage]:
        before = opened.current
        has_ended_files = opened.has_ended_files
        content = hash(bytes(message.body))
        is_repeated = bool(opened.recent) and opened.recent[-1] == content
        coming = opened.known_attachment(name, key) if key else opened.attachment(name, is_repeated=is_repeated)
        decided: list[AttachmentDecision[_Last]] = []
        if opened.current != before and has_ended_files and name == "FDC":
            counting = self._counting_of(subject)
            decided = counting.each_has_its_own()
            self._note(subject, counting)
        coming.progress.add(name, message.body)
        coming.repeats += content in opened.recent
        opened.recent.append(content)
        numbered = message._replace(correl_id=correlid.join(coming.key, coming.lost + coming.progress.messages))
        if opened.is_at_last:
            decided, opened.deferred = [*opened.deferred, *decided], []
        return [*map(_again, decided), numbered]

    def _header(self, message: PhysicalMessage, line: SubjectSender, base: bytes = b"") -> PhysicalMessage:
        """Open the attachments of a header, whose key is `base` if it has one already."""
        before = self._open.pop(line, None)
        header = read_header(message.body)
        self._headers += 1
        on, of = (each.encode("utf-8", "surrogatepass") for each in line)
        facts = (message.body, on, of, self._options.capture or b"%d" % message.received_at)
        base = base or key_of(header.header_correlid) or header_key(*map(bytes, facts), b"%d" % self._headers)
        counting = self._counting_of(line.subject)
        if before is not None and before.has_ended_files:
            counting.a_header_came()
        is_interleaved = before is not None and not all(each.closed for each in before.coming)
        is_own = bool(header.attachments) and all(key_of(each.correlid) for each in header.attachments)
        coming = [
            _Coming(attachment_key(entry.correlid, base, number), AttachmentProgress(AttachmentKind(entry.type)))
            for number, entry in enumerate(header.attachments)
        ]
        self._open[line] = _Open(base, coming, is_interleaved, is_own or counting.has_one_for_all)
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
            if not opened.was_shared:
                ended = [each for each in opened.coming if not each.closed]
        for coming in ended:
            coming.closed = True
        came = [each.came for each in ended]
        facts = LastMessage(
            count,
            came,
            opened.unbegun,
            opened.applications,
            opened.as_files,
            opened.may_be_shared,
            tuple(opened.after_doubts),
        )
        last = _Last(message._replace(body=bytes(message.body)), tuple(each.key for each in ended))
        self._allow_for_lost(line, opened, facts)
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

    def _allow_for_lost(self, line: SubjectSender, opened: _Open, facts: LastMessage) -> None:
        """Allow for a last message that was lost before this one: what comes next may be of another attachment."""
        rules = self._counting_of(line.subject).rules
        is_lost = opened.is_misplaced or (bool(facts.came[-1].tails) and not facts.is_possible_by(rules))
        if not is_lost:
            if facts.may_follow_a_loss(rules):
                opened.after_doubts.append(facts)
            return
        # If it was that of the first of two files, the second is the next attachment. Else nothing says what comes.
        if not (opened.is_misplaced or opened.was_shared) and facts.is_of_second_file(rules):
            opened.pass_over()
        else:
            self._open.pop(line, None)
        if opened.is_at_last:
            self._open.pop(line, None)

    def _decided(self, subject: str, last: _Last, facts: LastMessage) -> list[AttachmentDecision[_Last]]:
        counting = self._counting_of(subject)
        decided = counting.decide(last, facts)
        self._note(subject, counting)
        return decided

    def _counting_of(self, subject: str) -> SubjectCounting[_Last]:
        counting = self._counting.pop(subject, None)
        if counting is None:
            counting = SubjectCounting.of(self._known.get(subject, ""), self._options.counts, self._options.on_doubt)
        self._counting[subject] = counting
        if len(self._counting) > _MOST_LINES:
            del self._counting[next(iter(self._counting))]
        return counting

    def _note(self, subject: str, counting: SubjectCounting[_Last]) -> None:
        """Note what has been learnt of a subject."""
        if not counting.is_set and counting.known != self._known.get(subject, ""):
            self._known[subject] = self._learned[subject] = counting.known


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
    "that name no subject to reply to, and cannot be distinguished; or the last message before it is for all of its "
    "attachments, which the source's setting `counts` can state"
)
_UNBEGUN: Final = (
    "attachments of its header have not begun, so its last message may belong to another one whose beginning was lost"
)


def _line(message: PhysicalMessage) -> SubjectSender:
    reply = message.properties.get(REPLY_PROPERTY, "").split(".")
    sender = ".".join(reply[:_SESSION_ELEMENTS]) if reply[0] == INBOX else ""
    return SubjectSender(message.properties.get(SUBJECT_PROPERTY, ""), sender)
