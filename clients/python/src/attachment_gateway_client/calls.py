"""Requests as data, and flows: generators that yield requests and get responses.

A flow knows neither sockets nor event loops, so `Client` and `AsyncClient` run the same ones.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from attachment_gateway_client.errors import InvalidPath, InvalidToken, Problem, Unreachable

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8080"
PAGE = 100
"""The most items that one request of a listing asks for."""
LONGEST_PAUSE = 10.0
RETRIES = 5
"""How many times in a row a request is repeated after its connection broke, or a temporary problem."""
_FIRST_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `path` is below /v1. `pieces` opens a body that is sent piece by piece."""

    method: str
    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    files: Any = None
    pieces: Callable[[], Iterator[bytes]] | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A wish to continue after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Work that blocks: reading of a file."""

    run: Callable[[], Any]


Step = Call | Pause | Work
Flow = Generator[Step, Any, T]
"""What yields steps, gets the result of each, and returns a T. Errors of a step are raised in it."""


def patiently(call: Call, retries: int = RETRIES) -> Flow[httpx.Response]:
    """Send a request that is safe to repeat, and return its response. Raises Problem and Unreachable.

    A gateway that cannot be reached with the first attempt is not waited for.
    """
    attempt = 0
    while True:
        try:
            response: httpx.Response = yield call
        except Unreachable as error:
            if attempt >= retries or (error.is_refused and attempt == 0):
                raise
            wanted = None
        except Problem as problem:
            if attempt >= retries or not (problem.is_temporary or problem.type == "/problems/in-flight"):
                raise
            wanted = problem.retry_after
        else:
            return response
        yield Pause(pause(attempt) if wanted is None else min(wanted, LONGEST_PAUSE))
        attempt += 1


def pause(attempt: int) -> float:
    """Return the seconds to wait after a failed attempt, counted from 0."""
    return float(min(LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt, 20)))


def located(collection: str, identifier: str) -> str:
    """Return the path of what has this identifier, whatever characters a person has written."""
    quoted = quote(identifier, safe="")
    if not quoted.strip("."):  # `..` would be the path above
        quoted = quoted.replace(".", "%2E")
    return f"{collection}/{quoted}"


def given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are not None."""
    return {name: value for name, value in parameters.items() if value is not None}


def page_size(limit: int, left: int | None) -> int:
    """Return the number of items that the next request of a listing asks for, of those left (None: all)."""
    return limit if left is None else min(left, limit)


async def read_in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield pieces of a file, each read in another thread than the event loop's."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def checked_url(url: str) -> str:
    """Return the URL of a gateway without a slash at its end. Raises ValueError for any other URL."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{shown(url)!r} is not the URL of a gateway; write for example http://127.0.0.1:8080")
    return url.rstrip("/")


def shown(url: str) -> str:
    """Return a URL for people: without a user and a password, whatever characters these have."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def checked_token(token: str) -> str:
    """Return a token without white space around it, such as the line end of a file. Raises InvalidToken."""
    token = token.strip()
    wrong = next((at for at, character in enumerate(token, 1) if not "!" <= character <= "~"), None)
    if wrong is not None:
        raise InvalidToken(
            f"character {wrong} of {len(token)} is a blank, a line end, a control character or not ASCII: "
            "no token has such a character"
        )
    return token


def require_below(base: httpx.URL, url: httpx.URL) -> None:
    """Raise InvalidPath for a URL that is not below that of the gateway: what is there must not get the token."""
    wanted, given_ = ((each.scheme, each.host, each.port) for each in (base, url))
    if wanted != given_ or not url.raw_path.startswith(base.raw_path):
        raise InvalidPath(
            f"no request was sent to {shown(str(url))}: it is not below {shown(str(base))}, "
            "and nothing else may get the token; give a path below /v1, such as attachments"
        )


def is_loopback(host: str) -> bool:
    """Return whether a URL's host is this machine, which no proxy reaches."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def is_refused(response: httpx.Response) -> bool:
    """Return whether a response does not give what was asked for: an error, or a redirect that was not followed."""
    return response.is_error or response.has_redirect_location


def problem_of(response: httpx.Response) -> Problem:
    """Return the problem of such a response whose body was read."""
    try:
        members = response.json()
    except ValueError:
        members = None
    if not isinstance(members, dict) or "type" not in members:
        detail = f"{response.status_code} {response.reason_phrase} for {shown(str(response.url))}"
        if response.has_redirect_location:
            detail += f": it is at {shown(response.headers['location'])}, and redirects are not followed"
        members = {"detail": detail}
    try:
        after: float | None = float(response.headers.get("retry-after", ""))
    except ValueError:
        after = None
    return Problem(response.status_code, members, after)


def unreachable(url: str, error: httpx.TransportError) -> Unreachable:
    """Return the error of a connection that failed. The text of one that concerns a header field shows its value."""
    url = shown(url)
    if isinstance(error, httpx.LocalProtocolError):
        return Unreachable(f"the request to {url} cannot be sent: a header field has a value that is not allowed")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Unreachable(f"no gateway at {url}: {error or type(error).__name__}", is_refused=True)
    return Unreachable(f"the connection to {url} broke: {error or type(error).__name__}")


@contextmanager
def with_proxies() -> Iterator[None]:
    """Raise ValueError without the URL of a proxy, which may hold a password, where httpx makes a client."""
    try:
        yield
    except (ValueError, httpx.InvalidURL):
        names = "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
        raise ValueError(f"a proxy of the environment has no valid URL: look at {names}") from None


def options(url: str, token: str | None) -> dict[str, Any]:
    """Return the options that both clients of httpx get. Raises ValueError, and InvalidToken."""
    try:
        base = httpx.URL(checked_url(url) + "/v1/")
    except httpx.InvalidURL:
        why = "special characters of a user or a password need percent signs"
        raise ValueError(f"{shown(url)!r} is not the URL of a gateway; {why}") from None
    token = checked_token(token or "")
    return {
        "base_url": base,
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        "timeout": httpx.Timeout(30, read=300),
        # Reading the certificates of all authorities takes 30 ms. Redirects to another scheme are not followed.
        "verify": base.scheme == "https",
    }
