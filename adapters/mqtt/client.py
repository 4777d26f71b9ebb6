"""A paho-mqtt client that one thread drives. Steps that decide about safety and speed are replaced.

Acknowledgements. paho answers a QoS 2 publish with PUBREC when it arrives, before the application has seen it;
`manual_ack` only delays the PUBCOMP. A broker forgets a message at PUBREC, so a crash between the two loses it. Here a
publish of QoS 1 or 2 joins `arrivals` at once, and only `acknowledge` sends its PUBACK or PUBREC. A PUBREL is then
answered with PUBCOMP at once, because its message is already safe. A broker that did not get the acknowledgement
delivers again with DUP set (`adapters.mqtt.qos2_seen`).

Lifetime. A client lives for one connection. Packet identifiers are not valid on the next connection, so late
acknowledgements are dropped together with their client, and so is all state that paho keeps.

Speed. paho reads each packet's header byte by byte, and copies its bytes several times. Here the socket is read in
large blocks, and a publish is a view of its block (`adapters.mqtt.packet_splitting`). All other packets go to paho.
paho's property objects cost more than the rest of a message together, so a publish's properties stay bytes here.

Only this module depends on paho's internals; `pyproject.toml` restricts the range of its versions.
"""

import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from paho.mqtt import client as paho
from paho.mqtt.client import ConnectFlags, DisconnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.exception import MalformedPacket
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from adapters.mqtt.packet_splitting import PacketReader, varint
from app.codecs.mqtt.packets import length_bytes

FAILURE = 0x80
NO_MATCHING_SUBSCRIBERS = 0x10
"""The first reason code that means failure."""

SESSION_TAKEN_OVER = 0x8E
"""The reason code of a broker's DISCONNECT after another client has connected with the same client identifier."""

_BATCH_MESSAGES = 512
_BATCH_BYTES = 4 << 20
_BLOCK = 1 << 18
_LINGER = 0.5
_TYPE, _PUBLISH = 0xF0, 0x30
_PUBACK, _PUBREC, _PUBCOMP = 0x40, 0x50, 0x70
_SUBACK, _UNSUBACK = 0x90, 0xB0
_QOS_BITS = 0b110
_DUP = 0b1000
_LONG_HEADER = 1024
_LONGEST_REASON = 200


