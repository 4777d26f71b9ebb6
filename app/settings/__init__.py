"""The configuration: one TOML file and the environment, of which the environment wins.

`ATTACHMENT_GATEWAY_HTTP__PORT=8081` is `port` of `[http]`. Any value may be in a separate file, as secrets are:
`password_file = "/run/secrets/mq"` is `password` with the content of that file. Credentials are read again whenever
they are used (`app.secret`). Sizes are bytes or text such as "64 MiB", durations seconds or text such as "1h30m".
"""

from app.settings.configuration import (
    ALL_ROLES,
    ENVIRONMENT_PREFIX,
    Log,
    ReceiptSettings,
    Role,
    Settings,
    Standby,
    TextSettings,
    TraceSettings,
)
from app.settings.http import Audit, Http, Oidc
from app.settings.limits import ExpirySettings, Limits, RetentionSettings, Scrub
from app.settings.loading import SettingsError, SettingsProblem, load
from app.settings.section import DialectName, Digest, Duration, FramingName, LineEnd, Name, Section, microseconds
from app.settings.storage import (
    SEGMENTS_FOR_OTHERS,
    CatalogSettings,
    ContentSettings,
    Expectation,
    JournalSettings,
    PipelineSettings,
    TableSettings,
)
from app.settings.transports import Destination, Endpoint, Source
from app.settings.webhooks import Webhook

__all__ = [
    "ALL_ROLES",
    "ENVIRONMENT_PREFIX",
    "SEGMENTS_FOR_OTHERS",
    "Audit",
    "CatalogSettings",
    "ContentSettings",
    "Destination",
    "DialectName",
    "Digest",
    "Duration",
    "Endpoint",
    "Expectation",
    "ExpirySettings",
    "FramingName",
    "Http",
    "JournalSettings",
    "Limits",
    "LineEnd",
    "Log",
    "Name",
    "Oidc",
    "PipelineSettings",
    "ReceiptSettings",
    "RetentionSettings",
    "Role",
    "Scrub",
    "Section",
    "Settings",
    "SettingsError",
    "SettingsProblem",
    "Source",
    "Standby",
    "TableSettings",
    "TextSettings",
    "TraceSettings",
    "Webhook",
    "load",
    "microseconds",
]
