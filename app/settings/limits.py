"""The limits of the gateway's memory, disk and processes; expiry, retention, and the scrub of stored bytes."""

from datetime import timedelta

from pydantic import ByteSize, Field

from app.settings.section import Duration, Section


class Limits(Section):
    """The limits of the gateway.

    Receiving pauses while less than `free_bytes` of disk are free, or while more than `backlog_bytes` of messages are
    not yet on disk; uploads leave twice those `free_bytes`. A message goes to quarantine if its properties (names and
    values) are larger than `properties_bytes`, without the properties beyond that. Quarantined messages of up to
    `quarantine_body` are copied out of the journal. A file becomes at most `expansion` times as many bytes of
    observations, or 64 MiB. At most `conversions` of data sets run at once, each in a process
    with `conversion_memory` and `conversion_time`; `conversions_waiting` may wait. At most `queries` of tables run
    in addition, all but one of them for one client. At most `uploads` are received and `downloads` of stored content
    are sent at once; there are at most `resumable_uploads`. Of them a client (a key, a token, or all without
    one) has at most `resumable_uploads_a_client`, with `resumable_bytes_a_client`."""

    backlog_bytes: ByteSize = Field(default=ByteSize(32 << 20), ge=1 << 20)
    free_bytes: ByteSize = Field(default=ByteSize(256 << 20), ge=0)
    parts: int = Field(default=1_000_000, ge=1, le=2**31 - 1)
    attachments_a_message: int = Field(default=10_000, ge=1)
    properties_bytes: ByteSize = Field(default=ByteSize(64 << 10), ge=1024, le=1 << 20)
    upload_bytes: ByteSize = Field(default=ByteSize(16 << 30), ge=0)
    expansion: int = Field(default=500, ge=1)
    uploads: int = Field(default=64, ge=1)
    resumable_uploads: int = Field(default=1_000, ge=1)
    resumable_uploads_a_client: int = Field(default=200, ge=1)
    resumable_bytes_a_client: ByteSize = Field(default=ByteSize(64 << 30), ge=0)
    downloads: int = Field(default=64, ge=1)
    quarantine_body: ByteSize = Field(default=ByteSize(4 << 20), ge=0)
    conversions: int = Field(default=3, ge=1, le=256)
    queries: int = Field(default=2, ge=2, le=256)
    conversions_waiting: int = Field(default=64, ge=0)
    conversion_memory: ByteSize = Field(default=ByteSize(256 << 20), ge=64 << 20)
    conversion_time: Duration = Field(default=timedelta(minutes=5), ge=timedelta(seconds=1))


class ExpirySettings(Section):
    """How long an attachment may be without a new part before it expires, and how long its parts are kept after that.
    Only time in which its source could receive counts."""

    unfinished: Duration = timedelta(days=7)
    grace: Duration = timedelta(days=7)


class RetentionSettings(Section):
    """How long, and how much of, data that is no longer needed is kept; None means no limit. The quotas of quarantine
    hold for each source. `uploads` is the lifetime of resumable uploads from their beginning."""

    journal: Duration = timedelta(days=1)
    content: Duration | None = None
    content_bytes: ByteSize | None = None
    attachments: Duration | None = timedelta(days=90)
    expired: Duration | None = timedelta(days=90)
    deliveries: Duration | None = timedelta(days=30)
    quarantine: Duration | None = timedelta(days=30)
    quarantine_count: int | None = Field(default=10_000, ge=0)
    quarantine_bytes: ByteSize | None = ByteSize(256 << 20)
    events: Duration | None = timedelta(days=7)
    events_count: int | None = Field(default=1_000_000, ge=0)
    dead_letters: Duration | None = timedelta(days=30)
    uploads: Duration = Field(default=timedelta(days=1), ge=timedelta(seconds=1))


class Scrub(Section):
    """How stored bytes are read again and compared with their checksums: at most `rate` bytes a second, and everything
    once every `interval`."""

    enabled: bool = True
    rate: ByteSize = Field(default=ByteSize(4 << 20), ge=1 << 10)
    interval: Duration = timedelta(days=30)
