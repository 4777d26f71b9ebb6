"""Attachments of several files on TIB/Rendezvous: whatever is sent, lost or comes twice, they are put together as they
were sent, or not at all."""

from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pytest

from app.codecs.sas import correlid
from app.codecs.sas.numbered import message_name
from app.framing.protocol import ArrivalOptions
from app.framing.sas_arrivals import COPY, DOUBT, PARTS, NumberedArrivals
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import Announced
from app.model.message import UNREADABLE, PhysicalMessage
from app.model.records import AttachmentRecord
from app.service.finishing.contained_files import FoundFile, content_pieces, described_files
from app.service.finishing.content_evidence import other_bytes
from app.wire import WireError
from tests.evidence.senders import sas_rendezvous as sender
from tests.evidence.senders.sas_rendezvous import KINDS, OWN, Attachment, Counting, binary_file, several, text_file
from tests.framing.test_sas_rendezvous import Parts
from tests.support.cases import for_each
from tests.support.length import examples


class Message(NamedTuple):
    role: str
    body: bytes


def sent(attachments: Sequence[Attachment], counting: Counting = OWN, **manner: bool) -> list[Message]:
    """The messages of a header with these attachments."""
    made = sender.sending("", "", counting, *attachments, **manner)
    return [Message(each.role, each.body) for each in made.messages]


def numbered(arrivals: NumberedArrivals, messages: Sequence[Message]) -> list[PhysicalMessage]:
    told = {"rendezvous.subject": "SAS.A"}
    return [
        each
        for at, message in enumerate(messages)
        for each in arrivals.number(
            PhysicalMessage("s", "sas_rendezvous", body=message.body, received_at=at, properties=told)
        )
    ]


def finished(journalled: Sequence[PhysicalMessage]) -> dict[str, list[bytes]]:
    """The messages of each attachment of which all came, by its name."""
    names: dict[bytes, str] = {}
    parts: dict[bytes, dict[int, bytes]] = {}
    counts: dict[bytes, int] = {}
    for each in journalled:
        if each.framing == UNREADABLE:
            continue
        key, number = correlid.split(each.correl_id)
        if (name := message_name(each.body)) == "HDR":
            event = SAS_RENDEZVOUS.read(each, 0)
            assert isinstance(event, Announced)
            names |= {entry.correl_id: entry.qualifier_2 for entry in event.header.attachments}
        elif number:
            parts.setdefault(key, {})[number] = bytes(each.body)
        elif name == "LST" and PARTS in each.properties:
            counts.setdefault(key, int(each.properties[PARTS]))
    return {
        names[key]: [parts[key][number] for number in range(1, count + 1)]
        for key, count in counts.items()
        if parts.get(key, {}).keys() == set(range(1, count + 1))
    }


