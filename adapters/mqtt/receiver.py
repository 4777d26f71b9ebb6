"""A source's connection to its broker: reads, hands over, and acknowledges what is durable.

One thread does all of it, the one that calls `run`. The journal's thread only leaves word that a batch is durable and
rings a bell (one byte on a socket pair); packets of acknowledgement are sent by the thread that reads. What is left
unacknowledged, the broker delivers again on the next connection.
"""

import random
import select
import socket
import time
from collections import deque
from contextlib import suppress
from functools import partial
from threading import Event as StopSignal
from typing import Any

import structlog
from paho.mqtt.subscribeoptions import SubscribeOptions

from adapters.mqtt.client import FAILURE, Arrival, Client, Connack
from adapters.mqtt.connect import BrokerError, Connector
from adapters.mqtt.settings import SourceSettings
from app.codecs.mqtt import envelope
from app.model.errors import TheirError
from app.model.message import PhysicalMessage
from app.ports import Intake

_IDLE = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_STEADY_AFTER = 10.0
_FAREWELL = 0.5
_SEND_RETAINED_IF_NEW, _NEVER_SEND_RETAINED = 1, 2

_log = structlog.get_logger(__name__)

Acknowledgement = tuple[int, int]
"""A packet identifier and its QoS."""


class MqttReceiver:
    """`app.ports.Receiver` for MQTT."""

    def __init__(self, name: str, framing: str, settings: SourceSettings) -> None:
        self._name, self._framing, self._settings = name, framing, settings
        self._connector = Connector(
            settings,
            settings.client_id or f"attachment-gateway-{name}",
            clean=settings.session_expiry == 0,
            keepalive=settings.keepalive,
            session_expiry=settings.session_expiry,
            receive_maximum=settings.receive_maximum,
        )
        self._log = _log.bind(source=name, broker=self._connector.broker)
        self._durable: deque[tuple[Client, list[Acknowledgement]]] = deque()
        self._unacknowledged = 0
        self._status: dict[str, Any] = {"connected": False, "since": None, "error": None}
        self._has_session = False
        self._warned: set[str] = set()

    def status(self) -> dict[str, Any]:
        return {**self._status, "broker": self._connector.broker, "unacknowledged": self._unacknowledged}

    def run(self, intake: Intake, stop: StopSignal) -> None:
        pause = _FIRST_PAUSE
        with _Bell() as bell:
            while not stop.is_set():
                began = time.monotonic()
                try:
                    self._connection(intake, stop, bell)
                except BrokerError as error:
                    self._down(str(error))
                    if time.monotonic() - began > _STEADY_AFTER:
                        pause = _FIRST_PAUSE
                    stop.wait(pause * random.uniform(0.5, 1))  # noqa: S311
                    pause = min(pause * 2, _LONGEST_PAUSE)
        self._status = {"connected": False, "since": None, "error": None}

    def _connection(self, intake: Intake, stop: StopSignal, bell: "_Bell") -> None:
        """One connection from its start to its end. Raises BrokerError when it ends before `stop` is set."""
        client, connack = self._connector.open()
        self._unacknowledged = 0
        try:
            self._subscribe(client, connack)
            more = False
            while not stop.is_set():
                more = client.turn(0 if more else _IDLE, bell.ringing)
                self._acknowledge_durable(client, bell)
                if arrivals := client.take_arrivals():
                    self._hand_over(client, arrivals, intake, bell)
                if not client.is_open:
                    raise BrokerError(client.lost)
            self._bid_farewell(client, bell)
        finally:
            client.close()

    def _subscribe(self, client: Client, connack: Connack) -> None:
        """Asks for the topics, on every connection: the broker may have lost the session, or the topics be new."""
        settings = self._settings
        if self._has_session and not connack.session_present:
            self._log.warning("the broker has lost the session: what it still held for this source is gone")
        self._has_session = settings.session_expiry > 0
        client.on_subscribe = partial(self._subscribed, connack)
        retain_handling = _SEND_RETAINED_IF_NEW if settings.retained == "accept" else _NEVER_SEND_RETAINED
        options: Any = SubscribeOptions(settings.qos, retainHandling=retain_handling) if client.is_5 else settings.qos
        client.subscribe([(topic, options) for topic in settings.topic])

    def _subscribed(self, connack: Connack, client: Any, _: object, __: int, granted: list[Any], ___: object) -> None:
        version = "5" if client.is_5 else "3.1.1"
        refused = [topic for topic, code in zip(self._settings.topic, granted, strict=False) if code.value >= FAILURE]
        if refused:
            client.close(f"the broker refused the subscription to {', '.join(refused)}")
            return
        self._status = {"connected": True, "since": _now(), "error": None, "version": version}
        self._log.info("connected", version=version, session_present=connack.session_present)
        if any(code.value == 0 for code in granted):
            self._warn_once("granted", "QoS 0 was granted: the broker drops what it cannot deliver at once")

    def _hand_over(self, client: Client, arrivals: list[Arrival], intake: Intake, bell: "_Bell") -> None:
        now = _now()
        messages: list[PhysicalMessage] = []
        taken: list[Acknowledgement] = []
        ignored: list[Acknowledgement] = []
        self._unacknowledged += len(arrivals)
        for arrival in arrivals:
            acknowledgement = (arrival.mid, arrival.qos)
            if arrival.retained and self._settings.retained == "ignore":
                ignored.append(acknowledgement)
                continue
            try:
                messages.append(self._read(arrival, now))
                taken.append(acknowledgement)
            except TheirError as error:
                unread = PhysicalMessage(self._name, self._framing, body=arrival.payload(), received_at=now)
                on_durable = partial(self._durable_now, client, [acknowledgement], bell)
                intake.refuse(unread, error.code, str(error), on_durable)
        if any(qos == 0 for _, qos in taken):
            self._warn_once("qos", "messages arrive with QoS 0: nothing of them is kept while the gateway is away")
        if ignored:
            self._acknowledge(client, ignored)
        if messages:
            intake.submit(messages, partial(self._durable_now, client, taken, bell))

    def _read(self, arrival: Arrival, now: int) -> PhysicalMessage:
        payload, packed = arrival.payload(), arrival.properties()
        return envelope.read(payload, packed, self._name, self._framing, now, arrival.topic)

    def _durable_now(self, client: Client, taken: list[Acknowledgement], bell: "_Bell") -> None:
        """Called by the journal's thread."""
        self._durable.append((client, taken))
        bell.ring()

    def _acknowledge_durable(self, client: Client, bell: "_Bell") -> None:
        bell.silence()
        while self._durable:
            delivered_by, taken = self._durable.popleft()
            if delivered_by is client:
                self._acknowledge(client, taken)

    def _acknowledge(self, client: Client, taken: list[Acknowledgement]) -> None:
        client.acknowledge(taken)
        self._unacknowledged -= len(taken)

    def _bid_farewell(self, client: Client, bell: "_Bell") -> None:
        """Gives what is on its way to the disk a moment to be acknowledged, which saves as many duplicates."""
        deadline = time.monotonic() + _FAREWELL
        while self._unacknowledged and client.is_open and (left := deadline - time.monotonic()) > 0:
            bell.wait(left)
            self._acknowledge_durable(client, bell)

    def _down(self, why: str) -> None:
        if self._status["error"] != why:
            self._log.warning("not connected", error=why)
        self._status = {"connected": False, "since": None, "error": why}

    def _warn_once(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            self._log.warning(text)


class _Bell:
    """Wakes a thread that polls `ringing`."""

    def __enter__(self) -> "_Bell":
        self.ringing, self._rope = socket.socketpair()
        self.ringing.setblocking(False)
        self._rope.setblocking(False)
        return self

    def __exit__(self, *_: object) -> None:
        self.ringing.close()
        self._rope.close()

    def ring(self) -> None:
        """From any thread. No one need hear it: a bell that is full rings already, one that is taken down belongs to a
        receiver that has ended, and the broker will deliver again."""
        with suppress(OSError):
            self._rope.send(b"\0")

    def silence(self) -> None:
        with suppress(BlockingIOError):
            self.ringing.recv(4096)

    def wait(self, timeout: float) -> None:
        poll = select.poll()
        poll.register(self.ringing, select.POLLIN)
        poll.poll(timeout * 1000)


def _now() -> int:
    return time.time_ns() // 1000
