"""The configuration: one TOML file and the environment, of which the environment wins.

`ATTACHMENT_GATEWAY_HTTP__PORT=8081` is `port` of `[http]`. Any value may lie in a file of its own, as secrets do:
`password_file = "/run/secrets/mq"` is `password` with what that file holds. Sizes are bytes or such words as "64 MiB",
durations seconds or such words as "1h30m".
"""

import os
import re
import tomllib
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    SerializeAsAny,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app import plugins
from app.codecs.sas.dialect import Dialect
from app.framing.registry import framing
from app.model.attachment import DataSetVersion
from app.model.records import DEFAULT_FRAMING, GroupedAs

ENVIRONMENT_PREFIX = "ATTACHMENT_GATEWAY_"
_OF_THE_COMMAND_LINE = {"CONFIG", "URL", "TOKEN"}
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(?:\s*\d+(?:\.\d+)?\s*(?:ms|[smhdw]))+\s*")
_DURATION_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])")
_LONGEST_YEARS = 1000


class Problem(NamedTuple):
    """One thing wrong with the configuration: `place` is dotted (`sources.orders.url`), empty for the whole."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}" if self.place else self.why


class SettingsError(Exception):
    """Everything that is wrong with the configuration, at once."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def _duration(given: object) -> object:
    if isinstance(given, str) and _DURATION.fullmatch(given):
        given = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PIECE.findall(given))
    elif isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            raise ValueError(f"{given!r} is no duration; write such as 30s, 1h30m or 7d, or seconds") from None
    if isinstance(given, int | float) and not 0 <= given <= _LONGEST_YEARS * 365 * 86400:
        raise ValueError(f"a duration lies between 0 and {_LONGEST_YEARS} years")
    return given


def _dialect(name: str) -> str:
    return Dialect.parse(name).name


def _framing(name: str) -> str:
    try:
        return framing(name).traits.name
    except KeyError as error:
        raise ValueError(str(error)) from None


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{64}$", to_lower=True, strip_whitespace=True)]
DialectName = Annotated[str, AfterValidator(_dialect)]
FramingName = Annotated[str, AfterValidator(_framing)]
LineEnd = Literal["\n", "\r\n", "\r", ""]


def microseconds(duration: timedelta) -> int:
    """A duration in the unit of `Clock.now`."""
    return duration // timedelta(microseconds=1)


def _with_files(given: Any, model: type[BaseModel]) -> Any:
    """The same table with each `key_file` replaced by `key`, as far as the model has the one and not the other."""
    if not isinstance(given, Mapping):
        return given
    table = dict(given)
    for key in [key for key in table if key.endswith("_file") and key not in model.model_fields]:
        stem = key.removesuffix("_file")
        if stem not in model.model_fields:
            continue
        path = table.pop(key)
        if stem in table:
            raise ValueError(f"give {stem} or {key}, not both")
        try:
            text = Path(path).read_text().strip()
        except (OSError, TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"{key}: cannot read {path!r}: {error}") from None
        table[stem] = text.split() if "list" in str(model.model_fields[stem].annotation) else text
    for key, within in _tables_of(model).items():
        if isinstance(table.get(key), list):
            table[key] = [_with_files(each, within) for each in table[key]]
    return table


def _tables_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The fields of a model that are lists of tables, with the tables' model."""
    found = {name: get_args(field.annotation)[:1] for name, field in model.model_fields.items()}
    return {
        name: kinds[0]
        for name, kinds in found.items()
        if kinds and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)
    }


class Section(BaseModel):
    """A table of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _files(cls, given: Any) -> Any:
        return _with_files(given, cls)


class Http(Section):
    """Where REST listens. `tokens` are SHA-256 digests of the bearer tokens that may enter; none lets everyone in.

    `connections` may be open at once, of which the longest idle makes room for a new one. A request's head has at most
    `header_bytes` and `header_timeout` to come; a client that neither sends nor takes what is due is gone after
    `stall_timeout`."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    tokens: list[Digest] = []
    connections: int = Field(default=500, ge=1)
    header_bytes: ByteSize = Field(default=ByteSize(64 << 10), ge=4 << 10, le=16 << 20)
    header_timeout: Duration = Field(default=timedelta(seconds=15), ge=timedelta(milliseconds=100))
    stall_timeout: Duration = Field(default=timedelta(seconds=60), ge=timedelta(milliseconds=100))


class JournalSettings(Section):
    """Where the journal lies, when a segment is sealed, and where sealed ones are copied to before they go."""

    folder: Path | None = None
    archive_url: str | None = None
    segment_bytes: ByteSize = Field(default=ByteSize(256 << 20), ge=1 << 16)
    segment_age: Duration = timedelta(hours=1)


class CatalogSettings(Section):
    """The catalog's SQLAlchemy address."""

    url: str | None = None


