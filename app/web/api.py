"""The REST application."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from app.service.conversion import Conversions
from app.service.gateway import Gateway
from app.web import documentation, problems, root
from app.web.archives import endpoints as archives
from app.web.attachments import endpoints as attachments
from app.web.deliveries import changing as deliveries_changing
from app.web.deliveries import endpoints as deliveries
from app.web.deps import API, authorize, only_known_parameters
from app.web.entity_tags import EntityTagMiddleware
from app.web.events import endpoints as events
from app.web.events.feed import Feed
from app.web.files import endpoints as files
from app.web.health import endpoints as health
from app.web.iceberg import endpoints as iceberg
from app.web.messages import drafts
from app.web.messages import endpoints as messages
from app.web.methods import HeadMiddleware
from app.web.problems import endpoints as problem_types
from app.web.quarantine import endpoints as quarantine
from app.web.tables import endpoints as tables
from app.web.trace import endpoints as trace
from app.web.webhooks import endpoints as webhooks

IO_THREADS = 32
"""Maximum number of threads that read and write content, for all clients together."""
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
    messages,
    archives,
    files,
    deliveries,
    deliveries_changing,
    quarantine,
    tables,
    events,
    webhooks,
    trace,
)


def create_app(gateway: Gateway) -> FastAPI:
    """Return the REST application of a gateway; the caller starts and stops the gateway."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(IO_THREADS, "content"))
        app.state.conversions = Conversions(gateway.settings.limits)
        warming = asyncio.get_running_loop().call_later(WARM_AFTER_SECONDS, app.state.conversions.warm)
        async with Feed(gateway).running() as feed:
            app.state.feed = feed
            yield
        warming.cancel()
        await app.state.conversions.close()

    app = FastAPI(
        title="Attachment gateway",
        version=version("attachment-gateway"),
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.gateway = gateway
    app.state.in_flight = set()
    app.state.captures = 0
    app.add_middleware(EntityTagMiddleware)
    app.add_middleware(HeadMiddleware)
    problems.install(app)
    api = APIRouter(
        prefix=API,
        dependencies=[Depends(authorize), Depends(only_known_parameters)],
        responses=problems.responses("unauthorized"),
    )
    for resource in _RESOURCES:
        api.include_router(resource.router)
    app.include_router(api)
    app.include_router(root.router)
    if gateway.settings.tables.iceberg:
        app.include_router(iceberg.router)
    app.include_router(health.router)
    app.include_router(problem_types.router)
    documentation.install(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        described = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            tags=app.openapi_tags,
            routes=app.routes,
        )
        described["components"]["schemas"] |= problems.schemas() | drafts.schemas()
        _forget_validation_error(described)
        app.openapi_schema = described
    return app.openapi_schema


def _forget_validation_error(described: dict[str, Any]) -> None:
    """Remove FastAPI's own description of status 422. Where validation can fail, a problem type is described."""
    for path in described["paths"].values():
        for operation in path.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        described["components"]["schemas"].pop(name, None)
