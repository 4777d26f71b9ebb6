"""`keys`: make, list and revoke API keys, in the catalog of a gateway that may be running."""

import getpass
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from app.cli.config_command import Config, duration, read
from app.cli.line_tables import ListColumn, ListTable, print_list
from app.cli.terminal import Failure, Json, err, print_json, time
from app.model.principals import SCOPES, ApiKey, Scope
from app.model.times import to_microseconds, to_time
from app.settings import Settings

if TYPE_CHECKING:
    from app.ports import Catalog

_KEYS = (
    ListColumn("ID"),
    ListColumn("Name", least=8),
    ListColumn("State"),
    ListColumn("Scopes", least=8),
    ListColumn("Sources", least=8, order=3),
    ListColumn("Destinations", least=8, order=4),
    ListColumn("Created", order=2),
    ListColumn("Expires", order=1),
    ListColumn("Last used", order=5),
)
_STYLES = {"valid": "green", "expired": "yellow", "revoked": "dim"}
_SCOPES_HELP = "What the key may do; may be repeated. " + " ".join(
    f"{scope}: {meaning}." for scope, meaning in SCOPES.items()
)

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of clients.")


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the client that gets the key.")],
    path: Config = None,
    *,
    scopes: Annotated[list[Scope], typer.Option("--scope", "-s", help=_SCOPES_HELP)],
    sources: Annotated[
        list[str] | None, typer.Option("--source", help="Only attachments of this source; all others are hidden.")
    ] = None,
    destinations: Annotated[
        list[str] | None, typer.Option("--destination", help="Only deliveries to this destination.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="How long the key is valid, such as 90d. Default: for ever.")
    ] = None,
) -> None:
    """Make an API key and print it. It is shown only once; the gateway keeps its SHA-256.

    A running gateway accepts it within a second.
    """
    from app.service.access.api_keys import KeyLimits, make_key  # noqa: PLC0415 - a second of imports

    settings = _settings(path)
    _require_known(sources, settings.sources, "source")
    _require_known(destinations, settings.destinations, "destination")
    now = datetime.now(UTC)
    until = None if expires is None else to_microseconds(now + duration("--expires", expires))
    limits = KeyLimits(_set(sources), _set(destinations), until)
    try:
        key, text = make_key(name, frozenset(scopes), to_microseconds(now), limits)
        with _catalog(settings) as catalog:
            catalog.add_key(key)
    except ValueError as error:
        raise Failure(str(error)) from error
    _note(settings, "create-key", key)
    err.print(f"key {key.id} of {escape(name)}: store it now, it is not shown again", highlight=False)
    typer.echo(text)


@keys.command("ls")
def list_keys(path: Config = None, *, as_json: Json = False) -> None:
    """List all keys, also revoked and expired ones. The keys themselves are not stored and cannot be shown."""
    with _catalog(_settings(path)) as catalog:
        found = [_shown(key) for key in catalog.api_keys()]
    if as_json:
        return print_json(found)
    grid = ListTable(_KEYS)
    for each in found:
        grid.add_row(
            each["id"],
            escape(each["name"]),
            f"[{_STYLES[each['state']]}]{each['state']}[/]",
            ", ".join(each["scopes"]),
            escape(", ".join(each["sources"]) if each["sources"] is not None else "all"),
            escape(", ".join(each["destinations"]) if each["destinations"] is not None else "all"),
            time(each["created_at"]),
            time(each["expires_at"]),
            time(each["last_used_at"]),
        )
    print_list(grid, "no keys")
    return None


@keys.command()
def revoke(
    identifier: Annotated[str, typer.Argument(metavar="ID|NAME", help="The identifier or the name of a key.")],
    path: Config = None,
) -> None:
    """Revoke a key for ever. A running gateway refuses it within a second."""
    settings = _settings(path)
    with _catalog(settings) as catalog:
        known = [key for key in catalog.api_keys() if identifier in (key.id, key.name) and key.revoked_at is None]
        if not known:
            raise Failure(
                f"there is no valid key with the identifier or name {identifier!r}", "keys ls   lists all keys"
            )
        (key, *others) = known
        if others:
            raise Failure(f"{identifier!r} is the name of one key and the identifier of another: give an identifier")
        catalog.revoke_key(key.id, to_microseconds(datetime.now(UTC)))
    _note(settings, "revoke-key", key)
    err.print(f"key {key.id} of {escape(key.name)} was revoked", highlight=False)


def _settings(path: Any) -> Settings:
    return read(path, transports=False)


@contextmanager
def _catalog(settings: Settings) -> Iterator["Catalog"]:
    from app import plugins  # noqa: PLC0415 - a second of imports

    with closing(plugins.catalog()(settings.catalog_url)) as catalog:
        yield catalog


def _note(settings: Settings, action: str, key: ApiKey) -> None:
    """Add a change of a key to the audit log. Raises Failure when that fails: the change was made."""
    from app.service.access.audit import add_at_once, entry  # noqa: PLC0415

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user has no name
        user = "?"
    who = {"kind": "command-line", "name": user, "id": ""}
    new = entry(action, "done", who=who, key=key.id, name=key.name, scopes=sorted(key.scopes))
    try:
        add_at_once(settings.audit_folder, new)
    except OSError as error:
        raise Failure(f"{action} {key.id} was done, and could not be added to the audit log: {error}") from error


def _require_known(names: Sequence[str] | None, known: Any, what: str) -> None:
    for name in names or ():
        if name not in known:
            have = ", ".join(sorted(known)) or "none"
            raise Failure(f"unknown {what} {name!r}: the configuration has {have}")


def _set(names: Sequence[str] | None) -> frozenset[str] | None:
    return frozenset(names) if names else None


def _time(microseconds: int | None) -> str | None:
    return None if microseconds is None else to_time(microseconds).isoformat()


def _shown(key: ApiKey) -> dict[str, Any]:
    """Return a key as JSON, without its digest."""
    is_expired = key.expires_at is not None and key.expires_at <= to_microseconds(datetime.now(UTC))
    return {
        "id": key.id,
        "name": key.name,
        "state": "revoked" if key.revoked_at is not None else "expired" if is_expired else "valid",
        "scopes": sorted(key.scopes),
        "sources": None if key.sources is None else sorted(key.sources),
        "destinations": None if key.destinations is None else sorted(key.destinations),
        "created_at": _time(key.created_at),
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
        "last_used_at": _time(key.last_used_at),
    }
