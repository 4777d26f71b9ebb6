"""Storage places by path or URL: a local folder, or a bucket that obstore reaches."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore
from obstore.store import MemoryStore, ObjectStore, from_url

_AMAZON, _GOOGLE, _AZURE = "Amazon S3", "Google Cloud Storage", "Azure Blob Storage"
_REMOTE_SCHEMES = {
    "s3": _AMAZON,
    "s3a": _AMAZON,
    "gs": _GOOGLE,
    "az": _AZURE,
    "azure": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "adl": _AZURE,
}
_CREDENTIALS = {
    _AMAZON: (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_SKIP_SIGNATURE",
        "AWS_METADATA_ENDPOINT",
    ),
    _GOOGLE: (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_SKIP_SIGNATURE",
        "GCE_METADATA_HOST",
    ),
    _AZURE: (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_USE_AZURE_CLI",
        "AZURE_SKIP_SIGNATURE",
        "AZURE_MSI_ENDPOINT",
        "AZURE_IDENTITY_ENDPOINT",
    ),
}
"""Variables of which one must be set. Without any, obstore asks the metadata address of the machine's cloud for
credentials, which any process there may do. In each list, the last ones name that address, and so allow it."""
_DELETED_AT_ONCE = 1000
"""The most objects that one request to Amazon S3 deletes."""


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

    Raises ValueError for another URL, and if no variable for credentials is set.
    """
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return _memory(parts.netloc) if parts.netloc else MemoryStore()
    if parts.scheme in _REMOTE_SCHEMES:
        provider = _REMOTE_SCHEMES[parts.scheme]
        if not any(os.environ.get(name) for name in _CREDENTIALS[provider]):
            raise ValueError(
                f"no credentials for {provider}: set one of {', '.join(_CREDENTIALS[provider])}. The metadata address "
                "of the machine is asked only if the last one names it"
            )
        return from_url(url)
    raise _unknown(url)


def check_place(place: str) -> None:
    """Raise ValueError for a URL that names neither a folder nor a bucket, whether that is there or not."""
    parts = urlsplit(place)
    if parts.scheme in _REMOTE_SCHEMES and not parts.netloc:
        raise ValueError(f"{place} names no bucket: write {parts.scheme}://bucket/folder")
    if local_folder(place) is None and parts.scheme not in ("memory", *_REMOTE_SCHEMES):
        raise _unknown(place)


def _unknown(url: str) -> ValueError:
    return ValueError(f"unknown storage URL {url}; give a path, or a URL with file, s3, gs or az")


def delete_objects(store: ObjectStore, names: Sequence[str]) -> None:
    """Delete objects, if they are there, many with one request. Raises what obstore raises, but not FileNotFoundError.

    Each request has at most 1,000 names, so that one which takes too long does not hold up all.
    """
    for at in range(0, len(names), _DELETED_AT_ONCE):
        some = list(names[at : at + _DELETED_AT_ONCE])
        try:
            obstore.delete(store, some)
        except FileNotFoundError:  # a store that refuses to delete missing objects
            for name in some:
                with suppress(FileNotFoundError):
                    obstore.delete(store, name)


@cache
def _memory(name: str) -> MemoryStore:  # noqa: ARG001
    return MemoryStore()
