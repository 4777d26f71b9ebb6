"""`config`: show the configuration, and all errors in it; options that all commands read like settings."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError
from rich.markup import escape

from app.cli.terminal import FAILED, Failure, err, out, table
from app.model.masking import masked
from app.model.validation import sentence
from app.settings import Duration, Settings, SettingsError, load

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="ATTACHMENT_GATEWAY_CONFIG",
        help="TOML configuration file. Without it: defaults and environment variables.",
    ),
]


_NOTHING: Mapping[str, Any] = {}

config = typer.Typer(no_args_is_help=True, help="Check and show the configuration.")


@config.command()
def check(
    path: Config = None,
    *,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only, and no settings.")] = False,
) -> None:
    """Check the configuration: list all errors, or the effective settings."""
    settings = read(path)
    if settings.http.cert_file is not None:
        from app.web.server.certificate import Certificate  # noqa: PLC0415 - most configurations have none

        Certificate(settings.http)
    if quiet:
        return
    rows = dict(_rows(effective(settings)))
    defaults = dict(_rows(effective(Settings.model_construct())))
    grid = table("Setting", "Value")
    for name, value in rows.items():
        style = "dim" if defaults.get(name) == value else "bold"
        grid.add_row(escape(name), f"[{style}]{escape(value)}[/]")
    out.print(grid)
    err.print("the configuration is valid", style="green")


@config.command()
def example() -> None:
    """Print a complete configuration file: every setting with its default and its meaning."""
    typer.echo(resources.files("app.settings").joinpath("example.toml").read_text(), nl=False)


@config.command()
def show(path: Config = None) -> None:
    """Print the effective configuration as JSON, with secrets masked."""
    typer.echo(json.dumps(effective(read(path)), indent=2, ensure_ascii=False))


def read(
    path: Path | None, given: Mapping[str, Any] = _NOTHING, *, transports: bool = True, code: int = FAILED
) -> Settings:
    """Return the settings, as `app.settings.load`; all their errors become one Failure with the exit status `code`."""
    try:
        return load(path, transports=transports, given=given)
    except SettingsError as error:
        count = len(error.problems)
        why = "\n".join(f"  {problem}" for problem in error.problems)
        title = f"{count} problem{'s' * (count > 1)} in the configuration"
        raise Failure(f"{title}\n{why}", "attachment-gateway config example   explains every setting", code) from error


def effective(settings: Settings) -> dict[str, Any]:
    """Return the effective settings in the form of the file, without passwords."""
    values: dict[str, Any] = settings.model_dump(mode="json", exclude_none=True)
    values["roles"] = sorted(values["roles"])
    values["journal"]["folder"] = str(settings.journal_folder)
    values["catalog"]["url"] = settings.catalog_url
    values["content"]["url"] = settings.content_url
    values["tables"]["url"] = settings.tables_url
    values["pipeline"]["checkpoint"] = settings.pipeline_checkpoint
    for endpoint in (*values["sources"].values(), *values["destinations"].values()):
        endpoint.update(endpoint.pop("options"))
    shown: dict[str, Any] = _masked(values)
    return shown


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_masked(each) for each in value]
    return masked(value) if isinstance(value, str) else value


def _rows(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{path}{key}.")
        else:
            plain = isinstance(value, str) and value.isprintable()
            yield path + key, value if plain else json.dumps(value, ensure_ascii=False)


_DURATIONS = TypeAdapter[timedelta](Duration)


def duration(option: str, text: str) -> timedelta:
    """Return the duration of an option, written as in settings: 90d, 1h30m. Raises Failure for any other text."""
    try:
        return _DURATIONS.validate_python(text)
    except ValidationError as error:
        raise Failure(f"{option}: {sentence(error.errors()[0])}") from None


def age(option: str, text: str) -> timedelta:
    """Return the age of an option from which something is deleted. Raises Failure also if it has no unit."""
    if not text.strip()[-1:].isalpha():
        raise Failure(
            f"{option} {text!r} has no unit", "Write for example 90d or 1h30m, with units ms, s, m, h, d and w."
        )
    return duration(option, text)
