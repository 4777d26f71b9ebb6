"""The bridge between the Model Context Protocol on standard input and output and the endpoint /mcp of a gateway.

A server of the protocol answers the client that started this program. It answers each request by a request of its own
to the gateway, which keeps no sessions: so one that fails is answered with an error, and the next one may succeed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, cast

import httpx
import httpx2
from attachment_gateway_client import AttachmentGatewayError, Problem
from attachment_gateway_client.calls import is_loopback, problem_of, unreachable
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
)

from app.cli.rest_client import as_failure
from app.cli.terminal import Failure, err, print_failure

_SECONDS = httpx2.Timeout(30, read=300)
_JSON = "application/json"


class McpEndpoint:
    """The endpoint /mcp of the gateway at a URL."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self._address = f"{url}/mcp"
        self._how: dict[str, Any] = {
            "headers": headers,
            "timeout": _SECONDS,
            "event_hooks": {"response": [_require_protocol]},
            "trust_env": not is_loopback(httpx2.URL(url).host),
        }
        self._version: dict[str, Any] = {}
        """How to begin without asking for the gateway's version of the protocol again."""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Return a client of the gateway. Raises Failure, and MCPError for an error that the gateway answers."""
        try:
            async with (
                httpx2.AsyncClient(**self._how) as http,
                Client(
                    streamable_http_client(self._address, http_client=http),
                    client_info=Implementation(name="attachment-gateway", version=version("attachment-gateway")),
                    **self._version,
                ) as client,
            ):
                if client.session.discover_result is not None:
                    self._version = {
                        "mode": client.protocol_version,
                        "prior_discover": client.session.discover_result,
                    }
                yield client
        except Exception as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> Exception:
        """Return what a user of this program can do about an error, which may be within groups of tasks' errors."""
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        match error:
            case Problem(status=HTTPStatus.NOT_FOUND):
                why = f"{self._address} does not exist: MCP is off at this gateway, or the URL is another one's"
                return Failure(why, "its setting is mcp = true in [http]")
            case AttachmentGatewayError():
                return as_failure(error)
            case httpx2.TransportError():
                kind = httpx.ConnectError if isinstance(error, httpx2.ConnectError) else httpx.NetworkError
                return as_failure(unreachable(self.url, kind(str(error))))
        return error


async def _require_protocol(response: httpx2.Response) -> None:
    """Raise Problem for an answer that is an error of HTTP, and none of the protocol."""
    if response.is_error and response.headers.get("content-type", "").partition(";")[0] != _JSON:
        await response.aread()
        raise problem_of(cast("httpx.Response", response))


async def offered(endpoint: McpEndpoint) -> list[Tool]:
    """Return the tools that the gateway offers to this key. Raises Failure."""
    async with endpoint.client() as client:
        return (await client.list_tools()).tools


async def bridge(endpoint: McpEndpoint) -> None:
    """Serve the client at standard input and output until standard input ends. Raises Failure if that cannot begin."""

    async def list_tools(_context: object, params: PaginatedRequestParams | None) -> ListToolsResult:
        async with _answering(endpoint) as client:
            return await client.list_tools(cursor=None if params is None else params.cursor)

    async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
        plain = CallToolRequestParams(name=params.name, arguments=params.arguments)
        async with _answering(endpoint) as client:
            return await client.session.send_request(CallToolRequest(params=plain), CallToolResult)

    async with endpoint.client() as client:
        told = client.instructions
    server: Server[Any] = Server(
        "attachment-gateway",
        version=version("attachment-gateway"),
        instructions=told,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (given, answers):
        await server.run(given, answers, server.create_initialization_options())


@asynccontextmanager
async def _answering(endpoint: McpEndpoint) -> AsyncIterator[Client]:
    """Return a client for one request. A failure is printed, and becomes an error of the protocol."""
    try:
        async with endpoint.client() as client:
            yield client
    except Failure as failure:
        print_failure(failure, err)
        raise MCPError(INTERNAL_ERROR, str(failure)) from failure
