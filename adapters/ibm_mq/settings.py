"""Settings of IBM MQ sources and destinations. Durations are in seconds."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, model_validator

from app.codecs.ibm_mq.encodings import MQENC_LITTLE_ENDIAN, integer_order
from app.model.validation import SOME_PRINTABLE_ASCII
from app.secret import Changing, Secret

_OBJECT_NAME = re.compile(r"[A-Za-z0-9._/%]{1,48}")
_CHANNEL_NAME = re.compile(r"[A-Za-z0-9._/%]{1,20}")
_CONNECTION = re.compile(r"[^\s(),]+(\([0-9]{1,5}\))?")
_LONGEST_CONNECTION = 264
_TLS_SETTINGS = ("key_repository", "key_repository_password", "certificate_label", "ssl_peer_name")


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
        raise ValueError(f"{text!r}: write host(1414), with commas between several")
    listed = ",".join(hosts)
    if len(listed) > _LONGEST_CONNECTION:
        raise ValueError(f"the connection list has {len(listed)} characters; at most {_LONGEST_CONNECTION} are allowed")
    return listed


def _encoding(number: int) -> int:
    if integer_order(number) is None:
        raise ValueError(f"{number} has no integer encoding; give 546 (x86), 273 (AIX) or 785 (z/OS)")
    return number


def _generic_name(text: str) -> str:
    if text != "*":
        _object_name(text.removesuffix("*"))
    return text


ObjectName = Annotated[str, AfterValidator(_object_name)]
_QueueNames = tuple[Annotated[str, AfterValidator(_generic_name)], ...]
"""Names of queues; a `*` at the end stands for any rest."""


class ConnectionSettings(BaseModel):
    """Settings that sources and destinations share.

    `queue_manager` may be empty (any queue manager that answers) or begin with `*` (a group of a CCDT). `connection` is
    a connection list, `host(1414),other(1414)`, for the channel `channel`. If both are left out, the client library's
    environment decides: MQSERVER, a client channel definition table (MQCCDTURL, or MQCHLLIB and MQCHLTAB),
    mqclient.ini, or a queue manager on the same machine.

    With a `cipher_spec` the channel uses TLS. `key_repository` is the client's key file without `.kdb`.
    `certificate_label` names the client's own certificate in it, and `key_repository_password` opens it if it has no
    stash file. `ssl_peer_name` is the name that the queue manager's certificate must have (SSLPEER).
    `heartbeat_interval` is how soon either end notices that the other is gone. `token` is a JSON web token in place
    of a password. `application_name` is the name under which the queue manager shows the connection (APPLTAG). It is
    "attachment-gateway" by default, or what MQAPPLNAME says. The files of `user`, `password`, `token` and
    `key_repository_password` are read again at each connection.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    queue_manager: Annotated[str, AfterValidator(_queue_manager_name)] = ""
    channel: Annotated[str, AfterValidator(_channel_name)] | None = None
    connection: Annotated[str, AfterValidator(_connection_list)] | None = None
    user: Changing | None = Field(default=None, min_length=1, max_length=1024)
    password: Secret | None = None
    cipher_spec: str | None = Field(default=None, min_length=1, max_length=32)
    key_repository: Path | None = None
    key_repository_password: Secret | None = None
    certificate_label: str | None = Field(default=None, min_length=1, max_length=64)
    ssl_peer_name: str | None = Field(default=None, min_length=1, max_length=1024)
    token: Secret | None = None
    application_name: str | None = Field(default=None, min_length=1, max_length=28, pattern=SOME_PRINTABLE_ASCII)
    heartbeat_interval: int = Field(default=30, ge=1, le=999_999)

    @model_validator(mode="after")
    def _consistent(self) -> "ConnectionSettings":
        wrong = []
        if (self.channel is None) != (self.connection is None):
            wrong.append("channel and connection come together: give both or neither")
        if (self.user is None) != (self.password is None):
            wrong.append("user and password come together: give both or neither")
        if self.token is not None and self.user is not None:
            wrong.append("give a user and a password, or a token, not both")
        if self.cipher_spec is not None and self.channel is None:
            wrong.append("a cipher_spec belongs to a channel and a connection")
        if self.cipher_spec is None:
            wrong += [f"{name} belongs to a cipher_spec" for name in _TLS_SETTINGS if getattr(self, name) is not None]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def broker(self) -> str:
        """Return the queue manager and its address, for people."""
        return " at ".join(filter(None, (self.queue_manager, self.connection))) or "the client library's default"


