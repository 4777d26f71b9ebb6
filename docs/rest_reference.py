"""The reference of the REST interface, made of its OpenAPI document: an index, and for each tag a page of operations
and a page of the objects that these are the first to use."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from app.main import build
from app.settings import Settings
from app.web.app import create_app

_REFERENCE: Final = "#/components/schemas/"
_PAGE: Final = "PageView_"
_SUCCESS: Final = "Successful Response"
_INDEX: Final = """\
# REST reference

For developers: every operation of the REST interface, made from its OpenAPI document.

A running gateway has the same document at `/openapi.json`, and a page to try the operations at `/docs`.
[REST by example](rest.md) shows requests with curl. [The client in Python](python-client.md) has methods for most of
them.

Where the gateway has keys, an operation needs a key with the [scope](access.md) that is written behind it. Any
operation may also answer with one of these [problems](problems.md): COMMON.

A *page* of objects has them in `items`; `next` is the cursor of the next page, and null on the last one. Objects may
get more fields, and lists of words more words: a client ignores those that it does not know.
"""


@cache
def _described() -> Mapping[str, Any]:
    """Return the OpenAPI document of a gateway with the default settings."""
    with TemporaryDirectory() as folder:
        described: dict[str, Any] = create_app(build(Settings(data=Path(folder)))).openapi()
    return described


def _operations(tag: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the operations of a tag, by method and path. HEAD answers as GET does, without a body."""
    for path, methods in _described()["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"] and not (method == "head" and "get" in methods):
                yield f"{method.upper()} {path}", operation


def _tags() -> Iterator[tuple[str, str]]:
    for each in _described()["tags"]:
        yield each["name"], each["description"]


def _text(text: str) -> str:
    """Return a text as one line, which can be a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _named(value: object) -> Iterator[str]:
    """Yield the names of the schemas to which a part of the document refers, in its order."""
    if isinstance(value, dict):
        if str(value.get("$ref", "")).startswith(_REFERENCE):
            yield str(value["$ref"]).removeprefix(_REFERENCE)
        for each in value.values():
            yield from _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)


@cache
def _places() -> Mapping[str, str]:
    """Return for each schema of an object the tag that uses it first."""
    schemas, found = _described()["components"]["schemas"], dict[str, str]()
    for tag, _ in _tags():
        names = [name for _, operation in _operations(tag) for name in _named(operation)]
        for name in names:
            names += [other for other in _named(schemas[name]) if other not in names]
            if "properties" in schemas[name] and not name.startswith(_PAGE):
                found.setdefault(name, tag)
    return found


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words, with links to objects."""
    if reference := schema.get("$ref"):
        return _referred(reference.removeprefix(_REFERENCE))
    if choices := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(dict.fromkeys(_type(each) for each in choices))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    name = str(schema.get("format", schema.get("type", "any")))
    if name == "array":
        return f"list of {_type(schema.get('items', {}))}"
    members = schema.get("additionalProperties")
    return f"{name} of {_type(members)}" if name == "object" and isinstance(members, dict) else name


def _referred(name: str) -> str:
    """Return the type that a schema with a name describes: a link, if it is an object."""
    schema: Mapping[str, Any] = _described()["components"]["schemas"][name]
    if name.startswith(_PAGE):
        return f"page of {_type(schema['properties']['items']['items'])}"
    tag = _places().get(name)
    return _type(schema) if tag is None else f"[{name}](rest-{tag}-objects.md#{_anchor(name)})"


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    if rows := operation.get("parameters"):
        yield "| parameter | in | value | |\n|---|---|---|---|\n"
        for each in rows:
            meaning = _text(each.get("description", ""))
            needed = "; required" if each["required"] and each["in"] != "path" else ""
            yield f"| `{each['name']}` | {each['in']} | {_type(each['schema'])}{needed} | {meaning} |\n"
        yield "\n"


