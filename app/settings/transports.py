"""Sources and destinations: the gateway's own keys, and the keys of their transports."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from app import plugins
from app.framing.registry import framing
from app.model.attachment import DataSetVersion
from app.model.evidence import OnDoubt
from app.model.records import DEFAULT_FRAMING, GroupedAs
from app.settings.section import (
    CountingRule,
    DialectName,
    Duration,
    FramingName,
    LineEnd,
    Name,
    Section,
    all_errors,
    with_files,
)

_ADDRESSES = ("topic", "queue", "subject")
"""The options that name what a transport receives from or sends to."""
_VALIDATE_TRANSPORTS = ContextVar("validate_transports", default=True)
"""Whether transports are loaded, and their own keys validated."""


@contextmanager
def validating_transports(*, enabled: bool) -> Iterator[None]:
    """Load transports and validate their keys within this block, or (not `enabled`) ignore both."""
    before = _VALIDATE_TRANSPORTS.set(enabled)
    try:
        yield
    finally:
        _VALIDATE_TRANSPORTS.reset(before)


def are_transports_validated() -> bool:
    """Tell whether this is a program that connects: others need no secret, no certificate and no client library."""
    return _VALIDATE_TRANSPORTS.get()


class Endpoint(Section):
    """The keys that sources and destinations share. `options` holds the keys of the transport, which are in the same
    table of the configuration."""

    options_field: ClassVar[Literal["source_settings", "destination_settings"]]

    transport: str
    framing: FramingName = DEFAULT_FRAMING
    options: SerializeAsAny[BaseModel]

    @property
    def address(self) -> str:
        """The topic, queue or subject, or several with commas between; empty where the transport has none of these."""
        found = next((value for key in _ADDRESSES if (value := getattr(self.options, key, None)) is not None), "")
        return found if isinstance(found, str) else ",".join(found)

    @model_validator(mode="before")
    @classmethod
    def _gather_options(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "options" in given:
            return given
        own = {key: value for key, value in given.items() if key in cls.model_fields}
        others = {key: value for key, value in given.items() if key not in cls.model_fields}
        return own | {"options": _Options(others, given.get("transport"))}

    @field_validator("transport")
    @classmethod
    def _known(cls, name: str) -> str:
        if not _VALIDATE_TRANSPORTS.get():
            return name
        try:
            plugins.transport(name)
        except plugins.PluginError as error:
            raise ValueError(str(error)) from error
        return name

    @field_validator("options", mode="plain")
    @classmethod
    def _by_transport(cls, given: Any, info: ValidationInfo) -> BaseModel:
        if not _VALIDATE_TRANSPORTS.get():
            return Section()
        named = given.transport if isinstance(given, _Options) else info.data.get("transport")
        model = plugins.transport_settings(named, cls.options_field) if isinstance(named, str) else None
        if model is not None:
            return given if isinstance(given, model) else model.model_validate(with_files(given, model))
        if "transport" not in info.data and isinstance(given, Mapping):
            # A wrong name of the transport does not hide keys that no transport has.
            models = [plugins.transport_settings(name, cls.options_field) for name in plugins.names("transport")]
            known = {key for each in models if each is not None for key in each.model_fields}
            unknown = [key for key in given if key not in known and key.removesuffix("_file") not in known]
            if unknown and None not in models:
                raise all_errors([((key,), "no such setting, whatever the transport") for key in unknown])
        return Section()


class _Options(dict[str, Any]):
    """The keys of a transport, and its name, whether there is one of this name or not."""

    def __init__(self, keys: Mapping[str, Any], transport: object) -> None:
        super().__init__(keys)
        self.transport = transport


class Source(Endpoint):
    """A place to receive from. `dialect`, `ccsid` and `encoding` apply to messages that do not state them. A
    dialect that is not given is detected, and also what the last messages of attachments on TIB/Rendezvous count
    (`counts`). `on_doubt` holds attachments in doubt, or finishes them with a warning; by default it holds attachments
    that may lack bytes.

    An attachment that got no message for `request_missing_after`, in time in which its source could receive, lacks what
    has not come: its sender is asked for it, at most `request_missing_most` times, with pauses that double. At most
    `request_missing_rate` attachments of a source are asked for in a minute. With `reply_receipts`, at most as many
    receipts in a minute go to the senders of its attachments, where `request_missing_to` allows it.

    A source that is the `same_as` another one is a second path of the same messages: what it brings has the name of the
    other, whose settings say how it is read."""

    options_field = "source_settings"

    HOW_IT_IS_READ: ClassVar = (
        "dialect",
        "ccsid",
        "encoding",
        "line_end",
        "on_doubt",
        "counts",
        "request_missing_after",
        "reply_receipts",
    )

    dialect: DialectName | None = None
    ccsid: int | None = Field(default=None, ge=1, le=65535)
    encoding: int | None = Field(default=None, ge=0)
    line_end: LineEnd | None = None
    on_doubt: OnDoubt | None = None
    counts: CountingRule | None = None
    same_as: Name | None = None
    request_missing_after: Duration | None = None
    request_missing_rate: int = Field(default=600, ge=1, le=100_000)
    request_missing_most: int = Field(default=6, ge=1, le=100)
    reply_receipts: bool | None = None

    @property
    def unshared(self) -> str | None:
        """Why several receivers cannot share this source, or None if they can."""
        if framing(self.framing).traits.numbered_on_arrival:
            return (
                f"messages of the framing {self.framing} are numbered in the order in which they arrive, so one "
                "receiver must get all of them; let a gateway with a journal of its own receive them"
            )
        reason: str | None = getattr(self.options, "unshared", None)
        return reason

    @model_validator(mode="after")
    def _has_levels_below_its_topics(self) -> Self:
        topics = getattr(self.options, "topic", None) or []
        if framing(self.framing).traits.told_by_topic and any(not topic.endswith("/#") for topic in topics):
            raise ValueError(f"the topics of the framing {self.framing} end with /#, which stands for its commands")
        return self

    @field_validator("counts")
    @classmethod
    def _counts_something(cls, rule: str | None, info: ValidationInfo) -> str | None:
        name = info.data.get("framing")
        if rule is not None and name is not None and not framing(name).traits.numbered_on_arrival:
            raise ValueError(f"the framing {name} has no last messages that count; remove it")
        return rule

    @field_validator("request_missing_after")
    @classmethod
    def _can_be_asked(cls, after: timedelta | None, info: ValidationInfo) -> timedelta | None:
        name = info.data.get("framing")
        if after is not None and after < timedelta(seconds=1):
            raise ValueError("give at least 1 second")
        if after is not None and name is not None and not framing(name).names_missing:
            raise ValueError(f"the framing {name} has no numbers by which a sender can be asked; remove it")
        return after

    @model_validator(mode="after")
    def _may_reply(self) -> Self:
        if self.reply_receipts and not getattr(self.options, "request_missing_to", None):
            raise ValueError("reply_receipts: request_missing_to must allow the addresses to which receipts may go")
        return self

    @model_validator(mode="after")
    def _is_read_as_the_other(self) -> Self:
        own = [key for key in self.HOW_IT_IS_READ if getattr(self, key) is not None]
        if self.same_as is not None and own:
            raise ValueError(f"{' and '.join(own)} of sources.{self.same_as} say how it is read: remove them here")
        if self.same_as is not None and framing(self.framing).traits.numbered_on_arrival:
            raise ValueError(f"messages of the framing {self.framing} are numbered by each source: it has no same_as")
        return self


class Destination(Endpoint):
    """A place to send to.

    `body_limit` bounds the body of a part and `record_length` a record, in bytes. `attempts` bounds the attempts after
    the last one in which the broker took messages; 0 tries for ever. Pauses last from `retry_first` up to
    `retry_longest`. `group` chooses what a framing with groups makes
    of a file: the messages of a group, or the segments of one message. `data_set_version` is the version of SAS data
    sets that the receiving program reads. If `ordered`, a delivery waits until the one before it has ended. At most
    `answer_missing_rate` requests of receivers for missing parts are answered in a minute."""

    options_field = "destination_settings"

    dialect: DialectName = "big-4-excluded-packed"
    ccsid: int = Field(default=1208, ge=1, le=65535)
    encoding: int = Field(default=273, ge=0)
    body_limit: int = Field(default=32000, ge=1024, le=100 << 20)
    record_length: int | None = Field(default=None, ge=1)
    group: GroupedAs = "messages"
    data_set_version: DataSetVersion = "V9"
    ordered: bool = False
    attempts: int = Field(default=0, ge=0)
    retry_first: Duration = timedelta(seconds=1)
    retry_longest: Duration = timedelta(minutes=5)
    answer_missing_rate: int = Field(default=600, ge=1, le=100_000)
