"""`serve`: run the gateway."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape

from app.cli.config_command import Config, read
from app.cli.terminal import Failure, err
from app.model.errors import GatewayError
from app.observe import configure_logging, is_for_people, logger
from app.service.instance import new_instance
from app.settings import Http, Role, Settings

_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound

_NO_KEY = "there is no API key (attachment-gateway keys create) and no token (http.tokens)"
_ACCESS = {
    "token": "with an API key, a configured token or an access token",
    "this-machine": f"from this machine only: {_NO_KEY}",
    "everyone": f"[yellow]everyone who reaches this address: {_NO_KEY}[/]",
    "nobody": f"[yellow]no client: {_NO_KEY}[/]",
}

log = logger(__name__)


def serve(
    path: Config = None,
    roles: Annotated[
        list[Role] | None,
        typer.Option("--role", help="What this process does; may be given several times. Default: as configured, all."),
    ] = None,
) -> None:
    """Run the gateway, or the part of it that these roles are, until Ctrl-C or a signal ends it."""
    # Arrow reads this once, when it is loaded. Its own pool keeps freed memory, and is no faster here.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    settings = read(path, {"roles": roles} if roles else {})
    instance = new_instance()
    facts = {"roles": ",".join(sorted(settings.roles)), "instance": instance} if settings.is_divided else {}
    configure_logging(settings.log.level, settings.log.format, facts=facts)
    from app.main import serve as run  # noqa: PLC0415 - a second of imports that no other command should wait for

    try:
        run(settings, instance, partial(_announce, settings))
    except (GatewayError, OSError) as error:
        raise Failure(str(error)) from error


def _announce(settings: Settings, port: int, has_keys: bool) -> None:
    """Report what has started: as lines for people, or as one log event for programs. `port` is the one in use."""
    settings = settings.model_copy(update={"http": settings.http.model_copy(update={"port": port})})
    if not is_for_people(settings.log.format):
        facts = {
            "url": url_of(settings.http),
            "data": str(settings.data.absolute()),
            "access": _access(settings, has_keys),
        }
        log.info(
            "gateway_started", **facts, sources=_kinds(settings.sources), destinations=_kinds(settings.destinations)
        )
        return
    for title, text in summary(settings, has_keys):
        err.print(f"{title:13} {text}", highlight=False)


def summary(settings: Settings, has_keys: bool) -> Iterator[tuple[str, str]]:
    """Yield what a gateway with these settings does: titles, and texts with rich's markup.

    `has_keys` tells whether there are API keys.
    """
    http = settings.http
    everywhere = ", at every address of this machine" if http.host in _EVERYWHERE else ""
    yield "gateway", f"[bold]{url_of(http)}[/]{everywhere}  (version {version('attachment-gateway')})"
    if settings.is_divided:
        yield "roles", ", ".join(sorted(settings.roles))
    yield "data", escape(str(settings.data.absolute()))
    yield "sources", _endpoints_text(settings.sources, "none: nothing is received")
    yield "destinations", _endpoints_text(settings.destinations, "none: nothing can be sent")
    yield "access", _ACCESS[_access(settings, has_keys)]


def url_of(http: Http) -> str:
    """Return the URL at which this machine reaches the gateway."""
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(http.host, http.host)  # noqa: S104
    scheme = "http" if http.cert_file is None else "https"
    return f"{scheme}://[{host}]:{http.port}" if ":" in host else f"{scheme}://{host}:{http.port}"


def _endpoints_text(endpoints: Mapping[str, Any], none: str) -> str:
    kinds = ", ".join(f"{escape(name)} ({kind})" for name, kind in _kinds(endpoints).items())
    return kinds or f"[yellow]{none}[/]"


def _kinds(endpoints: Mapping[str, Any]) -> dict[str, str]:
    """Return the transport and the framing of sources or destinations by their names."""
    return {name: f"{each.transport}, {each.framing}" for name, each in endpoints.items()}


def _access(settings: Settings, has_keys: bool) -> str:
    needs_key = has_keys or settings.http.tokens or settings.oidc is not None
    return "token" if needs_key else settings.http.anonymous
