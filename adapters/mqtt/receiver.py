"""A source's connection to its broker: it reads messages, passes them to the intake, and acknowledges durable ones.

One thread does all of it, the one that calls `run`. The journal's thread only records that a batch is durable and wakes
the reading thread by one byte on a socket pair. The reading thread sends the acknowledgements. The broker delivers
unacknowledged messages again on the next connection.

A client identifier belongs to one connection: a broker ends the older one, and MQTT 5 reports it. Two clients with the
same identifier would end each other's connection for ever. So a client whose session is taken over waits long, and logs
why. A broker that does not report it is suspected of it when connections are soon lost again and again, without a
reason code, while the broker keeps listening. A broker that restarts does not listen for a moment.

The session of a receiver that has gone for good is ended by the same loop (`MqttSession`), which then unsubscribes
instead, and ends the session when it is empty (`adapters.mqtt.emptying`).
"""

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from threading import Event as StopSignal
from typing import Any, NamedTuple

import structlog
from paho.mqtt.client import topic_matches_sub
from paho.mqtt.subscribeoptions import SubscribeOptions

from adapters.connections import Backoff, ConnectionState, now
from adapters.mqtt.client import FAILURE, SESSION_TAKEN_OVER, Arrival, Connack, MqttClient, PackedProperties
from adapters.mqtt.emptying import Emptying
from adapters.mqtt.mqtt_connect import BrokerError, Connector, most_qos
from adapters.mqtt.qos2_seen import Delivery, FirstCopy, SeenMessages
from adapters.mqtt.settings import SourceSettings
from app.codecs.mqtt import mqtt_envelope
from app.codecs.mqtt.mqtt_envelope import CONTENT_TYPE
from app.codecs.rendezvous.subjects import SUBJECT_PROPERTY
from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import (
    CORRELATION_DATA,
    DELIVERY,
    GAP,
    RESPONSE_TOPIC,
    TOPIC,
    TOPIC_PREFIX,
    PhysicalMessage,
)
from app.ports import Intake, Reply, ReplyEnd

_IDLE = 0.1
_STEADY_AFTER = 10.0
_TAKEN_OVER_PAUSE, _LONGEST_TAKEN_OVER_PAUSE = 5.0, 300.0
_STEADY_AFTER_TAKE_OVER = 2 * _LONGEST_TAKEN_OVER_PAUSE
_ENDING_EXPIRY = 86400
"""How many seconds the broker keeps a session that is being ended, if the source asks for none by now."""
_SUSPECTED_PAUSE = 0.3
"""The least pause while another client may use the same identifier, however much the connections before have done."""
_SOON_LOST = 3
"""After this number of connections in a row that are soon lost without a reason code, while the broker listens, suspect
another client."""
_LONGEST_PROPERTIES = 1 << 20
"""The largest size of a publish's properties in bytes. Decoding them takes many times as much memory."""
_LAST_WAIT_SECONDS = 0.5
_MOST_ANSWERS = 50_000
"""The answers that wait for a connection. Beyond that the oldest are dropped."""
_ANSWER_QOS = 1
_ANSWERS_AT_ONCE = 100
"""The most answers that the broker has not confirmed."""
_MAY_PASS = frozenset({0x89, 0x97})
"""The reason codes of a broker that takes no publish for now: server busy (with which it ends the connection), quota
exceeded."""
_RECENT = 4096
"""The newest messages in the journal that are remembered at the start. No more are unacknowledged, as a rule; if there
are, nothing proves what they are, and the next message says so (`GAP`)."""
_SEND_RETAINED_IF_NEW, _NEVER_SEND_RETAINED = 1, 2

_SHARED_RULE = (
    "{topics} is a shared subscription: the broker distributes its messages over all clients of the group. Only one "
    "receiver may be in the group, since each attachment needs all of its parts in the same journal. Several receivers "
    "may be in it if they have one journal (journal.shared)"
)

_QOS_0_LOST = "the broker keeps no messages of QoS 0 while the connection is broken"

_log = structlog.get_logger(__name__)

Acknowledgement = tuple[int, int]
"""A packet identifier and its QoS."""
OnEnd = Callable[[ReplyEnd], None]


