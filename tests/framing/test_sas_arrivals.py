"""Messages on TIB/Rendezvous get their attachment and their number as they come, and nothing is mixed."""

from collections.abc import Iterable, Mapping
from itertools import product
from random import Random
from typing import Literal

import pytest

from app.codecs.sas.attachment_messages import AttachmentEntry
from app.codecs.sas.correlid import BLANK_CORRELID, correlid_of, key_of, split
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.numbered import message_name
from app.codecs.sas.rendezvous_messages import (
    MapItem,
    RendezvousHeader,
    write_file_description,
    write_header,
    write_last,
    write_map,
    write_records,
)
from app.framing.arrivals import ArrivalsBySource
from app.framing.counting import RULE_NAMES
from app.framing.message_events import FAILED, read_event
from app.framing.protocol import ArrivalOptions
from app.framing.sas_arrivals import COPY, DOUBT, PARTS, REFUTED, NumberedArrivals
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import Announced, Refuted, Unsequenced
from app.model.evidence import Ground
from app.model.message import UNREADABLE, PhysicalMessage
from tests.evidence.senders import contents, sas_rendezvous
from tests.support.cases import for_each

FDC = write_file_description(FileDescription(80, 0))
MSG = write_map([MapItem(4, b"about")])


def records(text: bytes, name: Literal["ATX", "ATB"] = "ATX") -> bytes:
    (body,) = write_records([text], name)
    return body


def sized(size: int) -> bytes:
    """A descriptor of a file that says how many bytes the file has, here without line ends."""
    return write_file_description(FileDescription(80, size))


def header(
    attachments: int = 1,
    correlid: bytes = BLANK_CORRELID,
    own: Iterable[bytes] = (),
    kind: AttachmentKind = AttachmentKind.TEXT_FILE,
) -> bytes:
    correlids = [*own] or [BLANK_CORRELID] * attachments
    entries = [AttachmentEntry(kind, each, "FILENAME", f"{n}.txt", "") for n, each in enumerate(correlids)]
    return write_header(RendezvousHeader(correlid, 0, BLANK_CORRELID, BLANK_CORRELID, len(entries), entries))


def message(body: bytes, subject: str = "SAS.A", reply: str = "", at: int = 1, **properties: str) -> PhysicalMessage:
    told = {"rendezvous.subject": subject} | ({"rendezvous.reply": reply} if reply else {}) | properties
    return PhysicalMessage("sas", "sas_rendezvous", body=body, received_at=at, properties=told)


def numbered(
    arrivals: NumberedArrivals, *bodies: bytes, subject: str = "SAS.A", reply: str = ""
) -> list[PhysicalMessage]:
    return [each for body in bodies for each in arrivals.number(message(body, subject, reply))]


def shown(messages: Iterable[PhysicalMessage]) -> list[tuple[str, int | str]]:
    """Each message's name, and its number, what it counts, or the code it was refused with."""
    found: list[tuple[str, int | str]] = []
    for each in messages:
        name = message_name(each.body)
        if each.framing == UNREADABLE:
            found.append((name, each.properties["refused-code"]))
        else:
            found.append((name, _counted(each.properties) or split(each.correl_id)[1]))
    return found


def _counted(properties: Mapping[str, str]) -> str:
    if PARTS in properties:
        return f"of {properties[PARTS]}"
    return "refuted" if REFUTED in properties else "in doubt" if DOUBT in properties else ""


def test_a_file_is_numbered_and_counted() -> None:
    got = numbered(NumberedArrivals(), header(), FDC, records(b"a"), records(b"b"), write_last(3))
    assert shown(got) == [("HDR", 0), ("FDC", 1), ("ATX", 2), ("ATX", 3), ("LST", "of 3")]
    announced = SAS_RENDEZVOUS.read(got[0], 0)
    assert isinstance(announced, Announced)
    (entry,) = announced.header.attachments
    assert {split(each.correl_id)[0] for each in got[1:]} == {entry.correl_id}


def test_an_attachment_that_begins_without_its_descriptor_says_so_or_lacks_it() -> None:
    """By the count nothing is missing; one that counts one more shows that the first message is."""
    opening = header(kind=AttachmentKind.BINARY_FILE)
    got = numbered(NumberedArrivals(), opening, records(b"a", "ATB"), write_last(1))
    assert shown(got) == [("HDR", 0), ("ATB", 2), ("LST", "in doubt")]
    event = SAS_RENDEZVOUS.read(got[-1], 0)
    assert isinstance(event, Unsequenced)
    assert "counts 1 messages, and 1 came, but the first of them is not the descriptor" in event.doubt
    counted_alone = NumberedArrivals(ArrivalOptions(counts="attachment"))
    assert shown(numbered(counted_alone, opening, records(b"a", "ATB"), write_last(2)))[-1] == ("LST", "of 2")


