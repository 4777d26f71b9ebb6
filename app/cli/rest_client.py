"""The client of the gateway's REST interface for commands, and its errors as sentences."""

import os
from http import HTTPStatus
from typing import Annotated

import typer
from attachment_gateway_client import (
    DEFAULT_URL,
    AttachmentGatewayError,
    Client,
    InvalidToken,
    Problem,
    Unreachable,
    located,
)
from attachment_gateway_client.calls import checked_token, shown

from app.cli.terminal import FAILED, UNREACHABLE, Failure

__all__ = ["DEFAULT_URL", "Client", "Url", "as_failure", "connect", "credentials", "is_unavailable", "located"]

SHOWN_ERRORS = 50
_UNSUITABLE = "/problems/unsuitable"
_TOKEN = "ATTACHMENT_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
_HINTS = {HTTPStatus.UNAUTHORIZED: f"set {_TOKEN} to a token that the gateway accepts"}

Url = Annotated[str, typer.Option("--url", envvar="ATTACHMENT_GATEWAY_URL", help="URL of the gateway.")]


def connect(url: str) -> Client:
    """Return a client of the gateway at this URL, with the token of `ATTACHMENT_GATEWAY_TOKEN`.

    Raises Failure for an invalid URL or token, and for a proxy of the environment that cannot be used. Both URLs may
    hold a password: it is not shown.
    """
    hint = "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names it; NO_PROXY lists hosts that need none"
    try:
        return Client(url, os.environ.get(_TOKEN))
    except ImportError as error:
        raise Failure(f"{shown(url)} cannot be reached by a SOCKS proxy without the library 'socksio'", hint) from error
    except InvalidToken as error:
        raise Failure(f"{_TOKEN} is not a token: {error}", "write the token into it again") from error
    except ValueError as error:
        raise Failure(str(error), "" if "gateway" in str(error) else hint) from error


def credentials() -> dict[str, str]:
    """Return the header fields with the token of `ATTACHMENT_GATEWAY_TOKEN`, for clients other than `connect` makes."""
    token = checked_token(os.environ.get(_TOKEN) or "")
    return {"Authorization": f"Bearer {token}"} if token else {}


def is_unavailable(error: AttachmentGatewayError) -> bool:
    """Return whether the gateway, or a proxy in front of it, is temporarily unavailable."""
    return isinstance(error, Unreachable) or (isinstance(error, Problem) and error.is_temporary)


def as_failure(error: AttachmentGatewayError) -> Failure:
    """Return an error of the client as the failure of a command."""
    code = UNREACHABLE if is_unavailable(error) else FAILED
    if isinstance(error, Problem):
        return Failure(_problem_text(error), _HINTS.get(HTTPStatus(error.status), ""), code)
    hint = ""
    if isinstance(error, Unreachable) and error.is_refused:
        hint = "start one with: attachment-gateway serve   (or set its URL: --url, ATTACHMENT_GATEWAY_URL)"
    return Failure(str(error), hint, code)


def _problem_text(problem: Problem) -> str:
    """Return a problem as text for people; the errors of a data set have a line each, as there may be many."""
    errors = problem.errors
    if problem.type == _UNSUITABLE and errors:
        more = [f"and {len(errors) - SHOWN_ERRORS} more"] if len(errors) > SHOWN_ERRORS else []
        details = [str(error["detail"]) for error in errors[:SHOWN_ERRORS]]
        return "\n  ".join([f"{problem.title}:", *details, *more])
    sentences = [problem.detail]
    for error in errors:
        where = error.get("parameter") or str(error.get("pointer") or "").removeprefix("#").strip("/").replace("/", ".")
        detail = str(error["detail"])
        if detail not in problem.detail:
            sentences.append(f"{where}: {detail}" if where else detail)
    return "; ".join(sentences)
