"""Connections to one broker: version, session, credentials, TLS."""

import socket
import ssl
import time

from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from adapters.connections import LogIn
from adapters.mqtt.client import Connack, MqttClient, explanation
from adapters.mqtt.settings import BrokerSettings, Version

_VERSIONS: dict[Version, tuple[MQTTProtocolVersion, ...]] = {
    "5": (MQTTProtocolVersion.MQTTv5,),
    "3.1.1": (MQTTProtocolVersion.MQTTv311,),
    "auto": (MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311),
}
_UNSUPPORTED_VERSION = 0x84
_REFUSED_LOG_IN = frozenset({0x86, 0x87, 0x8C})
"""Reason codes of a CONNACK: bad user name or password, not authorized, bad authentication method."""
_LISTEN_DELAY, _LISTEN_TIMEOUT = 0.05, 1.0


class BrokerError(Exception):
    """The broker cannot be reached or refuses the connection; the text says why.

    `code` is the reason code with which the broker ended a connection, 0 without one.
    """

    def __init__(self, why: str, code: int = 0) -> None:
        super().__init__(why)
        self.code = code


class Connector:
    """Opens connections to the broker of one source or destination.

    With version "auto" it falls back to 3.1.1 only when the broker refuses version 5 as unsupported, and remembers
    that. After any other failure it stays with 5: a broker that supports 5 removes the properties of a 3.1.1
    subscriber's messages.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        client_id: str,
        *,
        clean: bool,
        session_expiry: int = 0,
        receive_maximum: int | None = None,
    ) -> None:
        self._settings = settings
        self.log_in = LogIn(password=settings.password, username=settings.username)
        self._client_id = client_id
        self._clean = clean
        self._properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        self._properties.SessionExpiryInterval = session_expiry
        if receive_maximum is not None:
            self._properties.ReceiveMaximum = receive_maximum
        self._versions = _VERSIONS[settings.version]

    @property
    def client_id(self) -> str:
        return self._client_id

    @property
    def broker(self) -> str:
        return f"{self._settings.host}:{self._settings.port}"

    def is_listening(self) -> bool:
        """Tell whether the broker, or a proxy in front of it, accepts connections after a moment.

        A broker that is just ending closes its connections and its listening socket in any order.
        """
        time.sleep(_LISTEN_DELAY)
        try:
            socket.create_connection((self._settings.host, self._settings.port), _LISTEN_TIMEOUT).close()
        except OSError:
            return False
        return True

    def open(self, *, clean: bool | None = None) -> tuple[MqttClient, Connack]:
        """Return a connection that the broker has accepted, and its CONNACK. With `clean`, start a new session.

        Raises BrokerError.
        """
        settings, clean = self._settings, self._clean if clean is None else clean
        while True:
            tls = self._tls() if settings.is_tls else None
            client = MqttClient(self._client_id, self._versions[0], clean=clean, tls=tls)
            client.connect_timeout = settings.connect_timeout
            if settings.username is not None:
                password = settings.password.get_secret_value() if settings.password else None
                client.username_pw_set(settings.username.current, password)
            connack = self._handshake(client, clean=clean)
            if connack.refusal is None:
                self.log_in.accepted()
                return client, connack
            client.close()
            if connack.refusal.value in _REFUSED_LOG_IN:
                self.log_in.refused()
            if connack.refusal.value != _UNSUPPORTED_VERSION or len(self._versions) == 1:
                more = explanation(connack.properties)
                raise BrokerError(f"{self.broker} refused the connection: {connack.refusal}{more}")
            self._versions = self._versions[1:]

    def _tls(self) -> ssl.SSLContext:
        settings = self._settings
        try:
            context = ssl.create_default_context(cafile=settings.ca_file)
            if settings.cert_file and settings.key_file:
                context.load_cert_chain(settings.cert_file, settings.key_file)
        except OSError as error:
            raise BrokerError(
                f"the certificates for {self.broker} cannot be loaded: {error}; check ca_file, cert_file and key_file"
            ) from error
        return context

    def _handshake(self, client: MqttClient, *, clean: bool) -> Connack:
        host, port, keepalive = self._settings.host, self._settings.port, self._settings.keepalive
        deadline = time.monotonic() + self._settings.connect_timeout
        try:
            if client.is_5:
                client.connect(host, port, keepalive, clean_start=clean, properties=self._properties)
            else:
                client.connect(host, port, keepalive)
        except OSError as error:
            raise BrokerError(f"{self.broker} cannot be reached: {error}") from error
        while client.connack is None:
            client.turn(0.1)
            if client.connack is None and (not client.is_open or time.monotonic() > deadline):
                client.close("no answer")
                raise BrokerError(f"{self.broker} did not accept the connection: {client.lost}")
        return client.connack


def most_qos(connack: Connack) -> int:
    """Return the highest QoS of a publish that the broker takes (MQTT 5, Maximum QoS)."""
    most: int = getattr(connack.properties, "MaximumQoS", 2)
    return most
