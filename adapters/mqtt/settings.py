"""Settings of MQTT sources and destinations. Durations are in seconds."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from app.codecs.mqtt.packets import MAX_REMAINING_LENGTH
from app.secret import Changing, Secret, split_url

Version = Literal["5", "3.1.1", "auto"]
_DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}
_LONGEST_TOPIC = 65535


def _topic(text: str) -> str:
    if not text or "\0" in text or len(text.encode()) > _LONGEST_TOPIC:
        raise ValueError("a topic has 1 to 65,535 bytes and no NUL")
    return text


def _topic_filter(text: str) -> str:
    levels = _topic(text).split("/")
    if "#" in text and (text.count("#") > 1 or levels[-1] != "#"):
        raise ValueError(f"{text!r}: # stands alone as the last level")
    if any("+" in level and level != "+" for level in levels):
        raise ValueError(f"{text!r}: + stands alone in its level")
    return text


def _topic_name(text: str) -> str:
    if "+" in text or "#" in text:
        raise ValueError(f"{text!r}: a topic to send to has no wildcards (+ or #)")
    return _topic(text)


class BrokerSettings(BaseModel):
    """Settings that sources and destinations share.

    `url` is `mqtt://host[:1883]` or `mqtts://host[:8883]`. Version "auto" asks the broker for MQTT 5 and, if it refuses
    that, for 3.1.1. With `mqtts` the broker must show a certificate that `ca_file`, or the system's certificates, can
    verify. `cert_file` and `key_file` are the gateway's own certificate and key. All files are read again at each
    connection.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str
    version: Version = "auto"
    username: Changing | None = None
    password: Secret | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    keepalive: int = Field(default=60, ge=5, le=65535)
    connect_timeout: float = Field(default=10, gt=0, le=300)

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        parts = split_url(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError("write mqtt://host:1883 or mqtts://host:8883")
        if parts.username is not None or parts.password is not None:
            raise ValueError("set username and password as separate settings, not in the url")
        return url

    @model_validator(mode="after")
    def _consistent(self) -> "BrokerSettings":
        wrong = []
        if not self.is_tls and (self.ca_file or self.cert_file or self.key_file):
            wrong.append("ca_file, cert_file and key_file need a url of mqtts://")
        if (self.cert_file is None) != (self.key_file is None):
            wrong.append("cert_file and key_file come together: give both or neither")
        files = (self.ca_file, self.cert_file, self.key_file)
        wrong += [f"there is no file {path}" for path in files if path is not None and not path.is_file()]
        if self.password is not None and self.username is None:
            wrong.append("a password needs a username")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def is_tls(self) -> bool:
        return urlsplit(self.url).scheme == "mqtts"

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or _DEFAULT_PORTS[parts.scheme]


_Filters = Annotated[
    list[Annotated[str, AfterValidator(_topic_filter)]],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given, json_schema_input_type=str | list[str]),
]


class SourceSettings(BrokerSettings):
    """An MQTT source.

    `topic` is one topic filter or several. The broker keeps the session of `client_id` for `session_expiry` while the
    gateway is disconnected, so each source needs its own `client_id`. The default is made of the source's name.
    `receive_maximum` is the largest number of messages that are neither on disk nor acknowledged (MQTT 5; an older
    broker has its own limit). `retained` says whether retained messages are accepted or ignored. With `answers`,
    senders that want answers get them, where a framing has any.
    """

    topic: Annotated[_Filters, Field(min_length=1)]
    client_id: str | None = Field(default=None, min_length=1, max_length=_LONGEST_TOPIC)
    qos: Literal[0, 1, 2] = 1
    session_expiry: int = Field(default=7 * 86400, ge=0, le=0xFFFFFFFF)
    receive_maximum: int = Field(default=1000, ge=1, le=65535)
    retained: Literal["accept", "ignore"] = "accept"
    answers: bool = True
    request_missing_to: _Filters = []


class DestinationSettings(BrokerSettings):
    """An MQTT destination.

    QoS 0 is not available: a broker does not confirm it, so a delivery could never count as sent. At most
    `max_inflight` messages wait for a confirmation at once. Sending fails when none is confirmed within `send_timeout`.
    `max_packet_size` is the limit of brokers that do not announce one, as no broker can before MQTT 5.

    With a `client_id`, which no other client may use, the broker keeps the session for `session_expiry` (MQTT 5; an
    older broker as it is configured). Messages that were not confirmed when a connection broke are sent again in the
    same session, so that a broker recognizes messages of QoS 2. Without one, each connection has its own session.

    `no_subscribers` says what to do when the broker answers that it discarded a message because there is no subscriber
    (MQTT 5): try it again later, or accept it, which the delivery shows.

    `answer_missing` is a topic for requests of receivers. All messages have it as their response topic (MQTT 5).
    """

    topic: Annotated[str, AfterValidator(_topic_name)]
    client_id: str | None = Field(default=None, min_length=1, max_length=_LONGEST_TOPIC)
    qos: Literal[1, 2] = 1
    session_expiry: int = Field(default=86400, ge=0, le=0xFFFFFFFF)
    max_inflight: int = Field(default=20, ge=1, le=65535)
    max_packet_size: ByteSize = Field(default=ByteSize(MAX_REMAINING_LENGTH + 5), ge=1024)
    no_subscribers: Literal["retry", "accept"] = "retry"
    send_timeout: float = Field(default=30, gt=0, le=3600)
    answer_missing: Annotated[str, AfterValidator(_topic_name)] | None = None
