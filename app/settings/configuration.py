"""The whole configuration: all sections together, from a file's tables and the environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.settings.access import Audit, Oidc
from app.settings.http import Http
from app.settings.limits import Limits
from app.settings.retention import Expiry, Retention, Scrub
from app.settings.section import Section
from app.settings.setting_types import LineEnd, Name
from app.settings.standby import Standby
from app.settings.storage import (
    SEGMENTS_FOR_SPARK,
    CatalogSettings,
    ContentSettings,
    JournalSettings,
    PipelineSettings,
    TableSettings,
)
from app.settings.traces import TraceSettings
from app.settings.transports import Destination, Source
from app.settings.webhooks import Webhook

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

    `assembler` chooses what assembles attachments: this process, or a Spark job that reads the journal."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    data: Path = Path("var")
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
    expiry: Expiry = Expiry()
    retention: Retention = Retention()
    scrub: Scrub = Scrub()
    text: TextSettings = TextSettings()
    log: Log = Log()
    traces: TraceSettings = TraceSettings()
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
    def _seal_for_spark(cls, given: dict[str, Any]) -> dict[str, Any]:
        journal = given.get("journal", {})
        if given.get("assembler") != "spark" or not isinstance(journal, Mapping):
            return given
        return given | {"journal": SEGMENTS_FOR_SPARK | dict(journal)}

    @model_validator(mode="after")
    def _is_shared(self) -> Self:
        if self.standby is not None and not self.catalog_url.startswith("postgresql"):
            raise ValueError("standby needs catalog.url of a PostgreSQL: gateways on several machines share no SQLite")
        return self

    @property
    def journal_folder(self) -> Path:
        """The folder of the journal; by default within the data folder, as the places below."""
        return self.journal.folder or self.data / "journal"

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
        """Return the line end of a source's text files; the default for a source that is no longer configured."""
        own = self.sources[source].line_end if source in self.sources else None
        return self.text.line_end if own is None else own
