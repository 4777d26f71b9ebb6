"""Schemathesis, which sends requests by the OpenAPI description of a gateway and checks the answers."""

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


def assert_conforms(address: str, folder: Path, *options: str) -> None:
    """Assert that all answers of a gateway conform to its description; the options say which requests are sent.

    One worker: with several threads, Python's own parser fails now and then.
    Valid requests may be refused for reasons that a schema cannot tell, so that this is not checked.
    """
    (folder / "schemathesis.toml").write_text(_SETTINGS)
    (folder / "hooks.py").write_text(_HOOKS)
    tool = ("tool", "run", "--from", "schemathesis==4.32.5", "schemathesis", "--config-file", "schemathesis.toml")
    checks = ("--checks", "all", "--exclude-checks", "positive_data_acceptance")
    bounds = ("--workers", "1", "--seed", "1", "--request-timeout", "60", "--no-color")
    headers = ("--header", f"Authorization: Bearer {TOKEN}")
    said = ran(UV, *tool, "run", f"{address}/openapi.json", *headers, *checks, *bounds, *options, folder=folder)
    assert "Failures" not in said
