"""The comparison of two OpenAPI documents: what of the newer one breaks clients of the older one.

Schemas have a direction. What clients send may be allowed more and required less by the newer document. What they
receive may have more properties and more values of an enumeration, as clients must ignore those that they do not know;
everything that was there must still be there, with the same type.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]

_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_NESTED = ("items", "additionalProperties", "propertyNames", "contentSchema")
_NAMED = ("properties", "patternProperties")
_COMPARED = {
    *_LEAST,
    *_MOST,
    *_NESTED,
    *_NAMED,
    "prefixItems",
    "required",
    "type",
    "format",
    "enum",
    "const",
    "pattern",
}
_ANNOTATIONS = {"title", "description", "default", "examples", "deprecated", "contentMediaType"}


def breaking(old: Schema, new: Schema) -> list[str]:
    """Return what breaks clients, one sentence each."""
    return list(_Comparison(old, new).all())


class _Place(NamedTuple):
    """Where two schemas are, and whether clients send what they describe."""

    name: str
    is_sent: bool

    def at(self, name: str) -> "_Place":
        return self._replace(name=f"{self.name}.{name}")


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new
        self._compared: set[tuple[str, str, bool]] = set()

    def all(self) -> Iterator[str]:
        for path, operations in self._old["paths"].items():
            for method, operation in operations.items():
                name = f"{method.upper()} {path}"
                newer = self._new["paths"].get(path, {}).get(method)
                if newer is None:
                    yield f"{name} is gone"
                else:
                    yield from self._parameters(name, operation, newer)
                    yield from self._body(name, operation.get("requestBody"), newer.get("requestBody"))
                    yield from self._responses(name, operation["responses"], newer["responses"])

    def _parameters(self, name: str, old: Schema, new: Schema) -> Iterator[str]:
        before, after = (
            {(each["in"], each["name"]): each for each in operation.get("parameters", ())} for operation in (old, new)
        )
        for key, parameter in after.items():
            if parameter.get("required") and not before.get(key, {}).get("required"):
                yield f"{name}: the {key[0]} parameter {key[1]} is required now"
        for key, parameter in before.items():
            if key not in after:
                yield f"{name}: the {key[0]} parameter {key[1]} is gone"
                continue
            place = _Place(f"{name}: {key[1]}", is_sent=True)
            old_schema, new_schema = parameter["schema"], after[key]["schema"]
            yield from self._schemas(place, old_schema, new_schema)
            if old_schema.get("default") != new_schema.get("default"):
                yield f"{place.name} has another default"

    def _body(self, name: str, old: Schema | None, new: Schema | None) -> Iterator[str]:
        if new is not None and new.get("required") and not (old or {}).get("required"):
            yield f"{name} requires a body now"
        if old is not None:
            yield from self._content(_Place(f"{name}: body", is_sent=True), old, new or {})

    def _responses(self, name: str, old: Schema, new: Schema) -> Iterator[str]:
        for status, response in old.items():
            if status not in new:
                yield f"{name} has no response {status} any more"
                continue
            place = _Place(f"{name}: {status}", is_sent=False)
            yield from self._content(place, response, new[status])
            for header in response.get("headers", {}).keys() - new[status].get("headers", {}).keys():
                yield f"{place.name} has no header {header} any more"

    def _content(self, place: _Place, old: Schema, new: Schema) -> Iterator[str]:
        after = new.get("content", {})
        for media_type, content in old.get("content", {}).items():
            if media_type not in after:
                yield f"{place.name} is not {media_type} any more"
            else:
                yield from self._schemas(place, content.get("schema", {}), after[media_type].get("schema", {}))

    def _schemas(self, place: _Place, old: Schema, new: Schema) -> Iterator[str]:
        """Compare two schemas, each alternative of one with the most similar one of the other."""
        key = (old.get("$ref", ""), new.get("$ref", ""), place.is_sent)
        if all(key[:2]):
            if key in self._compared:
                return
            self._compared.add(key)
        before, after = (list(_alternatives(*each)) for each in ((old, self._old), (new, self._new)))
        # A client may send any of the old ones, and may receive any of the new ones.
        for one in before if place.is_sent else after:
            others = after if place.is_sent else before
            pairs = ((one, other) if place.is_sent else (other, one) for other in others)
            found = [list(self._alternative(place, *pair)) for pair in pairs]
            yield from min(found, key=len, default=[f"{place.name} is gone"])

    def _alternative(self, place: _Place, old: Schema, new: Schema) -> Iterator[str]:
        if unknown := sorted((old.keys() | new.keys()) - _COMPARED - _ANNOTATIONS):
            raise ValueError(f"{place.name} has {', '.join(unknown)}, which this comparison does not know: add it here")
        before, after = (tuple(each.get(name) for name in ("type", "format")) for each in (old, new))
        if before != after:
            yield f"{place.name} was {_spoken(before)} and is {_spoken(after)}"
            return
        yield from _values(place, old, new)
        if place.is_sent:
            yield from _narrower(place, old, new)
        yield from self._properties(place, old, new)
        for name in _NESTED:
            inner, newer = old.get(name, True), new.get(name, True)
            if isinstance(inner, Mapping) and isinstance(newer, Mapping):
                yield from self._schemas(place.at(name), inner, newer)
            elif inner != newer and (newer if place.is_sent else inner) is not True:
                yield f"{place.name} has other {name} now"
        for number, pair in enumerate(zip(old.get("prefixItems", ()), new.get("prefixItems", ()), strict=False)):
            yield from self._schemas(place.at(str(number)), *pair)

    def _properties(self, place: _Place, old: Schema, new: Schema) -> Iterator[str]:
        before, after = ({k: v for name in _NAMED for k, v in each.get(name, {}).items()} for each in (old, new))
        required = [set(each.get("required", ())) for each in (old, new)]
        for name, schema in before.items():
            if name not in after:
                yield f"{place.at(name).name} is gone"
            else:
                yield from self._schemas(place.at(name), schema, after[name])
        changed = required[1] - required[0] if place.is_sent else (required[0] - required[1]) & after.keys()
        for name in sorted(changed):
            yield f"{place.at(name).name} is {'required now' if place.is_sent else 'not always there any more'}"


def _alternatives(schema: Schema, document: Schema) -> Iterator[Schema]:
    """Yield the alternatives of a schema, each with one type."""
    if ref := schema.get("$ref"):
        yield from _alternatives(document["components"]["schemas"][ref.rpartition("/")[2]], document)
    elif inner := schema.get("anyOf") or schema.get("oneOf"):
        for each in inner:
            yield from _alternatives(each, document)
    elif isinstance(types := schema.get("type"), list):
        for each in types:
            yield {**schema, "type": each}
    else:
        yield schema


def _values(place: _Place, old: Schema, new: Schema) -> Iterator[str]:
    before, after = (each.get("enum", [each["const"]] if "const" in each else None) for each in (old, new))
    if before is not None and after is not None:
        for value in before:
            if value not in after:
                yield f"{place.name} has no value {value!r} any more"
    elif after is not None and place.is_sent:
        yield f"{place.name} takes only some values now"


def _narrower(place: _Place, old: Schema, new: Schema) -> Iterator[str]:
    """Yield the limits of what clients send that are narrower than before."""
    for names, sign in ((_LEAST, 1), (_MOST, -1)):
        for name in names:
            if name in new and (name not in old or sign * new[name] > sign * old[name]):
                yield f"{place.name} has the {name} {new[name]} now"
    if new.get("pattern") not in {None, old.get("pattern")}:
        yield f"{place.name} has another pattern"


def _spoken(kind: Iterable[Any]) -> str:
    return "/".join(filter(None, kind)) or "anything"
