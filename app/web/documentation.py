"""`/docs`: Swagger UI. The gateway serves its scripts itself; no other host is involved.

The scripts come from the npm package swagger-ui-dist; see `swagger_ui/README.md`.
"""

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

_FILES = Path(__file__).parent / "swagger_ui"
_PLACE = "/docs/files"
_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def install(app: FastAPI) -> None:
    """Serve the documentation of the application."""
    app.mount(_PLACE, StaticFiles(directory=_FILES), name="documentation")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=f"{root}{_PLACE}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_PLACE}/swagger-ui.css",
            swagger_favicon_url="data:,",
        )
        page.headers["Content-Security-Policy"] = _POLICY
        return page
