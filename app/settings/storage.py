"""Where journal, catalog, content and tables are stored, how the Spark pipeline works, and what it should receive."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ByteSize, Field, model_validator

from app import plugins
from app.secret import Changing, Secret
from app.settings.section import Duration, Name, Section

Quantity = Literal[
    "messages",
    "duplicates",
    "conflicts",
    "attachments_begun",
    "attachments_completed",
    "attachments_quarantined",
    "missing_ranges",
    "longest_seconds",
    "mean_seconds",
    "duplicate_share",
    "conflict_share",
    "quarantined_share",
]
"""Columns of the table `quality`; the mean time to complete an attachment (seconds); and shares from 0 to 1: of
duplicates and conflicts in the messages, and of quarantined attachments in those begun."""


class Expectation(Section):
    """A limit for a quantity of the table `quality`, checked for every source (or only this one) after each run.

    It covers the hours to which the run has added. A violation is a warning, or ends the run with an error."""

    quantity: Quantity
    at_most: float | None = None
    at_least: float | None = None
    source: Name | None = None
    action: Literal["warn", "fail"] = "warn"

    @model_validator(mode="after")
    def _has_a_limit(self) -> "Expectation":
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("give either at_most or at_least")
        return self


SEGMENTS_FOR_OTHERS = {"segment_bytes": ByteSize(64 << 20), "segment_age": timedelta(seconds=5)}
"""Defaults of the journal where others read it: Spark, or processes that do not receive. They see only sealed segments,
so these are sealed early."""


def _place(url: str) -> str:
    with suppress(plugins.PluginError):  # a start without it says what to install
        plugins.content_store().check_url(url)
    return url


def _database(url: Changing) -> Changing:
    with suppress(plugins.PluginError):
        plugins.catalog().check_url(url)
    return url


Place = Annotated[str, AfterValidator(_place)]
"""The path or the URL of a folder or a bucket. Nothing is opened."""


class JournalSettings(Section):
    """Where the journal lies, when a segment is sealed, and where sealed segments are archived before they are
    deleted.

    A `shared` journal is that of all processes which receive: each keeps what it has received in its own `folder`,
    until that is in the archive. With `ack = "archive"` it needs no disk: a message is acknowledged when the archive
    has it."""

    folder: Path | None = None
    archive_url: Place | None = None
    shared: bool = False
    ack: Literal["disk", "archive"] = "disk"
    segment_bytes: ByteSize = Field(default=ByteSize(256 << 20), ge=1 << 16)
    segment_age: Duration = timedelta(hours=1)


class CatalogSettings(Section):
    """The SQLAlchemy URL of the catalog. The user's name and the password of `url_file` are read again for each
    connection."""

    url: Annotated[Changing, AfterValidator(_database)] | None = None


class ContentSettings(Section):
    """Where finished content lies, and how long after completion it is copied there from the journal."""

    url: Place | None = None
    settle_after: Duration = timedelta(seconds=30)


class TableSettings(Section):
    """Where tables of data sets lie, and whether the gateway also offers them as an Iceberg REST catalog.

    Every `upkeep`, the gateway joins small files of all tables, divides large ones among sources, shortens their logs,
    and deletes files that were replaced longer than `keep_replaced` ago. That is a day at least, longer than any batch
    takes from writing a file to committing it, and a week at most: Delta's checkpoints do not name replaced files for
    longer.
    """

    url: str | None = None
    iceberg: bool = False
    upkeep: Duration = Field(default=timedelta(days=1), ge=timedelta(minutes=1))
    keep_replaced: Duration = Field(default=timedelta(days=7), ge=timedelta(days=1), le=timedelta(days=7))


class PipelineSettings(Section):
    """How Spark assembles.

    A micro-batch begins every `trigger` and reads at most `bytes_per_trigger` of the journal. A batch commits its
    results each time that it has read `commit_bytes`. Late duplicates of a
    finished attachment are recognised for `forget_finished`. Without `partitions`, Spark's own default holds.
    `checkpoint` is a folder or URL that the driver and all executors can reach. Segments from an object store are kept
    in the folder `cache` of each machine, at most `cache_bytes` of them.

    Metrics are offered to Prometheus at a port, in a file for its node exporter's textfile collector, or both.
    OpenLineage events are sent to `lineage_url`, with a bearer token if one is needed."""

    checkpoint: str | None = None
    trigger: Duration = timedelta(seconds=2)
    bytes_per_trigger: ByteSize = Field(default=ByteSize(256 << 20), ge=1 << 20)
    commit_bytes: ByteSize = Field(default=ByteSize(16 << 30), ge=1 << 20)
    forget_finished: Duration = timedelta(days=7)
    partitions: int | None = Field(default=None, ge=1)
    cache: Path | None = None
    cache_bytes: ByteSize = Field(default=ByteSize(4 << 30), ge=1 << 20)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    metrics_file: Path | None = None
    expectations: list[Expectation] = Field(default=[])
    lineage_url: str | None = None
    lineage_token: Secret | None = None
    lineage_namespace: str = "attachment-gateway"
