"""What is IBM MQ's own on the receiving side: units of work, backing out, broken connections, descriptors, headers."""

import struct
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.ibm_mq.client import Connection
from adapters.ibm_mq.connect_options import log_in
from adapters.ibm_mq.receiver import MqReceiver
from adapters.ibm_mq.settings import SourceSettings
from app.model.message import PhysicalMessage
from app.ports import SendFailed
from app.testing.collecting_intake import Collector, receiving
from app.testing.transport_contract import as_sent, assert_soon_back, message
from app.testing.waiting import until
from tests.adapters.ibm_mq.conftest import Place
from tests.support import mq
from tests.support.queue_manager import QueueManager

DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"
THRESHOLD_REACHED = 2362


def numbers(bodies: list[bytes]) -> list[int]:
    return sorted(int.from_bytes(body[:4], "big") for body in bodies)


def warnings(logs: list[Any]) -> list[str]:
    return [entry["event"] for entry in logs if entry["log_level"] == "warning"]


# --- descriptors and headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("put_version", [1, 2])
@pytest.mark.parametrize("get_version", [1, 2])
def test_group_fields_are_the_same_with_either_descriptor(place: Place, put_version: Any, get_version: int) -> None:
    sent = message(3)._replace(group_id=b"G" * 24, msg_seq_number=2, offset=500, msg_flags=8 | 2, original_length=100)
    place.put(sent, version=put_version)
    collector = Collector()
    with receiving(place.receiver("mq_group", mqmd_version=get_version), collector):
        collector.wait_for(1)
    assert as_sent(collector.messages[0]) == sent._replace(properties={})


@pytest.mark.parametrize(("encoding", "ccsid"), [(785, 500), (273, 819), (546, 1208), (546, 1200)])
def test_what_a_sender_says_of_its_data_arrives(place: Place, encoding: int, ccsid: int) -> None:
    place.put(message(1)._replace(encoding=encoding, ccsid=ccsid, format=""))
    collector = Collector()
    with receiving(place.receiver(), collector):
        collector.wait_for(1)
    received = collector.messages[0]
    assert (received.encoding, received.ccsid, received.format) == (encoding, ccsid, "")
    assert received.put_time


def test_headers_are_taken_off_and_properties_kept(place: Place) -> None:
    folder = b"<usr><filename>report.pdf</filename></usr>  "
    header = struct.pack("<4siiii8sii", b"RFH ", 2, 36 + 4 + len(folder), 546, 1208, b"MQSTR   ", 0, 1208)
    body = header + struct.pack("<i", len(folder)) + folder + b"the data"
    place.put(message(1)._replace(body=body, format="MQHRF2", encoding=546, ccsid=1208))
    collector = Collector()
    with receiving(place.receiver(), collector):
        collector.wait_for(1)
    received = collector.messages[0]
    assert (bytes(received.body), received.format) == (b"the data", "MQSTR")
    assert received.properties["filename"] == "report.pdf"