class _Answer(NamedTuple):
    """What waits to be sent, with its topic, and what to call when it is known how that ended."""

    topic: str
    message: PhysicalMessage
    on_end: OnEnd


def _nothing(end: ReplyEnd) -> None:
    """Take no note of how an answer ends."""
    del end


class MqttReceiver:
    """`app.ports.Receiver` for MQTT. One that `is_ending` ends its session instead."""

    def __init__(self, name: str, framing: FramingTraits, settings: SourceSettings, *, is_ending: bool = False) -> None:
        self._name, self._framing, self._settings = name, framing, settings
        self._is_ending = is_ending
        self._connector = Connector(
            settings,
            settings.client_id or f"attachment-gateway-{name}",
            clean=settings.session_expiry == 0,
            session_expiry=settings.session_expiry,
            receive_maximum=settings.receive_maximum,
        )
        self._log = _log.bind(source=name, broker=self._connector.broker)
        self._durable: deque[tuple[MqttClient, list[Acknowledgement], list[FirstCopy]]] = deque()
        self._seen = SeenMessages()
        self._resumed: SeenMessages | None = None
        self._session = blake2b(
            f"{self._connector.broker} {self._connector.client_id}".encode(), digest_size=4
        ).hexdigest()
        self._repeated: list[tuple[Acknowledgement, FirstCopy]] = []
        """Messages that this connection brought again, to acknowledge when their first copies are durable."""
        self._unacknowledged = 0
        self._state = ConnectionState(self._log)
        self._shared = [topic for topic in settings.topic if topic.startswith("$share/")]
        self._filters = [each.split("/", 2)[2] if each in self._shared else each for each in settings.topic]
        self._answers: deque[_Answer] = deque()
        self._unconfirmed: dict[int, OnEnd] = {}
        """What is to be called when the broker has confirmed an answer, by its packet identifier."""
        self._warns_of_others = False
        self._backoff = Backoff(self._connector.log_in)
        self._soon_lost = 0
        self._steady_after = _STEADY_AFTER
        self._has_session = False
        self._has_logged_connection = False
        self._warned: set[str] = set()
        self._numbers = framing.numbered_on_arrival
        self._gap: str | None = None
        """Where messages are numbered on arrival, why messages may be missing before the next one."""
        self._has_qos_0 = settings.qos == 0

    def status(self) -> dict[str, Any]:
        status = {**self._state.status, "broker": self._connector.broker, "unacknowledged": self._unacknowledged}
        status |= self._connector.log_in.status()
        warning = {"warning": _SHARED_RULE.format(topics=", ".join(self._shared))} if self._warns_of_others else {}
        return {**status, **warning}

    @property
    def client_id(self) -> str:
        return self._connector.client_id

    def session(self, name: str | None = None) -> "MqttSession | None":
        """Return the session of this client identifier, or of the one that is given; None if the broker keeps none."""
        expiry = self._settings.session_expiry
        if name is None and not expiry:
            return None
        changes = {"client_id": name or self.client_id, "session_expiry": expiry or _ENDING_EXPIRY}
        settings = self._settings.model_copy(update=changes)
        return MqttSession(MqttReceiver(self._name, self._framing, settings, is_ending=True))

    def answer(self, answers: Sequence[PhysicalMessage]) -> None:
        if self._settings.answers:
            for each in answers:
                self._answer(_Answer(f"{each.properties[TOPIC_PREFIX]}/{each.properties[TOPIC]}", each, _nothing))

    def reply_address(self, message: PhysicalMessage) -> str | None:
        topic = message.properties.get(RESPONSE_TOPIC)
        if topic is None or not any(topic_matches_sub(each, topic) for each in self._settings.request_missing_to):
            return None
        # A reply to a topic of the source itself would come back as a message.
        return None if any(topic_matches_sub(each, topic) for each in self._filters) else topic

    def reply(self, reply: Reply) -> None:
        properties = {TOPIC: reply.address, CONTENT_TYPE: reply.media_type}
        if (correlation := mqtt_envelope.correlation_data(reply.message, self._framing)) is not None:
            properties[CORRELATION_DATA] = correlation.hex()
        message = PhysicalMessage(self._name, self._framing.name, body=reply.body, properties=properties)
        self._answer(_Answer(reply.address, message, reply.on_end))

    def _answer(self, answer: "_Answer") -> None:
        """Queue an answer. Beyond the limit the oldest are dropped."""
        self._answers.append(answer)
        while len(self._answers) > _MOST_ANSWERS:
            self._answers.popleft().on_end(ReplyEnd.LOST)

    def run(self, intake: Intake, stop: StopSignal) -> None:
        self.run_until_ended(intake, stop)

    def run_until_ended(self, intake: Intake, stop: StopSignal) -> bool:
        """Do what `run` does, and return whether the session was ended."""
        self._warns_of_others = bool(self._shared) and not intake.has_others
        if self._warns_of_others:
            self._log.warning("subscription_shared", topics=self._shared, rule=_SHARED_RULE.format(topics="its topic"))
        # Messages that an earlier intake accepted, and may not have written, are delivered again.
        is_resumed = self._resumed is not None
        self._seen, self._resumed = self._resumed or SeenMessages(), None
        self._gap = None if is_resumed else "the source begins to receive"
        has_ended = False
        with _WakeupSocket() as wakeup:
            while not stop.is_set() and not has_ended:
                try:
                    has_ended = self._connection(intake, stop, wakeup)
                except BrokerError as error:
                    if self._state.has_lasted(self._steady_after):
                        self._recovered()
                        self._backoff.reset()
                    self._failed(error)
                    if error.code == SESSION_TAKEN_OVER:
                        self._gap = "another client had the session of the source, and may have received messages"
                        self._backoff.wait(stop, least=_TAKEN_OVER_PAUSE, longest=_LONGEST_TAKEN_OVER_PAUSE)
                    else:
                        # If a session is being ended, its owner may be back, and must have time to say so.
                        least = _SUSPECTED_PAUSE if self._soon_lost >= _SOON_LOST else 0.0
                        self._backoff.wait(stop, least=_TAKEN_OVER_PAUSE if self._is_ending else least)
        self._state.closed()
        return has_ended

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Take note of the newest deliveries of this session in the journal. Return False if the broker's identifiers
        do not distinguish messages that are delivered again, or if it does not deliver unacknowledged messages
        again."""
        if self._has_qos_0 or self._settings.session_expiry == 0:
            return False
        found: dict[tuple[Delivery, int], None] = {}
        for message in islice(newest, _RECENT):
            if (delivery := Delivery.parse(message.properties.get(DELIVERY, ""))) is None:
                continue
            if delivery.session != self._session or delivery.qos == 0:
                break
            found[delivery, message.received_at] = None  # once, even if the message is journalled as several
        taken = SeenMessages.resumed([delivery for delivery, _ in reversed(found)])
        self._resumed = taken if found and taken.is_ascending else None
        return self._resumed is not None

    def _connection(self, intake: Intake, stop: StopSignal, wakeup: "_WakeupSocket") -> bool:
        """Run one connection from start to end. Return whether it has ended its session. Raises BrokerError when it
        ends before `stop` is set."""
        self._state.attempt()
        client, connack = self._connector.open()
        self._unacknowledged = 0
        self._repeated.clear()
        window = min(_ANSWERS_AT_ONCE, getattr(connack.properties, "ReceiveMaximum", _ANSWERS_AT_ONCE))
        if most_qos(connack) < _ANSWER_QOS:
            window = 0
        try:
            self._continue_session(client, connack)
            emptying: Emptying | None = None
            if self._is_ending:
                emptying = Emptying(client, self._settings.topic, partial(self._opened, client, connack))
            else:
                self._subscribe(client, connack)
            more = False
            while not stop.is_set():
                more = client.turn(0 if more else _IDLE, wakeup.readable)
                self._acknowledge_durable(client, wakeup)
                self._send_answers(client, window)
                if arrivals := client.take_arrivals():
                    self._hand_over(client, arrivals, intake, wakeup)
                if not client.is_open:
                    raise BrokerError(client.lost, client.lost_code)
                if self._state.has_failed and self._state.has_lasted(self._steady_after):
                    self._recovered()
                has_come = bool(arrivals or self._unacknowledged)
                if emptying is not None and emptying.is_over(has_come=has_come):
                    self._end_session(client)
                    return True

            # To avoid duplicates, wait a short time for messages that are being written to disk.
            deadline = time.monotonic() + _LAST_WAIT_SECONDS
            while self._unacknowledged and client.is_open and (left := deadline - time.monotonic()) > 0:
                wakeup.wait(left)
                self._acknowledge_durable(client, wakeup)
        finally:
            client.close()
            for on_end in self._unconfirmed.values():
                on_end(ReplyEnd.BUSY if client.lost_code in _MAY_PASS else ReplyEnd.LOST)
            self._unconfirmed.clear()
        return False

    def _send_answers(self, client: MqttClient, window: int) -> None:
        """Send the answers that wait, as many as the broker takes at once. One that is too large is left out. With a
        window of 0 the broker takes none: all are refused."""
        for mid, reason in client.confirmed:
            refusal = ReplyEnd.BUSY if reason.value in _MAY_PASS else ReplyEnd.REFUSED
            self._unconfirmed.pop(mid, _nothing)(refusal if reason.is_failure else ReplyEnd.SENT)
            if reason.is_failure:
                self._warn_once("answer_refused", f"senders get no answers: {reason}")
        client.confirmed.clear()
        while self._answers and not window:
            self._answers.popleft().on_end(ReplyEnd.REFUSED)
            self._warn_once("answer_refused", "senders get no answers: the broker takes only messages of QoS 0")
        while self._answers and len(self._unconfirmed) < window and client.is_open:
            topic, answer, on_end = self._answers.popleft()
            try:
                payload, section = mqtt_envelope.write(answer, "5" if client.is_5 else "3.1.1")
                properties = None if section is None else PackedProperties(section)
                sent = client.post(topic, payload, _ANSWER_QOS, None, properties, repeated=False)
            except (InvalidInputError, ValueError) as error:
                self._log.warning("answer_not_sent", topic=topic[:200], reason=str(error))
                on_end(ReplyEnd.REFUSED)
                continue
            self._unconfirmed[sent.mid] = on_end

    def _end_session(self, client: MqttClient) -> None:
        """End the session of a connection, which is empty. Raises BrokerError.

        MQTT 3.1.1 needs another connection for it. Only there, a client that comes back to the session in the moment
        between the last turn of this connection and that one can lose what the broker gives it then.
        """
        if client.is_5:
            client.close(ends_session=True)
        else:
            self._connector.open(clean=True)[0].close()
        self._log.info("session_ended", client_id=self.client_id)

    def _continue_session(self, client: MqttClient, connack: Connack) -> None:
        """Find out what the broker has kept since the last connection."""
        if self._has_session and not connack.session_present:
            self._log.warning("session_lost", effect="messages that the broker held for this source are lost")
        if connack.session_present:
            self._seen.reconnected()
        else:
            self._seen = SeenMessages()
            self._gap = self._gap or "the broker has no session of the source: what it held is lost"
        if self._has_qos_0:
            self._gap = self._gap or _QOS_0_LOST
        self._has_session = self._settings.session_expiry > 0
        client.on_release = self._seen.release

    def _subscribe(self, client: MqttClient, connack: Connack) -> None:
        """Subscribe to the topics, on every connection: the broker may have lost the session, or topics may be new."""
        settings = self._settings
        client.on_subscribe = partial(self._subscribed, connack)
        retain_handling = _SEND_RETAINED_IF_NEW if settings.retained == "accept" else _NEVER_SEND_RETAINED
        options = SubscribeOptions(settings.qos, retainHandling=retain_handling) if client.is_5 else settings.qos
        client.subscribe_to(settings.topic, options)

    def _subscribed(self, connack: Connack, client: Any, _: object, __: int, granted: list[Any], ___: object) -> None:
        refused = [topic for topic, code in zip(self._settings.topic, granted, strict=False) if code.value >= FAILURE]
        if refused:
            client.close(f"the broker refused the subscription to {', '.join(refused)}")
            return
        self._opened(client, connack)
        if any(code.value == 0 for code in granted):
            self._has_qos_0 = True
            self._gap = self._gap or _QOS_0_LOST
            self._warn_once("qos_0_granted", "the broker drops messages that it cannot deliver at once")

    def _opened(self, client: MqttClient, connack: Connack) -> None:
        version = "5" if client.is_5 else "3.1.1"
        self._state.opened(version=version)
        if not self._has_logged_connection:
            self._has_logged_connection = True
            self._log.info("connection_opened", version=version, session_present=connack.session_present)

    def _hand_over(self, client: MqttClient, arrivals: list[Arrival], intake: Intake, wakeup: "_WakeupSocket") -> None:
        at = now()
        messages: list[PhysicalMessage] = []
        taken: list[Acknowledgement] = []
        ignored: list[Acknowledgement] = []
        copies: list[FirstCopy] = []
        self._unacknowledged += len(arrivals)
        for arrival in arrivals:
            acknowledgement = (arrival.mid, arrival.qos)
            if arrival.retained and self._settings.retained == "ignore":
                if arrival.qos:
                    self._seen.skip(arrival.mid)
                ignored.append(acknowledgement)
                continue
            delivery = Delivery.of(self._session, arrival) if self._numbers or arrival.qos == 2 else None
            if delivery is not None and arrival.qos:
                if (first := self._seen.repeated(delivery, arrival)) is not None:
                    self._repeated.append((acknowledgement, first))
                    continue
                in_doubt = self._seen.in_doubt(delivery, arrival)
                self._gap = self._gap or in_doubt
                copies.append(self._seen.add(delivery))
            try:
                messages.append(self._numbered(self._read(arrival, at), delivery))
                taken.append(acknowledgement)
            except InvalidInputError as error:
                mine = [copies.pop()] if delivery is not None and arrival.qos else []
                self._submit(client, messages, taken, copies, intake, wakeup)
                messages, taken, copies = [], [], []
                on_durable = partial(self._durable_now, client, [acknowledgement], mine, wakeup)
                intake.refuse(self._unreadable(arrival, delivery, at), error, on_durable)
        self._submit(client, messages, taken, copies, intake, wakeup)
        if ignored:
            self._acknowledge(client, ignored)
        if self._repeated:
            self._acknowledge_repeated(client)

    def _numbered(self, message: PhysicalMessage, delivery: Delivery | None) -> PhysicalMessage:
        """Return the message with its delivery and the gap before it, where messages are numbered on arrival."""
        if not self._numbers:
            return message
        gap, self._gap = self._gap, None
        return message._replace(properties={DELIVERY: "", **message.properties} | _delivery_properties(gap, delivery))

    def _unreadable(self, arrival: Arrival, delivery: Delivery | None, at: int) -> PhysicalMessage:
        """Return a message whose envelope cannot be read."""
        message = PhysicalMessage(self._name, self._framing.name, body=arrival.payload(), received_at=at)
        if not self._numbers:
            return message
        return message._replace(properties={SUBJECT_PROPERTY: arrival.topic()} | _delivery_properties(None, delivery))

    def _submit(
        self,
        client: MqttClient,
        messages: list[PhysicalMessage],
        taken: list[Acknowledgement],
        copies: list[FirstCopy],
        intake: Intake,
        wakeup: "_WakeupSocket",
    ) -> None:
        if not messages:
            return
        if any(qos == 0 for _, qos in taken):
            self._has_qos_0 = True
            self._warn_once(
                "qos_0_received", "the broker keeps no messages with QoS 0 while the gateway is disconnected"
            )
        intake.submit(messages, partial(self._durable_now, client, taken, copies, wakeup))

    def _read(self, arrival: Arrival, at: int) -> PhysicalMessage:
        if (length := arrival.payload_at - arrival.properties_at) > _LONGEST_PROPERTIES:
            why = f"the properties have {length} bytes; at most {_LONGEST_PROPERTIES} are allowed"
            raise InvalidInputError("properties-too-large", "properties", -1, why)
        payload, packed = arrival.payload(), arrival.properties()
        prefix = 0
        if self._framing.told_by_topic:
            # The levels before the `#` of the first filter that the topic matches.
            topic = arrival.topic()
            prefix = next((each.count("/") for each in self._filters if topic_matches_sub(each, topic)), 0)
        return mqtt_envelope.read(payload, packed, self._name, self._framing, at, arrival.topic, prefix)

    def _durable_now(
        self, client: MqttClient, taken: list[Acknowledgement], copies: list[FirstCopy], wakeup: "_WakeupSocket"
    ) -> None:
        """Record that messages are durable. The journal's thread calls this."""
        self._durable.append((client, taken, copies))
        wakeup.wake()

    def _acknowledge_durable(self, client: MqttClient, wakeup: "_WakeupSocket") -> None:
        wakeup.clear()
        while self._durable:
            delivered_by, taken, copies = self._durable.popleft()
            for copy in copies:
                copy.is_durable = True
                copy.may_be_reused = copy.qos == 1 and delivered_by is client
            if delivered_by is client:
                self._acknowledge(client, taken)
        if self._repeated:
            self._acknowledge_repeated(client)

    def _acknowledge_repeated(self, client: MqttClient) -> None:
        """Acknowledge messages that came again and whose first copies are durable."""
        durable = [each for each in self._repeated if each[1].is_durable]
        self._repeated = [each for each in self._repeated if not each[1].is_durable]
        self._acknowledge(client, [acknowledgement for acknowledgement, _ in durable])
        for _, first in durable:
            first.may_be_reused = first.may_be_reused or first.qos == 1

    def _acknowledge(self, client: MqttClient, taken: list[Acknowledgement]) -> None:
        client.acknowledge(taken)
        self._unacknowledged -= len(taken)
        if taken and self._steady_after == _STEADY_AFTER:  # a client that takes the session over does work, too
            self._backoff.reset()

    def _recovered(self) -> None:
        """Treat earlier failures as over, after a connection that has lasted."""
        self._state.recovered()
        self._has_logged_connection = False
        self._soon_lost = 0
        self._steady_after = _STEADY_AFTER

    def _failed(self, error: BrokerError) -> None:
        why = str(error)
        same_id = f"client_id {self._connector.client_id!r} at {self._connector.broker}"
        if error.code == SESSION_TAKEN_OVER:
            self._steady_after = _STEADY_AFTER_TAKE_OVER
            why = f"another client took over the session of {same_id}: give each client its own client_id"
        else:
            # Only a broker that listens still has taken another client's connection; one that was away, or says why, is
            # no sign of another client.
            self._soon_lost = 0 if not self._state.was_opened or error.code else self._soon_lost + 1
            if self._soon_lost >= _SOON_LOST and not self._connector.is_listening():
                self._soon_lost = 0
            if self._soon_lost >= _SOON_LOST:
                why += f", again and again soon after connecting: another client may use {same_id}"
        self._state.failed(why)

    def _warn_once(self, event: str, effect: str) -> None:
        if event not in self._warned:
            self._warned.add(event)
            self._log.warning(event, effect=effect)


