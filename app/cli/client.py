"""The client of the gateway's REST interface for commands."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer

from app.cli.console import FAILED, UNREACHABLE, Failure

DEFAULT_URL = "http://127.0.0.1:8080"
SHOWN_ERRORS = 50
PAGE = 100
"""Maximum number of items in one request."""

_TEMPORARY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
_UNSUITABLE = "/problems/unsuitable"

Url = Annotated[str, typer.Option("--url", envvar="ATTACHMENT_GATEWAY_URL", help="URL of the gateway.")]


class Refused(Failure):
    """An error response of the gateway; `status` is that of HTTP."""

    def __init__(self, why: str, hint: str, code: int, status: int) -> None:
        super().__init__(why, hint, code)
        self.status = status


class Client:
    """A client whose errors are `Failure`s. It sends the bearer token, if there is one.

    The proxies of the environment are used, except for a gateway on this machine. Raises Failure for a URL or a proxy
    that cannot be used.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        with _unusable(self.url):
            base = httpx.URL(self.url + "/v1/")
            self._http = httpx.Client(
                base_url=base,
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=httpx.Timeout(30, read=300),
                # With a transport of its own the client takes no proxy of the environment.
                transport=httpx.HTTPTransport() if is_loopback(base.host) else None,
            )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the JSON at a path below /v1; parameters that are None are left out."""
        return self.request("GET", path, params=_given(parameters)).json()

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Send a request and return its response. Raises Failure for an error response."""
        with _failures(self.url):
            response = self._http.request(method, path.lstrip("/"), **how)
        _require_success(response)
        return response

    @contextmanager
    def stream(
        self, path: str, headers: dict[str, str] | None = None, silence: float | None = None, **parameters: Any
    ) -> Iterator[httpx.Response]:
        """Open a response whose body is read piece by piece.

        `silence` is the number of seconds without a byte after which the connection counts as broken (None: never).
        """
        with (
            _failures(self.url),
            self._http.stream(
                "GET",
                path.lstrip("/"),
                params=_given(parameters),
                headers=headers,
                timeout=httpx.Timeout(30, read=silence),
            ) as response,
        ):
            if response.is_error:
                response.read()
            _require_success(response)
            yield response

    def pages(self, path: str, most: int, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Yield the items of a listing, newest first, at most `most`."""
        cursor = None
        while most > 0:
            page = self.get(path, cursor=cursor, limit=min(most, PAGE), **parameters)
            yield from page["items"]
            most -= len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return


def located(collection: str, identifier: str) -> str:
    """Return the path of what has this identifier, whatever characters a person has written."""
    return f"{collection}/{quote(identifier, safe='')}"


def connect(url: str) -> Client:
    """Return a client of the gateway at this URL, with the token of `ATTACHMENT_GATEWAY_TOKEN`.

    Raises Failure for an invalid URL.
    """
    if not url.startswith(("http://", "https://")):
        raise Failure(f"{url!r} is not the URL of a gateway", "write for example --url http://127.0.0.1:8080")
    return Client(url, os.environ.get("ATTACHMENT_GATEWAY_TOKEN"))


def is_loopback(host: str) -> bool:
    """Return whether a URL's host is this machine, which no proxy reaches."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


@contextmanager
def _unusable(url: str) -> Iterator[None]:
    """Raise Failure for a proxy of the environment that httpx refuses. Its URL may hold a password: it is not shown."""
    hint = "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names it; NO_PROXY lists hosts that need none"
    try:
        yield
    except ImportError as error:
        raise Failure(f"{url} cannot be reached by a SOCKS proxy without the library 'socksio'", hint) from error
    except (httpx.InvalidURL, ValueError) as error:
        raise Failure(f"the client for {url} cannot be made: its URL or the proxy's is invalid", hint) from error


@contextmanager
def _failures(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.ConnectError as error:
        hint = "start one with: attachment-gateway serve   (or set its URL: --url, ATTACHMENT_GATEWAY_URL)"
        raise Failure(f"no gateway at {url}: {error}", hint, UNREACHABLE) from error
    except httpx.TransportError as error:
        raise Failure(f"the connection to {url} broke: {error or type(error).__name__}", code=UNREACHABLE) from error


def _require_success(response: httpx.Response) -> None:
    if not response.is_error:
        return
    try:
        said = _told(response.json())
    except (ValueError, KeyError, TypeError, AttributeError):
        said = f"{response.status_code} {response.reason_phrase} for {response.url}"
    hints = {401: "set ATTACHMENT_GATEWAY_TOKEN to a token that the gateway accepts"}
    code = UNREACHABLE if response.status_code in _TEMPORARY else FAILED
    raise Refused(said, hints.get(response.status_code, ""), code, response.status_code)


def _told(problem: dict[str, Any]) -> str:
    """Return a problem as text for people; the errors of a data set have a line each, as there may be many."""
    errors = problem.get("errors") or []
    if problem["type"] == _UNSUITABLE and errors:
        more = [f"and {len(errors) - SHOWN_ERRORS} more"] if len(errors) > SHOWN_ERRORS else []
        details = [str(error["detail"]) for error in errors[:SHOWN_ERRORS]]
        return "\n  ".join([f"{problem['title']}:", *details, *more])
    said = [str(problem.get("detail") or problem["title"])]
    said += [
        f"{error.get('parameter') or error.get('pointer')}: {error['detail']}"
        for error in errors
        if str(error["detail"]) not in said[0]
    ]
    return "; ".join(said)


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
