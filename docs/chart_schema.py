"""The schema of the chart's values: `settings` by the models of the configuration, all else as the file has it.

Helm prints what a schema allows. A `const` that is a sentence therefore tells the user what to write instead.
"""

import json
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from adapters import memory
from adapters.ibm_mq import settings as ibm_mq
from adapters.mqtt import settings as mqtt
from adapters.rendezvous import settings as rendezvous
from app.model.masking import SECRET_PARAMETERS
from app.model.validation import SENTENCES, SETTING_NAME
from app.settings import ENVIRONMENT_PREFIX, Destination, Settings, Source
from app.settings.section import DURATION

FILE = Path(__file__).parents[1] / "helm" / "values.schema.json"
SOURCES: dict[str, type[BaseModel]] = {
    "ibm_mq": ibm_mq.SourceSettings,
    "memory": memory.QueueSettings,
    "mqtt": mqtt.SourceSettings,
    "rendezvous": rendezvous.SourceSettings,
}
DESTINATIONS: dict[str, type[BaseModel]] = {
    "ibm_mq": ibm_mq.DestinationSettings,
    "memory": memory.MemoryDestinationSettings,
    "mqtt": mqtt.DestinationSettings,
    "rendezvous": rendezvous.DestinationSettings,
}
DECIDED: dict[str, frozenset[str]] = {
    "settings": frozenset(("data", "assembler", "roles")),
    "http": frozenset(("host", "port", "cert_file", "key_file")),
}
"""What the chart decides itself, by section. TLS ends before the pod, whose probes speak HTTP."""

Schema = dict[str, Any]

_SECRET = r"(^|_)(password|passphrase|secrets?|token)$"  # noqa: S105 - a pattern
"""Keys of secrets, in settings of transports that are not known here."""
_KEPT = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems")
_WIDTH = 116
_ANY_CASE = re.compile("[a-z]")
"""A letter, which becomes one in upper or lower case: patterns of JSON Schema have no flag for it."""
_PARAMETERS = _ANY_CASE.sub(lambda found: f"[{found[0]}{found[0].upper()}]", "|".join(SECRET_PARAMETERS))
_URL_WITH_SECRET: Schema = {"$ref": "#/definitions/urlWithSecret"}
_DEFINITIONS: Schema = {
    "urlWithSecret": {"type": "string", "pattern": rf"^[^/]*://([^/@]*:[^/@]+@|.*(\?|&|;)({_PARAMETERS})=.)"},
    "duration": {
        "type": ["number", "string"],
        "minimum": 0,
        "if": {"type": "string"},
        "then": {
            "if": {"pattern": rf"^({DURATION.pattern}|[0-9]+(\.[0-9]+)?)$"},
            "else": {"const": "seconds, or a text with units such as 30s, 1h30m or 7d"},
        },
    },
    "sizeText": {
        "if": {"type": "string"},
        "then": {
            "if": {"pattern": r"^\s*[0-9]*\.?[0-9]+\s*([kKmMgGtTpPeE]?[iI]?[bB]?)\s*$"},
            "else": {"const": "bytes, or a text with a unit such as 64 MiB"},
        },
    },
}


def text() -> str:
    """Return `helm/values.schema.json` with the settings that there are now."""
    schema = json.loads(FILE.read_text())
    schema["properties"]["settings"] = settings()
    schema["properties"]["env"]["items"] = _variable()
    schema["definitions"] |= _DEFINITIONS
    return f"{_written(schema, '')}\n"


