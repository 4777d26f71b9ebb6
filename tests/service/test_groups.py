"""IBM MQ groups through the service's stages: cut or sent by any program, journalled, assembled, finished, read."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ByteSize

from adapters.memory import MemoryDestinationSettings, MemoryReceiver, QueueSettings
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, FramingOptions, GroupedAs
from app.ports import AttachmentFilter
from app.service.assembling.assembler import Assembler
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment, missing_ranges
from app.service.gateway import Gateway
from app.service.sending.framer import Framer
from app.service.sending.sending_errors import CannotSend
from app.testing.gateway_stages import ManualClock, service_context
from app.testing.outgoing_files import FILES, SOURCE, delivery
from app.testing.waiting import until
from tests.service.test_gateway import UnreliableSender
from tests.service.test_round_trip import content, receive
from tests.support.loads import messages, mixed
from tests.support.mq_client import Sent, alone, any_bodies, group, segmented
from tests.support.sas_client import Program, disordered

SAS = "sas"


def how(grouped: GroupedAs = "messages", body_limit: int = 32_000) -> FramingOptions:
    return FramingOptions(body_limit, "big-4-excluded-packed", 1208, 273, framing="mq_group", group=grouped)


def named(source: str, sent: Sequence[PhysicalMessage]) -> list[PhysicalMessage]:
    return [message._replace(source=source, received_at=1) for message in sent]


def received(context: ReceiverContext, identifier: bytes) -> AttachmentRecord:
    record = context.catalog.attachment(attachment_id(SOURCE, identifier))
    assert record is not None
    return record


def files(random: Random) -> list[Sent]:
    """Files in every manner, of sizes about a body's and none at all."""
    made = [group(random, [[b""]]), segmented(random, [b""]), alone(random, b""), alone(random, b"\0")]
    for size in (1, 2, 100, 32_000, 100_000):
        data = random.randbytes(size)
        made.append(group(random, any_bodies(random, data), name=f"../{size}.bin"))
        made.append(segmented(random, any_bodies(random, data, 1, 9)[0], text=True))
        made.append(alone(random, data, text=True, name="日本語.txt"))
    return made


def assert_received(context: ReceiverContext, sent: Sequence[Sent]) -> None:
    for each in sent:
        record = received(context, each.identifier)
        assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
        assert content(context, record) == each.content
        assert record.storage == "journal"
        assert record.parts_received == record.parts_expected == len(each.messages)
        name = each.messages[0].properties.get("filename")
        assert record.qualifier_2 == (name or each.identifier.hex())


@pytest.mark.parametrize("grouped", ["messages", "segments"])
def test_what_is_cut_comes_back(tmp_path: Path, grouped: GroupedAs) -> None:
    with service_context(tmp_path) as context:
        sent = replace(delivery(context, FILES), application_body=None)
        cut = list(Framer(how(grouped), context.store).frame(sent))
        assert cut == list(Framer(how(grouped), context.store).frame(replace(sent, messages_sent=9)))
        assert max(len(message.body) for message in cut) == 32_000
        receive(context, disordered(cut, Random(3)))
        for number, (kind, name, expected) in enumerate(FILES, 1):
            record = received(context, bytes([number]) * 16 + bytes(8))
            assert (record.state, record.reason) == (AttachmentState.FINISHED, None), name
            assert (record.kind, record.qualifier_2, record.description) == (kind, name, f"the {number}th")
            assert content(context, record) == expected, name
            text = kind is AttachmentKind.TEXT_FILE
            assert record.content_type == ("text/plain; charset=utf-8" if text else "application/octet-stream")
        assert not context.catalog.quarantined(None, None, None, 10).items


def test_read_as_parts_come_or_afterwards_the_same_is_found(tmp_path: Path) -> None:
    found = []
    for order in (1, -1):
        random = Random(4)
        with service_context(tmp_path / str(order)) as context:
            sent = files(random)
            receive(context, named(SOURCE, [message for each in sent for message in each.messages])[::order])
            assert_received(context, sent)
            records = [received(context, each.identifier) for each in sent]
            found.append([(each.storage, each.sha256, each.content_type, each.kind) for each in records])
    assert found[0] == found[1]


