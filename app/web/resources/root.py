"""`/`: links to the documentation and to the resources, for programs as JSON and for browsers as `/docs`."""

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import BaseModel, Field

from app.web.console.endpoints import CONSOLE
from app.web.dependencies.request_gateway import API
from app.web.http.negotiation import quality
from app.web.resources.documentation import OPENAPI
from app.web.resources.schemas import Links

router = APIRouter(tags=["operations"])

_VARY = {"Vary": "Accept"}
_RESOURCES = ("attachments", "messages", "deliveries", "quarantine", "tables", "events")
_REDIRECT: dict[int | str, dict[str, Any]] = {
    307: {
        "description": "to `/docs`, for clients that prefer HTML",
        "headers": {"Location": {"description": "the documentation", "schema": {"type": "string"}}},
    }
}


class RootView(BaseModel):
    """The name and version of this program, and the paths of its documentation and resources."""

    title: str = Field(examples=["Attachment gateway"])
    gateway_version: str = Field(examples=["1.0.0"])
    links: Links = Field(examples=[{"docs": "/docs", "attachments": f"{API}/attachments"}])


@router.get("/", operation_id="get_root", response_model=RootView, responses=_REDIRECT)
def get_root(request: Request) -> Response:
    """Return links to the documentation and the resources; browsers are redirected to the documentation."""
    base = request.scope.get("root_path", "")
    accept = request.headers.get("accept")
    if accept and quality(accept, "text/html") > quality(accept, "application/json"):
        return RedirectResponse(f"{base}/docs", 307, _VARY)
    links = {"console": f"{base}{CONSOLE}/", "docs": f"{base}/docs", "openapi": f"{base}{OPENAPI}"}
    links |= {"problems": f"{base}/problems"}
    links |= {"live": f"{base}/health/live", "ready": f"{base}/health/ready", "metrics": f"{base}/metrics"}
    links |= {name: f"{base}{API}/{name}" for name in _RESOURCES}
    view = RootView(title=request.app.title, gateway_version=version("attachment-gateway"), links=links)
    return JSONResponse(view.model_dump(), headers=_VARY)