@pytest.mark.parametrize(("msg", "beside"), [(False, 0), (False, 1), (True, 0), (True, 1), (True, 2)])
def test_what_a_last_message_counts_is_learnt(msg: bool, beside: int) -> None:
    """Files with the sizes that were announced are whole. Two of them show what a sender counts beside the parts."""
    arrivals = NumberedArrivals()
    before = [header(), MSG] if msg else [header()]
    parts = [sized(10), records(b"first"), records(b"other")]
    for _ in range(2):
        got = numbered(arrivals, *before, *parts, write_last(3 + beside))
        assert shown(got)[-1] == ("LST", "of 3")
    lost = numbered(arrivals, *before, *parts[:2], write_last(3 + beside))
    assert shown(lost)[-1] == ("LST", "of 3"), "the third part is missing"
    again = numbered(arrivals, *before, *parts, write_last(3 + beside))
    assert shown(again)[-1] == ("LST", "of 3")


def test_each_attachment_may_have_a_last_message_or_all_of_them_one() -> None:
    first, second = [sized(1), records(b"a")], [sized(2), records(b"b"), records(b"c")]
    each = numbered(NumberedArrivals(), header(2), *first, write_last(2), *second, write_last(3))
    told = NumberedArrivals(ArrivalOptions(counts="all-attachments"))
    one = numbered(told, header(2), *first, *second, write_last(5))
    untold = numbered(NumberedArrivals(), header(2), *first, *second, write_last(5))
    assert shown(untold)[-2:] == [("ATX", 5), ("LST", "in doubt")], "they may be two files of the first attachment"
    assert shown(each) == [
        ("HDR", 0), ("FDC", 1), ("ATX", 2), ("LST", "of 2"), ("FDC", 1), ("ATX", 2), ("ATX", 3), ("LST", "of 3"),
    ]  # fmt: skip
    assert shown(one) == [
        ("HDR", 0), ("FDC", 1), ("ATX", 2), ("FDC", 1), ("ATX", 2), ("ATX", 3), ("LST", "of 2"), ("LST", "of 3"),
    ]  # fmt: skip
    keys = [split(each.correl_id)[0] for each in one]
    assert (keys[1], keys[3]) == (keys[6], keys[7])
    assert keys[1] != keys[3]


def test_senders_that_name_their_sessions_are_told_apart() -> None:
    arrivals = NumberedArrivals()
    replies = [f"_INBOX.7F000001.{number}.1" for number in range(5)]
    bodies = [header(), FDC, records(b"a"), records(b"b"), write_last(3)]
    sent = [(reply, iter(bodies)) for reply in replies]
    random, got = Random(3), []
    while sent:
        reply, left = random.choice(sent)
        if (body := next(left, None)) is None:
            sent.remove((reply, left))
        else:
            got += numbered(arrivals, body, reply=reply)
    assert sorted(shown(got)) == sorted([("HDR", 0), ("FDC", 1), ("ATX", 2), ("ATX", 3), ("LST", "of 3")] * 5)
    assert len({split(each.correl_id)[0] for each in got if split(each.correl_id)[1]}) == 5


def test_subjects_are_told_apart() -> None:
    arrivals = NumberedArrivals()
    pairs = list(product([header(), FDC, records(b"a"), write_last(2)], ["SAS.A", "SAS.B"]))
    got = [each for body, subject in pairs for each in numbered(arrivals, body, subject=subject)]
    assert UNREADABLE not in {each.framing for each in got}


@for_each("seed", range(50))
def test_what_cannot_be_told_apart_is_refused_and_never_mixed(seed: int) -> None:
    """Two senders on one subject, in any interleaving: what is numbered as one attachment is of one sender."""
    random = Random(seed)
    senders = {
        letter: [header(), FDC, *(records(b"%s %d" % (letter, n)) for n in range(random.randrange(1, 4)))]
        for letter in (b"one", b"two")
    }
    left = {letter: [*bodies, write_last(len(bodies) - 1)] for letter, bodies in senders.items()}
    arrivals, of_key = NumberedArrivals(), dict[bytes, set[bytes]]()
    complete: dict[bytes, int] = {}
    while any(left.values()):
        letter = random.choice([each for each, bodies in left.items() if bodies])
        for each in arrivals.number(message(left[letter].pop(0))):
            if each.framing != UNREADABLE and message_name(each.body) != "HDR":
                key = split(each.correl_id)[0]
                of_key.setdefault(key, set()).add(letter)
                if PARTS in each.properties:
                    complete[key] = int(each.properties[PARTS])
    for key in complete:
        assert len(of_key[key]) == 1


