"""What describes REST: `/` with links, `/docs` with Swagger UI, `/openapi.json`, and the types of problems.

The gateway serves the scripts of Swagger UI itself; no other host is involved. They come from the npm package
swagger-ui-dist; see `swagger_ui/README.md`.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel, Field
from starlette.staticfiles import StaticFiles

from app.web.console.endpoints import CONSOLE
from app.web.dependencies.caller import authorize_unless_public
from app.web.dependencies.request_gateway import API
from app.web.http.negotiation import quality
from app.web.problems.problem import Problem, ProblemTypeView, responses
from app.web.problems.problem_types import PROBLEMS
from app.web.resources.schemas import Links

router = APIRouter(tags=["operations"])


_FILES = Path(__file__).parent / "swagger_ui"
_PLACE = "/docs/files"
OPENAPI = "/openapi.json"
_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def install(app: FastAPI) -> None:
    """Serve the documentation of the application, and its OpenAPI document."""
    app.mount(_PLACE, StaticFiles(directory=_FILES), name="documentation")

    public = [Depends(authorize_unless_public)]

    @app.get(OPENAPI, operation_id="get_openapi", include_in_schema=False, dependencies=public)
    async def openapi(request: Request) -> JSONResponse:
        root = request.scope.get("root_path", "").rstrip("/")
        described = app.openapi()
        return JSONResponse(described | {"servers": [{"url": root}]} if root else described)

    @app.get("/docs", operation_id="get_docs", include_in_schema=False, dependencies=public)
    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{OPENAPI}",
            title=app.title,
            swagger_js_url=f"{root}{_PLACE}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_PLACE}/swagger-ui.css",
            swagger_favicon_url="data:,",
        )
        page.headers["Content-Security-Policy"] = _POLICY
        return page


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


@router.get("/problems", operation_id="list_problems")
def list_problems() -> list[ProblemTypeView]:
    """List all types of problems that REST answers with."""
    return [ProblemTypeView.of(kind) for kind in PROBLEMS.values()]


@router.get("/problems/{word}", operation_id="get_problem", responses=responses("not-found"))
def get_problem(word: str) -> ProblemTypeView:
    """Return the type of problem that a problem's `type` refers to."""
    if word not in PROBLEMS:
        raise Problem("not-found", "there is no problem type with this name")
    return ProblemTypeView.of(PROBLEMS[word])