class MqttSession:
    """`app.ports.Session` for MQTT: the session of a client identifier, by a receiver that ends it."""

    def __init__(self, ending: MqttReceiver) -> None:
        self.name = ending.client_id
        self.end = ending.run_until_ended


def _delivery_properties(gap: str | None, delivery: Delivery | None) -> dict[str, str]:
    """Return the properties of a message that say which delivery it is, and what may be missing before it."""
    properties = {} if gap is None else {GAP: gap}
    return properties if delivery is None else {DELIVERY: str(delivery), **properties}


class _WakeupSocket:
    """A socket pair that wakes the thread that polls `readable`."""

    def __enter__(self) -> "_WakeupSocket":
        self.readable, self._writable = socket.socketpair()
        self.readable.setblocking(False)
        self._writable.setblocking(False)
        return self

    def __exit__(self, *_: object) -> None:
        self.readable.close()
        self._writable.close()

    def wake(self) -> None:
        """Wake the polling thread, from any other thread.

        A full socket has woken it already. A closed socket belongs to a receiver that has ended; the broker delivers
        again.
        """
        with suppress(OSError):
            self._writable.send(b"\0")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            self.readable.recv(4096)

    def wait(self, timeout: float) -> None:
        poll = select.poll()
        poll.register(self.readable, select.POLLIN)
        poll.poll(timeout * 1000)