def test_what_a_jms_program_sends_is_a_group_with_a_name(place: Place) -> None:
    """IBM MQ: The MQRFH2 header and JMS; Mapping JMS fields onto IBM MQ fields (JMSXGroupID, JMSXGroupSeq)."""
    folders = (
        "<mcd><Msd>jms_text</Msd></mcd>",
        "<jms><Dst>queue:///SAS.ATTACHMENTS</Dst><Tms>1700000000000</Tms><Seq dt='i4'>1</Seq><Dlv>2</Dlv></jms>",
        "<usr><filename>report.pdf</filename><copies dt='i4'>7</copies></usr>",
    )
    padded = [folder.encode().ljust(-(-len(folder) // 4) * 4) for folder in folders]
    values = b"".join(struct.pack(">i", len(each)) + each for each in padded)
    header = struct.pack(">4siiii8sii", b"RFH ", 2, 36 + len(values), 273, 1208, b"MQSTR   ", 0, 1208)
    sent = message(1)._replace(body=header + values + b"text", format="MQHRF2", encoding=273, ccsid=1208, msg_type=8)
    place.put(sent._replace(group_id=b"G" * 24, msg_seq_number=1, msg_flags=8 | 16))
    collector = Collector()
    with receiving(place.receiver("mq_group"), collector):
        collector.wait_for(1)
    (received,) = collector.messages
    assert (bytes(received.body), received.format, received.ccsid) == (b"text", "MQSTR", 1208)
    assert (received.group_id, received.msg_seq_number, received.msg_flags) == (b"G" * 24, 1, 24)
    told = {"filename": "report.pdf", "copies": "7", "mcd.Msd": "jms_text", "jms.Dst": "queue:///SAS.ATTACHMENTS"}
    assert told.items() <= received.properties.items()


@pytest.mark.parametrize("version", [1, 2])
def test_a_broken_header_is_refused_with_its_place_and_the_stream_goes_on(place: Place, version: int) -> None:
    broken = struct.pack("<4siiii8sii", b"RFH ", 2, 37, 546, 1208, b"MQSTR   ", 0, 1208) + b"?"
    place.put(message(1))
    place.put(message(2)._replace(body=broken, format="MQHRF2", encoding=546, ccsid=1208), version=1)
    place.put(message(3))
    collector = Collector()
    with receiving(place.receiver(mqmd_version=version), collector):
        collector.wait_for(2)
        until(lambda: place.depth() == 0)
    assert numbers(collector.bodies()) == [1, 3]
    ((refused, code, why),) = collector.refused
    assert code == "bad-mq-header"
    assert "MQRFH2" in why
    assert (bytes(refused.body), refused.format) == (broken, "MQHRF2")
    assert collector.in_order == [message(1).body, b"bad-mq-header", message(3).body]


# --- units of work ------------------------------------------------------------------------------------------------


def test_units_of_work_are_bounded(place: Place) -> None:
    place.put(*[message(number, 1000) for number in range(60)])
    collector = Collector()
    with receiving(place.receiver(batch_messages=10), collector):
        collector.wait_for(60)
        until(lambda: place.depth() == 0)
    assert max(collector.batches) <= 10
    place.put(*[message(number, 1000) for number in range(60)])
    by_bytes = Collector()
    with receiving(place.receiver(batch_bytes=5000), by_bytes):
        by_bytes.wait_for(60)
    assert max(by_bytes.batches) <= 6


def test_several_connections_get_every_message_once(place: Place) -> None:
    place.put(*[message(number, 20_000) for number in range(500)])
    collector = Collector()
    receiver = place.receiver(connections=4, batch_messages=20)
    with receiving(receiver, collector):
        assert receiver.status()["connected"]
        collector.wait_for(500)
        until(lambda: place.depth() == 0)
    assert numbers(collector.bodies()) == list(range(500))


def test_a_stop_in_mid_flow_neither_loses_nor_repeats_any(place: Place) -> None:
    place.put(*[message(number, 2000) for number in range(1500)])
    kept: list[int] = []
    while place.depth():
        collector = Collector()
        with receiving(place.receiver(batch_messages=50), collector):
            collector.wait_for(min(70, place.depth()))
        kept += numbers(collector.bodies())
    assert sorted(kept) == list(range(1500))


@pytest.mark.parametrize("version", [1, 2])
def test_what_was_never_got_is_not_taken_for_what_is_in_doubt(troubled: Place, version: int) -> None:
    """Segments of equal bytes under one MsgId, as a program puts them that keeps its descriptor."""
    alike = message(1)._replace(group_id=b"G" * 24, msg_flags=2)
    segments = [alike._replace(offset=100 * number) for number in range(6)]
    troubled.put(*segments[:3])
    troubled.manager.fault("MQCMIT", lose="after")
    collector = Collector()
    with receiving(troubled.receiver("mq_group", mqmd_version=version), collector):
        until(lambda: troubled.depth() == 0)
        troubled.put(*segments[3:])
        collector.wait_for(6)
        until(lambda: troubled.depth() == 0)
    assert sorted(received.offset for received in collector.messages) == [100 * number for number in range(6)]


@pytest.mark.parametrize("lose", ["before", "after"])
def test_a_commit_in_doubt_brings_nothing_twice(troubled: Place, lose: Any) -> None:
    troubled.put(*[message(number) for number in range(30)])
    troubled.manager.fault("MQCMIT", lose=lose)
    collector = Collector()
    with receiving(troubled.receiver(), collector):
        collector.wait_for(30)
        until(lambda: troubled.depth() == 0)
        troubled.put(message(99))
        collector.wait_for(31)
    assert numbers(collector.bodies()) == [*range(30), 99]


@pytest.mark.parametrize("verb", ["MQCONN", "MQOPEN", "MQINQ", "MQGET", "MQCMIT"])
def test_a_connection_may_break_at_any_call(troubled: Place, verb: str) -> None:
    troubled.put(*[message(number) for number in range(50)])
    for lose in ("before", "after"):
        troubled.manager.fault(verb, lose=lose, skip=2 if verb == "MQGET" else 0)
    collector = Collector()
    with receiving(troubled.receiver(batch_messages=7), collector):
        collector.wait_for(50)
        until(lambda: troubled.depth() == 0)
    assert set(numbers(collector.bodies())) == set(range(50))


def test_one_that_was_backed_out_twice_ends_its_unit(place: Place) -> None:
    place.put(message(0))
    place.back_out(2)
    place.put(*[message(number) for number in range(1, 5)])
    collector = Collector(durable_at_once=False)
    with receiving(place.receiver(), collector):
        collector.wait_for(1)
        assert numbers(collector.bodies()) == [0]
        collector.release()
        collector.wait_for(5)
        collector.release()
        until(lambda: place.depth() == 0)


# --- trouble ------------------------------------------------------------------------------------------------------


def test_a_queue_manager_that_is_killed_and_comes_back_loses_nothing(troubled: Place) -> None:
    held, collector = Collector(durable_at_once=False), Collector()
    with receiving(receiver := troubled.receiver(), held):
        troubled.put(*[message(number) for number in range(40)])
        held.wait_for(40)
        troubled.manager.kill()
        until(lambda: not receiver.status()["connected"])
        held.release()
        troubled.manager.start()
        held.wait_for(80)
    with receiving(troubled.receiver(), collector):
        collector.wait_for(40)
        until(lambda: troubled.depth() == 0)
    assert numbers(collector.bodies()) == list(range(40))


def test_a_quiescing_queue_manager_is_left_and_found_again(troubled: Place) -> None:
    collector = Collector()
    with receiving(receiver := troubled.receiver(), collector):
        troubled.manager.quiesce()
        until(lambda: "2161" in (receiver.status()["error"] or ""))
        troubled.manager.quiesce(False)
        until(lambda: receiver.status()["connected"])
        troubled.put(message(1))
        collector.wait_for(1)


@pytest.mark.parametrize("reason", [2161, 2202])
def test_a_unit_of_work_is_committed_while_the_queue_manager_quiesces(troubled: Place, reason: int) -> None:
    troubled.put(*map(message, range(3)))
    collector = Collector(durable_at_once=False)
    with receiving(receiver := troubled.receiver(), collector):
        collector.wait_for(3)
        if reason == 2161:
            troubled.manager.quiesce()
        else:
            troubled.manager.fault("MQGET", reason=reason)
        collector.release()
        until(lambda: troubled.depth() == 0)
        troubled.manager.quiesce(False)
        troubled.put(message(3))
        collector.wait_for(4)
        collector.release()
        until(lambda: receiver.status()["connected"] and troubled.depth() == 0)
    assert numbers(collector.bodies()) == [0, 1, 2, 3]


def test_a_connection_that_has_done_work_is_soon_replaced(troubled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the usual pauses
    assert_soon_back(troubled.receiver(), troubled.put, troubled.manager.break_connections)


def test_inhibited_gets_are_waited_for_on_the_same_connection(place: Place) -> None:
    collector = Collector()
    with capture_logs() as logs, receiving(receiver := place.receiver(), collector):
        place.manager.alter(place.queue, get_enabled=False)
        until(lambda: "2016" in (receiver.status()["error"] or ""))
        place.put(message(1))
        place.manager.alter(place.queue, get_enabled=True)
        collector.wait_for(1)
        until(lambda: receiver.status()["connected"])
    assert warnings(logs) == ["receiving_failed"]


def test_the_next_host_of_a_connection_list_is_tried(place: Place) -> None:
    place.put(message(1))
    collector = Collector()
    both = f"127.0.0.1(1),{place.manager.connection_name}"
    with receiving(place.receiver(connection=both), collector):
        collector.wait_for(1)


def test_a_queue_manager_that_is_away_is_said_once(troubled: Place) -> None:
    with capture_logs() as logs, receiving(receiver := troubled.receiver(), Collector()):
        troubled.manager.kill()
        until(lambda: "2538" in (receiver.status()["error"] or ""))
        troubled.manager.start()
        until(lambda: receiver.status()["connected"])
    reasons = [each["reason"] for each in logs if each["log_level"] == "warning"]
    assert sorted(reasons) == sorted({*reasons}), "what a queue manager says while it ends and starts, once each"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"queue": "NO.SUCH.QUEUE"}, "MQOPEN NO.SUCH.QUEUE: 2085 MQRC_UNKNOWN_OBJECT_NAME"),
        ({"queue_manager": "OTHER"}, "2058 MQRC_Q_MGR_NAME_ERROR"),
        ({"connection": "127.0.0.1(1)"}, "2538 MQRC_HOST_NOT_AVAILABLE"),
    ],
)
def test_what_is_wrong_is_said(place: Place, settings: dict[str, str], said: str) -> None:
    receiver, stop = place.receiver(**settings), threading.Event()
    thread = threading.Thread(target=receiver.run, args=(Collector(), stop))
    thread.start()
    until(lambda: said in (receiver.status()["error"] or ""))
    assert not receiver.status()["connected"]
    stop.set()
    thread.join(5)
    assert not thread.is_alive()


