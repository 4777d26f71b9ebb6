"""The REST application."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from types import ModuleType
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app import plugins
from app.service.access.audit import FILE_BYTES, AuditLog, Repeats
from app.service.access.authentication import Authenticator
from app.service.access.signed_links import SECRET_BYTES, SECRET_NAME, Links
from app.service.access.token_buckets import Rates
from app.service.conversion import Conversions
from app.service.gateway import Gateway
from app.settings import Oidc, Role
from app.web import problems
from app.web.access.audit_trail import AuditMiddleware
from app.web.access.operations import OPERATIONS
from app.web.access.rate_limits import RatingMiddleware
from app.web.console import endpoints as console
from app.web.dependencies.caller import SCHEME
from app.web.http.entity_tags import EntityTagMiddleware
from app.web.http.methods import HeadMiddleware
from app.web.middleware import problem_handlers
from app.web.middleware.browsers import NOT_OF_FORMS, BrowserMiddleware, CorsMiddleware
from app.web.middleware.request_metrics import MeasuringMiddleware
from app.web.resources import (
    access,
    archives,
    deliveries,
    documentation,
    events,
    field_descriptions,
    files,
    health,
    iceberg_catalog,
    pipeline,
    receipts,
    receivers,
    sign_in,
    summary,
    table_queries,
    tables,
    trace,
    webhooks,
)
from app.web.resources.attachments import arrival, data_sets
from app.web.resources.attachments import content as attachment_content
from app.web.resources.attachments import endpoints as attachments
from app.web.resources.health import METRICS_PATH
from app.web.resources.messages import draft_schemas
from app.web.resources.messages import endpoints as messages
from app.web.resources.quarantine import endpoints as quarantine
from app.web.resources.uploads import endpoints as uploads
from app.web.resources.uploads import tus
from app.web.resources.uploads.upload_receiving import Receivers
from app.web.responses import disconnection
from app.web.responses.event_feed import Feed
from app.web.server.deadline import DeadlineMiddleware
from app.web.server.fair_queue import FairQueueMiddleware
from app.web.server.standby_app import HEALTH_PATHS
from app.web.server.thread_pools import Pools

OIDC_SCHEME = "OpenIdConnect"
WARM_AFTER_SECONDS = 20.0
"""The time after the start until the first process for conversions is prepared, if no conversion has needed one. Its
imports take seconds of a core, which receives the brokers' backlog first."""

_DESCRIPTION = """
Receive attachments that programs send over message brokers, as files and tables. Send files and tables to those
programs.

Errors are problem details (RFC 9457); their types are listed in docs/problems.md and at `/problems`.
"""
_TAGS = [
    {"name": "attachments", "description": "files and data sets, received or being received"},
    {"name": "messages", "description": "received messages with attachments; sending of messages"},
    {"name": "deliveries", "description": "outgoing messages and their progress"},
    {"name": "quarantine", "description": "physical messages that the gateway cannot read"},
    {"name": "tables", "description": "all data sets of one name as one table, which the Spark pipeline builds"},
    {"name": "events", "description": "live stream of events, and webhooks that get them"},
    {"name": "operations", "description": "health, metrics, and decoding of captured bytes"},
]

_RESOURCES = (
    attachments,
    attachment_content,
    arrival,
    data_sets,
    messages,
    archives,
    files,
    uploads,
    deliveries,
    quarantine,
    receipts,
    tables,
    table_queries,
    pipeline,
    events,
    webhooks,
    receivers,
    summary,
    trace,
    access,
)


ANY_ROLE = (*HEALTH_PATHS, METRICS_PATH)
"""The paths that a process answers whatever its roles are."""
_RETRY_AFTER: dict[str, Any] = {
    "description": "seconds to wait before the same request; missing where waiting does not help (`not-served`)",
    "schema": {"type": "integer"},
}

_CORS: dict[str, Any] = {
    # Credentials of the browser (cookies) are not used: a page sends its key itself.
    "allow_credentials": False,
    "allow_methods": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": [
        *NOT_OF_FORMS,
        *("Authorization", "Content-Type", "Last-Event-ID", "Range"),
        *("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"),
    ],
    "expose_headers": [
        *("ETag", "Link", "Location", "Content-Disposition", "Content-Range", "Accept-Ranges", "Repr-Digest"),
        *("Idempotency-Replayed", "Retry-After", "Undecodable-Bytes", "WWW-Authenticate", "Total-Count"),
        *tus.RESPONSE_FIELDS,
        *("RateLimit", "RateLimit-Policy"),
        *("Missing-Parts", "Truncated", "Table-Files"),
    ],
    "max_age": 3600,
}


class OtherRoleMiddleware:
    """Middleware of a process that does not serve REST: only these paths get through, and all else gets a problem."""

    def __init__(self, app: ASGIApp, paths: Iterable[str], roles: Iterable[str]) -> None:
        self.app, self._paths = app, frozenset(paths)
        self._why = f"this process has the roles {', '.join(sorted(roles))}: ask one with the role serve"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._paths:
            await self.app(scope, receive, send)
        else:
            await problems.Problem("not-served", self._why).response(scope["path"])(scope, receive, send)


