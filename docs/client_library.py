"""The generated modules of the client library: its types, from the schemas of the OpenAPI document, and `Client`, from
the source of `AsyncClient`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.web.resources.attachments.schemas import AttachmentView
from app.web.resources.deliveries import AcceptedDelivery, DeliveryView
from app.web.resources.messages.schemas import MessageSummary, MessageView, Rehearsal
from app.web.resources.quarantine.schemas import QuarantineView
from app.web.resources.tables import TableSummary
from app.web.resources.uploads.endpoints import UploadView

_MODELS: Final[tuple[type[BaseModel], ...]] = (
    AttachmentView,
    MessageSummary,
    MessageView,
    Rehearsal,
    AcceptedDelivery,
    DeliveryView,
    UploadView,
    QuarantineView,
    TableSummary,
)
_HEAD: Final = '''"""The JSON of the gateway. Made by `make docs` from the schemas of its OpenAPI document."""

from typing import Any, Literal, NotRequired, TypedDict

'''
_LONGEST: Final = 120
_PLAIN: Final[Mapping[str, str]] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


_ASYNCHRONOUS: Final = Path(__file__).parent.parent / "clients/python/src/attachment_gateway_client/asynchronous.py"
_BLOCKING: Final = (
    (r'^""".*?"""', '"""The client for programs without an event loop. Made by `make docs` of asynchronous.py."""'),
    (r"await asyncio\.to_thread\(([\w.]+)(?:, )?(.*)\)", r"\1(\2)"),
    (r"calls\.read_in_threads\((.*)\)", r"\1"),
    (r"\(await (self\..*)\)\.json\(\)", r"\1.json()"),
    (r"for (\w+) in (page\[.*\]):\n\s+yield \1", r"yield from \2"),
    (r"\b(?:async|await) ", ""),
    (r"\basyncio\b", "time"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(?=enter__|exit__)", "__"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\ba(?=close\(|read\(|iter_\w+)", ""),
)
"""Regular expressions and what replaces them, in this order, to make blocking code of asynchronous code."""


def blocking_client() -> str:
    """Return the module of `Client`."""
    code = _ASYNCHRONOUS.read_text()
    for pattern, replacement in _BLOCKING:
        code = re.sub(pattern, replacement, code)
    return code


def types() -> str:
    """Return the module of the types, in an order in which each uses only those before it."""
    _, whole = models_json_schema([(model, "serialization") for model in _MODELS])
    schemas: dict[str, Any] = whole["$defs"]
    done: dict[str, str] = {}
    for name in sorted(schemas):
        _write(name, schemas, done)
    return _HEAD + "\n\n\n".join(done.values()) + "\n"


def _write(name: str, schemas: Mapping[str, Any], done: dict[str, str]) -> None:
    if name in done:
        return
    for used in _references(schemas[name]):
        _write(used, schemas, done)
    done[name] = _definition(_name(name), schemas[name])


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _definition(name: str, schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        line = f"{name} = {_hint(schema)}"
        if len(line) <= _LONGEST:
            return line
        values = "".join(f"    {_quoted(value)},\n" for value in schema["enum"])
        return f"{name} = Literal[\n{values}]"
    lines = [f"class {name}(TypedDict):", f'    """{_sentence(schema, name)}"""', ""]
    required = schema.get("required", [])
    for member, described in schema["properties"].items():
        hint = _hint(described)
        lines.append(f"    {member}: {hint if member in required else f'NotRequired[{hint}]'}")
    return "\n".join(lines)


def _sentence(schema: Mapping[str, Any], name: str) -> str:
    return str(schema.get("description", name)).split("\n\n")[0].replace("\n", " ")


def _hint(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(_quoted(value) for value in values)}]"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_hint(each) for each in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_hint(schema.get('items', {}))}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_hint(values) if isinstance(values, dict) else 'Any'}]"
    return _PLAIN.get(str(kind), "Any")


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _name(name: str) -> str:
    return name.removesuffix("View")
