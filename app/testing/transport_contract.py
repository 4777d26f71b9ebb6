"""What every transport keeps, whatever its broker. A subclass supplies the fixture `line`."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep

import pytest

from app.codecs.ibm_mq.constants import MQMF_MSG_IN_GROUP, MQMF_SEGMENT
from app.model.message import PhysicalMessage
from app.ports import Receiver, Sender, SendFailed
from app.testing.collecting_intake import Collector, receiving
from app.testing.waiting import until

LIMIT = 4 << 20
RECONNECTS, BACK_WITHIN = 20, 1.0
"""How often a connection breaks, and the seconds after which the next one must be there."""


class Line(ABC):
    """A source and a destination that are the two ends of one queue, topic or subject, which takes bodies up to
    `LIMIT`."""

    framing = "sas_queue"

    @abstractmethod
    def receiver(self) -> Receiver: ...

    @abstractmethod
    def sender(self) -> Sender: ...

    def open_session(self) -> None:
        """Make the broker keep messages for the source from now on."""
        with receiving(self.receiver(), Collector()):
            pass


def assert_soon_back(
    receiver: Receiver, to: Callable[[PhysicalMessage], object], break_all: Callable[[], object]
) -> None:
    """Assert that a receiver is back within a second, however often its connection breaks, if each has done work."""
    collector = Collector()
    with receiving(receiver, collector):
        for number in range(RECONNECTS):
            sent = message(number)
            to(sent)
            until(partial(_has, collector, bytes(sent.body)))
            until(lambda: not receiver.status()["unacknowledged"])
            connections = {None, receiver.status()["since"]}
            at = monotonic()
            break_all()
            while receiver.status()["since"] in connections:
                assert monotonic() - at < BACK_WITHIN, f"connection {number + 1}"
                sleep(0.01)
    assert {*collector.bodies()} == {message(number).body for number in range(RECONNECTS)}


def _has(collector: Collector, body: bytes) -> bool:
    return body in collector.bodies()


def message(number: int, size: int = 100) -> PhysicalMessage:
    """Return a part as a SAS program sends it, distinguished from others by its number."""
    body = number.to_bytes(4, "big").ljust(size, b"\xa5")[:size]
    return PhysicalMessage(
        "",
        "",
        100001,
        number.to_bytes(24, "big"),
        body,
        message_id=b"MSG " + number.to_bytes(20, "big"),
        encoding=273,
        ccsid=819,
        format="MQSTR",
    )


def as_sent(received: PhysicalMessage) -> PhysicalMessage:
    """Return a received message without what its way has added."""
    return received._replace(source="", framing="", put_time=0, received_at=0, body=bytes(received.body), properties={})


class TransportContract:
    """Inherited by the tests of each adapter; `KeepingTransportContract` by those whose broker keeps messages."""

    def test_every_field_arrives(self, line: Line) -> None:
        sent = message(1)._replace(
            message_id=bytes(range(24)),
            group_id=b"G" * 24,
            msg_seq_number=7,
            offset=32000,
            msg_flags=MQMF_MSG_IN_GROUP | MQMF_SEGMENT,
            original_length=100,
        )
        collector = Collector()
        with receiving(line.receiver(), collector):
            line.sender().send([sent])
            collector.wait_for(1)
        received = collector.messages[0]
        assert as_sent(received) == sent._replace(properties={})
        assert received.framing == line.framing
        assert received.source
        assert received.received_at

    @pytest.mark.parametrize("size", [0, 1, 127, 128, 16384, 3 << 20])
    def test_bodies_of_any_size_arrive_as_they_are(self, line: Line, size: int) -> None:
        collector = Collector()
        with receiving(line.receiver(), collector):
            line.sender().send([message(5, size)])
            collector.wait_for(1)
        assert collector.bodies() == [message(5, size).body]

    def test_the_largest_body_is_taken_and_one_byte_more_refused(self, line: Line) -> None:
        collector = Collector()
        sender = line.sender()
        most = sender.max_body()
        assert LIMIT - 2000 <= most <= LIMIT
        with receiving(line.receiver(), collector):
            sender.send([message(1, most)])
            with pytest.raises(SendFailed) as refusal:
                sender.send([message(2), message(3, LIMIT + 1)])
            assert refusal.value.permanent
            sender.send([message(4)])
            collector.wait_for(2)
        assert collector.bodies() == [message(1, most).body, message(4).body]

    def test_it_stops_when_told_to(self, line: Line) -> None:
        receiver, stop = line.receiver(), threading.Event()
        thread = threading.Thread(target=receiver.run, args=(Collector(), stop))
        thread.start()
        until(lambda: receiver.status()["connected"])
        stop.set()
        thread.join(10)
        assert not thread.is_alive()
        assert not receiver.status()["connected"]

    def test_messages_arrive_in_their_order(self, line: Line) -> None:
        sent = [message(number) for number in range(1000)]
        collector = Collector()
        with receiving(line.receiver(), collector):
            line.sender().send(sent)
            collector.wait_for(1000)
        assert [as_sent(received) for received in collector.messages] == [m._replace(properties={}) for m in sent]

    def test_the_session_of_another_receiver_is_found_by_its_name(self, line: Line) -> None:
        if (own := line.receiver().session()) is None:  # the broker keeps nothing for a receiver alone
            return
        other = line.receiver().session(f"{own.name}-2")
        assert other is not None
        assert other.name == f"{own.name}-2"


class KeepingTransportContract(TransportContract):
    """The additional contract of a transport whose broker holds messages until they are acknowledged."""

    def test_all_of_many_arrive_in_batches(self, line: Line) -> None:
        line.open_session()
        sent = [message(number) for number in range(1000)]
        line.sender().send(sent)
        collector = Collector()
        with receiving(line.receiver(), collector):
            collector.wait_for(1000)
        assert [as_sent(received) for received in collector.messages] == [m._replace(properties={}) for m in sent]
        assert len(collector.batches) < 500

    def test_nothing_is_acknowledged_before_it_is_durable(self, line: Line) -> None:
        line.open_session()
        sent = [message(number) for number in range(30)]
        line.sender().send(sent)
        for _ in range(2):
            gone = Collector(durable_at_once=False)
            with receiving(line.receiver(), gone):
                gone.wait_for(30)
        kept = Collector()
        with receiving(line.receiver(), kept):
            kept.wait_for(30)
        assert kept.bodies() == [m.body for m in sent]

    def test_what_is_durable_is_not_delivered_again(self, line: Line) -> None:
        line.open_session()
        sender, receiver, first = line.sender(), line.receiver(), Collector(durable_at_once=False)
        with receiving(receiver, first):
            for number in range(5):
                sender.send([message(number)])
                first.wait_for(number + 1)
            first.release(backwards=True)
        sender.send([message(99)])
        second = Collector()
        with receiving(line.receiver(), second):
            second.wait_for(1)
        assert second.bodies() == [message(99).body]

    def test_word_that_comes_too_late_is_no_acknowledgement(self, line: Line) -> None:
        line.open_session()
        line.sender().send([message(number) for number in range(10)])
        receiver, first, second = line.receiver(), Collector(durable_at_once=False), Collector(durable_at_once=False)
        with receiving(receiver, first):
            first.wait_for(10)
        with receiving(receiver, second):
            second.wait_for(10)
            first.release()
        third = Collector()
        with receiving(line.receiver(), third):
            third.wait_for(10)
        assert len(set(third.bodies())) == 10

    def test_sent_means_that_the_broker_has_it(self, line: Line) -> None:
        line.open_session()
        sender = line.sender()
        sender.send([message(number) for number in range(200)])
        sender.close()
        collector = Collector()
        with receiving(line.receiver(), collector):
            collector.wait_for(200)
        assert len(set(collector.bodies())) == 200

    def test_who_goes_for_good_leaves_nothing_behind(self, line: Line) -> None:
        """Another one takes what it had not acknowledged and what came since. Its session then has no more."""
        line.open_session()
        sender, gone, kept, later = line.sender(), Collector(durable_at_once=False), Collector(), Collector()
        receiver, other = line.receiver(), line.receiver()
        sender.send([message(number) for number in range(10)])
        with receiving(receiver, gone):
            gone.wait_for(10)
        sender.send([message(number) for number in range(10, 50)])
        if (own := receiver.session()) is None:
            with receiving(other, kept):
                kept.wait_for(50)
                until(lambda: not other.status().get("unacknowledged"))
        else:
            session = other.session(own.name)
            assert session is not None
            assert session.end(kept, threading.Event())
        assert sorted(kept.bodies()) == sorted(bytes(message(number).body) for number in range(50))
        with receiving(line.receiver(), later):
            sender.send([message(99)])
            later.wait_for(1)
        assert later.bodies() == [message(99).body]

    def test_ending_a_session_waits_until_all_is_durable(self, line: Line) -> None:
        line.open_session()
        line.sender().send([message(number) for number in range(10)])
        if (session := line.receiver().session()) is None:
            return
        stop, ended, slow = threading.Event(), list[bool](), Collector(durable_at_once=False)
        thread = threading.Thread(target=lambda: ended.append(session.end(slow, stop)))
        thread.start()
        slow.wait_for(10)
        sleep(0.5)
        stop.set()
        thread.join(10)
        assert ended == [False]
        kept = Collector()
        with receiving(line.receiver(), kept):
            kept.wait_for(10)

    def test_an_owner_that_comes_back_while_its_session_is_ended_loses_nothing(self, line: Line) -> None:
        line.open_session()
        line.sender().send([message(number) for number in range(30)])
        owner, slow, own = line.receiver(), Collector(durable_at_once=False), Collector()
        if (session := line.receiver().session()) is None:
            return
        stop, ended = threading.Event(), list[bool]()
        thread = threading.Thread(target=lambda: ended.append(session.end(slow, stop)))
        thread.start()
        slow.wait_for(1)
        with receiving(owner, own):
            own.wait_for(30)
            slow.release()
            line.sender().send([message(99)])
            own.wait_for(31)
            stop.set()
            thread.join(10)
        assert ended == [False]
        assert sorted(own.bodies()) == sorted(bytes(message(number).body) for number in (*range(30), 99))
