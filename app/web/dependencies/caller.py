"""Dependencies of endpoints: who calls, and whether that is allowed.

They are coroutines that seldom wait: when keys are read or fetched again.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from app.model.errors import CatalogError
from app.model.principals import Principal, Scope
from app.service.access.authentication import Authenticator, CredentialsRefused
from app.service.access.signed_links import LinkRefused, Links
from app.service.threads import uncancelled
from app.web.access.audit_trail import Trail, trail_of
from app.web.access.operations import LINKED, OPERATIONS, Operation
from app.web.access.rate_limits import count_request
from app.web.dependencies.request_gateway import API, GatewayDep, base_of, only_known_parameters
from app.web.problems import Problem, responses
from app.web.server.http_protocol import PROVED
from app.web.server.thread_pools import pools_of, run_in

SCHEME = "HTTPBearer"
LINK = "link"
"""The parameter of signed links."""
KEYS_SECONDS = 1.0
"""How long health waits for the catalog to tell the keys of today: probes have little time."""
LinkDep = Annotated[
    str | None, Query(alias=LINK, max_length=4000, description="token of a signed link, which POST /v1/links creates")
]
bearer = HTTPBearer(
    scheme_name=SCHEME,
    auto_error=False,
    description="An API key, a token whose SHA-256 is in the gateway's settings, or an access token of its OpenID "
    "provider",
)
CredentialsDep = Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal of a request, with the limits that its lists and searches get.

    What lies outside of the limits does not exist for the caller; an attempt to reach it is in the audit log. `base` is
    the path up to /v1 in the addresses that the caller uses.
    """

    principal: Principal
    trail: Trail
    base: str

    @property
    def sources(self) -> frozenset[str] | None:
        return self.principal.sources

    @property
    def destinations(self) -> frozenset[str] | None:
        return self.principal.destinations

    def knows_source(self, source: str) -> bool:
        """Tell whether a source exists for the caller. If not, the request counts as refused."""
        return self._noted(self.principal.knows_source(source), f"the source {source!r} is not among the caller's")

    def knows_destination(self, destination: str) -> bool:
        """Tell whether a destination exists for the caller. If not, the request counts as refused."""
        known = self.principal.knows_destination(destination)
        return self._noted(known, f"the destination {destination!r} is not among the caller's")

    @property
    def may_read_audit(self) -> bool:
        """Whether the caller may read the audit log, which is about all sources and destinations."""
        return self.principal.may(Scope.ADMIN) and not self.principal.is_limited

    def require_unlimited(self) -> None:
        """Raise Problem for a caller with limits: what it asks for is about all sources and destinations."""
        if not self._noted(not self.principal.is_limited, "the caller is limited to sources or destinations"):
            raise Problem("forbidden", "this concerns all sources, but your key is limited to some")

    def _noted(self, known: bool, why: str) -> bool:
        if not known:
            self.trail.refused = why
        return known


async def authorize(request: Request, gateway: GatewayDep, credentials: CredentialsDep) -> Caller:
    """Return the caller of a request, if it may call the operation. Count the request. Raises Problem."""
    del gateway
    operation = operation_of(request)
    await _refresh(request, credentials)
    try:
        caller = _authenticated(request, credentials)
    except Problem:
        count_request(request, None)
        raise
    count_request(request, caller.principal)
    needed = operation.scope
    if needed is not None and not caller.principal.may(needed):
        caller.trail.refused = f"the scope {needed} is missing"
        challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
        why = f"this needs the scope {needed.value!r}"
        raise Problem("forbidden", why, {"WWW-Authenticate": challenge}, scope=needed.value)
    return caller


async def authorize_unless_public(request: Request, gateway: GatewayDep, credentials: CredentialsDep) -> Caller | None:
    """Return the caller of an operation that the setting `http.public` may open for everyone; None if it does.

    Raises Problem.
    """
    if operation_of(request).public in gateway.settings.http.public:
        return None
    return await authorize(request, gateway, credentials)


