"""Dependencies of endpoints: the gateway, and the page of a listing. `app.web.dependencies.caller` has who calls.

They are coroutines that never wait, because FastAPI runs every plain function in a thread.
"""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, Query, Request, Response, params
from fastapi.dependencies.utils import get_flat_params

from app.service.gateway import Gateway
from app.web.http.parameters import DIGITS
from app.web.problems import Problem

_OF_PATHS = "/%:@!$&'()*+,;=~"
"""Characters of encoded paths (RFC 3986) that `quote` would encode."""
API = "/v1"
"""The path of the versioned resources."""


async def _gateway(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


GatewayDep = Annotated[Gateway, Depends(_gateway)]


@dataclass(frozen=True, slots=True)
class Paging:
    """The requested page of a listing: the `next` of the previous page, and the maximum number of items."""

    cursor: str | None
    limit: int
    _request: Request
    _response: Response

    def link_next(self, cursor: str | None) -> None:
        """Add a link to the page that begins at a cursor (RFC 8288); None: there is none."""
        if cursor is not None:
            add_link_next(self._request, self._response, cursor=cursor)


async def _paging(
    request: Request,
    response: Response,
    cursor: Annotated[str | None, Query(description="`next` of the previous page", max_length=1000)] = None,
    limit: Annotated[int, Query(description="maximum number of items per page", ge=1, le=500), DIGITS] = 50,
) -> Paging:
    return Paging(cursor, limit, request, response)


PagingDep = Annotated[Paging, Depends(_paging)]


def add_link_next(request: Request, response: Response, **parameters: object) -> None:
    """Add a link to the request's own address with other parameters, where the next items are (RFC 8288).

    The path is as the client has encoded it: decoded, it could have characters that a header field cannot have.
    """
    path = quote(request.scope["raw_path"], safe=_OF_PATHS)
    query = [(name, value) for name, value in request.query_params.multi_items() if name not in parameters]
    response.headers["Link"] = f'<{path}?{urlencode([*query, *parameters.items()])}>; rel="next"'


def base_of(request: Request) -> str:
    """Return the path up to /v1 in the addresses that clients use."""
    return str(request.scope.get("root_path", "")) + API


async def base_path(request: Request) -> str:
    """Return `base_of` for an endpoint."""
    return base_of(request)


BaseDep = Annotated[str, Depends(base_path)]


_query_parameters: dict[str, list[str]] = {}
"""The names of an operation's query parameters. To work them out at each request would take part of its time."""


async def only_known_parameters(request: Request) -> None:
    """Refuse query parameters that the resource does not have: a misspelt filter must not select everything."""
    route: Any = request.scope.get("route")
    dependant = getattr(route, "dependant", None)
    if dependant is None or not request.query_params:
        return
    known = _query_parameters.get(route.operation_id)
    if known is None:
        fields = get_flat_params(dependant)
        known = sorted({field.alias for field in fields if isinstance(field.field_info, params.Query)})
        _query_parameters[route.operation_id] = known
    there_are = f"the known ones are {', '.join(known)}" if known else "this resource has none"
    unknown = [name for name in dict.fromkeys(request.query_params.keys()) if name not in known]
    errors = [{"parameter": name, "detail": f"unknown parameter; {there_are}"} for name in unknown]
    if errors:
        raise Problem("invalid", "; ".join(f"{e['parameter']}: {e['detail']}" for e in errors), errors=errors)
