"""Schemathesis, which sends requests by the OpenAPI description of a gateway and checks the answers."""

import json
from collections.abc import Mapping
from pathlib import Path

from app.web.resources.uploads import tus
from tests.support.fetched import UV, ran

TOKEN = "secret"
"""The token with which it asks; the gateway must accept it."""
_SETTINGS = """
hooks = "hooks"

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 428, 429, "5xx"]
"""
_HOOKS = f"""
import schemathesis

schemathesis.serializer.alias("{tus.MEDIA_TYPE}", "application/octet-stream")
"""


def assert_conforms(
    address: str, folder: Path, *options: str, values: Mapping[str, str] = {}, seconds: float = 240
) -> None:
    """Assert, within so many seconds, that all answers of a gateway conform to its description.

    The options say which requests are sent, and `values` has the values of some of their parameters.

    One worker: with several threads, Python's own parser fails now and then.
    Valid requests may be refused for reasons that a schema cannot tell, so that this is not checked.
    """
    parameters = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    (folder / "schemathesis.toml").write_text(f"{_SETTINGS}\n[parameters]\n{parameters}")
    (folder / "hooks.py").write_text(_HOOKS)
    tool = ("tool", "run", "--from", "schemathesis==4.32.5", "schemathesis", "--config-file", "schemathesis.toml")
    checks = ("--checks", "all", "--exclude-checks", "positive_data_acceptance")
    bounds = ("--workers", "1", "--seed", "1", "--request-timeout", "60", "--max-response-time", "60", "--no-color")
    headers = ("--header", f"Authorization: Bearer {TOKEN}")
    how = (*headers, *checks, *bounds, *options)
    said = ran(UV, *tool, "run", f"{address}/openapi.json", *how, folder=folder, seconds=seconds)
    assert "Failures" not in said
