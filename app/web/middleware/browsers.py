"""Protection from pages of other sites: the middleware that refuses what such a page could make a browser send.

A browser sends the requests of every page from the machine of whoever looks at it. A gateway that knows its clients
by their address would serve all pages. So while it serves an address without credentials:

- `Host` must be a name of this machine, or be in `http.hosts`. A page of another site can let its own name lead to this
  machine (DNS rebinding), and then it is of the same origin as the gateway; but the browser still sends that name.
- A page of another origin may send nothing, unless `http.cors_origins` has the origin. All browsers send `Origin` if a
  page wants to read the response, with all methods but GET and HEAD, and with forms (Firefox since 70, of 2019). To
  this machine, and over TLS, they send `Sec-Fetch-Site` with everything.
- A POST as a form or a page sends it without the permission of CORS needs a proof that it is none: the `Origin` of the
  gateway's own pages, or a header field that no form has. `text/plain` and `application/x-www-form-urlencoded` always
  need it, because no operation takes them. Forms of files, and what has no content type, need it only if a browser may
  have sent them, so that `curl -F` works as it is: pages cannot choose the `User-Agent` of such a request, and those of
  all browsers begin with `Mozilla/`.

Whoever shows credentials in a header field proves more than that. No cookies are used. With credentials, `Host` is
checked if there are `http.hosts`.

Sources: Fetch Living Standard (Origin header, CORS-safelisted request-headers); Fetch Metadata Request Headers, W3C.
"""

import re
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.model.errors import CatalogError
from app.service.access.authentication import Authenticator
from app.settings import Http
from app.web.access.audit_trail import trail_of
from app.web.access.rate_limits import count_request
from app.web.dependencies.caller import refresh_keys
from app.web.problems import Problem
from app.web.resources.uploads.tus import REQUEST_FIELDS

PAGE_HEADER = "X-Requested-With"
"""The field by which a page of the gateway, or a program, says that it is no form. Its value does not matter."""
NOT_OF_FORMS = (
    *(PAGE_HEADER, "Idempotency-Key", "Content-Digest", "Repr-Digest", "traceparent"),
    *REQUEST_FIELDS,
)
"""The fields of requests that no form has, and that no browser adds by itself: a page sends them to another origin only
with the permission of CORS."""

_OPENED = frozenset({"/", "/docs", "/problems", "/console", "/console/"})
"""Pages without data, to which links of other sites may lead."""
_PROBED = frozenset({"/health/live", "/health/ready"})
"""What load balancers and sidecars ask for under any name; without a key it says whether the gateway is up."""
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::[0-9]*)?")
_FORMS_OF_TEXT = ("application/x-www-form-urlencoded", "text/plain")
_ALSO_OF_PROGRAMS = ("multipart/form-data", "")
_OTHER_SITES = "the gateway has no API keys, and then it answers no pages of other origins"


@lru_cache(maxsize=100)
def host_name(text: str) -> str:
    """Return the name or the address of a host in the form in which they are compared: in lower case, without the dot
    at its end and without brackets. IPv4 addresses within IPv6 are IPv4 addresses."""
    name = text.lower().removesuffix(".").strip("[]")
    try:
        address = ip_address(name)
    except ValueError:
        return name
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class _Refusal(Response):
    """A response with a problem, whose `instance` is the path that was asked for."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._problem.response(scope["path"])(scope, receive, send)


class CorsMiddleware(CORSMiddleware):
    """Starlette's middleware for `http.cors_origins`, whose refusals are problems."""

    def preflight_response(self, request_headers: Headers) -> Response:
        found = super().preflight_response(request_headers)
        if found.status_code == HTTPStatus.OK:
            return found
        refused = bytes(found.body).decode().removeprefix("Disallowed CORS ")
        why = f"a page of {request_headers['origin']!r} may not send such a request, for its {refused}"
        return _Refusal(Problem("cross-origin", why, setting="http.cors_origins"))


