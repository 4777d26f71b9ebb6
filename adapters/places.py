"""Storage places by path or URL: a local folder, or a bucket that obstore reaches."""

from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from obstore.store import MemoryStore, ObjectStore, from_url

_REMOTE_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")


def local_folder(place: str | Path) -> Path | None:
    """Return the folder that a path or a `file://` URL names; None for any other URL."""
    if isinstance(place, Path) or "://" not in place:
        return Path(place)
    parts = urlsplit(place)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def bucket(url: str) -> ObjectStore:
    """Return the bucket, restricted to its prefix, that a URL `s3://`, `gs://` or `az://` names.

    Credentials come from the environment variables of the providers' own tools. `memory://name` is a bucket of this
    process, for tests.

    Raises ValueError for another URL.
    """
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return _memory(parts.netloc) if parts.netloc else MemoryStore()
    if parts.scheme in _REMOTE_SCHEMES:
        return from_url(url)
    raise ValueError(f"unknown storage URL {url}; give a path, or a URL with file, s3, gs or az")


@cache
def _memory(name: str) -> MemoryStore:  # noqa: ARG001
    return MemoryStore()
