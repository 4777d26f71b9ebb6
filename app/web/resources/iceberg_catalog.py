"""Endpoints of an Iceberg REST catalog, read only.

A client reads metadata here, and data from the store of the tables, with its own credentials.

Source: Apache Iceberg REST catalog specification, version 1.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse

from app.model.errors import GatewayError
from app.model.names import library_and_member, name_literal
from app.plugins import PluginError
from app.ports import IcebergTables
from app.web.dependencies.caller import authorize
from app.web.dependencies.known_resources import TablesDep
from app.web.dependencies.request_gateway import GatewayDep
from app.web.problems import Problem

PREFIX = "/iceberg/v1"
OWN_NAMESPACE = "attachment_gateway"
"""The namespace of the pipeline's own tables, `files` and `quality`."""

_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)

router = APIRouter(prefix=PREFIX, dependencies=[Depends(authorize)], include_in_schema=False)


def _iceberg(gateway: GatewayDep) -> IcebergTables:
    try:
        return gateway.tables.iceberg()
    except PluginError as error:
        raise Problem("tables-unavailable", str(error)) from None


IcebergDep = Annotated[IcebergTables, Depends(_iceberg)]


@router.get("/config", operation_id="get_iceberg_config")
def config() -> dict[str, Any]:
    """Return the configuration of clients: nothing to set, and the endpoints there are."""
    return {"defaults": {}, "overrides": {}, "endpoints": _ENDPOINTS}


@router.get("/namespaces", operation_id="list_iceberg_namespaces", response_model=None)
def list_namespaces(
    tables: TablesDep, parent: Annotated[str | None, Query(max_length=1000)] = None
) -> dict[str, Any] | Response:
    """List the namespaces, one for each library; none has a namespace within it."""
    known = _namespaces(tables.names())
    if not parent:
        return {"namespaces": [[each] for each in known]}
    return {"namespaces": []} if parent in known else _no_namespace(parent)


@router.get("/namespaces/{namespace:text}/tables", operation_id="list_iceberg_tables", response_model=None)
def list_tables(namespace: str, tables: TablesDep) -> dict[str, Any] | Response:
    """List the tables of a namespace."""
    try:
        found = _tables_of(tables.names(), namespace)
    except KeyError:
        return _no_namespace(namespace)
    return {"identifiers": [{"namespace": [namespace], "name": table} for table in found]}


@router.get("/namespaces/{namespace:text}/tables/{table:text}", operation_id="load_iceberg_table", response_model=None)
def load_table(namespace: str, table: str, tables: TablesDep, iceberg: IcebergDep) -> dict[str, Any] | Response:
    """Return a table's metadata at the newest version."""
    try:
        place, metadata = iceberg.load(_tables_of(tables.names(), namespace)[table])
    except KeyError:
        return _error(404, "NoSuchTableException", f"Table does not exist: {namespace}.{table}")
    except GatewayError as error:
        return _error(503, "ServiceUnavailableException", str(error))
    return {"metadata-location": place, "metadata": metadata, "config": {}}


@router.head("/namespaces/{namespace:text}/tables/{table:text}", operation_id="head_iceberg_table")
def has_table(namespace: str, table: str, tables: TablesDep) -> Response:
    """Tell whether there is a table."""
    try:
        return Response(status_code=204 if table in _tables_of(tables.names(), namespace) else 404)
    except KeyError:
        return Response(status_code=404)


@router.get("/namespaces/{namespace:text}", operation_id="get_iceberg_namespace", response_model=None)
def load_namespace(namespace: str, tables: TablesDep) -> dict[str, Any] | Response:
    """Return a namespace, which has no properties."""
    if namespace not in _namespaces(tables.names()):
        return _no_namespace(namespace)
    return {"namespace": [namespace], "properties": {}}


@router.head("/namespaces/{namespace:text}", operation_id="head_iceberg_namespace")
def has_namespace(namespace: str, tables: TablesDep) -> Response:
    """Tell whether there is a namespace."""
    return Response(status_code=204 if namespace in _namespaces(tables.names()) else 404)


def _no_namespace(namespace: str) -> Response:
    return _error(404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace}")


def _error(status: int, kind: str, message: str) -> Response:
    """Return an error in the form of the specification."""
    return JSONResponse({"error": {"message": message, "type": kind, "code": status}}, status)


def identifier(name: str) -> tuple[str, str]:
    """Return the namespace and the name in Iceberg of a table.

    A library with a dot is a name literal, in quotes. So are the members `.` and `..`: clients put a name into the path
    of a URL, where these two mean other places. A member that begins with a quote gets quotes, too, so that no two have
    the same name.
    """
    library, member = library_and_member(name)
    is_literal = member in {".", ".."} or member.startswith("'")
    return library or OWN_NAMESPACE, name_literal(member) if is_literal else member


def _namespaces(names: Iterable[str]) -> list[str]:
    """Return the namespaces of tables, in order."""
    return sorted({identifier(name)[0] for name in names})


def _tables_of(names: Iterable[str], namespace: str) -> dict[str, str]:
    """Return the tables of a namespace: their names in Iceberg, and here. Raises KeyError if there is none."""
    identified = ((*identifier(name), name) for name in sorted(names))
    found = {table: name for within, table, name in identified if within == namespace}
    if not found:
        raise KeyError(namespace)
    return found