class Arrival(NamedTuple):
    """A PUBLISH packet as received: its first byte, packet identifier, and variable header with payload. The last three
    fields say where in the packet the topic ends, the properties start and the payload starts."""

    command: int
    mid: int
    packet: memoryview
    topic_end: int
    properties_at: int
    payload_at: int

    @classmethod
    def parse(cls, command: int, packet: memoryview, *, is_5: bool) -> "Arrival":
        """Return the PUBLISH with this first byte and these bytes. Raises MalformedPacket."""
        mid = 0
        try:
            at = topic_end = 2 + (packet[0] << 8 | packet[1])
            if command & _QOS_BITS:
                mid = packet[at] << 8 | packet[at + 1]
                at += 2
            properties_at = at
            if is_5:
                properties_at, size = varint(packet, at)
                at = properties_at + size
        except IndexError:
            raise MalformedPacket("a PUBLISH ends within its header") from None
        if at > len(packet) or command & _QOS_BITS == _QOS_BITS:
            raise MalformedPacket("a PUBLISH has QoS 3, or lengths that go past its end")
        return cls(command, mid, packet, topic_end, properties_at, at)

    @property
    def qos(self) -> int:
        return self.command >> 1 & 3

    @property
    def repeated(self) -> bool:
        """Whether the broker says (DUP) that it may have sent the message before."""
        return bool(self.command & _DUP)

    @property
    def retained(self) -> bool:
        return bool(self.command & 1)

    def payload(self) -> memoryview:
        """Return a view of the payload. Copy it if it is small, so that it does not keep large properties in memory."""
        payload = self.packet[self.payload_at :]
        is_mostly_header = self.payload_at > max(_LONG_HEADER, len(payload) // 8)
        return memoryview(bytes(payload)) if is_mostly_header else payload

    def properties(self) -> bytes:
        """Return the bytes of the property section, empty before MQTT 5."""
        return bytes(self.packet[self.properties_at : self.payload_at])

    def topic(self) -> str:
        return str(self.packet[2 : self.topic_end], "utf-8", "backslashreplace")


def explanation(properties: Properties | None) -> str:
    """Return what a broker says in addition to a reason code, in brackets: a reason, and another server (MQTT 5)."""
    said = [str(getattr(properties, "ReasonString", ""))[:_LONGEST_REASON]]
    if reference := str(getattr(properties, "ServerReference", ""))[:_LONGEST_REASON]:
        said.append(f"the server to use is {reference}")
    return "".join(f" ({each})" for each in said if each)


class Connack(NamedTuple):
    """The broker's answer to a CONNECT; `refusal` is None when it was accepted."""

    refusal: ReasonCode | None
    session_present: bool
    properties: Properties | None


class PackedProperties(NamedTuple):
    """Packed properties in place of paho's Properties; a publish only calls their `pack`."""

    section: bytes

    def pack(self) -> bytes:
        return length_bytes(len(self.section)) + self.section


class MqttClient(paho.Client):
    """One connection.

    `connack` is None until the broker has answered. `lost` says why the connection ended, and `lost_code` is the
    broker's reason code for it, 0 when it gave none. `confirmed` collects the broker's confirmations of the client's
    own publishes, by packet identifier; the reader clears it. `received` are the publishes of QoS 2 that the broker has
    received (PUBREC) and not completed. They must be released, never published again. Where the broker says in a PUBREC
    that there are no matching subscribers, that is the reason of the confirmation, too. `on_release` is called with the
    packet identifier of each message of QoS 2 that the broker releases (PUBREL).

    The broker must answer each SUBSCRIBE and UNSUBSCRIBE within `connect_timeout`, with a code for each topic.
    Otherwise the connection is ended.
    """

    def __init__(
        self, client_id: str, version: MQTTProtocolVersion, *, clean: bool, tls: ssl.SSLContext | None = None
    ) -> None:
        self.is_5 = version == MQTTProtocolVersion.MQTTv5
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=None if self.is_5 else clean,
            protocol=version,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self.max_inflight_messages = 0
        self._tls = tls
        self.connack: Connack | None = None
        self.lost = ""
        self.lost_code = 0
        self.confirmed: list[tuple[int, ReasonCode]] = []
        self.received: set[int] = set()
        self._without_subscribers: set[int] = set()
        self._repeating = False
        self._packets = PacketReader()
        self._arrivals: list[Arrival] = []
        self._arrived_bytes = 0
        self._asked: dict[tuple[int, int | None], tuple[float, int]] = {}
        """Until when the broker must answer a SUBSCRIBE or UNSUBSCRIBE, by the type of the answer and the packet
        identifier, and the number of its topics."""
        self._fault = ""
        """Why the socket failed."""
        self.on_connect = self._on_connected
        self.on_disconnect = self._on_lost
        self.on_publish = self._on_confirmed
        self.on_release: Callable[[int], object] = lambda _mid: None

    @property
    def is_open(self) -> bool:
        return self._sock is not None

    def turn(self, timeout: float, *others: socket.socket) -> bool:
        """Wait up to `timeout` seconds for the connection or one of the other sockets. Then read, write and keep the
        connection alive.

        Return True when more data may be waiting already, so that the next call must not wait.
        """
        if self._sock is None:
            return False
        poll = select.poll()
        mine = self._sock.fileno()
        poll.register(mine, select.POLLIN | (select.POLLOUT if self.want_write() else 0))
        for other in others:
            poll.register(other, select.POLLIN)
        events = dict(poll.poll(timeout * 1000)).get(mine, 0)
        if self.want_write():
            self.loop_write()
        more = self._read() if events & ~select.POLLOUT or not timeout else False
        self.loop_misc()
        if self._asked and time.monotonic() > next(iter(self._asked.values()))[0]:
            self.close(f"the broker did not answer a subscription within {self.connect_timeout:g} s")
        return more

    def subscribe_to(self, topics: Sequence[str], options: int | SubscribeOptions) -> None:
        """Subscribe to these topics; `on_subscribe` gets the answer."""
        _, mid = self.subscribe([(topic, options) for topic in topics])  # type: ignore[arg-type]
        self._asked[_SUBACK, mid] = time.monotonic() + self.connect_timeout, len(topics)

    def unsubscribe_from(self, topics: Sequence[str]) -> None:
        """End the subscriptions to these topics; `on_unsubscribe` gets the answer."""
        _, mid = self.unsubscribe([*topics])
        self._asked[_UNSUBACK, mid] = time.monotonic() + self.connect_timeout, len(topics)

    def take_arrivals(self) -> list[Arrival]:
        """Return the messages that arrived since the last call, at most 512 messages or about 4 MiB."""
        taken, self._arrivals, self._arrived_bytes = self._arrivals, [], 0
        return taken

    def acknowledge(self, taken: Iterable[tuple[int, int]]) -> None:
        """Send PUBACK or PUBREC for each (packet identifier, QoS) of this connection, all in one write."""
        packets = [struct.pack("!BBH", _PUBACK if qos == 1 else _PUBREC, 2, mid) for mid, qos in taken if qos]
        if packets and self._sock is not None:
            self._packet_queue(_PUBACK, b"".join(packets), 0, 1)

    def post(
        self, topic: str, payload: bytes, qos: int, mid: int | None, properties: Any, *, repeated: bool
    ) -> paho.MQTTMessageInfo:
        """Publish with this packet identifier (None: the next one). Set DUP if the message may have been sent
        before."""
        if mid is not None:
            self._last_mid = mid - 1
        self._repeating = repeated
        try:
            return self.publish(topic, payload, qos, properties=properties)
        finally:
            self._repeating = False

    def release(self, mid: int) -> None:
        """Send PUBREL for a QoS 2 publish that the broker has received on an earlier connection of the session."""
        message = paho.MQTTMessage(mid)
        message.qos, message.state = 2, paho.mqtt_ms_wait_for_pubcomp
        self._out_messages[mid] = message
        self._inflight_messages += 1
        self.received.add(mid)
        self._send_pubrel(mid)

    def close(self, why: str = "closed", *, ends_session: bool = False) -> None:
        """End the connection, with a DISCONNECT if it is still open. That `ends_session` only with MQTT 5, and only if
        no other client has taken the session over."""
        if self._sock is not None:
            properties = Properties(PacketTypes.DISCONNECT) if ends_session else None  # type: ignore[no-untyped-call]
            if properties is not None:
                properties.SessionExpiryInterval = 0
            self.disconnect(properties=properties)
            self._sock_close()
            self.lost = why

    def _read(self) -> bool:
        """Read the received bytes. Return True when a batch is full, so that there may be more."""
        while self._sock is not None:
            try:
                if self._take_packets():
                    return True
                if self._sock is not None:
                    block = self._sock_recv(_BLOCK)
                    if not block:
                        raise ConnectionError("the broker closed the connection")
                    self._packets.feed(block)
                    self._last_bytes_received = paho.time_func()
            except BlockingIOError:
                return False
            except MalformedPacket:
                self._loop_rc_handle(MQTTErrorCode.MQTT_ERR_PROTOCOL)
            except OSError as error:
                self._fault = error.strerror or str(error)
                self._loop_rc_handle(MQTTErrorCode.MQTT_ERR_CONN_LOST)
        return False

    def _take_packets(self) -> bool:
        """Take the packets that have been read. Return True when a batch is full. Raises MalformedPacket."""
        arrivals, packet = self._arrivals, self._packets.packet
        while self._sock is not None and (found := packet()) is not None:
            command, body = found
            if command & _TYPE == _PUBLISH:
                arrivals.append(Arrival.parse(command, body, is_5=self.is_5))
                self._arrived_bytes += len(body)
                if len(arrivals) >= _BATCH_MESSAGES or self._arrived_bytes >= _BATCH_BYTES:
                    return True
                continue
            self._in_packet |= {"command": command, "packet": bytearray(body), "remaining_length": len(body)}
            if (outcome := self._packet_handle()) != MQTTErrorCode.MQTT_ERR_SUCCESS:
                self._loop_rc_handle(outcome)
        return False

    def _on_connected(
        self, _: object, __: object, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self.connack = Connack(reason if reason.is_failure else None, flags.session_present, properties)

    def _on_lost(
        self, _: object, __: object, flags: DisconnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self.lost = f"the broker ended the connection: {reason}{explanation(properties)}"
            self.lost_code = reason.value
        else:
            self.lost = f"the connection broke ({self._fault or reason})"

    def _on_confirmed(self, _: object, __: object, mid: int, reason: ReasonCode, ___: object) -> None:
        self.received.discard(mid)
        if mid in self._without_subscribers:
            self._without_subscribers.discard(mid)
            reason = ReasonCode(PacketTypes.PUBREC, identifier=NO_MATCHING_SUBSCRIBERS)
        self.confirmed.append((mid, reason))

    def _send_publish(self, mid: int, topic: bytes, *given: Any, **named: Any) -> MQTTErrorCode:
        """Send a PUBLISH as paho does, and set DUP on repeated publishes. paho sets it only on those that it repeats
        itself."""
        payload, qos, retain, dup, info, properties = _Sent(*given, **named)
        return super()._send_publish(mid, topic, payload, qos, retain, dup or self._repeating, info, properties)

    def _create_socket(self) -> Any:
        connection = socket.create_connection((self.host, self.port), self.connect_timeout)
        # Without it the end of each batch waits 40 ms for the broker's delayed TCP acknowledgement of the segment
        # before.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_hostname=self.host)
        return _Socket(connection)

    def _handle_suback(self) -> None:
        if self._is_answer(_SUBACK, has_codes=True):
            super()._handle_suback()

    def _handle_unsuback(self) -> MQTTErrorCode:
        if self._is_answer(_UNSUBACK, has_codes=self.is_5):
            return super()._handle_unsuback()
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _is_answer(self, kind: int, *, has_codes: bool) -> bool:
        """Return whether a SUBACK or UNSUBACK answers what was asked, with a code for each topic. End the connection
        otherwise. Raises MalformedPacket."""
        packet = self._in_packet["packet"]
        try:
            codes_at, size = varint(packet, 2) if self.is_5 else (2, 0)
        except IndexError:
            raise MalformedPacket("an answer to a subscription ends within its header") from None
        _, topics = self._asked.pop((kind, int.from_bytes(packet[:2], "big")), (0.0, -1))
        if len(packet) - codes_at - size == (topics if has_codes else 0) and topics >= 0:
            return True
        self.close("the broker answered a subscription that it was not asked for, or not for each topic")
        return False

    def _handle_pubrel(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if len(packet) < 2:
            raise MalformedPacket("a PUBREL has no packet identifier")
        self.on_release(packet[0] << 8 | packet[1])
        return self._packet_queue(_PUBCOMP, bytes((_PUBCOMP, 2, packet[0], packet[1])), 0, 1)

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        """Take no confirmation that does not belong to the publish's QoS: a broker that sends one may not have it."""
        mid = int.from_bytes(self._in_packet["packet"][:2], "big")
        sent = self._out_messages.get(mid)
        if sent is None or (sent.qos == 1 if cmd == "PUBACK" else sent.qos == 2 and mid in self.received):
            return super()._handle_pubackcomp(cmd)
        self.close(f"the broker sent {cmd} for a message of QoS {sent.qos} that is not confirmed so")
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_pubrec(self) -> MQTTErrorCode:
        """Report a PUBREC that refuses a publish as a failure. paho would answer it with PUBREL and report success in
        the end."""
        packet = self._in_packet["packet"]
        if len(packet) > 2 and packet[2] >= FAILURE:
            self.confirmed.append((packet[0] << 8 | packet[1], ReasonCode(PacketTypes.PUBREC, identifier=packet[2])))
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        if (mid := int.from_bytes(packet[:2], "big")) in self._out_messages:
            self.received.add(mid)
            if len(packet) > 2 and packet[2] == NO_MATCHING_SUBSCRIBERS:
                self._without_subscribers.add(mid)
        return super()._handle_pubrec()


class _Sent(NamedTuple):
    """The arguments that paho passes to its own `_send_publish` after the topic."""

    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    info: Any = None
    properties: Any = None


class _Socket:
    """A socket that ends a connection properly."""

    def __init__(self, wrapped: socket.socket) -> None:
        self._wrapped = wrapped
        self.recv, self.send = wrapped.recv, wrapped.send
        self.fileno, self.setblocking = wrapped.fileno, wrapped.setblocking

    def close(self) -> None:
        """Close when the other side has closed, or after a short time.

        Closing a socket with unread bytes resets the connection. A broker that is just answering an acknowledgement
        would then not read the next one.
        """
        deadline = time.monotonic() + _LINGER
        with suppress(OSError):
            self._wrapped.shutdown(socket.SHUT_WR)
            self._wrapped.settimeout(_LINGER)
            while time.monotonic() < deadline and self._wrapped.recv(_BLOCK):
                pass
        self._wrapped.close()
