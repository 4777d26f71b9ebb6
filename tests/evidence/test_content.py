"""Whatever happens to the messages of an attachment: it is finished with the content that was sent, or not at all.

What is sent comes from programs that share no code with the product (`tests.evidence.senders`). By default each
change of each kind of attachment is tried in one dialect; `--long` tries all of them, which takes hours.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.evidence import hosts, mutations
from tests.evidence.cases import SENDINGS, Case, at_random, double, in_any_manner, restarted, single, two_lost
from tests.evidence.hosts import Traffic
from tests.evidence.known import KNOWN, Known
from tests.evidence.senders import contents, mq_group, sas_queue, sas_rendezvous
from tests.evidence.senders.sent import Sending
from tests.support.length import IS_LONG

AT_ONCE = 1500
RESTARTED_AT_ONCE = 100


def judged(cases: Sequence[Case], folder: Path) -> set[Known]:
    """Have both hosts receive the messages of cases; return the sorts of known faults among what they finish."""
    traffic = {f"s{number}": case.traffic for number, case in enumerate(cases) if case.mutated.numbered}
    found = hosts.gateway(folder / "gateway", traffic)
    in_the_pipeline = hosts.pipeline(folder / "pipeline", folder / "gateway" / "journal")
    by_source = {f"s{number}": case for number, case in enumerate(cases)}
    unlike = {
        str(by_source[source]): (found.get(source), in_the_pipeline.get(source))
        for source in found.keys() | in_the_pipeline.keys()
        if found.get(source) != in_the_pipeline.get(source)
    }
    assert not unlike, "both hosts find the same"
    return explained(by_source, found)


def explained(by_source: dict[str, Case], found: hosts.Found) -> set[Known]:
    """Return the sorts of known faults among what was found. Fails for any other fault."""
    faulty = {case: faults for source, case in by_source.items() if (faults := case.faults(found, source))}
    reasons = {case: [each for each in KNOWN if each.includes(case)] for case in faulty}
    unknown = [f"{case}: {'; '.join(faults)}" for case, faults in faulty.items() if not reasons[case]]
    assert not unknown, "\n".join([f"{len(unknown)} are finished with other content than was sent:", *unknown[:50]])
    whole = [case for source, case in by_source.items() if is_certain(case) and not case.is_whole(found, source)]
    assert not whole, "\n".join(["what comes whole is not finished:", *map(str, whole)])
    return set(chain.from_iterable(reasons.values()))


def is_certain(case: Case) -> bool:
    """Tell whether a case must be finished: nothing was changed, and only one reading is possible.

    Where a count is not of an attachment's own messages alone, some may have been lost, unless an exact size says that
    all are there, or sizes and numbers of observations have shown how the sender counts. Files that may be attachments
    of their own are one where two headers have shown it.
    """
    sending = case.sending
    if sas_rendezvous.SHARED in sending.kind and ("one LST" in sending.manner or case.before < 2):
        return False
    counts_more = "LST counts its own and" in sending.manner or "one LST" in sending.manner
    is_announced = not sending.told.startswith("no ") and (case.before > 1 or sending.kind == "binary")
    return not case.mutated.changes and not case.restart and (is_announced or not counts_more)


def pieces(cases: Iterable[Case], size: int) -> Iterator[list[Case]]:
    remaining = iter(cases)
    while some_ := list(islice(remaining, size)):
        yield some_


@pytest.mark.parametrize("framing", SENDINGS)
def test_nothing_is_finished_with_other_content_than_was_sent(tmp_path: Path, framing: str) -> None:
    cases = [*in_any_manner(SENDINGS[framing], Random(30))]
    known = {each for each in KNOWN if each.framing == framing and not each.is_of_two}
    assert judged(cases, tmp_path) == known, "what is known is still so"


def test_nor_after_two_changes_or_a_restart(tmp_path: Path) -> None:
    random = Random(31)
    cases = [at_random(framing, random, 2) for framing in SENDINGS for _ in range(60)]
    cases += [at_random(framing, random, random.randrange(2), restarts=True) for framing in SENDINGS for _ in range(25)]
    judged(cases, tmp_path)


def test_nor_where_a_subject_has_shown_how_its_senders_count(tmp_path: Path) -> None:
    random = Random(34)
    cases = random.sample([*in_any_manner(SENDINGS["sas_rendezvous"], random)], 80)
    cases += [Case(each, mutations.unchanged(each.messages)) for each in SENDINGS["sas_rendezvous"]]
    judged([each._replace(before=2) for each in cases], tmp_path)


def without_types(dialect: sas_queue.Dialect, count: int, *odd: bytes) -> Sending:
    """A data set whose messages of observations have no type, but for the first one; `odd` ones come behind it."""
    sent = sas_queue.data_set(dialect, count)
    defining, others = sent.bodies[:-2], [bytes(body.data[4:]) for _, body in sent.bodies[-2:]]
    bodies = [*defining, *(("observations", sas_queue.Bytes(dialect).raw(each)) for each in (*odd, *others))]
    return sas_queue.sending(dialect, "data set", "no types", sent._replace(bodies=bodies))


def with_another_type(dialect: sas_queue.Dialect, count: int, kind: bytes) -> Sending:
    """A data set with a message more, of a type that does not exist. It has as many bytes as a row."""
    sent = sas_queue.data_set(dialect, count)
    bodies = [*sent.bodies, ("odd", sas_queue.Bytes(dialect).raw(kind + b"z" * 10))]
    return sas_queue.sending(dialect, "data set", "another type", sent._replace(bodies=bodies))


def test_a_data_set_with_a_message_that_has_no_type_is_not_finished(tmp_path: Path) -> None:
    random = Random(35)
    rows = len(contents.TABLE.rows)
    sendings: list[Sending] = []
    for dialect in sas_queue.DIALECTS:
        order: Literal["big", "little"] = "big" if dialect.order == ">" else "little"
        of_no_kind = random.choice([0, random.randrange(6, 1 << 32), 3 << 24]).to_bytes(4, order)
        like_a_type = random.randrange(1, 6).to_bytes(4, order) + b"z" * 10
        for odd in ([], [like_a_type], [like_a_type] * 2):
            sendings += (without_types(dialect, count, *odd) for count in (-1, rows + len(odd)))
        sendings += (with_another_type(dialect, count, of_no_kind) for count in (-1, rows, rows + 1))
    traffic = {f"s{number}": Traffic("sas_queue", [each.messages]) for number, each in enumerate(sendings)}
    found = hosts.gateway(tmp_path / "gateway", traffic)
    assert found == hosts.pipeline(tmp_path / "pipeline", tmp_path / "gateway" / "journal")
    finished = [sendings[int(source[1:])] for source, (each,) in found.items() if each.content is not None]
    assert not finished, "\n".join(f"{each.told} {each.manner}" for each in finished)
    reasons = {str(each.reason) for (each,) in found.values()}
    assert all("begins with the unknown type identifier" in each for each in reasons), reasons


@pytest.mark.skipif(not IS_LONG, reason="takes hours")
@pytest.mark.parametrize("framing", SENDINGS)
def test_every_change(tmp_path: Path, framing: str) -> None:
    random = Random(32)
    sendings = SENDINGS[framing]
    one_dialect = {(each.kind, each.told): each for each in random.sample(sendings, len(sendings))}.values()
    every = chain(single(sendings), two_lost(sendings), double(one_dialect))
    for number, cases in enumerate(pieces(every, AT_ONCE)):
        judged(cases, tmp_path / str(number))
    for number, cases in enumerate(pieces(restarted(single(one_dialect)), RESTARTED_AT_ONCE)):
        judged(cases, tmp_path / f"restarted {number}")


# --- larger ones ------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(0, 255)
LINES = st.lists(
    st.lists(NUMBERS.map(lambda it: (b"line %d " % it).ljust(81 + it % 20, b".")), min_size=1, max_size=3), max_size=8
)
"""Lines of each message. A line has more bytes than three for each of all the lines, so that no line ends, which have
up to four bytes, stand for it."""
ROWS = st.lists(st.lists(NUMBERS.map(lambda it: (float(it), f"{it:o}")), min_size=1, max_size=3), max_size=8)
"""Rows of each message."""


@st.composite
def larger(draw: st.DrawFn) -> Sending:
    """Draw an attachment of up to ten messages."""
    dialect = draw(st.sampled_from(sas_queue.DIALECTS))
    counting = draw(st.sampled_from(sas_rendezvous.COUNTINGS))
    is_told, kind = draw(st.booleans()), draw(st.sampled_from(["text", "binary", "data set", "group"]))
    if kind == "data set":
        rows = draw(ROWS)
        told, count = ("count", sum(map(len, rows))) if is_told else ("no count", -1)
        return draw(
            st.sampled_from(
                [
                    sas_queue.sending(dialect, kind, told, sas_queue.data_set(dialect, count, rows)),
                    sas_rendezvous.sending(kind, told, counting, sas_rendezvous.data_set(count, rows)),
                ]
            )
        )
    lines = draw(LINES)
    if kind == "group":
        return mq_group.grouped("binary", [b"".join(each) for each in lines] or [b""])
    made = {
        "text": (sas_queue.text_file, sas_rendezvous.text_file),
        "binary": (sas_queue.binary_file, sas_rendezvous.binary_file),
    }[kind]
    size = sum(len(line) + (kind == "text") for each in lines for line in each)
    told, size = ("size", size) if is_told and size else ("no size", 0)
    return draw(
        st.sampled_from(
            [
                sas_queue.sending(dialect, kind, told, made[0](dialect, size, lines)),
                sas_rendezvous.sending(kind, told, counting, made[1](size, lines)),
            ]
        )
    )


@st.composite
def larger_cases(draw: st.DrawFn) -> Case:
    sending = draw(larger())
    mutated = mutations.unchanged(sending.messages)
    for _ in range(draw(st.integers(0, 2))):
        if mutated.numbered:
            mutated = draw(st.sampled_from([*mutations.changed(mutated)]))
    return Case(sending, mutated)


@settings(max_examples=4, phases=(Phase.generate,))  # shrinking would run both hosts hundreds of times
@given(st.lists(larger_cases(), min_size=15, max_size=40))
def test_nor_of_any_size(cases: list[Case]) -> None:
    with TemporaryDirectory() as folder:
        judged(cases, Path(folder))