class ContentSettings(Section):
    """Where finished content lies, and how long after finishing it is copied there from the journal."""

    url: str | None = None
    settle_after: Duration = timedelta(seconds=30)


class TableSettings(Section):
    """Where tables of data sets lie."""

    url: str | None = None


class PipelineSettings(Section):
    """How Spark assembles. A micro-batch begins every `trigger` and takes at most `bytes_per_trigger` of the journal;
    late duplicates of a finished attachment are known for what they are for `forget_finished`. `partitions` of None are
    as many as Spark's own default; `checkpoint` is a folder or URL that the driver and all executors reach."""

    checkpoint: str | None = None
    trigger: Duration = timedelta(seconds=2)
    bytes_per_trigger: ByteSize = Field(default=ByteSize(256 << 20), ge=1 << 20)
    forget_finished: Duration = timedelta(days=7)
    partitions: int | None = Field(default=None, ge=1)


class Limits(Section):
    """What bounds the gateway. Below `free_bytes` of room, or above `backlog_bytes` of messages that are not yet on
    disk, nothing more is taken from a broker; no upload may take of those `free_bytes`. A message whose properties,
    names and values, take more than `properties_bytes` goes to quarantine without those that are beyond it.
    Quarantined messages of up to `quarantine_body` are copied out of the journal. `conversions` of data sets run at
    once, each in a process of `conversion_memory` for at most `conversion_time`; `conversions_waiting` may wait."""

    backlog_bytes: ByteSize = Field(default=ByteSize(32 << 20), ge=1 << 20)
    free_bytes: ByteSize = Field(default=ByteSize(256 << 20), ge=0)
    parts: int = Field(default=1_000_000, ge=1, le=2**31 - 1)
    attachments_a_message: int = Field(default=10_000, ge=1)
    properties_bytes: ByteSize = Field(default=ByteSize(64 << 10), ge=1024, le=1 << 20)
    upload_bytes: ByteSize = Field(default=ByteSize(16 << 30), ge=0)
    attachments_in_memory: int = Field(default=5_000, ge=100)
    quarantine_body: ByteSize = Field(default=ByteSize(4 << 20), ge=0)
    conversions: int = Field(default=3, ge=1, le=256)
    conversions_waiting: int = Field(default=64, ge=0)
    conversion_memory: ByteSize = Field(default=ByteSize(256 << 20), ge=64 << 20)
    conversion_time: Duration = Field(default=timedelta(minutes=5), ge=timedelta(seconds=1))


class Expiry(Section):
    """How long an attachment may go without a new part before it expires, and how long its parts are kept then. Only
    time counts in which its source could receive."""

    unfinished: Duration = timedelta(days=7)
    grace: Duration = timedelta(days=7)


class Retention(Section):
    """How long what is done with is kept, and how much of it at most; None is for ever, and any amount. The quotas of
    quarantine are for each source."""

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


class Scrub(Section):
    """How what lies still is read again and compared with its digests: at most `rate` bytes a second, and all of it
    once every `interval`."""

    enabled: bool = True
    rate: ByteSize = Field(default=ByteSize(4 << 20), ge=1 << 10)
    interval: Duration = timedelta(days=30)


class Text(Section):
    """What joins the records of text files."""

    line_end: LineEnd = "\n"