async def recognised(request: Request, credentials: CredentialsDep) -> Caller | None:
    """Return the caller of an operation that everyone may call; None for one that is not recognised as a reader.

    Where the catalog cannot be read, or does not answer soon, the keys that were read last are used.
    """
    with suppress(CatalogError, TimeoutError):
        async with asyncio.timeout(KEYS_SECONDS):
            await _refresh(request, credentials)
    operation_of(request)
    try:
        caller = _authenticated(request, credentials)
    except Problem:
        if "authorization" not in request.headers:
            trail_of(request).refused = None
        return None
    return caller if caller.principal.may(Scope.READ) else None


CallerDep = Annotated[Caller, Depends(authorize)]


async def require_unlimited(caller: CallerDep) -> None:
    """Refuse a caller with limits. It is for resources that are about all sources and destinations."""
    caller.require_unlimited()


def resource_router(prefix: str = "", **more: Any) -> APIRouter:
    """Return the router of a resource below /v1, whose operations only known callers may call.

    No router includes it. FastAPI would work out the parameters of each route once more, which takes a second of a core
    for all, and would look for the route of each request twice in each router.
    """
    dependencies = [Depends(authorize), Depends(only_known_parameters), *more.pop("dependencies", ())]
    told = responses("unauthorized", "forbidden", "cross-origin", "rate-limited", "request-timeout")
    return APIRouter(prefix=API + prefix, dependencies=dependencies, responses=told, **more)


def operation_of(request: Request) -> Operation:
    """Return the operation of a request's route."""
    identifier = request.scope["route"].operation_id
    trail_of(request).operation = identifier
    return OPERATIONS[identifier]


async def refresh_keys(request: Request) -> None:
    """Read the keys again if that was not done lately. Raises CatalogError.

    All requests that arrive during the reading wait for it, and hold no thread.
    """
    keys, state = _authenticator(request).keys, request.app.state
    if not keys.is_fresh:
        if state.reading_keys is None or state.reading_keys.done():
            state.reading_keys = asyncio.ensure_future(run_in(pools_of(request).health, keys.refresh))
        await uncancelled(state.reading_keys)


def _authenticator(request: Request) -> Authenticator:
    authenticator: Authenticator = request.app.state.authenticator
    return authenticator


async def _refresh(request: Request, credentials: HTTPAuthorizationCredentials | None) -> None:
    """Read the keys again if that was not done lately, and the keys of an OpenID provider. Raises CatalogError."""
    authenticator, text = _authenticator(request), credentials.credentials if credentials else None
    await refresh_keys(request)
    if authenticator.needs_refresh(text):
        await run_in_threadpool(authenticator.refresh, text)


def _authenticated(request: Request, credentials: HTTPAuthorizationCredentials | None) -> Caller:
    """Return who sends a request, whatever it asks for. Raises Problem."""
    authenticator, trail = _authenticator(request), trail_of(request)
    try:
        trail.principal = _principal(request, authenticator, credentials)
    except CredentialsRefused as refused:
        trail.refused = refused.reason
        challenge = 'Bearer error="invalid_token"' if credentials is not None else "Bearer"
        raise Problem("unauthorized", refused.told, {"WWW-Authenticate": challenge}) from None
    if (proved := request.scope.get(PROVED)) is not None:
        proved()
    return Caller(trail.principal, trail, base_of(request))


def _principal(
    request: Request, authenticator: Authenticator, credentials: HTTPAuthorizationCredentials | None
) -> Principal:
    """Return the principal of a request. Raises CredentialsRefused."""
    address = request.client.host if request.client else None
    if authenticator.is_open:
        return authenticator.without(address)
    if credentials is not None:
        return authenticator.by_bearer(credentials.credentials)
    link = request.query_params.get(LINK) if trail_of(request).operation in LINKED else None
    if link is not None:
        trail_of(request).details["link"] = True
        links: Links = request.app.state.links
        others = [(name, value) for name, value in request.query_params.multi_items() if name != LINK]
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        try:
            signer = links.verify(link, path, others, request.app.state.gateway.clock.now())
        except LinkRefused as error:
            raise CredentialsRefused(str(error), str(error)) from None
        return authenticator.by_link(signer, address)
    if "authorization" in request.headers:
        raise CredentialsRefused("credentials of another scheme than Bearer", "send Authorization: Bearer …")
    return authenticator.without(address)
