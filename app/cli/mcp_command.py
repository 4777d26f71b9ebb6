"""`mcp`: tools of a gateway for programs that start their servers of the Model Context Protocol themselves."""

import asyncio
import logging
from typing import Annotated

import typer
from rich.markup import escape

from app import plugins
from app.cli import end_at_interrupts
from app.cli.line_tables import ListColumn, ListTable, print_list
from app.cli.rest_client import DEFAULT_URL, Url, connect, credentials
from app.cli.terminal import Json, print_json
from app.observe import configure_logging

_TOOLS = (ListColumn("Tool"), ListColumn("Changes"), ListColumn("Does", least=20))


def mcp(
    *,
    is_list: Annotated[bool, typer.Option("--list", help="List the tools that this key may use, and end.")] = False,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Serve a gateway's tools for language models on standard input and output, until the input ends, or Ctrl-C.

    For programs that start such a server themselves and speak the stdio transport of the Model Context Protocol. The
    gateway needs mcp = true in [http]. With --json, --list prints the tools as the protocol has them.
    """
    configure_logging("warning")
    made = plugins.module("app.cli.mcp_bridge", "attachment-gateway mcp")
    with connect(url) as client:
        client.get("caller")  # a gateway that is away, or refuses the key, is told of as by all commands
        endpoint = made.McpEndpoint(client.url, credentials())
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what it logs of a failed request is told by the failure
    if not is_list:
        end_at_interrupts()  # otherwise Ctrl-C waits for the thread that reads standard input, until that is closed
        asyncio.run(made.bridge(endpoint))
        return None
    tools = asyncio.run(made.offered(endpoint))
    if as_json:
        return print_json(each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in tools)
    grid = ListTable(_TOOLS)
    for each in tools:
        changes = "no" if each.annotations and each.annotations.read_only_hint else "yes"
        grid.add_row(
            escape(each.name),
            changes,
            escape(" ".join((each.description or "").split()).partition(". ")[0].removesuffix(".")),
        )
    print_list(grid, "this key may use no tools: it needs the scope read or send")
    return None
