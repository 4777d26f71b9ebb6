"""The framing `file_transfer` against a sender of its own, written from the specification alone."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.assembly.arrangement import arrangement_of
from app.assembly.collecting import Completed, Refused, Repeated, TrackedAttachment
from app.assembly.machine import Assembly, AssemblyLimits
from app.assembly.part_places import Parts as PartPlaces
from app.codecs.file_transfer.commands import LONGEST_DOCUMENT
from app.codecs.sas import dialect
from app.framing.file_transfer import FILE_TRANSFER
from app.framing.message_events import read_event
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import InvalidInputError
from app.model.event import Pieces, RangePart
from app.model.message import OTHER_BYTES, TOPIC, TOPIC_PREFIX, PhysicalMessage
from app.model.records import AttachmentRecord
from app.pipeline.commit.result_changes import checkpoint_of
from app.service.finishing.partial_content import NothingYet, leading_bytes
from app.service.finishing.stored_parts import missing_ranges
from app.service.monitoring.physical_messages import PhysicalMessages
from app.service.monitoring.received_runs import parts_of
from app.testing.framing_contract import in_the_pipeline, receive, records
from app.testing.gateway_stages import service_context
from tests.support.file_transfer_program import sent_file

PREFIXES = ("$file", "$file-async")


def message(topic: str, body: bytes = b"") -> PhysicalMessage:
    prefix, _, levels = topic.partition("/")
    properties = {TOPIC: levels, TOPIC_PREFIX: prefix}
    return PhysicalMessage("s", "file_transfer", body=body, received_at=1, properties=properties)


def commands(*sent: tuple[str, bytes], file_id: str = "f") -> list[PhysicalMessage]:
    return [message(f"$file/{file_id}/{topic}", body) for topic, body in sent]


@dataclass
class Parts:
    """The parts of a complete file in their order; `app.framing.protocol.Received`."""

    keys: Sequence[int]
    messages: Sequence[PhysicalMessage]
    encoding: int = 0

    @property
    def first(self) -> PhysicalMessage:
        return self.messages[0]

    def __len__(self) -> int:
        return len(self.messages)

    def message(self, number: int) -> PhysicalMessage:
        return self.messages[number]

    def bodies(self, numbers: Sequence[int] | None = None) -> Iterator[memoryview]:
        return (memoryview(self.messages[at].body) for at in (range(len(self)) if numbers is None else numbers))


def content(record: AttachmentRecord, parts: Parts) -> bytes:
    return b"".join(bytes(data) for _, _, data, _ in FILE_TRANSFER.file(record, parts).spans())


@given(st.randoms(use_true_random=False), st.sampled_from(["fin", "init", "none"]))
def test_any_segments_in_any_order_are_the_file_and_nothing_is_finished_before(random: Random, checksum: str) -> None:
    sent = sent_file(
        random, "a file.bin", random.randbytes(random.randint(0, 400)), prefixes=PREFIXES, checksum=checksum
    )
    stream = sent.publishes + random.sample(sent.publishes, random.randint(0, len(sent.publishes)))
    random.shuffle(stream)
    received = [message(*each) for each in stream]
    assembly = Assembly(AssemblyLimits())
    unseen, bytes_seen = {"init", "fin"}, [False] * len(sent.content)
    is_complete = False
    for position, each in enumerate(received):
        event = read_event(each, dialect.ALL)
        assert isinstance(event, RangePart)
        effects = assembly.apply("s", event, position, 1)
        unseen -= set(each.properties[TOPIC].split("/")[1:2])
        bytes_seen[event.offset : event.offset + event.size] = [True] * event.size
        is_complete = is_complete or any(isinstance(effect, Completed) for effect in effects)
        assert is_complete == (not unseen and all(bytes_seen))
        (attachment,) = assembly.attachments.values()
        gaps = arrangement_of(attachment.current()).missing(attachment.current(), attachment.parts, list, 1000)
        known = (
            len(bytes_seen)
            if "fin" not in unseen
            else max((at for at, seen in enumerate(bytes_seen, 1) if seen), default=0)
        )
        lacking = {byte for first, last in gaps for byte in range(first - 1, last)}
        assert lacking == {at for at in range(known) if not bytes_seen[at]}
    record = attachment.current()
    assert (record.qualifier_2, record.state) == (sent.name, AttachmentState.COMPLETE)
    keys, places = zip(*arrangement_of(record).in_order(record, attachment.parts), strict=True)
    assert content(record, Parts(keys, [received[place] for place in places])) == sent.content


def test_a_file_whose_parts_were_lost_needs_its_beginning_again() -> None:
    sent = commands(("0", b"hello"), ("fin/5", b""), ("init", NAMED))
    key = FILE_TRANSFER.attachment_key(sent[0])
    known = AttachmentRecord("a" * 32, "s", key, kind=AttachmentKind.BINARY_FILE, qualifier_2="a.bin")
    assembly = Assembly(AssemblyLimits())
    assembly.attachments["s", key] = TrackedAttachment(known, PartPlaces())
    events = [read_event(each, dialect.ALL) for each in sent]
    effects = [assembly.apply("s", event, at, 1) for at, event in enumerate(events) if not isinstance(event, Pieces)]
    assert [[type(each) for each in some] for some in effects] == [[], [], [Completed]]


NAMED = json.dumps({"name": "a.bin"}).encode()
HELLO = sha256(b"hello").hexdigest()


def outcome(folder: Path, sent: list[PhysicalMessage]) -> tuple[str, str | None, list[str], str | None]:
    """Return the state of a file, its reason code, the codes in quarantine and its SHA-256, the same of both hosts."""
    with service_context(folder / "embedded") as context:
        receive(context, [sent])
        (record,) = records(context)
        codes = sorted(each.code for each in context.catalog.quarantined(None, None, None, 10).items)
    (result,) = in_the_pipeline(folder / "pipeline", sent)
    assert result.record is not None
    assert sorted(each.code for each in result.quarantine) == codes
    assert (result.finished and result.finished.sha256, result.refused and result.refused.code) == (
        record.sha256,
        record.reason_code if record.state is AttachmentState.QUARANTINED else None,
    )
    return record.state, record.reason_code, codes, record.sha256


@pytest.mark.parametrize("place", ["same", "overlap"])
@pytest.mark.parametrize("checksum", [HELLO, sha256(b"jello").hexdigest(), ""])
def test_other_bytes_for_the_same_place_are_held_unless_the_checksum_decides(
    tmp_path: Path, checksum: str, place: str
) -> None:
    other = ("0", b"jello") if place == "same" else ("0", b"jellofish"[:4])
    end = f"fin/5/{checksum}" if checksum else "fin/5"
    sent = commands(("init", NAMED), ("0", b"hello"), other, (end, b""))
    refused = ["conflicting-part"] if place == "same" else []
    code = "bad-checksum" if checksum else "conflicting-segments"
    found = outcome(tmp_path, sent)
    # Of overlapping segments, the shorter one is first where they begin together.
    right = HELLO if place == "same" else sha256(b"jello").hexdigest()
    if checksum == right:
        assert found == ("finished", None, refused, right)
    else:
        assert found == ("quarantined", code, sorted([*refused, code]), None)


def test_a_file_with_a_contradiction_that_its_checksum_has_decided_says_so(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        receive(context, [commands(("init", NAMED), ("0", b"hello"), ("0", b"jello"), (f"fin/5/{HELLO}", b""))])
        assert [each.warnings for each in records(context)] == [(OTHER_BYTES,)]


@pytest.mark.parametrize(
    ("sent", "codes"),
    [
        ([("fin/5", b""), ("3", b"hello")], ["segment-beyond-end"]),
        ([("3", b"hello"), ("fin/5", b"")], ["conflicting-end"]),
        ([("fin/5", b""), (f"fin/5/{HELLO}", b""), ("fin/6", b"")], ["conflicting-end"]),
        ([(f"fin/5/{HELLO}", b""), (f"fin/5/{'0' * 64}", b""), ("fin/5", b"")], ["conflicting-end"]),
        ([("init", NAMED), ("init", NAMED.replace(b"a.bin", b"b.bin"))], ["conflicting-init"]),
        (
            [("init", b'{"name": "a", "checksum": "%s"}' % HELLO.encode()), ("init", b'{"name": "a"}')],
            ["conflicting-init"],
        ),
    ],
)
def test_what_contradicts_the_first_message_is_refused(
    tmp_path: Path, sent: list[tuple[str, bytes]], codes: list[str]
) -> None:
    assert outcome(tmp_path, commands(*sent)) == ("receiving", None, codes, None)


SAID = {"name": "a.bin", "size": 5, "expire_at": 1_900_000_000, "user_data": {"b": 1, "a": "é"}}
SAID_AGAIN = json.dumps(
    {"user_data": {"a": "é", "b": 1}, "expire_at": 2_000_000_000, "size": 5, "name": "a.bin"}, indent=1
)


@given(st.permutations([(f"fin/5/{HELLO}", b""), ("fin/5", b""), ("0", b"hello"), ("init", b"1"), ("init", b"2")]))
def test_messages_that_agree_are_no_contradiction(sent: list[tuple[str, bytes]]) -> None:
    """Whether they say more or less, in which words, and in which order."""
    documents = {b"1": json.dumps(SAID).encode(), b"2": SAID_AGAIN.encode()}
    messages = commands(*((name, documents.get(body, body)) for name, body in sent))
    assembly = Assembly(AssemblyLimits())
    completed = None
    for position, each in enumerate(messages):
        event = read_event(each, dialect.ALL)
        assert isinstance(event, RangePart)
        effects = assembly.apply("s", event, position, 1)
        assert not any(isinstance(effect, Refused) for effect in effects)
        assert all(
            effect.say_the_same for effect in effects if isinstance(effect, Repeated) and effect.first is not None
        )
        completed = completed or next((effect for effect in effects if isinstance(effect, Completed)), None)
    (attachment,) = assembly.attachments.values()
    assert completed is not None
    record = attachment.current()
    keys, places = zip(*arrangement_of(record).in_order(record, attachment.parts), strict=True)
    assert content(record, Parts(keys, [messages[place] for place in places])) == b"hello"


def test_both_hosts_finish_a_file_whose_messages_agree(tmp_path: Path) -> None:
    sent = [("init", json.dumps(SAID).encode()), ("fin/5", b""), (f"fin/5/{HELLO}", b""), ("init", SAID_AGAIN.encode())]
    assert outcome(tmp_path / "right", commands(*sent, ("0", b"hello"))) == ("finished", None, [], HELLO)
    found = outcome(tmp_path / "wrong", commands(*sent, ("0", b"jello")))
    assert found == ("quarantined", "bad-checksum", ["bad-checksum"], None)


def test_a_segment_before_the_last_one_that_goes_past_the_end_holds_the_file(tmp_path: Path) -> None:
    sent = commands(("init", NAMED), ("0", b"hello"), ("2", b"l"), ("fin/3", b""))
    assert outcome(tmp_path, sent) == ("quarantined", "conflicting-segments", ["conflicting-segments"], None)


def test_segments_sent_again_in_another_size_are_duplicates(tmp_path: Path) -> None:
    sent = commands(("init", NAMED), ("0", b"hello"), ("fin/5", b""), ("0", b"hel"), ("3", b"lo"), ("5", b""))
    assert outcome(tmp_path, sent) == ("finished", None, [], HELLO)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_aborted_file_is_deleted_and_stays_so(tmp_path: Path, before: int) -> None:
    sent = commands(("init", NAMED), ("0", b"hel"), ("3", b"lo"), ("fin/5", b""))
    sent.insert(before, *commands(("abort", b"")))
    with service_context(tmp_path / "gateway") as context:
        receive(context, [sent[: before + 1], sent[before + 1 :], sent])
        (record,) = records(context)
        assert (record.state, record.reason_code) == (AttachmentState.DELETED, "aborted")
        assert not context.catalog.part_runs(record.id)
        events = [event for event in context.catalog.events_after(0, 100) if event.type == "attachment.deleted"]
        assert [event.data["reason"] for event in events] == ["aborted"]
    checkpoint = checkpoint_of(in_the_pipeline(tmp_path / "pipeline", sent), 5)
    assert [each.state for each in checkpoint.attachments] == [AttachmentState.DELETED]
    assert (checkpoint.finished, checkpoint.part_runs) == ([], {})
    assert [event.data["reason"] for event in checkpoint.events] == ["aborted"]


def test_a_complete_file_is_not_aborted_any_more(tmp_path: Path) -> None:
    sent = commands(("init", NAMED), ("0", b"hello"), ("fin/5", b""), ("abort", b""))
    assert outcome(tmp_path, sent) == ("finished", None, [], HELLO)


def test_the_leading_bytes_of_an_unfinished_file_can_be_read(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        receive(context, [commands(("0", b"abcd"), ("2", b"cdef"), ("8", b"ij"))])
        (record,) = records(context)
        with pytest.raises(NothingYet, match="its header has not come"):
            leading_bytes(record, context, 0, 100)
        receive(context, [commands(("init", NAMED))])
        (record,) = records(context)
        found = leading_bytes(record, context, 1, 100)
        assert (found.data, found.missing.ranges) == (b"bcdef", [(7, 8)])
        assert missing_ranges(record, context.catalog, context.journal, 10) == [(7, 8)]
        shown = [(run.first, run.length, run.state) for run, _, _ in parts_of(record, context).runs]
        assert shown == [(1, 6, "received"), (7, 2, "missing"), (9, 2, "received")]
        listed = PhysicalMessages(record, context).page(None, 10).items
        assert [(each.kind, each.size) for each in listed] == [("part", size) for size in (4, 4, 2, len(NAMED))]


@pytest.mark.parametrize(
    ("topic", "body", "code"),
    [
        ("$file/f/init", b"{", "bad-init"),
        ("$file/f/init", b"[" * 100_000, "bad-init"),
        ("$file/f/init", b'{"size": 5}', "bad-init"),
        ("$file/f/init", b'{"name": "a\\u0000"}', "bad-init"),
        ("$file/f/init", b'{"name": "\\ud800"}', "bad-init"),
        ("$file/f/init", b'{"name": "a", "size": -1}', "bad-init"),
        ("$file/f/init", b'{"name": "a", "checksum": "00"}', "bad-init"),
        ("$file/f/init", b'{"name": "' + b"a" * LONGEST_DOCUMENT + b'"}', "bad-init"),
        (f"$file/f/0/{HELLO}", b"jello", "bad-segment"),
        ("$file/f/0/00", b"", "bad-topic"),
        ("$file/f/-1", b"", "bad-topic"),
        ("$file/f/fin", b"", "bad-topic"),
        ("$file/f/fin/x", b"", "bad-topic"),
        ("$file/f/fin/5/00", b"", "bad-topic"),
        ("$file/f/init/more", b"", "bad-topic"),
        ("$file/f", b"", "bad-topic"),
        ("$file//init", b"{}", "bad-topic"),
        ("$file/" + "f" * 256 + "/init", b"{}", "bad-topic"),
        ("$file/f/99999999999999999", b"x", "segment-too-large"),
        ("$file/f/fin/99999999999999999", b"", "segment-too-large"),
    ],
)
def test_what_is_no_command_is_refused_with_its_reason(topic: str, body: bytes, code: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        FILE_TRANSFER.read(message(topic, body), dialect.ALL)
    assert refused.value.code == code


LEVELS = st.sampled_from(["init", "fin", "abort", "0", "7", "9" * 30, HELLO, "²", "f" * 300, ""]) | st.text(max_size=5)


@given(
    st.lists(LEVELS, max_size=5),
    st.binary(max_size=30)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["name", "size", "checksum", "user_data"]), inner, max_size=4),
    ).map(lambda value: json.dumps(value).encode()),
)
def test_any_topic_and_body_is_an_event_or_our_error(levels: list[str], body: bytes) -> None:
    sent = message("/".join(["$file", *levels]), body)
    with suppress(InvalidInputError):
        FILE_TRANSFER.read(sent, dialect.ALL)
