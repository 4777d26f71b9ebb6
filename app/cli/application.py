"""The commands by name."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from attachment_gateway_client import AttachmentGatewayError
from pydantic import ValidationError
from typer.core import TyperGroup

from app.cli import (
    config_command,
    get_command,
    journal_command,
    keys_command,
    list_commands,
    pipeline_command,
    profile_command,
    receivers_command,
    repair_commands,
    rm_command,
    send_command,
    serve_command,
    tables_command,
    terminal,
    trace_command,
    watch_command,
    webhooks_command,
)
from app.cli.demo_command import demo
from app.cli.rest_client import as_failure
from app.cli.terminal import Failure, err, print_failure
from app.model.errors import GatewayError
from app.model.validation import sentence
from app.plugins import PluginError


class _Commands(TyperGroup):
    """The commands. Usage errors from pydantic become sentences."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _with_plain_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _with_plain_errors():
            return super().invoke(ctx)


@contextmanager
def _with_plain_errors() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        if isinstance(error.__cause__, ValidationError):
            error.message = sentence(error.__cause__.errors()[0])
        raise


application = typer.Typer(
    name="attachment-gateway",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
application.command()(serve_command.serve)
application.command()(demo)
application.command()(send_command.send)
application.command("ls")(list_commands.attachments)
application.command("show")(list_commands.show_attachment)
application.command()(get_command.get)
application.command()(get_command.contents)
application.command("profile")(profile_command.show_profile)
application.command()(rm_command.rm)
application.command()(watch_command.watch)
application.command()(list_commands.deliveries)
application.command()(list_commands.audit)
application.command()(trace_command.trace)
application.command()(repair_commands.fsck)
application.command()(repair_commands.rebuild)
application.command()(repair_commands.backup)
application.command()(repair_commands.restore)
application.add_typer(list_commands.quarantine, name="quarantine")
application.add_typer(webhooks_command.webhooks, name="webhooks")
application.add_typer(receivers_command.receivers, name="receivers")
application.add_typer(tables_command.tables, name="tables")
application.add_typer(config_command.config, name="config")
application.add_typer(keys_command.keys, name="keys")
application.add_typer(journal_command.journal, name="journal")
application.add_typer(pipeline_command.pipeline, name="pipeline")


def run() -> None:
    """Run a command line, and end the process with an exit status of docs/cli.md.

    Errors that the user can correct end with a sentence, all others with a traceback. Ctrl-C is for the caller.
    """
    terminal.guard_standard_output()
    try:
        try:
            application()
        finally:
            sys.stdout.flush()
    except Failure as failure:
        _end(failure)
    except AttachmentGatewayError as error:
        _end(as_failure(error))
    except (GatewayError, PluginError) as error:
        _end(Failure(str(error)))
    except OSError as error:
        _end(Failure(f"{error.filename}: {error.strerror}" if error.filename else str(error)))


def _end(failure: Failure) -> NoReturn:
    print_failure(failure, err)
    sys.exit(failure.code)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"attachment-gateway {version('attachment-gateway')}")
        raise typer.Exit


@application.callback()
def options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Transfer attachments between message brokers and REST."""
    del show_version
