"""What the configuration says of an IBM MQ source or destination. Durations are in seconds."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, SecretStr, model_validator

from app.codecs.ibm_mq.encodings import MQENC_LITTLE_ENDIAN, integer_order

_OBJECT_NAME = re.compile(r"[A-Za-z0-9._/%]{1,48}")
_CHANNEL_NAME = re.compile(r"[A-Za-z0-9._/%]{1,20}")
_CONNECTION = re.compile(r"[^\s(),]+(\([0-9]{1,5}\))?")
_LONGEST_CONNECTION = 264
_OF_TLS = ("key_repository", "key_repository_password", "certificate_label", "ssl_peer_name")


def _object_name(text: str) -> str:
    if not _OBJECT_NAME.fullmatch(text):
        raise ValueError(f"{text!r}: a name has 1 to 48 letters, digits and . / _ %")
    return text


def _queue_manager_name(text: str) -> str:
    if text.removeprefix("*"):
        _object_name(text.removeprefix("*"))
    return text


def _channel_name(text: str) -> str:
    if not _CHANNEL_NAME.fullmatch(text):
        raise ValueError(f"{text!r}: a channel's name has 1 to 20 letters, digits and . / _ %")
    return text


def _connection_list(text: str) -> str:
    hosts = [host.strip() for host in text.split(",")]
    if not all(_CONNECTION.fullmatch(host) for host in hosts):
        raise ValueError(f"{text!r}: write host(1414), several with commas between")
    listed = ",".join(hosts)
    if len(listed) > _LONGEST_CONNECTION:
        raise ValueError(f"{len(listed)} characters of connections, at most {_LONGEST_CONNECTION} fit")
    return listed


def _encoding(number: int) -> int:
    if integer_order(number) is None:
        raise ValueError(f"{number} does not say how integers are written (546 on x86, 273 on AIX, 785 on z/OS)")
    return number


ObjectName = Annotated[str, AfterValidator(_object_name)]


class ConnectionSettings(BaseModel):
    """What sources and destinations share.

    `queue_manager` may be empty (whichever answers) or begin with `*` (a group of a CCDT). `connection` is a connection
    list, `host(1414),other(1414)`, for the channel `channel`. Where both are left out, the client library takes what
    its own environment says: MQSERVER, a client channel definition table (MQCCDTURL, or MQCHLLIB and MQCHLTAB),
    mqclient.ini, or a queue manager on the same machine.

    With a `cipher_spec` the channel is TLS; `key_repository` is the client's key file without `.kdb`, of which
    `certificate_label` names the client's own certificate and which `key_repository_password` opens where no stash file
    lies beside it. `ssl_peer_name` is what the queue manager's certificate must say (SSLPEER). `heartbeat_interval` is
    how soon either end notices that the other is gone. `token_file` holds a JSON web token in place of a password, and
    is read at each connection. `application_name` is what the queue manager calls the connection (APPLTAG).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    queue_manager: Annotated[str, AfterValidator(_queue_manager_name)] = ""
    channel: Annotated[str, AfterValidator(_channel_name)] | None = None
    connection: Annotated[str, AfterValidator(_connection_list)] | None = None
    user: str | None = Field(default=None, min_length=1, max_length=1024)
    password: SecretStr | None = None
    cipher_spec: str | None = Field(default=None, min_length=1, max_length=32)
    key_repository: Path | None = None
    key_repository_password: SecretStr | None = None
    certificate_label: str | None = Field(default=None, min_length=1, max_length=64)
    ssl_peer_name: str | None = Field(default=None, min_length=1, max_length=1024)
    token_file: Path | None = None
    application_name: str | None = Field(default=None, min_length=1, max_length=28, pattern=r"^[ -~]+$")
    heartbeat_interval: int = Field(default=30, ge=1, le=999_999)

    @model_validator(mode="after")
    def _consistent(self) -> "ConnectionSettings":
        if (self.channel is None) != (self.connection is None):
            raise ValueError("channel and connection come together")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password come together")
        if self.token_file is not None and self.user is not None:
            raise ValueError("give a user and a password, or a token_file, not both")
        if self.cipher_spec is not None and self.channel is None:
            raise ValueError("a cipher_spec belongs to a channel and a connection")
        of_tls = [name for name in _OF_TLS if getattr(self, name) is not None]
        if of_tls and self.cipher_spec is None:
            raise ValueError(f"{of_tls[0]} belongs to a cipher_spec")
        return self

    @property
    def broker(self) -> str:
        """The queue manager and how it is reached, for people."""
        return " at ".join(filter(None, (self.queue_manager, self.connection))) or "the client library's default"


