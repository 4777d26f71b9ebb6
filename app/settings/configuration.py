"""The whole configuration: all sections together, with roles, standby gateways, traces, receipts, texts and the
log."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.framing.registry import framing
from app.model.attachment import AttachmentKind
from app.secret import Secret
from app.settings.http import Audit, Http, Oidc
from app.settings.limits import ExpirySettings, Limits, RetentionSettings, Scrub
from app.settings.section import Duration, LineEnd, Name, Section, all_errors
from app.settings.storage import (
    SEGMENTS_FOR_OTHERS,
    CatalogSettings,
    ContentSettings,
    JournalSettings,
    PipelineSettings,
    TableSettings,
)
from app.settings.transports import Destination, Source
from app.settings.webhooks import Webhook


class Role(StrEnum):
    """A role of a process, which has all of them unless the settings divide them among several.

    - `receive`: from brokers to the journal, assembly, finishing, and the journal's own upkeep.
    - `serve`: REST, the console, and sending.
    - `keep`: what must be done once: retention, expiry, scrubbing, webhooks, records, settling, the lines of events.
    """

    RECEIVE = "receive"
    SERVE = "serve"
    KEEP = "keep"


ALL_ROLES: Final = frozenset(Role)


class Standby(Section):
    """Several gateways with one journal, of which the holder of a lease in the catalog is active.

    The holder renews the lease every sixth of `duration`. If that fails for two thirds of it, it ends at once. Another
    gateway takes over when the lease has not been renewed for `duration`."""

    duration: Duration = Field(default=timedelta(seconds=15), ge=timedelta(seconds=1), le=timedelta(hours=1))


class TraceSettings(Section):
    """Whether spans are exported, and the share of attachments and of sending requests without a `traceparent` that
    get a trace of their own. OpenTelemetry's environment variables (`OTEL_*`) say where spans go."""

    enabled: bool = False
    ratio: float = Field(default=0.0, ge=0, le=1)


def _key(given: Secret) -> Secret:
    from app.codecs.receipts.cose import private_key  # noqa: PLC0415 - most gateways make no receipts

    private_key(given.get_secret_value())
    return given


class ReceiptSettings(Section):
    """Receipts for finished attachments and sent deliveries; the table switches them on.

    `key` is an Ed25519 private key in PEM, which `key_file` reads from a file, again at each use. `issuer` names this
    gateway in receipts. With `events`, the event `receipt.made` is logged for each receipt even if no webhook gets it.
    `send_back` has for a source the destination to which the receipts of its attachments are sent, as files."""

    key: Annotated[Secret, AfterValidator(_key)]
    issuer: str = Field(default="attachment-gateway", min_length=1, max_length=200)
    events: bool = False
    send_back: dict[Name, Name] = Field(default={})


ENVIRONMENT_PREFIX = "ATTACHMENT_GATEWAY_"


class TextSettings(Section):
    """The line end that joins the records of text files."""

    line_end: LineEnd = "\n"


