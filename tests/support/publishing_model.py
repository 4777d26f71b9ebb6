"""A model of the protocol of `app.service.receiving.publishing`, small enough that all its states can be visited.

Receivers have sealed segments of their own. The archive is a sequence of published segments. The catalog counts those
that are recorded, and knows the last own segment of each receiver that they have. The assembler follows what is
recorded. Each step below is one call of the archive or of the catalog, and steps of all processes come in any order: so
each process may stand still between any two steps. A process may end before or after any call. The one that follows has
the same journal. The former may be only paused, and go on beside it.

What a process knows to be published, it may retire at any moment. So the rules for what is retired hold for what is
known. The lease is left out: the protocol must be right without it.

A `Fault` leaves something out. What the model finds then shows that it can find it.

As a program: `python -m tests.support.publishing_model 2 2 2 1 1` explores this size, with the fields of `Size`.
"""

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import cache
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Fault(Enum):
    """A step of the protocol that is left out, or done in another order."""

    RECORDS_BEFORE_ADDING = auto()
    IGNORES_THE_ORIGIN = auto()
    """Who finds a number taken believes that its own segment is there."""
    SKIPS_A_TAKEN_NUMBER = auto()
    """Who finds a number taken tries the next one, and records nothing."""
    OVERWRITES = auto()
    """The archive takes a number again."""
    KNOWS_BEFORE_THE_NUMBER = auto()
    """The last own segment that is published is read before the next number."""
    RETIRES_BEFORE_RECORDING = auto()
    RECORDS_ANY_NUMBER = auto()
    """The catalog does not compare the number with the last recorded one."""
    TRIES_ONE_NUMBER = auto()
    """Who finds a number taken leaves it as it is, so that nobody records it for a process that has ended."""
    SAVES_PROGRESS_LATER = auto()
    """Results of assembly are saved before the progress that includes them."""


class Step(Enum):
    """What a process does next."""

    NUMBER = auto()
    KNOWN = auto()
    ADD = auto()
    RECORD = auto()


class Published(NamedTuple):
    """A segment of the archive: the own segments of a receiver from `first` to `last`."""

    receiver: int
    first: int
    last: int


class Process(NamedTuple):
    """The memory of a receiver's process: its next step, the number that it uses, what it adds or has found there, and
    the last own segment that it knows to be published."""

    step: Step
    number: int = 0
    has: Published | None = None
    known: int = 0


class State(NamedTuple):
    """All there is. `published` are the last own segments that are recorded, by receiver. `paused` are former processes
    that may go on. `assembled` is what assembly has taken, and `progress` how many segments of the archive that are, as
    it has saved. `endings` is how many processes have ended."""

    running: tuple[Process, ...]
    paused: tuple[tuple[int, Process], ...]
    archive: tuple[Published, ...]
    recorded: int
    published: tuple[int, ...]
    assembled: tuple[Published, ...]
    progress: int
    endings: int


class Size(NamedTuple):
    """How much there is: receivers, segments of each, ends of processes, former ones that go on beside, and assemblers.

    Without an assembler there are fewer states. It takes only what is recorded, and nothing of that ever changes.
    """

    receivers: int = 2
    segments: int = 2
    endings: int = 2
    paused: int = 1
    assemblers: int = 1


class Explored(NamedTuple):
    """The number of states, and what is wrong, with the states that lead there."""

    states: int
    wrong: str | None
    path: list[State]


def explore(size: Size, fault: Fault | None = None) -> Explored:
    """Visit all states. Return the first one that breaks a rule, or from which not everything can be assembled."""
    steps = Steps(size, fault)
    first = State((steps.begin,) * size.receivers, (), (), 0, (0,) * size.receivers, (), 0, 0)
    before: dict[State, State | None] = {first: None}
    leads: dict[State, list[State]] = {}
    waiting = deque([first])
    good: set[State] = set()
    while waiting:
        state = waiting.popleft()
        if steps.is_end(state):
            good.add(state)
        for found in steps.following(state):
            if (wrong := broken(found)) is not None:
                return Explored(len(before), wrong, [*_path(before, state), found])
            following = steps.without_known(found)
            leads.setdefault(following, []).append(state)
            if following not in before:
                before[following] = state
                waiting.append(following)
    back = deque(good)
    while back:
        for state in leads.get(back.popleft(), ()):
            if state not in good:
                good.add(state)
                back.append(state)
    stuck = next((state for state in before if state not in good), None)
    if stuck is not None:
        return Explored(len(before), "not everything can be assembled any more", _path(before, stuck))
    return Explored(len(before), None, [])


def broken(state: State) -> str | None:
    """Return the rule that a state breaks."""
    if state.recorded > len(state.archive):
        return "a number is recorded that is not used"
    if len(state.archive) > state.recorded + 1:
        return "a number was used before a lower one was recorded"
    for receiver, process in enumerate(state.running):
        wrong, there = _published(state.archive, receiver)
        if wrong is not None:
            return wrong
        if max(process.known, state.published[receiver]) > there:
            return "a segment is lost"
        if process.known > state.published[receiver]:
            return "a segment may be retired before it is recorded"
    if state.assembled != state.archive[: len(state.assembled)]:
        return "assembly took something twice, or not what the archive has"
    return None


