"""The REST interface: where it listens, who may enter, and how long clients may take."""

from datetime import timedelta

from pydantic import ByteSize, Field

from app.settings.section import Section
from app.settings.values import Digest, Duration


class Http(Section):
    """Where REST listens. `tokens` are SHA-256 digests of the accepted bearer tokens; without any, everyone may enter.

    At most `connections` are open at once; a new one replaces the one that is idle for longest. The head of a request
    is limited to `header_bytes` and must arrive within `header_timeout`. A client that neither sends nor reads is
    disconnected after `stall_timeout`."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    tokens: list[Digest] = Field(default=[])
    connections: int = Field(default=500, ge=1)
    header_bytes: ByteSize = Field(default=ByteSize(64 << 10), ge=4 << 10, le=16 << 20)
    header_timeout: Duration = Field(default=timedelta(seconds=15), ge=timedelta(milliseconds=100))
    stall_timeout: Duration = Field(default=timedelta(seconds=60), ge=timedelta(milliseconds=100))
