"""Endpoints of an Iceberg REST catalog, read only.

A client reads metadata here, and data from the store of the tables, with its own credentials.

Source: Apache Iceberg REST catalog specification, version 1.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse

from app.model.errors import GatewayError
from app.plugins import PluginError
from app.ports import IcebergTables
from app.service.tables.iceberg_identifiers import namespaces, tables_of
from app.web.dependencies.caller import authorize
from app.web.dependencies.known_tables import TablesDep
from app.web.dependencies.request_gateway import GatewayDep
from app.web.problems import Problem

PREFIX = "/iceberg/v1"

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
    known = namespaces(tables.names())
    if not parent:
        return {"namespaces": [[each] for each in known]}
    return {"namespaces": []} if parent in known else _no_namespace(parent)


@router.get("/namespaces/{namespace:text}/tables", operation_id="list_iceberg_tables", response_model=None)
def list_tables(namespace: str, tables: TablesDep) -> dict[str, Any] | Response:
    """List the tables of a namespace."""
    try:
        found = tables_of(tables.names(), namespace)
    except KeyError:
        return _no_namespace(namespace)
    return {"identifiers": [{"namespace": [namespace], "name": table} for table in found]}


@router.get("/namespaces/{namespace:text}/tables/{table:text}", operation_id="load_iceberg_table", response_model=None)
def load_table(namespace: str, table: str, tables: TablesDep, iceberg: IcebergDep) -> dict[str, Any] | Response:
    """Return a table's metadata at the newest version."""
    try:
        place, metadata = iceberg.load(tables_of(tables.names(), namespace)[table])
    except KeyError:
        return _error(404, "NoSuchTableException", f"Table does not exist: {namespace}.{table}")
    except GatewayError as error:
        return _error(503, "ServiceUnavailableException", str(error))
    return {"metadata-location": place, "metadata": metadata, "config": {}}


@router.head("/namespaces/{namespace:text}/tables/{table:text}", operation_id="head_iceberg_table")
def has_table(namespace: str, table: str, tables: TablesDep) -> Response:
    """Tell whether there is a table."""
    try:
        return Response(status_code=204 if table in tables_of(tables.names(), namespace) else 404)
    except KeyError:
        return Response(status_code=404)


@router.get("/namespaces/{namespace:text}", operation_id="get_iceberg_namespace", response_model=None)
def load_namespace(namespace: str, tables: TablesDep) -> dict[str, Any] | Response:
    """Return a namespace, which has no properties."""
    if namespace not in namespaces(tables.names()):
        return _no_namespace(namespace)
    return {"namespace": [namespace], "properties": {}}


@router.head("/namespaces/{namespace:text}", operation_id="head_iceberg_namespace")
def has_namespace(namespace: str, tables: TablesDep) -> Response:
    """Tell whether there is a namespace."""
    return Response(status_code=204 if namespace in namespaces(tables.names()) else 404)


def _no_namespace(namespace: str) -> Response:
    return _error(404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace}")


def _error(status: int, kind: str, message: str) -> Response:
    """Return an error in the form of the specification."""
    return JSONResponse({"error": {"message": message, "type": kind, "code": status}}, status)
