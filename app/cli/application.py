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
    auditing,
    backing_up,
    configuring,
    deleting,
    fetching,
    importing,
    keys,
    listing,
    pipelining,
    profiling,
    repairing,
    sending,
    serving,
    standard_output,
    tables,
    tracing,
    watching,
    webhooks,
)
from app.cli.client import explained
from app.cli.console import Failure, err, tell
from app.cli.demo.command import demo
from app.model.errors import GatewayError
from app.model.wording import sentence
from app.plugins import PluginError


class _Commands(TyperGroup):
    """The commands, whose usage errors have the words of this program."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _worded():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _worded():
            return super().invoke(ctx)


@contextmanager
def _worded() -> Iterator[None]:
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
application.command()(serving.serve)
application.command()(demo)
application.command()(sending.send)
application.command("ls")(listing.attachments)
application.command("show")(listing.show_attachment)
application.command()(fetching.get)
application.command()(fetching.contents)
application.command("profile")(profiling.show_profile)
application.command()(deleting.rm)
application.command()(watching.watch)
application.command()(listing.deliveries)
application.command()(auditing.audit)
application.command()(tracing.trace)
application.command()(repairing.fsck)
application.command()(repairing.rebuild)
application.command()(backing_up.backup)
application.command()(backing_up.restore)
application.add_typer(listing.quarantine, name="quarantine")
application.add_typer(webhooks.webhooks, name="webhooks")
application.add_typer(tables.tables, name="tables")
application.add_typer(configuring.config, name="config")
application.add_typer(keys.keys, name="keys")
application.add_typer(importing.journal, name="journal")
application.add_typer(pipelining.pipeline, name="pipeline")


def run() -> None:
    """Run a command line, and end the process with an exit status of docs/cli.md.

    Errors that the user can correct end with a sentence, all others with a traceback. Ctrl-C is for the caller.
    """
    standard_output.install()
    try:
        try:
            application()
        finally:
            sys.stdout.flush()
    except Failure as failure:
        _end(failure)
    except AttachmentGatewayError as error:
        _end(explained(error))
    except (GatewayError, PluginError) as error:
        _end(Failure(str(error)))
    except OSError as error:
        _end(Failure(f"{error.filename}: {error.strerror}" if error.filename else str(error)))


def _end(failure: Failure) -> NoReturn:
    tell(failure, err)
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
