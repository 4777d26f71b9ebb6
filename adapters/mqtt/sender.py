"""A destination's connection to its broker.

The sending thread also drives the connection: it calls `keep_alive` while there is nothing to send. Between two calls
that are far apart, since a delivery is being prepared, the broker may end the connection; the next call replaces it.

Messages that were not confirmed before a connection broke, or before the gateway was killed, are sent again with DUP
set. A message has the same packet identifier each time, derived from its number in the delivery. If the session still
exists, QoS 2 messages that the broker has received are only released.

A session is continued only by the delivery that used it last. A broker that still has a packet identifier of another
delivery would treat a message as a repetition, and drop it. So a new session begins after a restart, when the last
delivery is unknown.

A broker of MQTT 5 may confirm a message and report that there is no subscriber: it has discarded it. Sending fails
then, and the connection stays. The next message is sent alone, and more follow once the broker has taken it: so nothing
arrives twice when a subscriber comes.
"""

import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import structlog
from paho.mqtt.client import error_string
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from adapters.connections import ConnectionState
from adapters.mqtt.client import NO_MATCHING_SUBSCRIBERS, Connack, MqttClient, PackedProperties
from adapters.mqtt.mqtt_connect import BrokerError, Connector, most_qos
from adapters.mqtt.settings import DestinationSettings
from app.codecs.missing_parts.request_documents import LONGEST
from app.codecs.mqtt import mqtt_envelope
from app.codecs.mqtt.packets import MAX_REMAINING_LENGTH, largest_payload, publish_size
from app.model.errors import InvalidInputError
from app.model.message import RESPONSE_TOPIC, TOPIC, PhysicalMessage
from app.model.records import Subscribers
from app.ports import DeliveryProgress, RefusedPublish, SendFailed

_SUSPICIOUS_BREAKS = 2


_IDLE = 0.1
_TURNS = 4
"""How often the connection is looked after in the time in which the broker must hear something."""
_SHARE = "attachment-gateway"
"""The group of all that take requests from a topic."""
_MOST_REQUESTS = 1000
_RESPONSE_TOPIC_BYTES = 3
"""The bytes of a response topic in front of its text."""
_PACKET_IDENTIFIER_NOT_FOUND = 0x92
_PACKET_TOO_LARGE = 0x95
_PACKET_IDENTIFIERS = 65535
_PERMANENT = frozenset({0x87, 0x90, 0x95, 0x99, 0x9A, 0x9B})
"""Reason codes for which a retry is useless: not authorized, topic name invalid, packet too large, payload format
invalid, retain and QoS not supported (MQTT 5, section 2.4)."""
_log = structlog.get_logger(__name__)


class PacketSizes:
    """The sizes of packets that the broker has taken, and of those with which the connection broke.

    A broker of MQTT 3.1.1 does not announce its limit of a packet, and ends the connection without a reason when a
    larger one comes. So a size is suspected when connections break repeatedly while a packet is sent that is larger
    than all that the broker has taken.
    """

    def __init__(self) -> None:
        self._largest = self._suspected = self._breaks = 0

    @property
    def is_suspected(self) -> bool:
        """Whether messages are to be sent one at a time, so that the one that breaks the connection is known."""
        return self._breaks > 0

    def confirmed(self, size: int) -> None:
        """Note that the broker has confirmed a packet."""
        self._largest = max(self._largest, size)
        if size >= self._suspected:
            self._suspected = self._breaks = 0

    def broke(self, sizes: Collection[int]) -> str:
        """Note that the connection broke before these packets were confirmed. Return what that shows, as the end of a
        sentence; it is empty if their size is not the reason."""
        size = max(sizes, default=0)
        if size <= self._largest:
            return ""
        self._suspected, self._breaks = size, self._breaks + 1
        if self._breaks < _SUSPICIOUS_BREAKS:
            return f" while a packet of {size:,} bytes was sent"
        largest = (
            f"the largest that it has taken has {self._largest:,} bytes" if self._largest else "it has taken none yet"
        )
        return (
            f", again and again when a packet of {size:,} bytes was sent: it is probably over the broker's limit "
            f"({largest}). Raise that limit, or set max_packet_size of the destination to it and send again"
        )


