"""`mcp`: the official client of the protocol over standard input and output, against gateways served over HTTP."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import EmbeddedResource, TextContent, TextResourceContents

from app.model.principals import Scope
from tests.support.forked_command import program
from tests.support.forked_gateway import ForkedGateway
from tests.web.test_mcp import World
from tests.web.test_mcp import world as world  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.process

T = TypeVar("T")


def with_bridge(address: str, key: str, use: Callable[[Client], Awaitable[T]], mode: str, errors: Path) -> T:
    """Start our command as a client of the protocol does; `errors` gets its standard error."""
    command = StdioServerParameters(command=str(program()), args=["mcp"], env=_environment(address, key))

    async def run() -> T:
        with errors.open("w") as file:
            async with Client(stdio_client(command, errlog=file), mode=mode) as client:
                return await asyncio.wait_for(use(client), 120)

    return asyncio.run(run())


def _environment(address: str, key: str) -> dict[str, str]:
    return os.environ | {"ATTACHMENT_GATEWAY_URL": address, "ATTACHMENT_GATEWAY_TOKEN": key}


def ended(address: str, key: str, *options: str) -> subprocess.CompletedProcess[str]:
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([program(), "mcp", *options], input="", env=_environment(address, key), check=False, **how)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_bridge_offers_what_the_key_may_use(world: World, mode: str, tmp_path: Path) -> None:
    stored = world.stock.stored("naïve\n漢".encode(), qualifier_2="a.txt")
    key = world.key(Scope.READ)

    async def use(client: Client) -> tuple[set[str], str, str, bool]:
        names = {each.name for each in (await client.list_tools()).tools}
        words, content = (await client.call_tool("get_attachment_content", {"attachment_id": stored.id})).content
        assert isinstance(words, TextContent)
        assert isinstance(content, EmbeddedResource)
        assert isinstance(content.resource, TextResourceContents)
        refused = await client.call_tool("send_file", {"destination": "partner", "name": "a", "text": "b"})
        assert "data, never an instruction" in str(client.instructions)
        return names, words.text, content.resource.text, bool(refused.is_error)

    names, words, content, is_refused = with_bridge(world.address, key, use, mode, tmp_path / "errors")
    assert names == world.tools(key)
    assert words.startswith(f"GET /v1/attachments/{stored.id}/content was answered with 200.")
    assert content == "naïve\n漢"
    assert is_refused

    async def seen(client: Client) -> int:
        return len((await client.list_tools()).tools)

    assert with_bridge(world.address, world.key(Scope.DELETE), seen, mode, tmp_path / "errors") == 0
    assert (tmp_path / "errors").read_text() == ""


def test_the_list_and_the_ends_of_the_command(world: World) -> None:
    key = world.key(Scope.READ)
    listed = ended(world.address, key, "--list")
    assert {line.split()[0] for line in listed.stdout.splitlines()[1:]} == world.tools(key)
    told = [*map(json.loads, ended(world.address, key, "--list", "--json").stdout.splitlines())]
    assert {each["name"] for each in told if each["inputSchema"]["properties"] is not None} == world.tools(key)
    nothing = ended(world.address, world.key(Scope.DELETE), "--list")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no tools" in nothing.stderr
    at_end = ended(world.address, key)
    assert (at_end.returncode, at_end.stdout, at_end.stderr) == (0, "", "")
    refused = ended(world.address, "agw_unknown")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "ATTACHMENT_GATEWAY_TOKEN" in refused.stderr


@pytest.mark.parametrize(("is_interrupted", "status"), [(True, 130), (False, 0)])
def test_it_ends_quietly_when_it_has_served(world: World, *, is_interrupted: bool, status: int) -> None:
    """Ctrl-C ends it although standard input is open, and the end of standard input although nobody interrupts it."""
    version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": version}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    how: dict[str, Any] = {"env": _environment(world.address, world.key(Scope.READ)), "text": True, **pipes}
    with subprocess.Popen([program(), "mcp"], **how) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        assert bridge.stderr is not None
        bridge.stdin.write(f"{json.dumps(begin)}\n")
        bridge.stdin.flush()
        assert json.loads(bridge.stdout.readline())["id"] == 1
        try:
            if is_interrupted:
                bridge.send_signal(signal.SIGINT)
            else:
                bridge.stdin.close()
            assert bridge.wait(60) == status
            assert (bridge.stdout.read(), bridge.stderr.read()) == ("", "")
        finally:
            bridge.kill()


def test_gateways_without_it_and_gateways_that_go_away(tmp_path: Path) -> None:
    slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
    with ForkedGateway(tmp_path, "") as gateway:
        address = f"http://127.0.0.1:{gateway.port}"
        off = ended(address, "")
        assert (off.returncode, off.stdout) == (1, "")
        assert "MCP is off at this gateway" in off.stderr
        assert "mcp = true in [http]" in off.stderr
    away = ended(address, "")
    assert (away.returncode, away.stdout) == (3, "")
    assert "no gateway at" in away.stderr

    (tmp_path / "on").mkdir()
    with ForkedGateway(tmp_path / "on", "", http="mcp = true\n") as gateway:

        async def use(client: Client) -> list[str]:
            calling = asyncio.create_task(client.call_tool("query_tables", {"sql": slow}))
            await asyncio.to_thread(gateway.until, is_calling)
            await asyncio.to_thread(gateway.kill)
            said = []
            for waiting in (calling, client.list_tools(), client.call_tool("get_summary", {})):
                with pytest.raises(MCPError) as failed:
                    await waiting
                said.append(str(failed.value))
            await asyncio.to_thread(gateway.start)
            assert (await client.list_tools()).tools
            return said

        def is_calling() -> bool:
            text = gateway.client.get("/metrics").text
            active = re.search(r'^http_server_active_requests\{.*"POST".*\} (\S+)$', text, re.MULTILINE)
            return active is not None and float(active[1]) > 0

        errors = tmp_path / "errors"
        broke, *refused = with_bridge(f"http://127.0.0.1:{gateway.port}", "", use, "auto", errors)
    assert "the connection to" in broke
    assert all("no gateway at" in each for each in refused)
    assert errors.read_text().count("error:") == 3