def test_users_are_who_they_say(tmp_path: Path, library: ModuleType) -> None:
    with QueueManager(tmp_path, users={"gateway": "s3cret"}) as manager, capture_logs() as logs:
        place = Place(library, manager, "DEV.QUEUE.1")
        with receiving(place.receiver(user="gateway", password="s3cret"), Collector()):
            pass
        with pytest.raises(SendFailed, match="2035 MQRC_NOT_AUTHORIZED"):
            place.sender(user="gateway", password="wr0ng").send([message(1)])
    assert "s3cret" not in str(logs)


def test_any_queue_manager_of_a_group_will_do(place: Place) -> None:
    place.put(message(1))
    collector = Collector()
    with receiving(place.receiver(queue_manager=f"*{place.manager.name}"), collector):
        collector.wait_for(1)


# --- what waits ---------------------------------------------------------------------------------------------------


def age_of_first(receiver: MqReceiver) -> float | None:
    age: float | None = receiver.status()["oldest_message_seconds"]
    return age


def test_the_depth_of_the_queue_and_the_age_of_its_first_message_are_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.ibm_mq.queue_watch.INQUIRY_SECONDS", 0.05)
    place.manager.alter(place.queue, maxdepth=20)
    receiver = place.receiver()
    assert (receiver.status()["queue_depth"], age_of_first(receiver)) == (None, None)
    with receiving(receiver, Collector()):
        until(lambda: age_of_first(receiver) == 0)
        place.manager.alter(place.queue, get_enabled=False)
        place.put(*[message(number) for number in range(5)])
        until(lambda: "2016" in (receiver.status()["error"] or ""))
        place.manager.alter(place.queue, get_enabled=True)
        until(lambda: place.depth() == 0)
        until(lambda: receiver.status()["queue_depth"] == 0 and age_of_first(receiver) == 0)
    assert age_of_first(receiver) is None