def _body(operation: Mapping[str, Any]) -> Iterator[str]:
    if body := operation.get("requestBody"):
        kinds = (f"`{kind}` ({_type(each.get('schema', {}))})" for kind, each in body["content"].items())
        yield f"Body: {', '.join(kinds)}. {_text(body.get('description', ''))}".strip() + "\n\n"


def _problems(answer: Mapping[str, Any]) -> list[str]:
    examples = answer.get("content", {}).get("application/problem+json", {}).get("examples", {})
    return [f"`{word}`" for word in examples]


@cache
def _common() -> frozenset[str]:
    """Return the problems that more than half of all operations may answer with."""
    operations = [each for tag, _ in _tags() for _, each in _operations(tag)]
    found = [word for each in operations for answer in each["responses"].values() for word in _problems(answer)]
    return frozenset(word for word in found if found.count(word) * 2 > len(operations))


def _answers(operation: Mapping[str, Any]) -> Iterator[str]:
    yield "| status | answer |\n|---|---|\n"
    for status, answer in operation["responses"].items():
        if words := _problems(answer):
            told = ", ".join(word for word in words if word not in _common())
        else:
            content = (
                kind if kind != "application/json" else _type(each.get("schema", {}))
                for kind, each in answer.get("content", {}).items()
            )
            described = "" if answer["description"] == _SUCCESS else _text(answer["description"])
            told = ": ".join(filter(None, (described, ", ".join(content)))) or "no content"
        if told:
            yield f"| {status} | {told} |\n"
    yield "\n"


def index() -> str:
    """Return the page that lists all operations."""
    pages = [_INDEX.replace("COMMON", ", ".join(sorted(_common())))]
    for tag, description in _tags():
        pages.append(f"\n## [{tag.capitalize()}](rest-{tag}.md)\n\n{description[0].upper()}{description[1:]}.\n\n")
        pages.append("| operation | |\n|---|---|\n")
        for name, operation in _operations(tag):
            first = _text(operation["description"].partition("\n\n")[0])
            pages.append(f"| [`{name}`](rest-{tag}.md#{_anchor(name)}) | {first} |\n")
    return "".join(pages)


def operations(tag: str, description: str) -> str:
    """Return the page of the operations of a tag."""
    pages = [f"# REST: {tag}\n\nFor developers: the operations for {description}.\n\n"]
    for name, operation in _operations(tag):
        scopes = [f"`{scope}`" for each in operation["security"] for scopes in each.values() for scope in scopes]
        needs = f"\n\nScope: {', '.join(scopes)}" if scopes else ""
        pages += [f"## `{name}`\n\n{operation['description'].strip()}{needs}\n\n"]
        pages += [*_parameters(operation), *_body(operation), *_answers(operation)]
    return "".join(pages).rstrip("\n") + "\n"


def objects(tag: str) -> str:
    """Return the page of the objects that the operations of a tag are the first to use."""
    introduction = f"the JSON that [these operations](rest-{tag}.md) take and return."
    pages = [f"# REST: objects of {tag}\n\nFor developers: {introduction}\n"]
    for name in sorted(name for name, place in _places().items() if place == tag):
        schema = _described()["components"]["schemas"][name]
        told = f"{_text(schema['description'])}\n\n" if "description" in schema else ""
        pages.append(f"\n## {name}\n\n{told}| field | value | |\n|---|---|---|\n")
        required = schema.get("required", ())
        for field, each in schema["properties"].items():
            absent = "" if field in required else "; may be absent"
            pages.append(f"| `{field}` | {_type(each)}{absent} | {_text(each.get('description', ''))} |\n")
    return "".join(pages)


def pages() -> dict[str, Callable[[], str]]:
    """Return all pages of the reference by their names, as functions that write them."""
    made: dict[str, Callable[[], str]] = {"rest-reference.md": index}
    for tag, description in _tags():
        made[f"rest-{tag}.md"] = partial(operations, tag, description)
        if tag in _places().values():
            made[f"rest-{tag}-objects.md"] = partial(objects, tag)
    return made
