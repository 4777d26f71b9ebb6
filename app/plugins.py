"""Adapters by name, through the entry points that `pyproject.toml` declares.

The gateway never imports an adapter, so that a client library which is not installed is a sentence to read when it is
configured, and nothing at all when it is not.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from app.ports import TransportPlugin

_GROUPS = {
    "transport": "attachment_gateway.transports",
    "journal": "attachment_gateway.journals",
    "archive": "attachment_gateway.archives",
    "catalog": "attachment_gateway.catalogs",
    "content store": "attachment_gateway.content_stores",
    "table store": "attachment_gateway.table_stores",
}
_EXTRAS = {
    "pymqi": "mq",
    "ibmmq": "mq",
    "psycopg": "postgresql",
    "amqtt": "embedded",
    "pyspark": "pipeline",
    "deltalake": "tables",
    "duckdb": "tables",
}


class PluginError(LookupError):
    """No such adapter, or the library that it stands on is missing."""


def names(kind: str) -> list[str]:
    """The adapters there are of one kind: "transport", "journal", "archive", "catalog" or "content store"."""
    return sorted(_entry_points(kind))


def load(kind: str, name: str) -> Any:
    """What the entry point of this name refers to. Raises PluginError, which says what to do."""
    found = _entry_points(kind).get(name)
    if found is None:
        raise PluginError(f"unknown {kind} {name!r}; known: {', '.join(names(kind)) or 'none'}")
    try:
        return found.load()
    except ModuleNotFoundError as missing:
        library = (missing.name or "").partition(".")[0]
        raise PluginError(f"{kind} {name!r} needs the library {library!r}: {how_to_install(library)}") from missing
    except (ImportError, AttributeError, OSError) as broken:
        raise PluginError(f"{kind} {name!r} ({found.value}) cannot be loaded: {broken}") from broken


def transport(name: str) -> TransportPlugin:
    """The transport of this name. Raises PluginError."""
    plugin: TransportPlugin = load("transport", name)
    return plugin


def how_to_install(library: str) -> str:
    extra = _EXTRAS.get(library)
    return f"pip install 'attachment-gateway[{extra}]'" if extra else f"pip install {library}"


@cache
def _entry_points(kind: str) -> dict[str, EntryPoint]:
    return {found.name: found for found in entry_points(group=_GROUPS[kind])}