class PlaceSettings(BaseModel):
    """One of several queue managers of a source: what differs there from what the source says."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    queue_manager: str | None = None
    channel: str | None = None
    connection: str | None = None
    user: str | None = None
    password: SecretStr | None = None
    token_file: Path | None = None
    cipher_spec: str | None = None
    key_repository: Path | None = None
    key_repository_password: SecretStr | None = None
    certificate_label: str | None = None
    ssl_peer_name: str | None = None
    queue: str | None = None
    backout_queue: str | None = None


class SourceSettings(ConnectionSettings):
    """An IBM MQ source.

    `mqmd_version` is the message descriptor that is asked for: with 1 the queue manager puts an MQMDE in front of the
    data of a message in a group or a segment, and does not put the segments of a message together. Messages are got in
    units of work of at most `batch_messages` messages and `batch_bytes`. An empty queue is waited on for `wait` at a
    time, which is how long a stop may take. `connections` is how many of them get from the queue at once.

    An `exclusive` source keeps others from getting from its queue; by default one with a single connection does.

    A message that was backed out `backout_threshold` times goes to `backout_queue`. Left out, they are what the queue's
    own BOTHRESH and BOQNAME say; a threshold of 0 is none.

    With `queue_managers` the same source is received from several queue managers at once: each of these tables says
    what differs there, and all else is as the source says.
    """

    queue: ObjectName
    mqmd_version: Literal[1, 2] = 2
    batch_messages: int = Field(default=200, ge=1, le=9_999)
    batch_bytes: ByteSize = Field(default=ByteSize(16 << 20), ge=1)
    wait: float = Field(default=0.5, gt=0, le=5)
    connections: int = Field(default=1, ge=1, le=16)
    exclusive: bool | None = None
    backout_threshold: int | None = Field(default=None, ge=0, le=999_999_999)
    backout_queue: ObjectName | None = None
    queue_managers: tuple[PlaceSettings, ...] = ()

    @model_validator(mode="after")
    def _receivable(self) -> "SourceSettings":
        if self.exclusive and self.connections > 1:
            raise ValueError(f"an exclusive source has one connection, not {self.connections}")
        places = [(place.queue_manager, place.connection, place.queue) for place in self.places()]
        if len(set(places)) < len(places):
            raise ValueError("queue_managers names the same queue of the same queue manager twice")
        return self

    @property
    def is_exclusive(self) -> bool:
        return self.connections == 1 if self.exclusive is None else self.exclusive

    def places(self) -> "tuple[SourceSettings, ...]":
        """Return the settings of each queue that the source is received from. Raises ValueError for wrong ones."""
        if not self.queue_managers:
            return (self,)
        own = {name: getattr(self, name) for name in self.model_fields_set - {"queue_managers"}}
        return tuple(SourceSettings.model_validate(own | _said(place)) for place in self.queue_managers)


def _said(place: PlaceSettings) -> dict[str, Any]:
    return {name: getattr(place, name) for name in place.model_fields_set}


class DestinationSettings(ConnectionSettings):
    """An IBM MQ destination.

    `queue` may be local, an alias or remote; one on another queue manager that is not defined here has
    `remote_queue_manager`. Messages are put in units of work of at most `batch_messages`. With `mqmd_version` 1 the
    group and segment fields of a message travel in an MQMDE, which the queue manager honours only if it is written in
    `queue_manager_encoding`: 546 for one on x86, 273 on AIX and IBM i, 785 on z/OS. `expiry` left out is never. A
    message's properties, such as a file's name in front of a group, travel in an MQRFH2, which a program that does not
    expect one takes for data: `properties` is "mqrfh2" or "none". A segment never has one: it would count in the Offset
    of those behind.

    `state_queue` is a local queue of the same queue manager on which the gateway keeps how far each delivery is, so
    that every message is put exactly once. Several destinations of one gateway may share it. A state message that
    cannot be found is waited for up to `state_timeout`: a unit of work of a connection that broke may hold it.
    """

    queue: ObjectName
    remote_queue_manager: ObjectName | None = None
    mqmd_version: Literal[1, 2] = 2
    queue_manager_encoding: Annotated[int, AfterValidator(_encoding)] = MQENC_LITTLE_ENDIAN
    batch_messages: int = Field(default=200, ge=1, le=9_999)
    persistent: bool = True
    properties: Literal["none", "mqrfh2"] = "none"
    state_queue: ObjectName | None = None
    state_timeout: float = Field(default=600, ge=0, le=86_400)
    priority: int | None = Field(default=None, ge=0, le=9)
    expiry: float | None = Field(default=None, gt=0, le=99_999_999)

    @model_validator(mode="after")
    def _queues_differ(self) -> "DestinationSettings":
        if self.state_queue is not None and self.state_queue == self.queue:
            raise ValueError("state_queue is a queue of its own, not the one that messages are sent to")
        return self
