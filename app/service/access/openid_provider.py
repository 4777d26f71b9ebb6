"""Requests to the OpenID provider. Its answers are JSON objects of a bounded size; redirections are not followed."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from app.model.errors import GatewayError

TIMEOUT_SECONDS = 5.0
LARGEST = 1 << 20
"""The maximum size of an answer."""


class ProviderAnswer(NamedTuple):
    """An answer of the provider."""

    status: int
    content: dict[str, Any]


def fetch_json(url: str) -> dict[str, Any]:
    """Return a JSON object at a URL. Raises GatewayError."""
    answer = _answer("GET", url)
    if not 200 <= answer.status < 300:
        raise GatewayError(f"{url} cannot be read: it answers with status {answer.status}")
    return answer.content


def post_form(url: str, form: Mapping[str, str]) -> ProviderAnswer:
    """Send a form, and return the answer, whatever its status. Raises GatewayError."""
    return _answer("POST", url, form)


def _answer(method: str, url: str, form: Mapping[str, str] | None = None) -> ProviderAnswer:
    headers = {"Accept": "application/json"}
    try:
        with httpx.stream(method, url, data=form, timeout=TIMEOUT_SECONDS, headers=headers) as response:
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > LARGEST:
                    raise GatewayError(f"{url} has more than {LARGEST} bytes")
        found = httpx.Response(200, content=body).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise GatewayError(f"{url} cannot be read: {error or type(error).__name__}") from error
    if not isinstance(found, dict):
        raise GatewayError(f"{url} is not a JSON object")
    return ProviderAnswer(response.status_code, found)