def content(kind: str, bodies: Sequence[bytes]) -> tuple[bytes, list[int]] | pa.Table | None:
    """The content of these messages and where its files end; None if it is held."""
    record = AttachmentRecord("a" * 32, "s", b"k" * 16, kind=AttachmentKind(KINDS[kind]), qualifier_2="T")
    found: list[FoundFile] = []
    tables: list[pa.Table] = []

    def store(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
        tables.append(pa.Table.from_batches(batches, schema))
        return int(tables[-1].num_rows)

    try:
        if kind == "data set":
            SAS_RENDEZVOUS.data_set(record, Parts(bodies), store)  # type: ignore[arg-type]
            return tables[-1]
        file = SAS_RENDEZVOUS.file(record, Parts(bodies))
        whole = b"".join(map(bytes, content_pieces(file, b"\n" if file.of_lines else b"", found)))
        described_files(found, "hold", of_lines=file.of_lines)
    except (InvalidInputError, WireError):
        return None
    return None if other_bytes(record.kind, file.evidence()) else (whole, [each.size for each in found])


class Sender:
    """A program that sends attachments of any shape. All of their lines and records differ, in their sizes, too."""

    def __init__(self, random: Random) -> None:
        self._random, self._made = random, 0
        self._counting = Counting(random.random() < 0.4, random.random() < 0.3)
        self._one_last, self._says_sizes = random.random() < 0.4, random.random() < 0.5
        self._kinds = [random.choice(["text", "binary"])] if random.random() < 0.5 else list(KINDS)

    def header(self, number: int) -> tuple[list[Message], dict[str, Attachment]]:
        attachments = []
        for place in range(self._random.choice([1, 1, 2, 2, 3])):
            kind = self._random.choice(self._kinds)
            files = [self._file(kind) for _ in range(1 if self._one_last else self._random.choice([1, 1, 2, 3]))]
            made = files[0] if kind == "data set" else several("", *files)
            attachments.append(made._replace(name=f"{number}.{place}"))
        application = self._random.random() < 0.5
        messages = sent(attachments, self._counting, application=application, one_last=self._one_last)
        return messages, {each.name: each for each in attachments}

    def _file(self, kind: str) -> Attachment:
        self._made += 1
        if kind == "data set":
            return sender.data_set(2, [[(float(self._made), "a")], [(float(-self._made), "b")]])
        data = [[b"%d." % (self._made * 2 + n) * 40 + b"." * self._made] for n in range(self._random.choice([1, 1, 2]))]
        size = sum(map(len, chain.from_iterable(data)))
        make, more = (text_file, len(data)) if kind == "text" else (binary_file, 0)
        longest = 200 if self._says_sizes else 200 + self._made
        return make(size + more if self._says_sizes else 0, data, longest)


@for_each("seed", range(examples(250)))
def test_what_is_finished_is_as_it_was_sent_in_its_bytes_and_in_where_files_begin(seed: int) -> None:
    """Without a change, and after each of some losses and repetitions of one message."""
    random = Random(seed)
    program = Sender(random)
    messages: list[Message] = []
    made: dict[str, Attachment] = {}
    for number in range(random.choice([1, 2, 3])):
        more, attachments = program.header(number)
        messages += more
        made |= attachments
    changed = [messages]
    for at in random.sample(range(len(messages)), min(6, len(messages))):
        changed += [messages[:at] + messages[at + 1 :], messages[: at + 1] + messages[at:]]
    for each in changed:
        for name, bodies in finished(numbered(NumberedArrivals(), each)).items():
            expected = [body for _, body in made[name].parts]
            if bodies != expected and (found := content(made[name].kind, bodies)) is not None:
                assert found == content(made[name].kind, expected), (name, [message.role for message in each])


# --- what is known of a subject ---------------------------------------------------------------------------------------

ONE, TWO, THREE = (
    text_file(len(line) + 1, [[line]])._replace(name=line.decode()) for line in (b"one", b"second", b"the third")
)
TEXTS = several("texts", ONE, TWO)


def outcome(journalled: Sequence[PhysicalMessage]) -> list[str]:
    """What became of each last message, and how many messages were refused."""
    words = [
        f"of {each.properties[PARTS]}" if PARTS in each.properties else "in doubt"
        for each in journalled
        if message_name(each.body) == "LST" and each.framing != UNREADABLE
    ]
    refused = sum(each.framing == UNREADABLE for each in journalled)
    return words + ([f"{refused} refused"] if refused else [])


def test_one_attachment_of_several_files_needs_no_other_evidence() -> None:
    got = numbered(NumberedArrivals(), sent([several("all", ONE, TWO, THREE)]))
    assert outcome(got) == ["of 6"]
    assert [correlid.split(each.correl_id)[1] for each in got[2:-1]] == [1, 2, 3, 4, 5, 6]


def test_files_that_may_be_attachments_of_their_own_are_held_until_the_subject_shows_it() -> None:
    """The last message of two files counts what one for two attachments would. Two headers show which it is."""
    arrivals = NumberedArrivals()
    header = sent([TEXTS, THREE], application=False)
    first = numbered(arrivals, header)
    assert outcome(first) == ["in doubt"] * 2
    assert "either they are one attachment, or some are others" in first[-1].properties[DOUBT]
    again = numbered(arrivals, header)
    assert outcome(again) == ["in doubt", "of 4", "of 2", "of 4", "of 2"]
    assert [COPY in each.properties for each in again if PARTS in each.properties] == [True, True, True, False]
    assert "all-attachments" not in arrivals.take_learned()["SAS.A"]
    assert outcome(numbered(arrivals, header)) == ["of 4", "of 2"]


def test_a_header_in_place_of_the_next_attachment_keeps_it_in_doubt() -> None:
    arrivals = NumberedArrivals()
    shared = sent([ONE, TWO], application=False, one_last=True)
    assert outcome(numbered(arrivals, shared)) == ["in doubt"]
    assert outcome(numbered(arrivals, shared)) == ["6 refused"], "its sender may have two attachments open"
    for _ in range(4):
        assert "of 4" not in outcome(numbered(arrivals, sent([TEXTS, THREE], application=False)))


def test_fewer_files_than_attachments_show_that_each_has_a_last_message() -> None:
    """One last message for all would count the third attachment, too."""
    arrivals = NumberedArrivals()
    three = sent([TEXTS, THREE, ONE], application=False)
    assert outcome(numbered(arrivals, three)) == ["of 4", "of 2", "of 2"]
    assert outcome(numbered(arrivals, sent([TEXTS, THREE], application=False))) == ["of 4", "of 2"]


@pytest.mark.parametrize(
    ("attachments", "one_last", "expected"),
    [
        ([TEXTS, THREE], False, ["of 4", "of 2"]),
        ([THREE, TEXTS], False, ["of 2", "of 4"]),
        ([ONE, TWO, THREE], True, ["of 2", "of 2", "of 2"]),
        ([TEXTS, THREE], True, ["in doubt", "in doubt"]),
    ],
)
def test_a_setting_states_it(attachments: list[Attachment], one_last: bool, expected: list[str]) -> None:
    """Where one last message is for all, nothing says which attachment has two of three files."""
    counts = "all-attachments" if one_last else "attachment"
    arrivals = NumberedArrivals(ArrivalOptions(counts=counts))
    assert outcome(numbered(arrivals, sent(attachments, one_last=one_last))) == expected


def test_a_lost_last_message_costs_the_attachments_beside_it() -> None:
    """Behind three files nothing says which attachment comes next: one or two of their last messages may be lost."""
    arrivals = NumberedArrivals(ArrivalOptions(counts="attachment"))
    messages = sent([ONE, TWO, THREE], application=False)
    between = numbered(arrivals, messages[:3] + messages[4:])
    assert outcome(between) == ["in doubt", "of 2"]
    assert finished(between).keys() == {THREE.name}
    texts = sent([TEXTS._replace(name="1"), TWO._replace(name="2"), THREE._replace(name="3")], application=False)
    assert outcome(numbered(arrivals, texts[:5] + texts[6:])) == ["in doubt", "3 refused"]
    assert outcome(numbered(arrivals, messages)) == ["of 2"] * 3, "and nothing of the next one"


def test_a_source_may_have_it_only_warned_of() -> None:
    got = numbered(NumberedArrivals(ArrivalOptions(on_doubt="warn")), sent([TEXTS, THREE], application=False))
    last = [each for each in got if PARTS in each.properties]
    assert [(each.properties[PARTS], DOUBT in each.properties) for each in last] == [("4", True), ("2", True)]


def test_a_file_of_which_all_came_does_not_show_that_another_one_did() -> None:
    """A sender that counts the header and the application message, and one that lost a file, count the same."""
    counts_more = Counting(header=True, application=True)
    messages = sent([TEXTS], counts_more)
    arrivals = NumberedArrivals()
    assert outcome(numbered(arrivals, messages)) == ["in doubt"]
    assert outcome(numbered(arrivals, messages)) == ["of 4", "of 4"]
    three = sent([several("", ONE, TWO, THREE)], counts_more)
    lost = numbered(arrivals, three[:-3] + three[-1:])
    assert outcome(lost) == ["in doubt"]
    assert "messages are missing" in lost[-1].properties[DOUBT]


def test_known_kinds_decide_which_file_is_of_which_attachment() -> None:
    binaries = several("binaries", binary_file(4, [[b"four"]]), binary_file(3, [[b"six"]]))
    for attachments in ([TEXTS, binaries], [binaries, TEXTS], [TEXTS, sender.data_set(7)]):
        got = numbered(NumberedArrivals(), sent(attachments, application=False))
        assert outcome(got) == [f"of {len(each.parts)}" for each in attachments]
    one_last = numbered(NumberedArrivals(), sent([TEXTS, binaries], application=False, one_last=True))
    assert content("text", finished(one_last)["texts"]) is None, "text and binary files in one attachment"