def _written(value: Any, indent: str) -> str:
    """Return JSON with each object and list on one line if there is room."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or len(indent) + len(line) <= _WIDTH:
        return line
    inner = f"{indent}  "
    if isinstance(value, list):
        rows = [_written(each, inner) for each in value]
        return f"[\n{inner}" + f",\n{inner}".join(rows) + f"\n{indent}]"
    rows = [f"{json.dumps(key)}: {_written(each, inner)}" for key, each in value.items()]
    return f"{{\n{inner}" + f",\n{inner}".join(rows) + f"\n{indent}}}"


def settings() -> Schema:
    """Return the schema of `settings`: all tables and keys that the gateway takes, and no others."""
    whole = Settings.model_json_schema()
    made = _table("settings", whole, whole["$defs"])
    made["properties"]["sources"] = _named(_endpoint(Source, SOURCES))
    made["properties"]["destinations"] = _named(_endpoint(Destination, DESTINATIONS))
    return made


def _endpoint(own: type[BaseModel], transports: dict[str, type[BaseModel]]) -> Schema:
    """Return the schema of a source or destination, whose keys depend on its transport.

    Another package's transport may have any keys. Those that look like secrets are refused.
    """
    gateways = own.model_json_schema()["properties"]
    del gateways["options"]
    made: Schema = {
        "type": "object",
        "required": ["transport"],
        "properties": {"transport": {"type": "string"}},
        "patternProperties": {_SECRET: _left_out("a key with the ending _file")},
    }
    for name, model in transports.items():
        options = model.model_json_schema()
        options["properties"] = gateways | options["properties"]
        made = {
            "if": {"properties": {"transport": {"const": name}}, "required": ["transport"]},
            "then": _table(name, options, options.get("$defs", {})),
            "else": made,
        }
    return made


def _variable() -> Schema:
    """Return the schema of an environment variable, which must not show a secret either."""
    secrets = sorted({name.upper() for name in _secrets(Settings.model_json_schema()) | _secrets_of_transports()})
    shown = _left_out("a key of a Secret", "valueFrom.secretKeyRef")
    of_gateway = f"^{ENVIRONMENT_PREFIX}.*"
    return {
        "type": "object",
        "required": ["name"],
        "if": {"properties": {"name": {"pattern": f"{of_gateway}__({'|'.join(secrets)})$"}}},
        "then": {"properties": {"value": shown}},
        "else": {
            "if": {
                "properties": {
                    "name": {"pattern": f"{of_gateway}URL$"},
                    "value": {"$ref": "#/definitions/urlWithSecret"},
                }
            },
            "then": {"properties": {"value": shown}},
        },
    }


def _left_out(what: str, where: str = "") -> Schema:
    return {"const": f"left out: name {what}{' by ' * bool(where)}{where}"}


def _of_secret(key: str) -> Schema:
    return _left_out("a file of existingSecret", f"{key}_file, such as /run/secrets/gateway/{key}")


def _secrets_of_transports() -> set[str]:
    models = (*SOURCES.values(), *DESTINATIONS.values())
    return set[str]().union(*(_secrets(model.model_json_schema()) for model in models))


def _secrets(schema: Schema) -> set[str]:
    tables = (schema, *schema.get("$defs", {}).values())
    return {name for table in tables for name, each in table.get("properties", {}).items() if _is_secret(each)}


def _is_secret(schema: Schema) -> bool:
    within = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return bool(schema.get("writeOnly")) or any(_is_secret(each) for each in within)


def _table(name: str, schema: Schema, definitions: Schema) -> Schema:
    given = {key: each for key, each in schema["properties"].items() if key not in DECIDED.get(name, ())}
    made = {key: _value(key, each, definitions) for key, each in given.items()}
    for key in given:
        if key == "url" or key.endswith("_url"):
            secret = "password" if "password" in given else key
            made[key] = {"if": _URL_WITH_SECRET, "then": _of_secret(secret), "else": made[key]}
        # Any value but a table may be in a file of its own.
        if made[key].get("type") != "object" and not key.endswith("_file"):
            made.setdefault(f"{key}_file", {"type": "string", "minLength": 1})
    properties = {key: _or_null(each) for key, each in made.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _named(each: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "patternProperties": {SETTING_NAME: _or_null(each)}}


def _or_null(schema: Schema) -> Schema:
    """Return a schema that accepts null, too: one file of values unsets by it what another one sets."""
    return {"if": {"type": "null"}, "else": schema}


def _value(key: str, schema: Schema, definitions: Schema) -> Schema:
    """Return the schema of a key's value that is not null."""
    if _is_secret(schema):
        return _of_secret(key)
    given = _alternatives(schema, definitions)
    if "properties" in given:
        return _table(key, given, definitions)
    if given.get("format") == "duration":
        return {"$ref": "#/definitions/duration"}
    made: Schema = {name: given[name] for name in _KEPT if name in given}
    made |= {"minimum": given["ge"]} if "ge" in given else {}
    made |= {"maximum": given["le"]} if "le" in given else {}
    if "items" in given:
        made["items"] = _value("", given["items"], definitions)
    if isinstance(within := given.get("additionalProperties"), dict):
        made["additionalProperties"] = _value("", within, definitions)
    if "patternProperties" in given:
        (within,) = given["patternProperties"].values()
        return _named(_value("", within, definitions))
    pattern = given.get("pattern", "")
    if made.get("type") == ["string", "integer"]:
        made.update(_DEFINITIONS["sizeText"])
        return made
    if pattern:
        sentence = SENTENCES.get(pattern, "").removeprefix("give ")
        made |= {"if": {"pattern": pattern}, "else": {"const": sentence}} if sentence else {"pattern": pattern}
    return made


def _alternatives(schema: Schema, definitions: Schema) -> Schema:
    """Return a schema without references and null, whose alternatives are one schema with several types."""
    given: Schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    found = [_alternatives(each, definitions) for each in given.get("anyOf", ()) if each.get("type") != "null"]
    if not found:
        return given
    merged: Schema = {name: each for name, each in given.items() if name != "anyOf"}
    for each in found:
        merged.update({name: value for name, value in each.items() if name not in ("default", "type")})
    kinds = list(dict.fromkeys(kind for each in found for kind in _types(each)))
    return merged | {"type": kinds[0] if len(kinds) == 1 else kinds}


def _types(schema: Schema) -> list[str]:
    kinds = schema["type"]
    return [kinds] if isinstance(kinds, str) else list(kinds)