def create_app(gateway: Gateway) -> FastAPI:
    """Return the REST application of a gateway; the caller starts and stops the gateway."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.pools = Pools(gateway.settings.limits)
        app.state.conversions = Conversions(gateway.settings.limits)
        warming = asyncio.get_running_loop().call_later(WARM_AFTER_SECONDS, warm)
        speaking = app.state.model_context.running() if has_mcp else nullcontext()
        async with Feed(gateway).running() as feed, speaking:
            app.state.feed = feed
            yield
        warming.cancel()
        await app.state.receivers.end_all()
        await app.state.conversions.close()
        await run_in_threadpool(authenticator.keys.save_uses)
        repeats.flush()
        await run_in_threadpool(audit.close)

    is_serving = Role.SERVE in gateway.settings.roles
    has_mcp = is_serving and gateway.settings.http.mcp

    def warm() -> None:
        if is_serving:
            app.state.conversions.warm()

    authenticator = Authenticator(gateway.settings.http, gateway.settings.oidc, gateway.catalog, gateway.clock)
    audit = AuditLog(gateway.settings.audit_folder, FILE_BYTES, gateway.settings.audit.files)
    repeats = Repeats(audit.add)
    app = FastAPI(
        title="Attachment gateway",
        version=version("attachment-gateway"),
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Spans are made of the event log (docs/traces.md). FastAPI's own would be others, and cost each request time.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.gateway = gateway
    app.state.authenticator, app.state.audit, app.state.repeats = authenticator, audit, repeats
    app.state.links = Links(gateway.catalog.shared_secret(SECRET_NAME, SECRET_BYTES))
    app.state.in_flight = set()
    app.state.reading_keys = None
    app.state.receivers = Receivers()
    app.state.captures = 0
    _add_middleware(app, gateway, audit, repeats)
    if is_serving:
        app.routes.extend(routes(has_iceberg=gateway.settings.tables.iceberg, has_mcp=has_mcp))
        documentation.install(app)
        if has_mcp:
            app.state.model_context = _model_context_module().ModelContext(app)
    else:
        app.add_middleware(OtherRoleMiddleware, paths=ANY_ROLE, roles=gateway.settings.roles)
        app.routes.extend(health.router.routes)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _add_middleware(app: FastAPI, gateway: Gateway, audit: AuditLog, repeats: Repeats) -> None:
    """Add what requests pass through; the last one added is the first that a request reaches."""
    http = gateway.settings.http
    app.add_middleware(BrowserMiddleware, http=http, authenticator=app.state.authenticator)
    app.add_middleware(DeadlineMiddleware, seconds=http.request_timeout.total_seconds())
    app.add_middleware(EntityTagMiddleware)
    app.add_middleware(MeasuringMiddleware, metrics=gateway.metrics, traces=gateway.traces, clock=gateway.clock)
    if http.requests_a_second is not None or http.bytes_a_second is not None:
        rates = Rates(http.requests_a_second, http.bytes_a_second, gateway.clock.monotonic)
        app.add_middleware(RatingMiddleware, rates=rates)
    app.add_middleware(HeadMiddleware)
    problem_handlers.install(app)
    disconnection.install(app)
    app.add_middleware(tus.TusMiddleware)
    app.add_middleware(AuditMiddleware, add=audit.add, add_failed=repeats.add)
    if origins := http.cors_origins:
        app.add_middleware(CorsMiddleware, allow_origins=origins, **_CORS)
    app.add_middleware(FairQueueMiddleware)


def routes(*, has_iceberg: bool, has_mcp: bool) -> list[BaseRoute]:
    """Return the routes of an application. Raises KeyError for a route without an operation, whose callers nobody could
    check."""
    resources = [*_RESOURCES, sign_in, documentation, console, health]
    if has_iceberg:
        resources.append(iceberg_catalog)
    if has_mcp:
        resources.append(_model_context_module())
    found: list[BaseRoute] = [route for resource in resources for route in resource.router.routes]
    for route in found:
        if isinstance(route, APIRoute):
            OPERATIONS[route.operation_id or f"{route.path} has no operation_id"]
    return found


def _model_context_module() -> ModuleType:
    """Return the module of /mcp, whose library is an extra. Raises PluginError."""
    return plugins.module("app.web.mcp.endpoint", "http.mcp")


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        described = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            tags=app.openapi_tags,
            routes=app.routes,
        )
        described["components"]["schemas"] |= problems.schemas() | draft_schemas.schemas()
        _complete_operations(described, app.state.gateway.settings.oidc)
        for name in ("HTTPValidationError", "ValidationError"):
            described["components"]["schemas"].pop(name, None)
        field_descriptions.describe(described["components"]["schemas"])
        app.openapi_schema = described
    return app.openapi_schema


def _complete_operations(described: dict[str, Any], oidc: Oidc | None) -> None:
    """Say for each operation which scope it needs, by which scheme (OpenAPI 3.1 has scopes for any scheme), and that
    the gateway may not serve it.

    FastAPI's own description of status 422 goes: where validation can fail, a problem type is described.
    """
    schemes = [SCHEME]
    if oidc is not None:
        url = f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
        described["components"]["securitySchemes"][OIDC_SCHEME] = {"type": "openIdConnect", "openIdConnectUrl": url}
        schemes.append(OIDC_SCHEME)
    for path, operations in described["paths"].items():
        # It starts, stops, stands by or has lost its catalog, or this process does not serve REST.
        words = ("unavailable",) if path in ANY_ROLE else ("unavailable", "not-served")
        for operation in operations.values():
            needed = OPERATIONS[operation["operationId"]]
            is_open = needed.scope is None and not needed.any_scope
            scopes = [] if needed.scope is None else [needed.scope.value]
            operation["security"] = [] if is_open else [{scheme: scopes} for scheme in schemes]
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
            (unavailable,) = (each for status, each in problems.responses(*words).items() if status == 503)
            declared = operation["responses"].setdefault("503", unavailable)
            declared.setdefault("headers", {})["Retry-After"] = _RETRY_AFTER
            for media_type, content in unavailable["content"].items():
                known = declared.setdefault("content", {}).setdefault(media_type, content)
                known.setdefault("examples", {}).update(content["examples"])
