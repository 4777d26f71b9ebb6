"""The tools, each an operation of REST: described by the OpenAPI document, and called as a request of REST.

So a tool has the parameters, scopes, limits and problems of its operation, and its entry in the audit log.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from mcp.types import Tool, ToolAnnotations

from app.model.principals import Scope as AccessScope
from app.web.access.operations import OPERATIONS
from app.web.http.json_body import inlined
from app.web.resources.schemas import shown

OFFERED = (
    *("get_summary", "ready"),
    *("list_attachments", "get_attachment", "get_attachment_parts", "get_attachment_timeline"),
    *("get_attachment_content", "get_data_set_schema", "get_data_set_profile", "get_data_set_rows"),
    *("list_physical_messages", "trace_physical_message", "trace"),
    *("list_messages", "get_message"),
    *("list_tables", "get_table", "query_tables"),
    *("list_quarantine_groups", "list_quarantine", "get_quarantine_entry", "trace_quarantined"),
    *("list_deliveries", "get_delivery", "send_file"),
)
"""The operations that are tools, by the names that both have."""

_LEFT_OUT = frozenset({"accept", "traceparent", "link", "wait"})
"""Parameters that serve browsers and programs."""
_JSON = "application/json"
_CONTENT: dict[str, Any] = {
    "text": {"type": "string", "description": "the bytes as text, which is sent as UTF-8; or give base64"},
    "base64": {"type": "string", "description": "the bytes in base64, if they are no text"},
}
_RANGE = {"type": "string", "description": "bytes of a file, such as bytes=0-9999", "pattern": "^bytes=[0-9]*-[0-9]*$"}


class ArgumentsRefused(Exception):
    """An error in a tool's arguments, with the reason."""


class RestRequest(NamedTuple):
    """A request of REST: its path is encoded."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def target(self) -> str:
        """The request in the words of HTTP."""
        return f"{self.method} {self.path}{'?' if self.query else ''}{self.query}"


class RestTool(NamedTuple):
    """A tool, and how its arguments become a request: `places` says where in the request each of them is."""

    tool: Tool
    method: str
    path: str
    places: Mapping[str, str]
    media_type: str
    """That of the body; empty without one."""
    scope: AccessScope

    @property
    def has_pages(self) -> bool:
        """Whether the argument `limit` bounds the items of an answer, and no rows of content in a `format`."""
        return self.places.get("limit") == "query" and "format" not in self.places

    def request(self, given: Mapping[str, Any]) -> RestRequest:
        """Return the request for these arguments. What REST checks is not checked here. Raises ArgumentsRefused."""
        if unknown := [name for name in given if name not in self.places]:
            known = ", ".join(self.places) or "none"
            raise ArgumentsRefused(f"unknown argument {unknown[0]!r}; {self.tool.name} has these: {known}")
        placed: dict[str, dict[str, Any]] = {place: {} for place in ("path", "query", "header", "json", "content")}
        for name, value in given.items():
            if value is not None:
                placed[self.places[name]][name] = value
        if missing := [name for name in self.tool.input_schema["required"] if given.get(name) is None]:
            raise ArgumentsRefused(f"the argument {missing[0]!r} of {self.tool.name} is missing")
        path = self.path.format_map({name: quote(_text(value), safe="") for name, value in placed["path"].items()})
        query = urlencode(
            [
                (name, _text(each))
                for name, value in placed["query"].items()
                for each in (value if isinstance(value, list) else [value])
            ]
        )
        headers = {name.replace("_", "-"): _text(value) for name, value in placed["header"].items()}
        if self.media_type:
            headers["content-type"] = self.media_type
        body = json.dumps(placed["json"]).encode() if self.media_type == _JSON else _content(placed["content"])
        return RestRequest(self.method, path, query, headers, body)


def tools(openapi: Mapping[str, Any]) -> dict[str, RestTool]:
    """Return the tools of an application with this OpenAPI document, by name."""
    found = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    }
    definitions = openapi["components"]["schemas"]
    return {name: _tool(definitions, *found[name]) for name in OFFERED}


def _tool(definitions: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> RestTool:
    properties: dict[str, Any] = {}
    places: dict[str, str] = {}
    required: list[str] = []
    for each in operation.get("parameters", ()):
        if each["name"] not in _LEFT_OUT:
            name = each["name"].replace("-", "_")
            told = {"description": each["description"]} if "description" in each else {}
            properties[name], places[name] = _given(inlined(each["schema"], definitions)) | told, each["in"]
            required += [name] * each.get("required", False)
    if "206" in operation["responses"] and "format" in properties:
        properties["range"], places["range"] = _RANGE, "header"
    media_type = ""
    if (body := operation.get("requestBody")) is not None:
        ((media_type, content),) = body["content"].items()
        schema = inlined(content["schema"], definitions)
        given, place = (schema["properties"], "json") if media_type == _JSON else (_CONTENT, "content")
        properties |= {name: _given(each) for name, each in given.items()}
        places |= dict.fromkeys(given, place)
        required += schema.get("required", [])
    name = operation["operationId"]
    scope = OPERATIONS[name].scope or AccessScope.READ
    tool = Tool(
        name=name,
        title=operation["summary"],
        description=operation["description"],
        input_schema={
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=scope is not AccessScope.SEND, destructive_hint=False, open_world_hint=False
        ),
    )
    return RestTool(tool, method, path, places, media_type, scope)


def _given(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument that is given: without the null that stands for one which is not."""
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "title")}
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return kept | choices[0] if len(choices) == 1 else kept | ({"anyOf": choices} if choices else {})


def _text(value: Any) -> str:
    """Return a value as REST gets it: JSON can have texts that UTF-8 does not have."""
    return str(value).lower() if isinstance(value, bool) else shown(str(value))


def _content(given: Mapping[str, Any]) -> bytes:
    """Return the bytes of a body that is given as text or in base64. Raises ArgumentsRefused."""
    if len(given) > 1:
        raise ArgumentsRefused("give either text or base64, not both")
    try:
        if "base64" in given:
            return b64decode(given["base64"], validate=True)
        return _text(given.get("text", "")).encode()
    except (TypeError, ValueError) as error:
        raise ArgumentsRefused(f"the content cannot be read: {error}") from None