class _Publish(NamedTuple):
    """A publish to be sent. With `mid` None it takes the next packet identifier."""

    mid: int | None
    topic: str
    payload: bytes
    properties: PackedProperties | None
    repeated: bool
    size: int


class _Discarded(SendFailed):
    """The broker has discarded messages because there is no subscriber; the connection works."""


class MqttSender:
    """`app.ports.Sender` for MQTT."""

    def __init__(self, name: str, settings: DestinationSettings) -> None:
        self._settings = settings
        self._connector = Connector(
            settings,
            settings.client_id or f"attachment-gateway-{name}-{secrets.token_hex(4)}",
            clean=True,
            session_expiry=0 if settings.client_id is None else settings.session_expiry,
        )
        self._log = _log.bind(destination=name, broker=self._connector.broker)
        self._client: MqttClient | None = None
        self._limit = self._window = 0
        self._session_of: str | None = None
        """The delivery whose messages were sent last, and whose packet identifiers the session may know."""
        self._continues = False
        """Whether that is the current delivery."""
        self._received: set[int] = set()
        """Packet identifiers of QoS 2 that the broker had received and not completed when the connection broke."""
        self._probes = False
        """Whether the next message is sent alone, to learn whether there is a subscriber."""
        self._warned_of_no_subscriber = False
        self._requests: deque[bytes] = deque(maxlen=_MOST_REQUESTS)
        """Requests for missing parts that nobody has taken yet."""
        self._warning: str | None = None
        self._sizes = PacketSizes()
        self._state = ConnectionState(self._log)

    def status(self) -> dict[str, Any]:
        warning = {} if self._warning is None else {"warning": self._warning}
        return {**self._state.status, "broker": self._connector.broker, **self._connector.log_in.status(), **warning}

    @property
    def answers_missing(self) -> bool:
        return self._settings.answer_missing is not None

    def requests(self, most: int) -> Sequence[bytes]:
        self._open()
        return [self._requests.popleft() for _ in range(min(most, len(self._requests)))]

    def repeats(self) -> str | None:
        return (
            f"up to {self._settings.max_inflight} messages that were not confirmed may arrive twice after a crash of "
            "the gateway, a broken connection or a pause without subscribers, with the same identifiers and DUP set"
        )

    def resume(self, delivery: str, known: int | None) -> int:
        self._continues = known is not None and delivery == self._session_of
        return known or 0

    def forget(self, delivery: str) -> None:
        pass

    def tidy(self, may_continue: Callable[[str], bool]) -> None:
        pass

    def max_batch(self) -> int:
        self._open()
        return self._window

    def max_body(self, wanted: int | None = None) -> int:
        del wanted
        client = self._open()
        added, properties_size = mqtt_envelope.overhead(_version(client))
        if properties_size is not None and self._settings.answer_missing is not None:
            properties_size += _RESPONSE_TOPIC_BYTES + len(self._settings.answer_missing.encode())
        largest = largest_payload(self._limit, self._settings.topic, self._settings.qos, properties_size) - added
        if largest < 0:
            raise SendFailed(
                f"the broker allows packets of {self._limit} bytes, too few for any message to this topic",
                permanent=True,
            )
        return largest

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> Subscribers | None:
        client = self._open()
        self._session_of = None if progress is None else progress.delivery
        publishes = [
            self._publish(message, _version(client), number, progress) for number, message in enumerate(messages)
        ]
        try:
            discarded = self._deliver(client, publishes)
        except _Discarded:
            raise
        except SendFailed as failed:
            received = client.received
            self._failed(str(failed))
            self._received = received
            raise
        if discarded:
            return "none"
        return None if client.is_5 and self._settings.qos == 1 else "unknown"

    def keep_alive(self) -> float:
        if self._client is None:
            return math.inf
        self._client.turn(0)
        self._take_requests(self._client)
        if not self._client.is_open:
            self._failed(self._client.lost)
            return math.inf
        return self._client.keepalive / _TURNS or math.inf

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        self._state.closed()

    def _open(self) -> MqttClient:
        """Return the open connection, or open a new one."""
        if self._client is not None:
            self._client.turn(0)
            self._take_requests(self._client)
            if self._client.is_open:
                return self._client
        try:
            client, connack = self._connect()
        except BrokerError as error:
            self._failed(str(error))
            raise SendFailed(str(error), within=self._connector.log_in.pause) from error
        if not connack.session_present:
            self._received = set()
        most = most_qos(connack)
        if self._settings.qos > most:
            client.close()
            why = f"the broker takes messages of QoS {most} at most, and qos of the destination is {self._settings.qos}"
            self._failed(why)
            raise SendFailed(why, permanent=True)
        self._state.recovered()
        announced: int = getattr(connack.properties, "MaximumPacketSize", MAX_REMAINING_LENGTH + 5)
        self._limit = min(self._settings.max_packet_size, announced)
        self._window = min(self._settings.max_inflight, getattr(connack.properties, "ReceiveMaximum", 0xFFFF))
        self._client = client
        self._state.opened(version=_version(client))
        self._listen(client)
        return client

    def _listen(self, client: MqttClient) -> None:
        """Subscribe to the topic for requests. Of several processes that send here, one gets each request."""
        topic = self._settings.answer_missing
        if topic is None:
            return
        if not client.is_5:
            self._warn("receivers cannot ask for missing parts: only MQTT 5 has a response topic")
            return

        def subscribed(_: object, __: object, ___: int, granted: list[ReasonCode], ____: object) -> None:
            if any(code.is_failure for code in granted):
                self._warn(f"the broker refused the subscription to {topic}: {', '.join(map(str, granted))}")

        client.on_subscribe = subscribed
        client.subscribe_to([f"$share/{_SHARE}/{topic}"], 1)

    def _warn(self, why: str) -> None:
        if self._warning != why:
            self._warning = why
            self._log.warning("requests_not_received", reason=why)

    def _take_requests(self, client: MqttClient) -> None:
        """Take requests that have come. The oldest are dropped when too many wait: receivers ask again."""
        if arrivals := client.take_arrivals():
            self._requests += [bytes(each.payload()) for each in arrivals if len(each.payload()) <= LONGEST]
            client.acknowledge((each.mid, each.qos) for each in arrivals)

    def _connect(self) -> tuple[MqttClient, Connack]:
        """Connect to the session that the current delivery has used, or to a new one."""
        if self._settings.client_id is None:
            return self._connector.open()
        if not self._continues:
            client, connack = self._connector.open(clean=True)
            if client.is_5:
                return client, connack
            client.close()
        return self._connector.open(clean=False)

    def _publish(
        self, message: PhysicalMessage, version: Literal["5", "3.1.1"], number: int, progress: DeliveryProgress | None
    ) -> _Publish:
        """Encode a message. Raises SendFailed if the broker would refuse it."""
        levels, topic = message.properties.get(TOPIC), self._settings.topic
        if levels is not None:
            topic = f"{topic}/{levels}"
        if self._settings.answer_missing is not None:
            answered_at = {RESPONSE_TOPIC: self._settings.answer_missing}
            message = message._replace(properties={**message.properties, **answered_at})
        try:
            payload, section = mqtt_envelope.write(message, version)
            size = publish_size(topic, len(payload), self._settings.qos, None if section is None else len(section))
        except (InvalidInputError, ValueError) as error:
            raise SendFailed(str(error), permanent=True) from error
        if size > self._limit:
            why = f"the packet has {size:,} bytes; the broker takes at most {self._limit:,}"
            raise SendFailed(why, permanent=True)
        mid = None if progress is None else (progress.messages_sent + number) % _PACKET_IDENTIFIERS + 1
        repeated = progress is not None and progress.in_doubt
        return _Publish(mid, topic, payload, None if section is None else PackedProperties(section), repeated, size)

    def _deliver(self, client: MqttClient, publishes: Sequence[_Publish]) -> bool:
        """Send all and return when all are confirmed. Return True if messages were discarded, and that is accepted.

        Raises SendFailed, which says how many are confirmed from the first on.
        """
        posted: list[int] = []
        unconfirmed: dict[int, int] = {}
        discarded: set[int] = set()
        retries = self._settings.no_subscribers == "retry"
        deadline = time.monotonic() + self._settings.send_timeout
        try:
            while (len(posted) < len(publishes) and not (discarded and retries)) or unconfirmed:
                window = 1 if (self._probes and client.is_5) or self._sizes.is_suspected else self._window
                for publish in publishes[len(posted) : max(len(posted), len(posted) + window - len(unconfirmed))]:
                    posted.append(self._post(client, publish, unconfirmed))
                    unconfirmed[posted[-1]] = publish.size
                client.turn(_IDLE)
                self._take_requests(client)
                for mid, reason in client.confirmed:
                    if reason.is_failure:
                        self._require_known(mid, reason, unconfirmed.get(mid, 0), posted)
                    if reason.value == NO_MATCHING_SUBSCRIBERS:
                        discarded.add(mid)
                    self._probes = retries and bool(discarded)
                    self._sizes.confirmed(unconfirmed.pop(mid, 0))
                    self._received.discard(mid)
                    deadline = time.monotonic() + self._settings.send_timeout
                client.confirmed.clear()
                if len(posted) < len(publishes) or unconfirmed:
                    self._require_open(client, unconfirmed, deadline)
            if discarded:
                self._warn_of_no_subscriber()
                if retries:
                    raise _Discarded(f"nobody is subscribed to {self._settings.topic}: the broker discarded a message")
        except SendFailed as failed:
            lacking = unconfirmed.keys() | discarded if retries else unconfirmed.keys()
            failed.confirmed = next((n for n, mid in enumerate(posted) if mid in lacking), len(posted))
            raise
        return bool(discarded)

    def _broken(self, client: MqttClient, unconfirmed: Mapping[int, int]) -> SendFailed:
        """Return the error for a connection that ended before these packets, with their sizes, were confirmed."""
        sizes = [size for mid, size in unconfirmed.items() if mid not in client.received]
        detail = "" if client.lost_code else self._sizes.broke(sizes)
        if client.lost_code == _PACKET_TOO_LARGE:
            detail = f"; the largest packet that was not confirmed has {max(sizes, default=0):,} bytes"
        return SendFailed(f"{client.lost}{detail}", permanent=client.lost_code in _PERMANENT)

    def _require_open(self, client: MqttClient, unconfirmed: Mapping[int, int], deadline: float) -> None:
        """Raise SendFailed when no more confirmations can come."""
        if not client.is_open:
            raise self._broken(client, unconfirmed)
        if time.monotonic() > deadline:
            raise SendFailed(f"no confirmation within {self._settings.send_timeout:g} s")

    def _post(self, client: MqttClient, publish: _Publish, unconfirmed: Mapping[int, int]) -> int:
        """Send a message and return its packet identifier; others are `unconfirmed` still. Raises SendFailed."""
        if publish.repeated and publish.mid is not None and publish.mid in self._received:
            client.release(publish.mid)
            return publish.mid
        qos, section = self._settings.qos, publish.properties
        sent = client.post(publish.topic, publish.payload, qos, publish.mid, section, repeated=publish.repeated)
        if sent.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_AGAIN):
            client.lost = client.lost or error_string(sent.rc)
            raise self._broken(client, {**unconfirmed, 0: publish.size})
        return sent.mid

    def _require_known(self, mid: int, reason: ReasonCode, size: int, posted: Sequence[int]) -> None:
        """Raise SendFailed for a failure. A broker that no longer knows the identifier of a received message has
        completed it."""
        if mid in self._received and reason.value == _PACKET_IDENTIFIER_NOT_FOUND:
            return
        why = f"the broker refused a packet of {size:,} bytes: {reason}"
        refused = RefusedPublish(posted.index(mid), reason.value) if mid in posted else None
        raise SendFailed(why, permanent=reason.value in _PERMANENT, refused=refused)

    def _warn_of_no_subscriber(self) -> None:
        if not self._warned_of_no_subscriber:
            self._warned_of_no_subscriber = True
            self._log.warning("message_discarded", topic=self._settings.topic, reason="the topic has no subscriber")

    def _failed(self, why: str) -> None:
        self.close()
        self._state.failed(why)


def _version(client: MqttClient) -> Literal["5", "3.1.1"]:
    return "5" if client.is_5 else "3.1.1"