class Log(Section):
    """The gateway's log; "auto" is console on a terminal and JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


class Settings(BaseSettings):
    """The whole configuration. The constructor reads only what it is given: `load` adds file and environment.

    `roles` says what this process does; the others are done by other processes, with the same settings otherwise.
    `assembler` chooses what assembles attachments: the process that receives, or a Spark job that reads the journal."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    data: Path = Path("var")
    roles: frozenset[Role] = ALL_ROLES
    assembler: Literal["embedded", "spark"] = "embedded"
    http: Http = Http()
    oidc: Oidc | None = None
    audit: Audit = Audit()
    standby: Standby | None = None
    journal: JournalSettings = JournalSettings()
    catalog: CatalogSettings = CatalogSettings()
    content: ContentSettings = ContentSettings()
    tables: TableSettings = TableSettings()
    pipeline: PipelineSettings = PipelineSettings()
    limits: Limits = Limits()
    expiry: ExpirySettings = ExpirySettings()
    retention: RetentionSettings = RetentionSettings()
    scrub: Scrub = Scrub()
    text: TextSettings = TextSettings()
    log: Log = Log()
    traces: TraceSettings = TraceSettings()
    receipts: ReceiptSettings | None = None
    sources: dict[Name, Source] = {}
    destinations: dict[Name, Destination] = {}
    webhooks: dict[Name, Webhook] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where values of the constructor come from."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _seal_early(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Seal segments early where other processes read the journal: they see only sealed ones."""
        journal, roles = given.get("journal", {}), given.get("roles", ALL_ROLES)
        is_divided = isinstance(roles, Collection) and {str(role) for role in roles} != ALL_ROLES
        if not isinstance(journal, Mapping):
            return given
        if not (is_divided or given.get("assembler") == "spark" or journal.get("shared")):
            return given
        return given | {"journal": SEGMENTS_FOR_OTHERS | dict(journal)}

    @model_validator(mode="after")
    def _is_shared(self) -> Self:
        if self.standby is not None and not self.is_catalog_shared:
            raise ValueError("standby needs catalog.url of a PostgreSQL: gateways on several machines share no SQLite")
        return self

    @model_validator(mode="after")
    def _is_divided(self) -> Self:
        if not self.roles:
            raise ValueError(f"roles must name at least one of {', '.join(Role)}")
        if self.is_divided and not self.is_catalog_shared and self.roles != {Role.SERVE}:
            raise ValueError(
                f"roles {', '.join(sorted(self.roles))} need catalog.url of a PostgreSQL, which processes with other "
                "roles use, too; only serve alone may read a catalog in a file, which no other process writes"
            )
        if self.journal.shared and not self.is_catalog_shared:
            raise ValueError("journal.shared needs catalog.url of a PostgreSQL, which all receivers use")
        if self.journal.ack == "archive" and not self.journal.shared:
            raise ValueError('journal.ack = "archive" needs journal.shared')
        if self.journal.shared and self.standby is not None:
            raise ValueError(
                "journal.shared and standby exclude each other: of several receivers none is the active one"
            )
        if (self.is_divided or self.journal.shared) and self.is_catalog_shared:
            needed = {"content.url": self.content.url, "journal.archive_url": self.journal.archive_url}
            if self.assembler == "spark":
                needed["tables.url"] = self.tables.url
            if missing := [name for name, value in needed.items() if value is None]:
                who = "journal.shared needs" if self.journal.shared else f"roles {', '.join(sorted(self.roles))} need"
                raise ValueError(
                    f"{who} {' and '.join(missing)}: places that all processes reach, an object store or a folder that "
                    "they share"
                )
        return self

    @model_validator(mode="after")
    def _is_received_together(self) -> Self:
        found = {name: source.unshared for name, source in self.sources.items()} if self.journal.shared else {}
        if problems := [
            (("sources", name), f"journal.shared: {why}") for name, why in found.items() if why is not None
        ]:
            raise all_errors(problems)
        return self

    @model_validator(mode="after")
    def _paths_agree(self) -> Self:
        for name, source in self.sources.items():
            if source.same_as is None:
                continue
            other = self.sources.get(source.same_as)
            if other is None or other.same_as is not None or other is source:
                raise ValueError(
                    f"sources.{name}.same_as must name another source, which has none itself, not {source.same_as!r}"
                )
            if other.framing != source.framing:
                raise ValueError(
                    f"sources.{name} has the framing {source.framing}, and {source.same_as}, which it is the same as, "
                    f"has {other.framing}"
                )
        return self

    @model_validator(mode="after")
    def _receipts_have_a_way_back(self) -> Self:
        replying = sorted(name for name, each in self.sources.items() if each.reply_receipts)
        if replying and self.receipts is None:
            raise ValueError(f"sources.{replying[0]}.reply_receipts needs the table [receipts], which makes receipts")
        for source, destination in ({} if self.receipts is None else self.receipts.send_back).items():
            if destination not in self.destinations:
                raise ValueError(f"receipts.send_back.{source} must name a destination, not {destination!r}")
            name = self.destinations[destination].framing
            if AttachmentKind.BINARY_FILE not in framing(name).kinds:
                raise ValueError(f"receipts.send_back.{source}: {name}, the framing of {destination}, carries no files")
        return self

    def named(self, source: str) -> str:
        """Return the name that messages of a source have: its own, or that of the source that it is the same as."""
        return (source in self.sources and self.sources[source].same_as) or source

    @property
    def is_divided(self) -> bool:
        """Whether other processes have roles that this one has not."""
        return self.roles != ALL_ROLES

    @property
    def is_sole_receiver(self) -> bool:
        """Whether this process receives, and no other one into the same journal."""
        return Role.RECEIVE in self.roles and not self.journal.shared

    @property
    def is_catalog_shared(self) -> bool:
        """Whether several processes may use the catalog."""
        return self.catalog_url.startswith("postgresql")

    @property
    def journal_folder(self) -> Path:
        """The folder of the journal; by default within the data folder, as the places below."""
        return self.journal.folder or self.data / "journal"

    @property
    def archive_cache(self) -> Path:
        """The folder of copies of an archive's segments."""
        return self.pipeline.cache or self.data / "archive-cache"

    @property
    def audit_folder(self) -> Path:
        """The folder of the audit log."""
        return self.data / "audit"

    @property
    def catalog_url(self) -> str:
        """The SQLAlchemy URL of the catalog."""
        return self.catalog.url or f"sqlite:///{self.data / 'catalog.sqlite'}"

    @property
    def content_url(self) -> str:
        """The URL of the content store."""
        return self.content.url or (self.data / "content").absolute().as_uri()

    @property
    def tables_url(self) -> str:
        """The URL of the table store."""
        return self.tables.url or (self.data / "tables").absolute().as_uri()

    @property
    def pipeline_checkpoint(self) -> str:
        """The folder or URL of the streaming pipeline's checkpoint."""
        return self.pipeline.checkpoint or str((self.data / "pipeline").absolute())

    def line_end(self, source: str) -> str:
        """Return the line end of a source's text files; the default for a source that is not configured."""
        own = self.sources[source].line_end if source in self.sources else None
        return self.text.line_end if own is None else own
