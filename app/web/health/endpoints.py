"""Endpoints for health, which need no authorization, and for metrics."""

from typing import Any

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from app.metrics import METRICS_CONTENT_TYPE
from app.web.deps import GatewayDep, authorize
from app.web.problems import responses

router = APIRouter(tags=["operations"])


class HealthView(BaseModel):
    """The result of each health check, and the overall result."""

    ok: bool
    checks: dict[str, dict[str, Any]] = Field(examples=[{"recovery": {"ok": True}}])


_UNWELL: dict[int | str, dict[str, Any]] = {503: {"model": HealthView, "description": "a check has failed"}}


@router.get("/health/live", operation_id="live", responses=_UNWELL)
def live(gateway: GatewayDep, response: Response) -> HealthView:
    """Tell whether the process is alive. 503 asks for a restart."""
    health = gateway.health()
    return _view(health.live, health.checks, response)


@router.get("/health/ready", operation_id="ready", responses=_UNWELL)
def ready(gateway: GatewayDep, response: Response) -> HealthView:
    """Tell whether the gateway accepts requests. 503 while it starts and while it drains."""
    health = gateway.health()
    return _view(health.ready, health.checks, response)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    dependencies=[Depends(authorize)],
    responses={200: {"content": {"text/plain": {}}}, **responses("unauthorized")},
)
def metrics(gateway: GatewayDep) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(gateway.metrics.text(), headers={"Content-Type": METRICS_CONTENT_TYPE})


def _view(ok: bool, checks: dict[str, dict[str, Any]], response: Response) -> HealthView:
    response.status_code = 200 if ok else 503
    response.headers["Cache-Control"] = "no-store"
    return HealthView(ok=ok, checks=checks)
