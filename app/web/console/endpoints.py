"""`/console`: the page, its scripts and its styles. They hold no data: everybody gets them, and signs in there.

The page addresses REST and its own files relative to its own address, so it works below any path of a proxy.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Header, Response
from fastapi.responses import RedirectResponse

from app.web.http.byte_ranges import names_tag
from app.web.problems import Problem

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
    files = {}
    for path in sorted(path for path in FOLDER.rglob("*") if path.suffix in _MEDIA_TYPES):
        content = path.read_bytes()
        etag = f'"{sha256(content).hexdigest()}"'
        files[path.relative_to(FOLDER).as_posix()] = StaticFile(content, _MEDIA_TYPES[path.suffix], etag)
    return files


CONSOLE = "/console"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FILES = read_files()

router = APIRouter(prefix=CONSOLE, include_in_schema=False)


@router.get("", operation_id="redirect_to_console")
async def redirect_to_console() -> Response:
    """Redirect to the page, whose address ends with a slash. The redirection is relative, for proxies with a path."""
    return RedirectResponse(f"{CONSOLE[1:]}/", 307)


@router.get("/{path:path}", operation_id="get_console")
async def get_console(path: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return the page or one of its files."""
    file = _FILES.get(path or PAGE)
    if file is None:
        raise Problem("not-found", "the console has no such file")
    headers = _HEADERS | {"ETag": file.etag}
    if if_none_match is not None and names_tag(file.etag, if_none_match):
        return Response(status_code=304, headers=headers)
    return Response(file.content, 200, headers | {"Content-Type": file.media_type})
