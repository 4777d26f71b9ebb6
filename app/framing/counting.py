"""What a last message on TIB/Rendezvous counts: its readings, and how the right one is found.

The specification says that the last message (LST) of an attachment contains "a count of the number of messages sent for
the attachment". Senders take that for the attachment's own messages, and some count the header and the application
message, too, or end all attachments of a header with one last message. Each way is a `Rule`. So a count that is one
larger than the messages that came has two readings: one message is missing, or the header is counted.

All evidence decides (`Counting.decide`):

- No loss makes a count smaller: a rule by which more came than was sent is refuted. What is left is the one reading, or
  all rules left agree.
- The subject has shown before how its senders count. A setting of the source may state it.
- What the sender announced of the content (`app.framing.rendezvous_progress`) may show that all came. Unless that is
  certain, the subject has shown a rule only when two attachments agree on it.

Where whole and incomplete readings are left, the attachment is in doubt: it is not finished, and the reason is
recorded. It is decided later, when the subject has shown how its senders count. What was finished by a rule that turns
out to be wrong is marked.

An attachment may be several files, and nothing but a last message ends it. If its sender ends all attachments of a
header with one last message, each file may be an attachment of its own. The count is the same, and so are the sizes. So
an attachment of several files, in a header of several attachments, is in doubt as long as one last message for all is
possible. It is not if the attachments left are more than the files: the last message then counts too few.
If the next attachment begins behind the last message, each has its own, or a header was lost. Two of them show it
(`SubjectCounting.each_has_its_own`), unless a header came in their place (`SubjectCounting.a_header_came`).
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Generic, NamedTuple, TypeVar

from app.framing.rendezvous_progress import Completeness
from app.model.evidence import Choice, Ground, OnDoubt, Question

T = TypeVar("T")

_AGREED: Final = 2
"""How many attachments must agree to show something of their subject."""
_LEAST_OF_A_FILE: Final = 2
"""The messages that a file has at least: its descriptor and one of records."""
_MOST_WAITING: Final = 100
"""The last messages of a subject that wait to be decided."""
_MOST_DONE: Final = 20
"""The newest last messages of a subject that were decided by a rule that may turn out to be wrong."""


class Rule(NamedTuple):
    """What a last message counts: the messages of its attachment, or of all attachments of the header that have not
    ended before; with or without the header and the application messages."""

    all_attachments: bool = False
    header: bool = False
    application: bool = False

    @property
    def name(self) -> str:
        """The name, such as `attachment+header`."""
        others = ["header"] * self.header + ["application-message"] * self.application
        return "+".join(["all-attachments" if self.all_attachments else "attachment", *others])


RULES: Final = frozenset(Rule(*each) for each in product((False, True), repeat=3))
_FOR_ALL: Final = frozenset(rule for rule in RULES if rule.all_attachments)
_BY_NAME: Final = {rule.name: rule for rule in RULES}
RULE_NAMES: Final = tuple(sorted(_BY_NAME))


class AttachmentArrival(NamedTuple):
    """What came of one attachment that a last message may end: its messages, and whether these are all by what was
    announced. `repeats` of them are equal to one shortly before, and may be the same one, which came twice. One that is
    `headless` began without its first message. `tails` are how many messages came from each file on, without the first
    file."""

    messages: int
    whole: Completeness
    repeats: int = 0
    headless: bool = False
    tails: Sequence[int] = ()


class LastMessage(NamedTuple):
    """A last message and what came before it.

    `stated` is its number. `came` has the attachments that it may end, the last of which it follows directly; `unbegun`
    more attachments of the header have no message yet, of which `as_files` may have come as files of the last one.
    `applications` is the number of application messages. If it `may_be_shared`, files that came so far as one
    attachment of the header may be several. `before` has last messages of the header of which it was in doubt whether
    another one before them is missing.
    """

    stated: int
    came: Sequence[AttachmentArrival]
    unbegun: int = 0
    applications: int = 0
    as_files: int = 0
    may_be_shared: bool = False
    before: Sequence["LastMessage"] = ()

    def missing(self, rule: Rule) -> int:
        """Return how many messages are missing by a rule; a negative number if more came than were sent."""
        came = sum(each.messages for each in self.came) if rule.all_attachments else self.came[-1].messages
        return self.stated - came - rule.header - rule.application * self.applications

    def is_possible(self, rule: Rule) -> bool:
        """Tell whether the count can follow a rule, if messages were lost, or came twice where announcements do not
        show it. Each attachment has at least one."""
        if rule.all_attachments and self.unbegun > self.as_files:
            return self.missing(rule) >= self.unbegun - self.as_files
        twice = sum(each.repeats for each in self.came if each.whole is Completeness.UNKNOWN)
        return self.missing(rule) >= -twice

    def is_possible_by(self, rules: Iterable[Rule]) -> bool:
        """Tell whether the count can follow one of the rules."""
        return any(map(self.is_possible, rules))

    def may_follow_a_loss(self, rules: Iterable[Rule]) -> bool:
        """Tell whether the count follows one of the rules if the last message before one of the files was lost, so that
        the file begins another attachment."""
        beside = self._beside(rules)
        return self.as_files > 0 and any(self.stated - tail in beside for tail in self.came[-1].tails)

    def is_of_second_file(self, rules: Iterable[Rule]) -> bool:
        """Tell whether, by all of the rules, the last message before the second of two files was lost: this one counts
        the second file."""
        counted = {self.stated - tail for tail in self.came[-1].tails}
        return self.as_files > 0 and len(counted) == 1 and self._beside(rules) == counted

    def _beside(self, rules: Iterable[Rule]) -> set[int]:
        """Return how many messages the rules count beside those of attachments."""
        return {rule.header + rule.application * self.applications for rule in rules}

    def may_be_of_another(self, rules: Collection[Rule]) -> bool:
        """Tell whether a last message before this one may be missing, so that this one is of another attachment."""
        return any(each.may_follow_a_loss(rules) or not each.is_possible_by(rules) for each in self.before)

    def is_whole(self, rule: Rule, attachment: int) -> bool:
        """Tell whether all of one of the attachments of `came` has come, by a rule."""
        if self.missing(rule) or (rule.all_attachments and self.unbegun > self.as_files):
            return False
        return rule.all_attachments or attachment == len(self.came) - 1


class Decision(NamedTuple):
    """How many parts one attachment has, and by what that was decided; or why it is in doubt (`parts` is None).

    One that `is_refuted` was whole by an earlier decision, and `doubt` tells why it may not be."""

    parts: int | None = None
    choice: Choice | None = None
    doubt: str = ""
    is_refuted: bool = False


class AttachmentDecision(NamedTuple, Generic[T]):
    """A decision for one attachment (a place in `Ended.came`) of the last message that `token` stands for."""

    token: T
    attachment: int
    decision: Decision


@dataclass(slots=True)
class _Waiting(Generic[T]):
    token: T
    ended: LastMessage
    decisions: list[Decision]


@dataclass(slots=True)
class SubjectCounting(Generic[T]):
    """How the senders on one subject count, as far as it is known."""

    rules: frozenset[Rule] = RULES
    is_set: bool = False
    on_doubt: OnDoubt = "hold"
    _suggested: frozenset[Rule] = frozenset()
    _own: int | None = 0
    _waiting: deque[_Waiting[T]] = field(default_factory=lambda: deque(maxlen=_MOST_WAITING))
    _done: deque[_Waiting[T]] = field(default_factory=lambda: deque(maxlen=_MOST_DONE))

    @classmethod
    def of(cls, known: str = "", counts: str | None = None, on_doubt: OnDoubt = "hold") -> "SubjectCounting[T]":
        """Return what is known of a subject, by the text of `known` or by the setting `counts`."""
        if counts is not None:
            return cls(frozenset({_BY_NAME[counts]}), is_set=True, on_doubt=on_doubt)
        rules = frozenset(_BY_NAME[name] for name in known.split() if name in _BY_NAME)
        return cls(rules or RULES, on_doubt=on_doubt)

    @property
    def known(self) -> str:
        """The rules that are left, as a text; empty if none was refuted."""
        return "" if self.rules == RULES else " ".join(sorted(rule.name for rule in self.rules))

    def decide(self, token: T, ended: LastMessage) -> list[AttachmentDecision[T]]:
        """Return the decisions of a last message, for each attachment that it may end, and those that follow for
        earlier ones."""
        before = self.rules
        self._learn(ended)
        decisions = [self._decision(ended, attachment) for attachment in range(len(ended.came))]
        found = _Waiting(token, ended, decisions)
        later = [] if self.rules == before else [*self._reconsidered(), *self._refuted()]
        (self._waiting if any(each.parts is None for each in decisions) else self._done).append(found)
        return [
            AttachmentDecision(token, attachment, decision) for attachment, decision in enumerate(decisions)
        ] + later

    @property
    def has_one_for_all(self) -> bool:
        """Whether one last message ends all attachments of a header, by all that is known."""
        return self.rules <= _FOR_ALL

    @property
    def has_one_for_each(self) -> bool:
        """Whether each attachment has a last message, by all that is known."""
        return not self.rules & _FOR_ALL

    def each_has_its_own(self) -> list[AttachmentDecision[T]]:
        """Take note that an attachment has begun behind the last message of one of several files. Return the decisions
        that follow."""
        if self.is_set or self._own is None:
            return []
        self._own += 1
        if self._own < _AGREED or self.has_one_for_each or self.has_one_for_all:
            return []
        self.rules -= _FOR_ALL
        return [*self._reconsidered(), *self._refuted()]

    def a_header_came(self) -> None:
        """Take note that a header has come behind such a last message: it may have been one for all attachments."""
        self._own = None

    # --- learning -----------------------------------------------------------------------------------------------------

    def _learn(self, ended: LastMessage) -> None:
        """Take note of what a last message shows of the rules."""
        if self.is_set or ended.may_follow_a_loss(self.rules):
            return
        last = len(ended.came) - 1
        whole = frozenset(
            rule for rule in RULES if all(ended.is_whole(rule, each) for each in self._ended_by(rule, ended))
        )
        evidence = [ended.came[each].whole for each in {each for rule in whole for each in self._ended_by(rule, ended)}]
        standing = {rule for rule in self.rules if ended.is_possible(rule)}
        if Completeness.CONTRADICTED in evidence or not whole:
            return
        if standing and all(ended.is_whole(rule, last) for rule in standing):
            self.rules = self.rules & whole or self.rules
        elif evidence and all(each is Completeness.CERTAIN for each in evidence) and not self._may_lack_a_file(ended):
            self._replace(whole)
        elif all(each.value >= Completeness.LIKELY.value for each in evidence):
            if agreed := self._suggested & whole:
                self._replace(agreed)
            self._suggested = whole

    def _replace(self, shown: frozenset[Rule]) -> None:
        self.rules = self.rules & shown or shown
        self._suggested = frozenset()

    @staticmethod
    def _ended_by(rule: Rule, ended: LastMessage) -> Iterable[int]:
        """Return the attachments that a last message ends by a rule."""
        return range(len(ended.came)) if rule.all_attachments else (len(ended.came) - 1,)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decision(self, ended: LastMessage, attachment: int) -> Decision:
        came, whole, _, is_headless, _ = ended.came[attachment]
        readings = [rule for rule in sorted(self.rules) if ended.is_possible(rule)]
        fits = [rule for rule in readings if ended.is_whole(rule, attachment)]
        is_shared = ended.may_be_shared and any(rule.all_attachments for rule in readings)
        may_lack_one = ended.may_follow_a_loss(self.rules) or ended.may_be_of_another(self.rules)
        if is_shared or (fits and may_lack_one):
            return self._shared(ended, attachment, readings, fits)
        if not fits:
            return self._incomplete(ended, attachment, readings)
        contradicted = any(each.whole is Completeness.CONTRADICTED for each in ended.came) and (
            whole is Completeness.UNKNOWN or all(rule.all_attachments for rule in fits)
        )
        if is_headless or contradicted:
            return Decision(doubt=f"{_counted(ended)}{_HEADLESS}" if is_headless else _OTHERS_CONTRADICT)
        others = tuple(rule.name for rule in readings if rule not in fits)
        is_sure = whole.value >= Completeness.LIKELY.value and not self._may_lack_a_file(ended)
        if not others or is_sure:
            ground = Ground.ANNOUNCED if others else self._ground(ended)
            return Decision(came, Choice(Question.COUNT, fits[0].name, ground, others))
        if self.on_doubt == "warn":
            return Decision(came, Choice(Question.COUNT, fits[0].name, Ground.PREFERENCE, others), _ambiguity(ended))
        return Decision(doubt=_ambiguity(ended))

    def _may_lack_a_file(self, ended: LastMessage) -> bool:
        """Tell whether a whole file may be missing of an attachment of several, so that the sizes of the others do not
        show that all came. It has at least two messages."""
        most = max((ended.missing(rule) for rule in self.rules if ended.is_possible(rule)), default=0)
        return most >= _LEAST_OF_A_FILE and any(each.tails for each in ended.came)

    def _shared(self, ended: LastMessage, attachment: int, readings: Sequence[Rule], fits: Sequence[Rule]) -> Decision:
        """Return that an attachment may be several, or what may be warned of instead."""
        doubt = f"{_counted(ended)}{_SHARED}"
        if not fits or self.on_doubt != "warn":
            return Decision(doubt=doubt)
        others = tuple(rule.name for rule in readings if rule is not fits[0])
        choice = Choice(Question.COUNT, fits[0].name, Ground.PREFERENCE, others)
        return Decision(ended.came[attachment].messages, choice, doubt)

    def _incomplete(self, ended: LastMessage, attachment: int, readings: Sequence[Rule]) -> Decision:
        """Return how many parts an attachment has that is incomplete by all readings, if they agree on it."""
        if not readings:
            return Decision(doubt=f"{_counted(ended)}, which contradicts {self._shown()}")
        came, whole, *_ = ended.came[attachment]
        numbers = {ended.missing(rule) for rule in readings}
        is_only = len(ended.came) == 1 and not ended.unbegun
        is_own = attachment == len(ended.came) - 1 and not any(rule.all_attachments for rule in readings)
        if (is_only or is_own) and len(numbers) == 1 and min(numbers) > 0 and whole.value <= Completeness.UNKNOWN.value:
            return Decision(came + min(numbers), Choice(Question.COUNT, readings[0].name, self._ground(ended)))
        return Decision(doubt=f"{_counted(ended)}, so that messages are missing by {self._shown()}")

    def _ground(self, ended: LastMessage) -> Ground:
        """Return what left no other rule than those that agree."""
        if self.is_set:
            return Ground.SETTING
        are_all = all(rule in self.rules for rule in RULES if ended.is_possible(rule))
        return Ground.ONLY_READING if are_all else Ground.SOURCE

    def _shown(self) -> str:
        """Return by what the rules that are left are known."""
        if self.rules == RULES:
            return "each way to count"
        by = "the source's setting `counts`" if self.is_set else "what the subject has shown"
        return f"{by} ({', '.join(sorted(rule.name for rule in self.rules))})"

    # --- earlier decisions --------------------------------------------------------------------------------------------

    def _reconsidered(self) -> list[AttachmentDecision[T]]:
        """Return the decisions of waiting last messages that are possible now."""
        found: list[AttachmentDecision[T]] = []
        waiting, self._waiting = self._waiting, deque(maxlen=_MOST_WAITING)
        for each in waiting:
            for attachment, before in enumerate(each.decisions):
                if before.parts is None and (now := self._decision(each.ended, attachment)).parts is not None:
                    each.decisions[attachment] = now
                    found.append(AttachmentDecision(each.token, attachment, now))
            undecided = any(decision.parts is None for decision in each.decisions)
            (self._waiting if undecided else self._done).append(each)
        return found

    def _refuted(self) -> list[AttachmentDecision[T]]:
        """Return, for whole attachments that are not whole by any rule that is left, that this is in doubt."""
        found: list[AttachmentDecision[T]] = []
        done, self._done = self._done, deque(maxlen=_MOST_DONE)
        for each in done:
            refuted = [
                attachment
                for attachment, decision in enumerate(each.decisions)
                if decision.parts == each.ended.came[attachment].messages
                and each.ended.came[attachment].whole is not Completeness.CERTAIN
                and not any(each.ended.is_whole(rule, attachment) for rule in self.rules)
            ]
            found += [AttachmentDecision(each.token, attachment, _REFUTED) for attachment in refuted]
            if not refuted:
                self._done.append(each)
        return found


_OTHERS_CONTRADICT: Final = (
    "what came of another attachment of its header contradicts what was announced of that, so messages may be mixed"
)
_SHARED: Final = (
    ", of several files under a header of several attachments: either they are one attachment, or some are others, and "
    "a last message is missing or is one for all; the source's setting `counts` can state it"
)
_HEADLESS: Final = (
    ", but the first of them is not the descriptor of a file (FDC) or the definition of a data set (DAT): its sender "
    "left it out, or it was lost"
)
_REFUTED: Final = Decision(
    doubt="it was finished by its last message's count as the subject seemed to count; later attachments show that it "
    "counts differently, so messages of this one may be missing",
    is_refuted=True,
)


def _counted(ended: LastMessage) -> str:
    came = sum(each.messages for each in ended.came)
    return f"its last message counts {ended.stated} messages, and {came} came"


def _ambiguity(ended: LastMessage) -> str:
    return (
        f"{_counted(ended)}: either messages are missing, or the sender counts the header, the application message or "
        "other attachments, too; the source's setting `counts` can state it"
    )