class PlaceSettings(BaseModel):
    """One of several queue managers of a source: the settings that differ from the source's own."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    queue_manager: str | None = None
    channel: str | None = None
    connection: str | None = None
    user: Changing | None = None
    password: Secret | None = None
    token: Secret | None = None
    cipher_spec: str | None = None
    key_repository: Path | None = None
    key_repository_password: Secret | None = None
    certificate_label: str | None = None
    ssl_peer_name: str | None = None
    queue: str | None = None
    backout_queue: str | None = None


class SourceSettings(ConnectionSettings):
    """An IBM MQ source.

    `mqmd_version` is the version of the message descriptor. With 1, the queue manager puts an MQMDE in front of the
    data of a message in a group or a segment, and does not reassemble segments. Messages are got in units of work of at
    most `batch_messages` messages and `batch_bytes`. `wait` is the wait interval on an empty queue, and so the longest
    time that a stop may take. `connections` is the number of connections that get from the queue at once.

    An `exclusive` source opens its queue exclusively, so that no other program can get from it. This is the default for
    a single connection.

    A message that was backed out `backout_threshold` times goes to `backout_queue`. The defaults are the queue's own
    BOTHRESH and BOQNAME; a threshold of 0 means none.

    Requests for missing parts go to the reply-to queue of a message if `request_missing_to` has its name.

    With `queue_managers` the same source receives from several queue managers at once. Each of these tables gives the
    settings that differ from the source's own.
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
    request_missing_to: _QueueNames = ()

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

    @property
    def unshared(self) -> str | None:
        """Return why other receivers cannot get from the queue, or None if they can."""
        if not self.is_exclusive:
            return None
        return "the first receiver opens the queue exclusively, and no other can get from it; set exclusive = false"

    def places(self) -> "tuple[SourceSettings, ...]":
        """Return the settings of each queue that the source is received from. Raises ValueError for wrong ones."""
        if not self.queue_managers:
            return (self,)
        own = {name: getattr(self, name) for name in self.model_fields_set - {"queue_managers"}}
        others = ({name: getattr(place, name) for name in place.model_fields_set} for place in self.queue_managers)
        return tuple(SourceSettings.model_validate(own | other) for other in others)


class DestinationSettings(ConnectionSettings):
    """An IBM MQ destination.

    `queue` may be a local, alias or remote queue. A queue of another queue manager without a local definition needs
    `remote_queue_manager`. Messages are put in units of work of at most `batch_messages`. With `mqmd_version` 1 the
    group and segment fields of a message are in an MQMDE, which the queue manager accepts only in its
    `queue_manager_encoding`: 546 on x86, 273 on AIX and IBM i, 785 on z/OS. Without `expiry` messages never expire.
    `properties` is "mqrfh2" or "none": a message's properties, such as a file's name in front of a group, are sent in
    an MQRFH2, or not at all. A program that does not expect an MQRFH2 reads it as data. A segment never has one,
    because it would count in the Offset of the segments after it.

    `state_queue` is a local queue of the same queue manager on which the gateway keeps the progress of each delivery,
    so that every message is put exactly once. Several destinations of one gateway may share it. A state message that
    cannot be found is waited for up to `state_timeout`: a unit of work of a broken connection may hold it.

    `answer_missing` is a queue of the same queue manager for requests of receivers. All messages name it as their
    reply-to queue.
    """

    queue: ObjectName
    remote_queue_manager: ObjectName | None = None
    mqmd_version: Literal[1, 2] = 2
    queue_manager_encoding: Annotated[int, AfterValidator(_encoding)] = MQENC_LITTLE_ENDIAN
    batch_messages: int = Field(default=200, ge=1, le=9_999)
    persistent: bool = True
    properties: Literal["none", "mqrfh2"] = "none"
    state_queue: ObjectName | None = None
    answer_missing: ObjectName | None = None
    state_timeout: float = Field(default=600, ge=0, le=86_400)
    priority: int | None = Field(default=None, ge=0, le=9)
    expiry: float | None = Field(default=None, gt=0, le=99_999_999)

    @model_validator(mode="after")
    def _queues_differ(self) -> "DestinationSettings":
        if self.state_queue is not None and self.state_queue == self.queue:
            raise ValueError("state_queue must not be the queue that messages are sent to")
        return self
