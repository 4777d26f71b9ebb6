"""Expiry, retention, and the scrub that reads stored bytes again."""

from datetime import timedelta

from pydantic import ByteSize, Field

from app.settings.section import Section
from app.settings.setting_types import Duration


class Expiry(Section):
    """How long an attachment may be without a new part before it expires, and how long its parts are kept after that.
    Only time in which its source could receive counts."""

    unfinished: Duration = timedelta(days=7)
    grace: Duration = timedelta(days=7)


class Retention(Section):
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