class BrowserMiddleware:
    """Middleware that refuses requests for which a page of another site could be responsible."""

    def __init__(self, app: ASGIApp, http: Http, authenticator: Authenticator) -> None:
        self._app, self._authenticator = app, authenticator
        self._hosts = {host_name(each) for each in http.hosts}
        self._domains = tuple(each.removeprefix("*") for each in self._hosts if each.startswith("*."))
        self._origins = frozenset(http.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal.response(scope["path"])(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        problem = self._of_host(scope, headers)
        if problem is not None and self._hosts and _path(scope) not in _PROBED:
            return _noted(scope, problem)
        problem = problem or self._of_page(scope, headers)
        if problem is None:
            return None

        with suppress(CatalogError):
            await refresh_keys(Request(scope))
        client = scope.get("client")
        is_anonymous = self._authenticator.is_served(client[0] if client else None)
        return _noted(scope, problem) if is_anonymous else None

    def _of_host(self, scope: Scope, headers: Headers) -> Problem | None:
        """Return the problem of a request whose `Host` is no name of this gateway."""
        given = headers.get("host")
        match = _HOST.fullmatch(given or "")
        if match is not None and self._is_own(host_name(match[1]), scope):
            return None
        told = "none" if given is None else repr(given)
        why = f"Host is {told}; this gateway has the names of this machine (localhost) and those in http.hosts"
        return Problem("cross-origin", why, setting="http.hosts")

    def _is_own(self, name: str, scope: Scope) -> bool:
        if name == "localhost" or name.endswith((".localhost", *self._domains)) or name in self._hosts:
            return True
        server = scope.get("server")
        # The address that the client connected to, as probes and scrapers of Kubernetes use it: no page of another site
        # is at the address of the gateway.
        own = host_name(server[0]) if server else ""
        try:
            return ip_address(name).is_loopback or name == own
        except ValueError:
            return False

    def _of_page(self, scope: Scope, headers: Headers) -> Problem | None:
        """Return the problem of a request that a page of another origin has sent, or that a form may have sent."""
        origin = headers.get("origin")
        is_allowed = origin is not None and (origin in self._origins or "*" in self._origins)
        if not (origin is None or is_allowed) and origin.partition("://")[2].lower() != headers["host"].lower():
            return _of_origin(f"Origin is {origin!r}")
        site = headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none") and not is_allowed and not _opens_page(scope, headers):
            return _of_origin(f"Sec-Fetch-Site is {site!r}")
        if origin is not None or site == "same-origin" or scope["method"] != "POST" or not _may_be_form(headers):
            return None
        kind = _content_type(headers) or "no content type"
        why = f"forms of other sites can send POST with {kind}, and this gateway has no API keys"
        return Problem("cross-origin", f"{why}; send the content type of the operation, or the field {PAGE_HEADER}")


def _of_origin(told: str) -> Problem:
    why = f"{told}; {_OTHER_SITES}, unless http.cors_origins has the origin"
    return Problem("cross-origin", why, setting="http.cors_origins")


def _opens_page(scope: Scope, headers: Headers) -> bool:
    """Tell whether a browser opens one of the pages without data in a tab of its own."""
    into = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    return scope["method"] in ("GET", "HEAD") and _path(scope) in _OPENED and into == ("navigate", "document")


def _path(scope: Scope) -> str:
    return str(scope["path"].removeprefix(scope.get("root_path", "")))


def _may_be_form(headers: Headers) -> bool:
    """Tell whether a browser may have sent a POST without asking whether it may."""
    if any(name in headers for name in NOT_OF_FORMS):
        return False
    kind = _content_type(headers)
    is_browser = "sec-fetch-site" in headers or headers.get("user-agent", "").startswith("Mozilla/")
    return kind in _FORMS_OF_TEXT or (is_browser and kind in _ALSO_OF_PROGRAMS)


def _content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _noted(scope: Scope, problem: Problem) -> Problem:
    """Count a refused request and note it for the audit log. Return the problem that it gets."""
    request = Request(scope)
    trail_of(request).refused = problem.detail
    try:
        count_request(request, None)
    except Problem as exceeded:
        return exceeded
    return problem