def test_what_is_read_as_it_comes_is_not_read_again(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        sent = group(Random(5), [[b"a"], [b"b", b"c"], [b""]])
        complete: dict[str, CompleteAttachment | None] = {}
        context.journal.append(named(SOURCE, sent.messages))
        Assembler(context, complete.update).recover()
        assert not complete
        (record,) = context.catalog.attachments(AttachmentFilter(), None, 9).items
        assert (record.state, record.size, record.sha256) == (AttachmentState.FINISHED, 3, sent.sha256)
        assert len(context.catalog.extents(record.id)) == 3


@pytest.mark.parametrize("seed", range(4))
def test_a_host_that_dies_again_and_again_loses_nothing_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    """Groups and SAS attachments by turns, in any order, with duplicates; every few messages a new process goes on
    from the last checkpoint, and some processes end before they have finished what was complete."""
    random = Random(seed)
    program = Program(random)
    sent, attached = files(random), mixed(program, 6)
    both = named(SOURCE, [message for each in sent for message in each.messages])
    stream = disordered([*both, *named(SAS, messages(program, attached))], random, 0.2)
    with service_context(tmp_path) as context:
        while stream:
            for _ in range(random.randint(1, 3)):
                size = random.randint(1, 20)
                if stream:
                    context.journal.append(stream[:size])
                stream = stream[size:]
            complete: dict[str, CompleteAttachment | None] = {}
            Assembler(context, complete.update).recover()
            if random.random() < 0.5:
                Finisher(context).finish(complete)
        Finisher(context).finish(dict.fromkeys(record.id for record in context.catalog.complete_attachments()))
        assert_received(context, sent)
        states = [each.state for each in context.catalog.attachments(AttachmentFilter(), None, 99).items]
        assert states == [AttachmentState.FINISHED] * (len(sent) + len(attached))
        assert not context.catalog.quarantined(None, None, None, 10).items


@contextmanager
def running(folder: Path, plan: Sequence[int | None] = (), max_body: int = 32_000) -> Iterator[Callable[..., str]]:
    """A gateway that sends groups to the queue it receives from; the state a delivery of some files ends in."""
    queue, clock = uuid4().hex, ManualClock()
    endpoint = {"transport": "memory", "queue": queue, "framing": "mq_group"}
    back = endpoint | {"retry_first": "50ms", "retry_longest": "100ms"}
    settings: dict[str, Any] = {
        "limits": {"free_bytes": 0},
        "sources": {SOURCE: endpoint},
        "destinations": {"back": back},
    }
    with service_context(folder, clock, **settings) as context:
        receiver = MemoryReceiver(SOURCE, "mq_group", QueueSettings(queue=queue))
        to_queue = MemoryDestinationSettings(queue=queue, max_body=ByteSize(max_body))
        gateway = Gateway(context, {SOURCE: receiver}, {"back": UnreliableSender(to_queue, plan, permanent=False)})
        gateway.start()

        def ended(contents: list[tuple[AttachmentKind, str, bytes]]) -> str:
            sent = replace(delivery(context, contents), destination="back", application_body=None)
            gateway.deliveries.enqueue(sent)

            def state() -> str | None:
                clock.advance(1)
                found = gateway.catalog.delivery(sent.id)
                return found.reason or found.state if found and found.state in {"sent", "failed"} else None

            end = str(until(state))
            if end == "sent":
                until(lambda: gateway.catalog.counts()["attachments"]["finished"] == len(contents))
            return end

        try:
            yield ended
        finally:
            gateway.stop()


def test_groups_go_on_where_the_broker_went_away(tmp_path: Path) -> None:
    large = (AttachmentKind.BINARY_FILE, "large.bin", bytes(range(256)) * 30_000)
    with running(tmp_path, [64, 3, 0]) as ended:
        assert ended([large, *FILES]) == "sent"


def test_names_that_leave_no_room_for_bytes_cannot_be_sent(tmp_path: Path) -> None:
    with running(tmp_path, max_body=500) as ended:
        assert "too long for the broker" in ended([(AttachmentKind.BINARY_FILE, "n" * 500, b"")])


# --- what is wrong ----------------------------------------------------------------------------------------------------


def quarantined(context: ReceiverContext) -> list[tuple[str, str]]:
    return [(record.code, record.why) for record in context.catalog.quarantined(None, "kept", None, 99).items]


def test_segments_that_overlap_quarantine_the_group(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        sent = segmented(Random(6), [b"aaaa", b"bbbb", b"cccc"])
        first, second, last = named(SOURCE, sent.messages)
        receive(context, [first, second._replace(offset=2), last])
        record = received(context, sent.identifier)
        assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, "bad-group")
        why = "message 1 has a part at offset 2, but byte 4 of message 1 is expected"
        assert record.reason == f"offset: {why}"
        assert quarantined(context) == [("bad-group", why)]
        gateway = Gateway(context, {}, {})
        (kept,) = context.catalog.quarantined(None, "kept", None, 9).items
        assert gateway.replayer.replay(kept.id)
        assert received(context, sent.identifier).state is AttachmentState.COMPLETE
        assert not gateway.replayer.replay("0" * 16)


def test_what_contradicts_goes_to_quarantine_and_the_group_comes_out_if_doubt_is_accepted(tmp_path: Path) -> None:
    endpoint = {"transport": "memory", "queue": "q", "framing": "mq_group", "on_doubt": "warn"}
    with service_context(tmp_path, sources={SOURCE: endpoint}) as context:
        sent = group(Random(7), [[b"one"], [b"two"], [b"three"]])
        first, second, last = named(SOURCE, sent.messages)
        wrong = [
            second._replace(body=b"TWO"),
            last._replace(msg_seq_number=2),
            last._replace(msg_seq_number=4),
            first._replace(msg_flags=first.msg_flags | 2, original_length=99),
            first._replace(msg_type=4),
            first._replace(group_id=b""),
        ]
        receive(context, [first, second, *wrong[:1], second, *wrong[3:], last, *wrong[1:3]])
        assert content(context, received(context, sent.identifier)) == sent.content
        assert received(context, sent.identifier).duplicates == 2
        assert sorted(code for code, _ in quarantined(context)) == sorted(
            [
                "conflicting-part",
                "conflicting-last",
                "conflicting-last",
                "bad-grouping",
                "report-message",
                "no-identifier",
            ]
        )


def test_the_character_set_of_the_source_counts_where_messages_say_none(tmp_path: Path) -> None:
    endpoint = {"transport": "memory", "queue": "q", "framing": "mq_group", "ccsid": 819}
    for order in (1, -1):
        with service_context(tmp_path / str(order), sources={SOURCE: endpoint}) as context:
            sent = group(Random(8), [[b"a"], [b"b"]], text=True)
            receive(context, [message._replace(ccsid=0) for message in named(SOURCE, sent.messages)][::order])
            assert received(context, sent.identifier).content_type == "text/plain; charset=iso-8859-1"


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        sent = group(Random(9), [[b"1"], [b"2a", b"2b", b"2c"], [b"3"], [b"4a", b"4b"], [b"5"]])
        one, two_a, two_b, _, three, four_a, four_b, five = named(SOURCE, sent.messages)

        def missing(*arrived: PhysicalMessage) -> list[tuple[int, int]]:
            receive(context, list(arrived))
            return missing_ranges(received(context, sent.identifier), context.catalog, context.journal, 10)

        assert missing(two_a) == [(1, 2)]
        assert missing(four_b) == [(1, 4)]
        assert missing(one, three) == [(2, 2), (4, 4)]
        assert missing(two_b, four_a) == [(2, 2)]
        assert missing(five) == [(2, 2)]


def test_a_delivery_that_a_group_cannot_carry_cannot_be_sent(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        sent = delivery(context, FILES[:1])
        with pytest.raises(CannotSend, match="no application message"):
            next(Framer(how(), context.store).frame(sent))
        table = delivery(context, [(AttachmentKind.DATA_SET, "WORK.A", b"PAR1")])
        with pytest.raises(CannotSend, match="no data sets"):
            next(Framer(how(), context.store).frame(replace(table, application_body=None)))
