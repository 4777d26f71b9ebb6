"""A destination's connection to its broker.

The thread that sends also drives the connection, so nothing answers the broker's pings between two calls; the
connection is opened without keep-alive, and one that has died meanwhile is replaced at the next call.
"""

import secrets
import time
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

import structlog
from paho.mqtt.client import error_string
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from adapters.mqtt.client import Client
from adapters.mqtt.connect import BrokerError, Connector
from adapters.mqtt.settings import DestinationSettings
from app.codecs.mqtt import envelope
from app.codecs.mqtt.fixed_header import MAX_REMAINING_LENGTH, largest_payload, length_bytes, publish_size
from app.model.errors import TheirError
from app.model.message import PhysicalMessage
from app.ports import SendFailed

_IDLE = 0.1
_NO_MATCHING_SUBSCRIBERS = 0x10
_PERMANENT = frozenset({0x87, 0x90, 0x95, 0x99, 0x9A, 0x9B})
"""Reason codes that trying again cannot change: not authorized, topic name invalid, packet too large, payload format
invalid, retain and QoS not supported (MQTT 5, section 2.4)."""

_log = structlog.get_logger(__name__)


class _Packed(NamedTuple):
    """Stands in for paho's Properties, of which a publish only asks to be packed."""

    section: bytes

    def pack(self) -> bytes:
        return length_bytes(len(self.section)) + self.section


class _Publish(NamedTuple):
    payload: bytes
    properties: _Packed | None


class MqttSender:
    """`app.ports.Sender` for MQTT."""

    def __init__(self, name: str, settings: DestinationSettings) -> None:
        self._settings = settings
        self._connector = Connector(
            settings,
            settings.client_id or f"attachment-gateway-{name}-{secrets.token_hex(4)}",
            clean=True,
            keepalive=0,
        )
        self._log = _log.bind(destination=name, broker=self._connector.broker)
        self._client: Client | None = None
        self._limit = self._window = 0
        self._warned_of_no_subscriber = False
        self._status: dict[str, Any] = {"connected": False, "since": None, "error": None}

    def status(self) -> dict[str, Any]:
        return {**self._status, "broker": self._connector.broker}

    def max_body(self) -> int:
        client = self._open()
        added, properties_size = envelope.overhead(_version(client))
        largest = largest_payload(self._limit, self._settings.topic, self._settings.qos, properties_size) - added
        if largest < 0:
            raise SendFailed(f"no message fits the {self._limit} bytes that the broker allows", permanent=True)
        return largest

    def send(self, messages: Sequence[PhysicalMessage]) -> None:
        client = self._open()
        publishes = [self._publish(message, _version(client)) for message in messages]
        try:
            self._deliver(client, publishes)
        except SendFailed as failed:
            self._down(str(failed))
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        self._status = {"connected": False, "since": None, "error": None}

    def _open(self) -> Client:
        """The connection, a new one if there is none that stands."""
        if self._client is not None:
            self._client.turn(0)
            if self._client.is_open:
                return self._client
        try:
            client, connack = self._connector.open()
        except BrokerError as error:
            self._down(str(error))
            raise SendFailed(str(error)) from error
        announced: int = getattr(connack.properties, "MaximumPacketSize", MAX_REMAINING_LENGTH + 5)
        self._limit = min(self._settings.max_packet_size, announced)
        self._window = min(self._settings.max_inflight, getattr(connack.properties, "ReceiveMaximum", 0xFFFF))
        self._client = client
        self._status = {"connected": True, "since": time.time_ns() // 1000, "error": None, "version": _version(client)}
        return client

    def _publish(self, message: PhysicalMessage, version: Literal["5", "3.1.1"]) -> _Publish:
        """Raises SendFailed for what the broker would not take, before it is sent."""
        settings = self._settings
        try:
            payload, section = envelope.write(message, version)
            size = publish_size(settings.topic, len(payload), settings.qos, None if section is None else len(section))
        except (TheirError, ValueError) as error:
            raise SendFailed(str(error), permanent=True) from error
        if size > self._limit:
            why = f"a packet of {size:,} bytes, where the broker takes {self._limit:,}"
            raise SendFailed(why, permanent=True)
        return _Publish(payload, None if section is None else _Packed(section))

    def _deliver(self, client: Client, publishes: list[_Publish]) -> None:
        waiting = iter(publishes)
        unconfirmed: set[int] = set()
        left = len(publishes)
        deadline = time.monotonic() + self._settings.send_timeout
        while left:
            for publish in islice(waiting, self._window - len(unconfirmed)):
                unconfirmed.add(self._post(client, publish))
            client.turn(_IDLE)
            for mid, reason in client.confirmed:
                self._require_success(reason)
                if mid in unconfirmed:
                    unconfirmed.remove(mid)
                    left -= 1
                deadline = time.monotonic() + self._settings.send_timeout
            client.confirmed.clear()
            if left and not client.is_open:
                raise SendFailed(client.lost, permanent=client.lost_code in _PERMANENT)
            if left and time.monotonic() > deadline:
                raise SendFailed(f"no confirmation within {self._settings.send_timeout:g} s")

    def _post(self, client: Client, publish: _Publish) -> int:
        sent = client.publish(
            self._settings.topic, publish.payload, self._settings.qos, properties=cast("Properties", publish.properties)
        )
        if sent.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_AGAIN):
            raise SendFailed(client.lost or error_string(sent.rc), permanent=client.lost_code in _PERMANENT)
        return sent.mid

    def _require_success(self, reason: ReasonCode) -> None:
        if reason.is_failure:
            raise SendFailed(f"the broker refused a message: {reason}", permanent=reason.value in _PERMANENT)
        if reason.value == _NO_MATCHING_SUBSCRIBERS and not self._warned_of_no_subscriber:
            self._warned_of_no_subscriber = True
            self._log.warning("nobody is subscribed: the broker confirms and drops", topic=self._settings.topic)

    def _down(self, why: str) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._status["error"] != why:
            self._log.warning("not connected", error=why)
        self._status = {"connected": False, "since": None, "error": why}


def _version(client: Client) -> Literal["5", "3.1.1"]:
    return "5" if client.is_5 else "3.1.1"
