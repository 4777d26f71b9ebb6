"""`config`: what the configuration says, and everything that is wrong with it."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from app.cli.console import Failure, err, out, table
from app.settings import Settings, SettingsError, load

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="ATTACHMENT_GATEWAY_CONFIG", help="The TOML file; none: the defaults."),
]

_PASSWORD_IN_URL = re.compile(r"(://[^/@:]*:)[^/]*@")

config = typer.Typer(no_args_is_help=True, help="What the configuration says.")


@config.command()
def check(path: Config = None) -> None:
    """List everything that is wrong with the configuration, or what it amounts to."""
    rows = dict(_rows(effective(read(path))))
    defaults = dict(_rows(effective(Settings.model_construct())))
    grid = table("Setting", "Value")
    for name, value in rows.items():
        style = "dim" if defaults.get(name) == value else "bold"
        grid.add_row(escape(name), f"[{style}]{escape(value)}[/]")
    out.print(grid)
    err.print("the configuration is in order", style="green")


@config.command()
def show(path: Config = None) -> None:
    """Print the effective configuration as JSON, secrets masked."""
    typer.echo(json.dumps(effective(read(path)), indent=2, ensure_ascii=False))


def read(path: Path | None, *, transports: bool = True) -> Settings:
    """The settings, as `app.settings.load`; every problem of theirs is one Failure."""
    try:
        return load(path, transports=transports)
    except SettingsError as error:
        count = len(error.problems)
        why = "\n".join(f"  {problem}" for problem in error.problems)
        title = f"{count} problem{'s' * (count > 1)} in the configuration"
        raise Failure(f"{title}\n{why}", "docs/gateway.toml explains every setting") from error


def effective(settings: Settings) -> dict[str, Any]:
    """What the settings amount to, as the file would say it, without passwords."""
    said: dict[str, Any] = settings.model_dump(mode="json", exclude_none=True)
    said["journal"]["folder"] = str(settings.journal_folder)
    said["catalog"]["url"] = settings.catalog_url
    said["content"]["url"] = settings.content_url
    said["tables"]["url"] = settings.tables_url
    said["pipeline"]["checkpoint"] = settings.pipeline_checkpoint
    for endpoint in (*said["sources"].values(), *said["destinations"].values()):
        endpoint.update(endpoint.pop("options"))
    masked: dict[str, Any] = _masked(said)
    return masked


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(inner) for key, inner in value.items()}
    return _PASSWORD_IN_URL.sub(r"\1****@", value) if isinstance(value, str) else value


def _rows(said: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in said.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{path}{key}.")
        else:
            plain = isinstance(value, str) and value.isprintable()
            yield path + key, value if plain else json.dumps(value, ensure_ascii=False)