def test_a_sender_that_begins_again_is_taken_again_after_its_next_last_message() -> None:
    arrivals = NumberedArrivals()
    numbered(arrivals, header(), FDC)
    doubtful = numbered(arrivals, header(), FDC, records(b"a"), write_last(2))
    assert {code for _, code in shown(doubtful)} == {"interleaved-attachments"}
    assert shown(numbered(arrivals, header(), FDC, records(b"a"), write_last(2)))[-1] == ("LST", "of 2")


def test_a_gap_closes_what_was_open() -> None:
    arrivals = NumberedArrivals()
    numbered(arrivals, header(), FDC)
    after = arrivals.number(message(records(b"a"), gap="the connection was broken"))
    assert shown(after) == [("ATX", "no-header")]
    assert shown(numbered(arrivals, header(), FDC, records(b"a"), write_last(2)))[-1] == ("LST", "of 2")


def test_what_comes_without_a_header_is_refused() -> None:
    arrivals = NumberedArrivals()
    codes = [code for _, code in shown(numbered(arrivals, FDC, records(b"a"), MSG, write_last(2)))]
    assert codes == ["no-header"] * 4
    (bad,) = arrivals.number(message(b"no tibrvmsg at all"))
    assert bad.properties["refused-code"] == "bad-rendezvous-message"
    (bad,) = numbered(arrivals, header()[:-3])
    with pytest.raises(InvalidInputError) as refused:
        read_event(bad, 0)
    assert (refused.value.code, refused.value.row, refused.value.at) == ("bad-rendezvous-message", "length", 0)


def test_the_gateways_own_correlids_are_the_keys_and_others_are_made_new_each_time() -> None:
    keys = [bytes([number]) * 16 for number in (1, 2)]
    own = header(own=map(correlid_of, keys), correlid=correlid_of(b"H" * 16))
    for _ in range(2):
        got = numbered(NumberedArrivals(), own, FDC, write_last(1), FDC, write_last(1))
        first = [keys[0]] * 3  # its last message is decided when the second begins
        assert [split(each.correl_id)[0] for each in got] == [b"H" * 16, *first, keys[1], keys[1]]
    arrivals = NumberedArrivals()
    made = [numbered(arrivals, header(), FDC, write_last(1))[1].correl_id for _ in range(2)]
    assert made[0] != made[1]


@pytest.mark.parametrize("text", [BLANK_CORRELID, b"", b"AG" + b"!" * 22, b"AG" + b"A" * 21 + b"B", b"XY" + b"A" * 22])
def test_other_correlids_hold_no_key(text: bytes) -> None:
    assert key_of(text) is None


def test_lines_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.framing.sas_arrivals._MOST_LINES", 3)
    arrivals = NumberedArrivals()
    for number in range(5):
        numbered(arrivals, header(), subject=f"S{number}")
    assert [shown(numbered(arrivals, FDC, subject=f"S{number}"))[0][1] for number in range(5)] == [
        "no-header", "no-header", 1, 1, 1,
    ]  # fmt: skip


# --- messages that the transport could not read -------------------------------------------------------------------


def arriving(by_source: ArrivalsBySource, *messages: PhysicalMessage) -> list[tuple[str, int | str]]:
    return shown(by_source.numbered(messages))


def lost(**subjects: str) -> PhysicalMessage:
    """A frame that the transport refused."""
    refused = message(FDC)._replace(properties=subjects)
    return refused.unreadable("bad-rendezvous-frame", "its length is wrong")


@pytest.mark.parametrize("subjects", [{}, {"rendezvous.subject": "SAS.A"}])
def test_a_message_that_could_not_be_read_interrupts_what_is_being_received(subjects: dict[str, str]) -> None:
    by_source = ArrivalsBySource()
    bodies = [header(), FDC, records(b"one"), records(b"two"), write_last(3)]
    head = [message(body) for body in bodies[:3]]
    came = [by_source.numbered([each])[0] for each in head]
    assert [name for name, _ in shown(came)] == ["HDR", "FDC", "ATX"]
    rest = arriving(by_source, lost(**subjects), message(bodies[3]), message(write_last(5)))
    assert rest[1:] == [("ATX", "no-header"), ("LST", "no-header")]
    for _ in range(2):
        assert arriving(by_source, *map(message, bodies))[-1] == ("LST", "of 3"), "nothing wrong was learnt"