@cache
def _published(archive: tuple[Published, ...], receiver: int) -> tuple[str | None, int]:
    """Return what is wrong with the segments of a receiver, and how many there are."""
    numbers = [number for each in archive if each.receiver == receiver for number in range(each.first, each.last + 1)]
    if len(set(numbers)) < len(numbers):
        return "a segment was published twice", len(numbers)
    if numbers != list(range(1, len(numbers) + 1)):
        return "a segment was skipped, or is out of order", len(numbers)
    return None, len(numbers)


class Steps:
    """The steps that are possible in a state. `begin` is a process that has just begun."""

    def __init__(self, size: Size, fault: Fault | None) -> None:
        self._size, self._fault = size, fault
        self.begin = Process(Step.KNOWN if fault is Fault.KNOWS_BEFORE_THE_NUMBER else Step.NUMBER)
        self._adding = Step.RECORD if fault is Fault.RECORDS_BEFORE_ADDING else Step.ADD
        self._results = {
            Step.NUMBER: self._number,
            Step.KNOWN: self._known,
            Step.ADD: self._add,
            Step.RECORD: self._record,
        }

    def is_end(self, state: State) -> bool:
        """Tell whether everything has been published, and assembled if there is an assembler."""
        all_published = sum(state.published) == self._size.receivers * self._size.segments
        return all_published and state.progress == self._size.assemblers * state.recorded

    def without_known(self, state: State) -> State:
        """Return the state without what processes know that read it again before they use it."""
        running = tuple(self.begin if each.step is self.begin.step else each for each in state.running)
        return state._replace(running=running)

    def following(self, state: State) -> Iterator[State]:
        """Yield the states that may follow."""
        for receiver, process in enumerate(state.running):
            for changed, after in self._results[process.step](state, receiver, process):
                yield changed._replace(running=_set(changed.running, receiver, after))
            if state.endings < self._size.endings and process != self.begin:
                ended = state._replace(running=_set(state.running, receiver, self.begin), endings=state.endings + 1)
                yield ended
                if len(state.paused) < self._size.paused:
                    yield ended._replace(paused=(*state.paused, (receiver, process)))
        for at, (receiver, process) in enumerate(state.paused):
            rest = state.paused[:at] + state.paused[at + 1 :]
            for changed, after in self._results[process.step](state, receiver, process):
                yield changed._replace(paused=rest if after.step is self.begin.step else (*rest, (receiver, after)))
        if self._size.assemblers and state.progress < state.recorded:
            taken = state.archive[state.progress : state.progress + 1]
            progress = state.progress + (self._fault is not Fault.SAVES_PROGRESS_LATER)
            yield state._replace(assembled=state.assembled + taken, progress=progress)
            if progress < len(state.assembled):
                yield state._replace(progress=progress + 1)

    def _number(self, state: State, _receiver: int, process: Process) -> Iterator[tuple[State, Process]]:
        following = Step.KNOWN if process.has is None else self._adding
        yield state, process._replace(step=following, number=state.recorded + 1)

    def _known(self, state: State, receiver: int, process: Process) -> Iterator[tuple[State, Process]]:
        known = state.published[receiver]
        following = Step.NUMBER if self._fault is Fault.KNOWS_BEFORE_THE_NUMBER else self._adding
        if known == self._size.segments:
            yield state, self.begin._replace(known=known)
        for last in range(known + 1, self._size.segments + 1):
            yield state, Process(following, process.number, Published(receiver, known + 1, last), known)

    def _add(self, state: State, _receiver: int, process: Process) -> Iterator[tuple[State, Process]]:
        _, number, has, known = process
        assert has is not None
        if number > len(state.archive) or self._fault is Fault.OVERWRITES:
            state = state._replace(archive=(*state.archive[: number - 1], has, *state.archive[number:]))
        elif self._fault is Fault.TRIES_ONE_NUMBER:
            yield state, self.begin
            return
        elif self._fault is Fault.SKIPS_A_TAKEN_NUMBER:
            yield state, process._replace(number=number + 1)
            return
        elif self._fault is not Fault.IGNORES_THE_ORIGIN:
            has = state.archive[number - 1]
        if self._fault is Fault.RETIRES_BEFORE_RECORDING:
            known = max(known, has.last)
        ends = self._fault is Fault.RECORDS_BEFORE_ADDING
        yield state, self.begin if ends else Process(Step.RECORD, number, has, known)

    def _record(self, state: State, receiver: int, process: Process) -> Iterator[tuple[State, Process]]:
        _, number, has, known = process
        assert has is not None
        if number == state.recorded + 1 or self._fault is Fault.RECORDS_ANY_NUMBER:
            last = max(state.published[has.receiver], has.last)
            state = state._replace(recorded=number, published=_set(state.published, has.receiver, last))
        if self._fault is Fault.RECORDS_BEFORE_ADDING:
            yield state, process._replace(step=Step.ADD)
        else:
            yield state, self.begin._replace(known=max(known, has.last) if has.receiver == receiver else known)


def _set(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _path(before: Mapping[State, State | None], state: State) -> list[State]:
    path = [state]
    while (earlier := before[path[-1]]) is not None:
        path.append(earlier)
    return path[::-1]


def main() -> None:
    explored = explore(Size(*map(int, sys.argv[1:])))
    lines = [f"{explored.states} states, wrong: {explored.wrong}", *map(str, explored.path)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
