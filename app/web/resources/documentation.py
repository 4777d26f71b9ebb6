"""`/docs`: Swagger UI. The gateway serves its scripts itself; no other host is involved.

The scripts come from the npm package swagger-ui-dist; see `swagger_ui/README.md`.
"""

from pathlib import Path

from fastapi import Depends, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from app.web.dependencies.caller import authorize_unless_public

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