def test_what_waits_is_told_while_the_journal_takes_nothing(troubled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has no space: the unit of work is backed out, and the queue fills."""
    monkeypatch.setattr("adapters.ibm_mq.queue_watch.INQUIRY_SECONDS", 0.05)
    monkeypatch.setattr("adapters.ibm_mq.source_session._LONGEST_UNIT", 0.2)
    troubled.manager.alter(troubled.queue, maxdepth=20)
    full = Collector(durable_at_once=False)
    with receiving(receiver := troubled.receiver(), full):
        troubled.put(message(1))
        full.wait_for(1)
        until(lambda: (receiver.status()["queue_depth"], receiver.status()["queue_filled"]) == (1, 0.05))
        troubled.put(*[message(number) for number in range(2, 11)])
        until(lambda: (receiver.status()["queue_depth"], receiver.status()["queue_filled"]) == (10, 0.5))
        before = age_of_first(receiver)
        assert before is not None
        assert 0 < before < 60
        until(lambda: (age_of_first(receiver) or 0) > before)


@pytest.mark.parametrize(
    "fields", [{"PutDate": b"19990101", "PutTime": b"00000000"}, {"PutDate": b"?", "PutTime": b""}]
)
def test_a_put_time_that_is_no_time_or_far_away_harms_nothing(place: Place, fields: dict[str, bytes]) -> None:
    """A program with authority to set all context may write any."""
    constants = place.library.CMQC
    with mq.connected(place.library, place.manager) as connection:
        queue = place.library.Queue(connection, place.queue, constants.MQOO_OUTPUT | constants.MQOO_SET_ALL_CONTEXT)
        options = place.library.PMO(Options=constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT)
        queue.put(b"data", place.library.MD(Format=b"MQSTR", **fields), options)
        queue.close()
        settings = SourceSettings.model_validate(place.settings())
        there = Connection(place.library, settings, log_in(settings))
        first = there.first_put_time(place.queue)
        there.close()
    assert first == (915_148_800_000_000 if fields["PutDate"].isdigit() else 0)
    assert place.depth() == 1


def test_without_authority_to_browse_the_age_is_unknown_and_the_depth_is_not(
    tmp_path: Path, library: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.ibm_mq.queue_watch.INQUIRY_SECONDS", 0.05)
    granted = {"": ["connect", "inq"], "DEV.QUEUE.1": ["get", "inq"]}
    with QueueManager(tmp_path, users={"gateway": "g"}, authorities={"gateway": granted}) as manager:
        receiver = Place(library, manager, "DEV.QUEUE.1").receiver(user="gateway", password="g")
        with receiving(receiver, Collector()):
            until(lambda: receiver.status()["queue_depth"] == 0)
            assert age_of_first(receiver) is None


# --- poison -------------------------------------------------------------------------------------------------------


def poisoned(place: Place, times: int = 3) -> PhysicalMessage:
    sent = message(666)._replace(message_id=b"M" * 24, group_id=b"G" * 24, msg_seq_number=4, msg_flags=8)
    place.put(sent)
    place.back_out(times)
    place.put(message(1))
    return sent


@pytest.mark.parametrize("version", [1, 2])
def test_a_poison_message_goes_to_the_backout_queue_as_it_was(place: Place, version: int) -> None:
    aside = f"{place.queue}.BACKOUT"
    place.manager.define(aside)
    place.manager.alter(place.queue, bothresh=3, boqname=aside)
    sent = poisoned(place)
    collector = Collector()
    with receiving(place.receiver(mqmd_version=version), collector):
        collector.wait_for(1)
        until(lambda: place.depth() == 0)
    assert numbers(collector.bodies()) == [1]
    ((descriptor, body),) = place.taken(aside)
    assert body == sent.body
    assert (descriptor.MsgId, descriptor.CorrelId) == (sent.message_id, sent.correl_id)
    assert (descriptor.GroupId, descriptor.MsgSeqNumber, descriptor.MsgFlags) == (b"G" * 24, 4, 8)
    assert (descriptor.Format.rstrip(), descriptor.Encoding, descriptor.CodedCharSetId) == (b"MQSTR", 273, 819)
    assert descriptor.BackoutCount == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("backout_queue", ["", "NO.SUCH.QUEUE"])
def test_a_poison_message_that_no_backout_queue_takes_is_a_dead_letter(
    place: Place, version: int, backout_queue: str
) -> None:
    place.manager.alter(place.queue, bothresh=3, boqname=backout_queue)
    sent = poisoned(place)
    collector = Collector()
    with receiving(place.receiver(mqmd_version=version), collector):
        collector.wait_for(1)
        until(lambda: place.depth() == 0)
    ((descriptor, body),) = place.taken(DEAD_LETTER_QUEUE)
    assert descriptor.Format == b"MQDEAD  "
    order = "<" if descriptor.Encoding & 0xF == 2 else ">"
    struc_id, struc_version, reason, queue, manager, encoding, ccsid, format_, put_type, name, put_at = (
        struct.unpack_from(f"{order}4sii48s48sii8si28s16s", body)
    )
    moment = datetime.strptime(put_at[:14].decode() + "+0000", "%Y%m%d%H%M%S%z")
    assert timedelta() <= datetime.now(UTC) - moment < timedelta(seconds=30)
    assert (put_type, name.rstrip()) == (6, b"attachment-gateway")
    assert (struc_id, struc_version, reason) == (b"DLH ", 1, THRESHOLD_REACHED)
    assert (queue.rstrip(), manager.rstrip()) == (place.queue.encode(), place.manager.name.encode())
    rest = body[172:]
    if format_ == b"MQHMDE  ":
        encoding, ccsid, format_ = struct.unpack_from("<12xii8s", rest)
        rest = rest[72:]
    assert (encoding, ccsid, format_) == (273, 819, b"MQSTR   ")
    assert rest == sent.body


def test_a_poison_message_that_no_queue_takes_is_quarantined(place: Place) -> None:
    place.manager.alter(place.queue, bothresh=3)
    place.manager.alter(DEAD_LETTER_QUEUE, put_enabled=False)
    try:
        sent = poisoned(place)
        collector = Collector()
        with receiving(place.receiver(), collector):
            collector.wait_for(1)
            until(lambda: place.depth() == 0)
        assert numbers(collector.bodies()) == [1]
        ((refused, code, why),) = collector.refused
        assert code == "backed-out"
        assert "3 times" in why
        assert bytes(refused.body).endswith(bytes(sent.body))
    finally:
        place.manager.alter(DEAD_LETTER_QUEUE, put_enabled=True)


@pytest.mark.parametrize("reason", [2030, 2057, 2197, 2999])
def test_whatever_a_queue_says_a_poison_message_goes_to_the_next(troubled: Place, reason: int) -> None:
    troubled.manager.define("ASIDE")
    troubled.manager.alter(troubled.queue, bothresh=3, boqname="ASIDE")
    poisoned(troubled)
    troubled.manager.fault("MQPUT1", reason=reason)
    collector = Collector()
    with receiving(troubled.receiver(), collector):
        collector.wait_for(1)
        until(lambda: troubled.depth() == 0)
    assert len(troubled.taken(DEAD_LETTER_QUEUE)) == 1


def test_one_that_the_journal_has_is_not_set_aside_as_well(troubled: Place) -> None:
    troubled.manager.define("ASIDE")
    troubled.manager.alter(troubled.queue, bothresh=1, boqname="ASIDE")
    troubled.put(message(1))
    troubled.manager.fault("MQCMIT", lose="before")
    collector = Collector()
    with receiving(troubled.receiver(), collector):
        collector.wait_for(1)
        until(lambda: troubled.depth() == 0)
    assert numbers(collector.bodies()) == [1]
    assert troubled.taken("ASIDE") == []


def test_a_trouble_that_lasts_is_logged_once(troubled: Place) -> None:
    troubled.put(message(1))
    troubled.manager.fault("MQCMIT", reason=2071, times=6)
    collector = Collector()
    with capture_logs() as logs, receiving(troubled.receiver(), collector):
        until(lambda: troubled.depth() == 0)
    assert warnings(logs) == ["receiving_failed"]
    assert numbers(collector.bodies()) == [1]


def test_setting_aside_and_getting_are_one_unit_of_work(troubled: Place) -> None:
    troubled.manager.define("ASIDE")
    troubled.manager.alter(troubled.queue, bothresh=3, boqname="ASIDE")
    poisoned(troubled)
    troubled.manager.fault("MQCMIT", lose="before")
    collector = Collector()
    with receiving(troubled.receiver(), collector):
        collector.wait_for(1)
        until(lambda: troubled.depth() == 0)
    assert len(troubled.taken("ASIDE")) == 1


def test_below_its_threshold_a_message_is_delivered(place: Place) -> None:
    place.manager.alter(place.queue, bothresh=4)
    poisoned(place, times=3)
    collector = Collector()
    with receiving(place.receiver(), collector):
        collector.wait_for(2)
    assert numbers(collector.bodies()) == [1, 666]


def test_the_configuration_stands_in_for_the_queues_own_attributes(place: Place) -> None:
    aside = f"{place.queue}.BACKOUT"
    place.manager.define(aside)
    poisoned(place, times=2)
    collector = Collector()
    with receiving(place.receiver(backout_threshold=2, backout_queue=aside), collector):
        collector.wait_for(1)
        until(lambda: place.depth() == 0)
    assert len(place.taken(aside)) == 1