class Log(Section):
    """How the gateway speaks of itself; "auto" is console on a terminal and JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


_TRANSPORTS = ContextVar("transports", default=True)
"""Whether transports, and what the configuration says to them, are looked at."""


class Endpoint(Section):
    """What sources and destinations share. `options` are the transport's own keys, which stand beside the others."""

    options_field: ClassVar[Literal["source_settings", "destination_settings"]]

    transport: str
    framing: FramingName = DEFAULT_FRAMING
    options: SerializeAsAny[BaseModel]

    @model_validator(mode="before")
    @classmethod
    def _gather_options(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "options" in given:
            return given
        own = {key: value for key, value in given.items() if key in cls.model_fields}
        return own | {"options": {key: value for key, value in given.items() if key not in cls.model_fields}}

    @field_validator("transport")
    @classmethod
    def _known(cls, name: str) -> str:
        if not _TRANSPORTS.get():
            return name
        try:
            plugins.transport(name)
        except plugins.PluginError as error:
            raise ValueError(str(error)) from error
        return name

    @field_validator("options", mode="plain")
    @classmethod
    def _by_transport(cls, given: Any, info: ValidationInfo) -> BaseModel:
        if "transport" not in info.data or not _TRANSPORTS.get():
            return Section()
        model: type[BaseModel] = getattr(plugins.transport(info.data["transport"]), cls.options_field)
        return given if isinstance(given, model) else model.model_validate(_with_files(given, model))


class Source(Endpoint):
    """A place to receive from. `dialect`, `ccsid` and `encoding` are what its messages mean where they do not say it
    themselves; a dialect that is not given is detected."""

    options_field = "source_settings"

    dialect: DialectName | None = None
    ccsid: int | None = Field(default=None, ge=1, le=65535)
    encoding: int | None = Field(default=None, ge=0)
    line_end: LineEnd | None = None


class Destination(Endpoint):
    """A place to send to. `body_limit` bounds a physical message's body and `record_length` a record's, in bytes;
    `attempts` of 0 tries for ever, pausing from `retry_first` up to `retry_longest`. `group` says what a
    framing that has groups makes of a file: the messages of a group, or the segments of one message.
    `data_set_version` is the version of SAS data sets that the receiving program reads."""

    options_field = "destination_settings"

    dialect: DialectName = "big-4-excluded-packed"
    ccsid: int = Field(default=1208, ge=1, le=65535)
    encoding: int = Field(default=273, ge=0)
    body_limit: int = Field(default=32000, ge=1024, le=100 << 20)
    record_length: int | None = Field(default=None, ge=1)
    group: GroupedAs = "messages"
    data_set_version: DataSetVersion = "V9"
    attempts: int = Field(default=0, ge=0)
    retry_first: Duration = timedelta(seconds=1)
    retry_longest: Duration = timedelta(minutes=5)


SEGMENTS_FOR_SPARK = {"segment_bytes": ByteSize(64 << 20), "segment_age": timedelta(seconds=5)}
"""Spark sees only sealed segments: what it is to assemble soon has to be sealed soon."""


class Settings(BaseSettings):
    """The whole configuration. Values given to the constructor are the file's: the environment wins over them.

    What `assembler` names puts attachments together: this process, or a Spark job that reads the journal."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    data: Path = Path("var")
    assembler: Literal["embedded", "spark"] = "embedded"
    http: Http = Http()
    journal: JournalSettings = JournalSettings()
    catalog: CatalogSettings = CatalogSettings()
    content: ContentSettings = ContentSettings()
    tables: TableSettings = TableSettings()
    pipeline: PipelineSettings = PipelineSettings()
    limits: Limits = Limits()
    expiry: Expiry = Expiry()
    retention: Retention = Retention()
    scrub: Scrub = Scrub()
    text: Text = Text()
    log: Log = Log()
    sources: dict[Name, Source] = {}
    destinations: dict[Name, Destination] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings

    @model_validator(mode="before")
    @classmethod
    def _seal_for_spark(cls, given: dict[str, Any]) -> dict[str, Any]:
        journal = given.get("journal", {})
        if given.get("assembler") != "spark" or not isinstance(journal, Mapping):
            return given
        return given | {"journal": SEGMENTS_FOR_SPARK | dict(journal)}

    @property
    def journal_folder(self) -> Path:
        return self.journal.folder or self.data / "journal"

    @property
    def catalog_url(self) -> str:
        return self.catalog.url or f"sqlite:///{self.data / 'catalog.sqlite'}"

    @property
    def content_url(self) -> str:
        return self.content.url or (self.data / "content").absolute().as_uri()

    @property
    def tables_url(self) -> str:
        return self.tables.url or (self.data / "tables").absolute().as_uri()

    @property
    def pipeline_checkpoint(self) -> str:
        return self.pipeline.checkpoint or str((self.data / "pipeline").absolute())

    def line_end(self, source: str) -> str:
        """What joins the records of a source's text files; sources that are no more have the default."""
        own = self.sources[source].line_end if source in self.sources else None
        return self.text.line_end if own is None else own


def load(path: Path | None = None, *, transports: bool = True) -> Settings:
    """The settings of this file (none: the defaults) and the environment. Raises SettingsError with all problems.

    Without `transports` nothing is said of how brokers are reached: who only assembles needs neither their client
    libraries nor their secrets.
    """
    problems = [
        Problem(name, "no such setting")
        for name in os.environ
        if name.startswith(ENVIRONMENT_PREFIX) and not _is_known(name.removeprefix(ENVIRONMENT_PREFIX))
    ]
    looked_at = _TRANSPORTS.set(transports)
    try:
        settings = Settings(**_table(path))
    except ValidationError as error:
        problems += [Problem(_place(detail["loc"]), _why(detail)) for detail in error.errors(include_url=False)]
    except ValueError as error:
        problems.append(Problem("environment", str(error)))
    finally:
        _TRANSPORTS.reset(looked_at)
    if problems:
        raise SettingsError(problems)
    return settings


def _is_known(name: str) -> bool:
    return name in _OF_THE_COMMAND_LINE or name.lower().partition("__")[0] in Settings.model_fields


def _table(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError([Problem(str(path), f"cannot be read: {error.strerror}")]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError([Problem(str(path), f"is not TOML: {error}")]) from error


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(step) for step in location if step not in ("options", "[key]"))


def _why(detail: Any) -> str:
    known = {"extra_forbidden": "no such setting", "missing": "is required"}
    return known.get(detail["type"], str(detail["msg"]).removeprefix("Value error, "))
