"""Clients, dashboards, configurations and scripts of a released version work with this one: docs/compatibility.md."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upgrades.breaking import breaking
from tests.upgrades.data import FOLDER, VERSIONS
from tests.upgrades.interface import names, openapi

Document = dict[str, Any]


@cache
def released(version: str, file: str) -> Document:
    found: Document = json.loads((FOLDER / version / file).read_text())
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_breaks_clients_of_a_released_version(version: str) -> None:
    """What is announced and then removed by docs/compatibility.md is removed from the released document, too."""
    assert breaking(released(version, "openapi.json"), openapi()) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_no_released_name_is_gone(version: str) -> None:
    """Labels of a metric stay the same: another one would change what sums and joins of dashboards give."""
    now = names()
    for kind, known in released(version, "names.json").items():
        assert known.keys() <= now[kind].keys(), kind
        for name, parts in known.items():
            there = now[kind][name]
            assert there == parts if kind == "metrics" else {*parts} <= {*there}, (kind, name)


def small() -> Document:
    """A document with one of each part that is compared."""
    item = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string"},
            "state": {"type": "string", "enum": ["open", "done"]},
            "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "inner": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}},
        },
    }
    body = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 100},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "note": {"type": ["string", "null"]},
        },
        "patternProperties": {"^x-": {"type": "string", "maxLength": 10}},
    }
    limit = {"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 500, "default": 50}}
    get = {
        "parameters": [limit],
        "responses": {
            "200": {
                "headers": {"ETag": {"schema": {"type": "string"}}},
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}},
            },
            "404": {"content": {"application/problem+json": {"schema": {"type": "object"}}}},
        },
    }
    post = {
        "requestBody": {
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}, "text/csv": {}}
        },
        "responses": {"202": {}},
    }
    return {"paths": {"/items": {"get": get, "post": post}}, "components": {"schemas": {"Item": item, "Body": body}}}


def parts(document: Document) -> dict[str, Any]:
    """The parts of the small document by names."""
    get, post = document["paths"]["/items"]["get"], document["paths"]["/items"]["post"]
    schemas = document["components"]["schemas"]
    return {
        "paths": document["paths"],
        "operations": document["paths"]["/items"],
        "get": get,
        "post": post,
        "limit": get["parameters"][0],
        "ok": get["responses"]["200"],
        "item": schemas["Item"],
        "sent": schemas["Body"],
        "schemas": schemas,
    }


def _renamed(part: dict[str, Any]) -> None:
    part["item"]["properties"]["identifier"] = part["item"]["properties"].pop("id")


def _other_schema(part: dict[str, Any]) -> None:
    """The same under another name is the same."""
    part["schemas"]["Thing"] = part["schemas"]["Item"]
    part["ok"]["content"]["application/json"]["schema"] = {"$ref": "#/components/schemas/Thing"}


STRING = {"type": "string"}
Change = Callable[[dict[str, Any]], Any]
BREAKING: dict[str, Change] = {
    "path": lambda part: part["paths"].pop("/items"),
    "method": lambda part: part["operations"].pop("post"),
    "parameter": lambda part: part["get"]["parameters"].clear(),
    "parameter required": lambda part: part["limit"].update(required=True),
    "new parameter required": lambda part: part["get"]["parameters"].append(
        {"in": "query", "name": "q", "required": True, "schema": STRING}
    ),
    "type of a parameter": lambda part: part["limit"]["schema"].update(type="string"),
    "default of a parameter": lambda part: part["limit"]["schema"].update(default=10),
    "limit of a parameter": lambda part: part["limit"]["schema"].update(maximum=100),
    "pattern of a parameter": lambda part: part["limit"]["schema"].update(pattern="[0-9]"),
    "status": lambda part: part["get"]["responses"].pop("404"),
    "header": lambda part: part["ok"]["headers"].clear(),
    "media type of a response": lambda part: part["ok"]["content"].clear(),
    "response field": lambda part: part["item"]["properties"].pop("size"),
    "response field renamed": _renamed,
    "response field not always there": lambda part: part["item"]["required"].clear(),
    "response enum value": lambda part: part["item"]["properties"]["state"]["enum"].pop(),
    "type of a response field": lambda part: part["item"]["properties"]["id"].update(type="integer"),
    "format of a response field": lambda part: part["item"]["properties"]["id"].update(format="uuid"),
    "response field null": lambda part: part["item"]["properties"].update(id={"type": ["string", "null"]}),
    "items of a response field": lambda part: part["item"]["properties"]["inner"].update(items=STRING),
    "body required": lambda part: part["post"]["requestBody"].update(required=True),
    "body": lambda part: part["post"].pop("requestBody"),
    "media type of a body": lambda part: part["post"]["requestBody"]["content"].pop("text/csv"),
    "body field": lambda part: part["sent"]["properties"].pop("note"),
    "body field required": lambda part: part["sent"]["required"].append("kind"),
    "new body field required": lambda part: part["sent"].update(
        required=["name", "more"], properties=part["sent"]["properties"] | {"more": STRING}
    ),
    "body enum value": lambda part: part["sent"]["properties"]["kind"]["enum"].pop(0),
    "body field enumerated": lambda part: part["sent"]["properties"]["name"].update(enum=["x"]),
    "body field not null": lambda part: part["sent"]["properties"].update(note=STRING),
    "limit of a body field": lambda part: part["sent"]["properties"]["name"].update(maxLength=10),
    "other body fields": lambda part: part["sent"].update(additionalProperties=False),
    "body fields with a pattern": lambda part: part["sent"]["patternProperties"].clear(),
    "limit of body fields with a pattern": lambda part: part["sent"]["patternProperties"]["^x-"].update(maxLength=5),
}
COMPATIBLE: dict[str, Change] = {
    "path": lambda part: part["paths"].update({"/more": {"get": {"responses": {}}}}),
    "method": lambda part: part["operations"].update(delete={"responses": {}}),
    "parameter": lambda part: part["get"]["parameters"].append({"in": "query", "name": "q", "schema": STRING}),
    "limit of a parameter": lambda part: part["limit"]["schema"].update(maximum=1000),
    "status": lambda part: part["get"]["responses"].update({"429": {}}),
    "header": lambda part: part["ok"]["headers"].update({"Deprecation": {}}),
    "media type": lambda part: part["ok"]["content"].update({"text/csv": {}}),
    "response field": lambda part: part["item"]["properties"].update(more=STRING),
    "response field always there": lambda part: part["item"]["required"].append("size"),
    "response field never null": lambda part: part["item"]["properties"].update(size={"type": "integer"}),
    "response enum value": lambda part: part["item"]["properties"]["state"]["enum"].append("lost"),
    "body field": lambda part: part["sent"]["properties"].update(more=STRING),
    "body field not required": lambda part: part["sent"]["required"].clear(),
    "body field null": lambda part: part["sent"]["properties"]["name"].update(type=["string", "null"]),
    "body enum value": lambda part: part["sent"]["properties"]["kind"]["enum"].append("c"),
    "body field without limit": lambda part: part["sent"]["properties"]["name"].pop("maxLength"),
    "name of a schema": _other_schema,
    "deprecated": lambda part: part["get"].update(deprecated=True),
}


@pytest.mark.parametrize(
    ("change", "breaks"),
    [pytest.param(each, True, id=f"breaking: {name}") for name, each in BREAKING.items()]
    + [pytest.param(each, False, id=f"compatible: {name}") for name, each in COMPATIBLE.items()],
)
def test_the_comparison_finds_what_breaks_and_nothing_else(change: Change, breaks: bool) -> None:
    changed = small()
    change(parts(changed))
    assert changed != small()
    assert bool(breaking(small(), changed)) == breaks


def test_a_keyword_that_is_not_compared_is_refused() -> None:
    changed = small()
    parts(changed)["sent"]["dependentRequired"] = {"kind": ["note"]}
    with pytest.raises(ValueError, match="dependentRequired"):
        breaking(small(), changed)


def removable(value: Any, at: tuple[Any, ...] = (), has_names: bool = False) -> Iterator[tuple[Any, ...]]:
    """The paths of operations, responses and properties in a document; a property may be named like a keyword."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if has_names:
                yield (*at, name)
            inner_has_names = not has_names and (
                name in {"properties", "patternProperties", "responses"} or at == ("paths",)
            )
            yield from removable(inner, (*at, name), inner_has_names)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from removable(inner, (*at, number))


@given(st.data())
def test_whatever_is_removed_from_the_released_document_is_missed(data: st.DataObject) -> None:
    whole = released(VERSIONS[-1], "openapi.json")
    assert breaking(whole, without(whole, *data.draw(st.sampled_from(_removable()))))


def without(value: Any, name: Any, *inner: Any) -> Any:
    """Return a document without one part; all others are shared."""
    if isinstance(value, list):
        return [without(each, *inner) if number == name else each for number, each in enumerate(value)]
    changed = {key: each for key, each in value.items() if key != name}
    return changed | {name: without(value[name], *inner)} if inner else changed


@cache
def _removable() -> list[tuple[Any, ...]]:
    return sorted(removable(released(VERSIONS[-1], "openapi.json")), key=repr)
