"""Adapters by name, through the entry points that `pyproject.toml` declares.

The gateway never imports an adapter. A missing client library is therefore an error only when a configuration names its
adapter.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, requires
from types import ModuleType
from typing import Any, Literal, cast

from pydantic import BaseModel

from app.model.errors import GatewayError
from app.ports import (
    ArchivePlugin,
    CatalogPlugin,
    ContentStorePlugin,
    IcebergPlugin,
    JournalPlugin,
    ObjectJournalPlugin,
    SpanExporterPlugin,
    TableStorePlugin,
    TransportPlugin,
)

Kind = Literal[
    "transport",
    "journal",
    "object journal",
    "archive",
    "catalog",
    "content store",
    "table store",
    "Iceberg catalog",
    "span exporter",
]

_GROUPS: dict[Kind, str] = {
    "transport": "attachment_gateway.transports",
    "journal": "attachment_gateway.journals",
    "object journal": "attachment_gateway.object_journals",
    "archive": "attachment_gateway.archives",
    "catalog": "attachment_gateway.catalogs",
    "content store": "attachment_gateway.content_stores",
    "table store": "attachment_gateway.table_stores",
    "Iceberg catalog": "attachment_gateway.iceberg_catalogs",
    "span exporter": "attachment_gateway.span_exporters",
}
KINDS = tuple(_GROUPS)
_PACKAGE = "attachment-gateway"
_OF_EXTRA = re.compile(r"(.+?) *; *extra == ['\"]([^'\"]+)['\"]")
_OTHER_EXTRA = re.compile(rf"{_PACKAGE}\[(.+)\]")
_EXTRAS = {
    "pymqi": "mq",
    "ibmmq": "mq-ibmmq",
    "psycopg": "postgresql",
    "pyspark": "pipeline",
    "grpc": "connect",
    "deltalake": "tables",
    "duckdb": "tables",
    "mcp": "mcp",
    "pyiceberg": "iceberg",
    "openlineage": "lineage",
    "opentelemetry": "traces",
}


class PluginError(GatewayError):
    """There is no such adapter, or the library that it needs is missing."""


def transport(name: str) -> TransportPlugin:
    """Return the transport of this name. Raises PluginError."""
    return cast("TransportPlugin", load("transport", name))


def journal(name: str = "arrow") -> JournalPlugin:
    """Return the journal of this name. Raises PluginError."""
    return cast("JournalPlugin", load("journal", name))


def object_journal(name: str = "arrow") -> ObjectJournalPlugin:
    """Return the journal of objects of this name. Raises PluginError."""
    return cast("ObjectJournalPlugin", load("object journal", name))


def archive(name: str = "arrow") -> ArchivePlugin:
    """Return the journal archive of this name. Raises PluginError."""
    return cast("ArchivePlugin", load("archive", name))


def catalog(name: str = "sql") -> CatalogPlugin:
    """Return the catalog of this name. Raises PluginError."""
    return cast("CatalogPlugin", load("catalog", name))


def content_store(name: str = "object_store") -> ContentStorePlugin:
    """Return the content store of this name. Raises PluginError."""
    return cast("ContentStorePlugin", load("content store", name))


def table_store(name: str = "delta") -> TableStorePlugin:
    """Return the table store of this name. Raises PluginError."""
    return cast("TableStorePlugin", load("table store", name))


def iceberg(name: str = "delta") -> IcebergPlugin:
    """Return the Iceberg catalog of this name. Raises PluginError."""
    return cast("IcebergPlugin", load("Iceberg catalog", name))


def span_exporter(name: str = "opentelemetry") -> SpanExporterPlugin:
    """Return the exporter of spans of this name. Raises PluginError."""
    return cast("SpanExporterPlugin", load("span exporter", name))


def transport_settings(name: str, field: str) -> type[BaseModel] | None:
    """Return the model of a transport's keys: `source_settings` or `destination_settings`, by the name of the `field`.

    A transport whose client library is missing may have its models in the module `settings` of its package, so that a
    configuration can be checked without the library. None: there are no models, or there is no such transport.
    """
    try:
        model: type[BaseModel] = getattr(transport(name), field)
    except PluginError:
        found = _entry_points("transport").get(name)
        package = found.module.rpartition(".")[0] if found else ""
        try:
            settings_module = import_module(f"{package}.settings") if package else None
        except ImportError:
            settings_module = None
        return getattr(settings_module, field.title().replace("_", ""), None)
    return model


def names(kind: Kind) -> list[str]:
    """Return the names of all adapters of one kind."""
    return sorted(_entry_points(kind))


def load(kind: Kind, name: str) -> Any:
    """Return the object that an entry point refers to. Raises PluginError, which says what to do."""
    found = _entry_points(kind).get(name)
    if found is None:
        raise PluginError(f"unknown {kind} {name!r}; known: {', '.join(names(kind)) or 'none'}")
    try:
        return found.load()
    except ModuleNotFoundError as missing:
        raise _needing(f"{kind} {name!r}", missing) from missing
    except (ImportError, AttributeError, OSError) as broken:
        raise PluginError(f"{kind} {name!r} ({found.value}) cannot be loaded: {broken}") from broken


def module(name: str, what: str) -> ModuleType:
    """Return a module of this package that needs the library of an extra, for `what` a setting asks for.

    Raises PluginError, which says what to do.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise _needing(what, missing) from missing


def _needing(what: str, missing: ModuleNotFoundError) -> PluginError:
    library = (missing.name or "").partition(".")[0]
    return PluginError(f"{what} needs the library {library!r}: {how_to_install(library)}")


def how_to_install(library: str) -> str:
    """Return the command that installs a library, with all that this package's extra with it names.

    It names libraries and versions, since this package is in no package index, and the extra in a comment.
    """
    if (extra := _EXTRAS.get(library)) is None:
        return f"pip install {library}"
    return " ".join(["pip install", *(f"'{each}'" for each in _requirements(extra)), f" # the extra {extra!r}"])


def _requirements(extra: str) -> Iterator[str]:
    """Yield what an extra of this package names, and what the extras name that it names."""
    for each in requires(_PACKAGE) or ():
        if (found := _OF_EXTRA.fullmatch(each)) and found[2] == extra:
            if other := _OTHER_EXTRA.fullmatch(found[1]):
                yield from _requirements(other[1])
            else:
                yield found[1]


@cache
def _entry_points(kind: Kind) -> dict[str, EntryPoint]:
    return {found.name: found for found in entry_points(group=_GROUPS[kind])}
