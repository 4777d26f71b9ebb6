"""The files of the console, read once: they are part of the package, and small."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
PAGE = "index.html"
_MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
}
"""By suffix. Files with other suffixes are not served."""


class StaticFile(NamedTuple):
    """A file as it is served, with its strong entity tag."""

    content: bytes
    media_type: str
    etag: str


def read_files() -> Mapping[str, StaticFile]:
    """Return the files by their path below the folder, with slashes."""
    found = sorted(path for path in FOLDER.rglob("*") if path.suffix in _MEDIA_TYPES)
    return {path.relative_to(FOLDER).as_posix(): _file(path) for path in found}


def _file(path: Path) -> StaticFile:
    content = path.read_bytes()
    return StaticFile(content, _MEDIA_TYPES[path.suffix], f'"{sha256(content).hexdigest()}"')