def test_it_interrupts_its_own_line_only_where_that_is_known() -> None:
    by_source = ArrivalsBySource()
    by_source.numbered([message(header()), message(FDC)])
    found = arriving(
        by_source, lost(**{"rendezvous.subject": "SAS.B"}), message(records(b"one")), message(write_last(2))
    )
    assert found[1:] == [("ATX", 2), ("LST", "of 2")]


def test_it_changes_nothing_where_messages_are_not_numbered() -> None:
    messages = [PhysicalMessage("sas", "sas_queue"), lost()]
    assert ArrivalsBySource().numbered(messages) is messages


# --- faults -------------------------------------------------------------------------------------------------------


def test_a_subject_of_any_characters_is_numbered() -> None:
    assert shown(numbered(NumberedArrivals(), header(), subject="\ud800")) == [("HDR", 0)]


def test_a_message_at_which_numbering_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the receiver numbers: nobody would start it again."""

    def fails(_: bytes) -> str:
        raise ZeroDivisionError("a fault of ours")

    by_source = ArrivalsBySource()
    by_source.numbered([message(header()), message(FDC)])
    with monkeypatch.context() as patched:
        patched.setattr("app.framing.sas_arrivals.message_name", fails)
        (refused,) = by_source.numbered([message(records(b"one"))])
    assert refused.framing == UNREADABLE
    assert refused.properties["refused-code"] == FAILED
    assert refused.properties["refused-why"] == "the program fails at it: ZeroDivisionError: a fault of ours"
    assert arriving(by_source, message(records(b"two"))) == [("ATX", "no-header")], "its line is interrupted"


# --- what senders count -------------------------------------------------------------------------------------------


def counted(arrivals: NumberedArrivals, *parts: bytes, count: int, subject: str = "SAS.A") -> int | str:
    """Take an attachment of these messages, and return what its last message counts."""
    return shown(numbered(arrivals, header(), *parts, write_last(count), subject=subject))[-1][1]


@pytest.mark.parametrize(("counts_header", "counts_data"), [*product((0, 1), repeat=2)])
def test_messages_with_and_without_data_are_counted_alike(counts_header: int, counts_data: int) -> None:
    arrivals = NumberedArrivals()
    parts = (sized(6), records(b"one", "ATB"), records(b"two", "ATB"))
    opening = header(kind=AttachmentKind.BINARY_FILE)
    for data in ((MSG,), (), (), (MSG,), (MSG, MSG), ()):
        count = len(parts) + counts_header + counts_data * len(data)
        assert shown(numbered(arrivals, opening, *data, *parts, write_last(count)))[-1][1] == "of 3"


def test_a_count_that_can_mean_a_loss_is_in_doubt_until_the_subject_shows_what_it_counts() -> None:
    arrivals = NumberedArrivals()
    assert counted(arrivals, FDC, records(b"one"), count=3) == "in doubt", "one was lost, or the header is counted"
    whole = numbered(arrivals, header(), FDC, records(b"one"), records(b"two"), write_last(3))
    assert shown(whole)[-2:] == [("LST", "of 3"), ("LST", "of 3")], "now the third part of the first one is missing"
    assert whole[-1].properties[COPY]
    assert counted(arrivals, FDC, records(b"one"), count=3) == "of 3", "now a loss shows"


def test_senders_of_several_subjects_may_count_differently() -> None:
    arrivals = NumberedArrivals()
    for _ in range(2):
        for subject, counts_header in (("A", 1), ("B", 0)):
            parts = [sized(6), records(b"one"), records(b"two")]
            assert counted(arrivals, *parts, count=3 + counts_header, subject=subject) == "of 3"
    assert counted(arrivals, FDC, records(b"one"), count=4, subject="A") == "of 3", "a loss shows on each"
    assert counted(arrivals, FDC, records(b"one"), count=3, subject="B") == "of 3"
    assert arrivals.take_learned() == {
        "A": "all-attachments+header all-attachments+header+application-message "
        "attachment+header attachment+header+application-message",
        "B": "all-attachments all-attachments+application-message attachment attachment+application-message",
    }


def test_what_was_learnt_and_what_is_open_is_known_after_a_restart() -> None:
    before = NumberedArrivals()
    for _ in range(2):
        counted(before, sized(6), records(b"one"), records(b"two"), count=4, subject="A")
    open_still = numbered(before, header(), FDC, records(b"one"), subject="A")
    after = NumberedArrivals(ArrivalOptions(before.take_learned()))
    for each in open_still:
        after.resume(each)
    rest = numbered(after, records(b"two"), write_last(4), subject="A")
    assert shown(rest) == [("ATX", 3), ("LST", "of 3")]
    assert {split(each.correl_id)[0] for each in rest} == {split(open_still[-1].correl_id)[0]}
    assert counted(after, FDC, records(b"one"), count=3, subject="A") == "of 2", "a size that nobody announced"


@pytest.mark.parametrize("counts", RULE_NAMES)
def test_a_setting_states_what_is_counted(counts: str) -> None:
    """No evidence is needed then, and none changes it."""
    arrivals = NumberedArrivals(ArrivalOptions(counts=counts))
    first, second = [FDC, records(b"one")], [FDC, records(b"two"), records(b"three")]
    beside = counts.count("header") + counts.count("application-message")
    for _ in range(2):
        if counts.startswith("all"):
            got = numbered(arrivals, header(2), MSG, *first, *second, write_last(5 + beside))
            assert shown(got)[-2:] == [("LST", "of 2"), ("LST", "of 3")]
        else:
            got = numbered(arrivals, header(2), MSG, *first, write_last(2 + beside), *second, write_last(3 + beside))
            assert [count for name, count in shown(got) if name == "LST"] == ["in doubt", "of 2", "of 3"]
            lost = numbered(arrivals, header(), MSG, *second[:-1], write_last(3 + beside))
            assert shown(lost)[-1] == ("LST", "of 3")
    assert arrivals.take_learned() == {}


def test_what_was_finished_by_a_rule_that_later_files_refute_is_marked() -> None:
    """A file without a size came whole by the only reading; two others show that the header is counted."""
    arrivals = NumberedArrivals()
    assert counted(arrivals, FDC, records(b"one"), count=2) == "of 2"
    assert counted(arrivals, sized(6), records(b"one"), records(b"two"), count=4) == "in doubt"
    got = numbered(arrivals, header(), sized(6), records(b"one"), records(b"six"), write_last(4))
    assert [count for _, count in shown(got)[-3:]] == ["of 3", "of 3", "refuted"]
    marked = SAS_RENDEZVOUS.read(got[-1], 0)
    assert isinstance(marked, Refuted)
    assert "counts differently" in marked.why


def test_a_source_may_have_doubts_only_warned_of() -> None:
    arrivals = NumberedArrivals(ArrivalOptions(on_doubt="warn"))
    last = numbered(arrivals, header(), FDC, records(b"one"), write_last(3))[-1]
    assert shown([last]) == [("LST", "of 2")]
    event = SAS_RENDEZVOUS.read(last, 0)
    assert isinstance(event, Unsequenced)
    assert event.counts == (2, 2)
    assert "either messages are missing" in event.doubt
    assert event.choice is not None
    assert event.choice.ground is Ground.PREFERENCE
    assert "attachment" in event.choice.others


def test_a_message_behind_a_last_one_begins_the_next_attachment_which_lacks_its_first() -> None:
    arrivals = NumberedArrivals()
    got = numbered(arrivals, header(2), FDC, records(b"one"), write_last(2), records(b"two"), write_last(2))
    assert shown(got) == [
        ("HDR", 0), ("FDC", 1), ("ATX", 2), ("LST", "in doubt"), ("LST", "of 2"), ("ATX", 2), ("LST", "of 2"),
    ]  # fmt: skip
    assert split(got[-2].correl_id)[0] == split(got[-1].correl_id)[0] != split(got[1].correl_id)[0]


# --- what nothing tells, as docs/evidence.md lists it -----------------------------------------------------------------


def test_a_size_may_agree_by_accident_before_a_subject_has_shown_its_rule() -> None:
    """Six lines of one byte, whose size counts line ends of one byte; without two of them, it agrees with two bytes."""
    lines = [b"".join(write_records([b"a", b"b"], "ATX")) for _ in range(3)]
    assert counted(NumberedArrivals(), sized(12), *lines[:2], count=4) == "of 3"
    knowing = NumberedArrivals()
    counted(knowing, sized(12), *lines, count=4)
    assert counted(knowing, sized(12), *lines[:2], count=4) == "in doubt"


def test_nothing_announces_indexes_before_a_subject_has_shown_its_rule() -> None:
    definition, *rest = [body for _, body in sas_rendezvous.data_set(len(contents.TABLE.rows)).parts]
    index = sas_rendezvous.message("ATI", sas_rendezvous.i32(4))
    opening = header(kind=AttachmentKind.DATA_SET)
    count = write_last(len(rest) + 2)
    lost = numbered(NumberedArrivals(), opening, definition, *rest, count)
    assert shown(lost)[-1] == ("LST", f"of {len(rest) + 1}")
    knowing = NumberedArrivals()
    numbered(knowing, opening, definition, *rest, index, count)
    assert shown(numbered(knowing, opening, definition, *rest, count))[-1] == ("LST", "in doubt")
