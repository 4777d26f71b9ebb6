"""Settings of TIB/Rendezvous sources and destinations. Durations are in seconds."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, field_validator

from app.codecs.rendezvous.subjects import checked_subject
from app.model.validation import PRINTABLE_ASCII, SOME_PRINTABLE_ASCII

_DEFAULT_PORT = 7500
_DEFAULT_HOST = "localhost"
_LONGEST_TEXT = 255

_listened: Callable[[str], str] = partial(checked_subject, wildcards=True)


class DaemonSettings(BaseModel):
    """Settings that sources and destinations share.

    `daemon` is the address of a Rendezvous daemon, as TIBCO's programs take it: `tcp:host:7500`, `host:7500` or a port
    of this machine. `service` and `network` are transport parameters; all clients of a daemon that use one service must
    use the same network. `user` is the name that the client gives itself; daemons do not check it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    daemon: str = f"tcp:{_DEFAULT_HOST}:{_DEFAULT_PORT}"
    service: str = Field(
        default=str(_DEFAULT_PORT), min_length=1, max_length=_LONGEST_TEXT, pattern=SOME_PRINTABLE_ASCII
    )
    network: str = Field(default="", max_length=_LONGEST_TEXT, pattern=PRINTABLE_ASCII)
    user: str = Field(
        default="attachment-gateway", min_length=1, max_length=_LONGEST_TEXT, pattern=SOME_PRINTABLE_ASCII
    )
    connect_timeout: float = Field(default=10, gt=0, le=300)

    @field_validator("daemon")
    @classmethod
    def _is_address(cls, daemon: str) -> str:
        _address(daemon)
        return daemon

    @property
    def host(self) -> str:
        return _address(self.daemon)[0]

    @property
    def port(self) -> int:
        return _address(self.daemon)[1]


def _address(daemon: str) -> tuple[str, int]:
    text = daemon.removeprefix("tcp:")
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdigit():
        host, port = text, str(_DEFAULT_PORT)
    if "/" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{daemon!r}: write tcp:host:7500")
    return host.strip("[]") or _DEFAULT_HOST, int(port)


class SourceSettings(DaemonSettings):
    """A TIB/Rendezvous source.

    `subject` is one subject or several, with the wildcards `*` and `>`. Messages of more than `max_message` bytes are
    quarantined with their first bytes. What arrives and waits for the journal is held in memory, up to `buffer`: beyond
    that messages are dropped and counted, since a client that does not read stops the daemon for every other client.
    """

    subject: Annotated[
        list[Annotated[str, AfterValidator(_listened)]],
        BeforeValidator(
            lambda given: [given] if isinstance(given, str) else given, json_schema_input_type=str | list[str]
        ),
        Field(min_length=1),
    ]
    max_message: ByteSize = Field(default=ByteSize(64 << 20), ge=1024, le=(1 << 30) - 1)
    buffer: ByteSize = Field(default=ByteSize(64 << 20), ge=1 << 20)


class DestinationSettings(DaemonSettings):
    """A TIB/Rendezvous destination.

    Sending fails when the daemon has not taken messages within `send_timeout`. `max_message` bounds a message as the
    receiving program takes it.
    """

    subject: Annotated[str, AfterValidator(checked_subject)]
    max_message: ByteSize = Field(default=ByteSize(64 << 20), ge=1024, le=(1 << 30) - 1)
    send_timeout: float = Field(default=30, gt=0, le=3600)
