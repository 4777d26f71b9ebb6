"""Endpoints for health, whose details need authorization, and for metrics."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from app.metrics import METRICS_CONTENT_TYPE
from app.service.gateway import Gateway
from app.service.monitoring.health_report import Health
from app.web.dependencies.caller import Caller, authorize_unless_public, recognised
from app.web.dependencies.request_gateway import GatewayDep
from app.web.problems import responses
from app.web.server.thread_pools import pools_of, run_in

METRICS_PATH = "/metrics"

router = APIRouter(tags=["operations"])


class HealthView(BaseModel):
    """The overall result and, for callers that may read or if the setting `http.public` has `health`, the result of
    each check."""

    ok: bool
    checks: dict[str, dict[str, Any]] = Field(default={}, examples=[{"recovery": {"ok": True}}])


_UNWELL: dict[int | str, dict[str, Any]] = {503: {"model": HealthView, "description": "a check has failed"}}


ReaderDep = Annotated[Caller | None, Depends(recognised)]


@router.get("/health/live", operation_id="live", responses=_UNWELL, response_model_exclude_unset=True)
async def live(request: Request, gateway: GatewayDep, caller: ReaderDep, response: Response) -> HealthView:
    """Tell whether the process is alive. 503 asks for a restart."""
    health = await run_in(pools_of(request).health, gateway.health)
    return _view(health.live, _shown(gateway, health, caller), response)


@router.get("/health/ready", operation_id="ready", responses=_UNWELL, response_model_exclude_unset=True)
async def ready(request: Request, gateway: GatewayDep, caller: ReaderDep, response: Response) -> HealthView:
    """Tell whether the gateway is ready both for readers and to receive. 503 while it starts and while it drains."""
    health = await run_in(pools_of(request).health, gateway.health)
    return _view(health.ready, _shown(gateway, health, caller), response)


@router.get("/health/ready/read", operation_id="ready_to_read", responses=_UNWELL, response_model_exclude_unset=True)
async def ready_to_read(request: Request, gateway: GatewayDep, caller: ReaderDep, response: Response) -> HealthView:
    """Tell whether clients can read. 503 also while the catalog does not answer."""
    health = await run_in(pools_of(request).health, gateway.health)
    return _view(health.read, _shown(gateway, health, caller), response)


@router.get(
    "/health/ready/receive", operation_id="ready_to_receive", responses=_UNWELL, response_model_exclude_unset=True
)
async def ready_to_receive(request: Request, gateway: GatewayDep, caller: ReaderDep, response: Response) -> HealthView:
    """Tell whether the gateway receives messages. 503 also while the journal cannot be written."""
    health = await run_in(pools_of(request).health, gateway.health)
    return _view(health.receive, _shown(gateway, health, caller), response)


@router.get(
    METRICS_PATH,
    operation_id="metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **responses("unauthorized", "forbidden")},
)
def metrics(gateway: GatewayDep, caller: Annotated[Caller | None, Depends(authorize_unless_public)]) -> Response:
    """Return the metrics in Prometheus' text format. They are about all sources: a key with limits gets 403."""
    if caller is not None:
        caller.require_unlimited()
    return Response(gateway.metrics.text(), headers={"Content-Type": METRICS_CONTENT_TYPE})


def _shown(gateway: Gateway, health: Health, caller: Caller | None) -> dict[str, dict[str, Any]] | None:
    """Return the checks that a caller may see; None if it may see none.

    A caller with limits sees details only of its own sources and destinations.
    """
    if "health" in gateway.settings.http.public:
        return health.checks
    if caller is None:
        return None
    who = caller.principal
    if not who.is_limited:
        return health.checks
    hidden = {f"source {name}" for name in gateway.receivers if not who.knows_source(name)}
    hidden |= {f"destination {name}" for name in gateway.settings.destinations if not who.knows_destination(name)}
    own = {f"source {name}" for name in who.sources or ()} | {f"destination {name}" for name in who.destinations or ()}
    shown = ((name, check) for name, check in health.checks.items() if name not in hidden)
    return {name: check if name in own else {"ok": check["ok"]} for name, check in shown}


def _view(ok: bool, checks: dict[str, dict[str, Any]] | None, response: Response) -> HealthView:
    response.status_code = 200 if ok else 503
    response.headers["Cache-Control"] = "no-store"
    return HealthView(ok=ok) if checks is None else HealthView(ok=ok, checks=checks)
