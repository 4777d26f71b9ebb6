"""The commands by name.

The modules of the commands take a second to import. So each is imported when its command runs, and what all commands
say of themselves stands here.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from app.cli import end_at_interrupts, terminal
from app.cli.terminal import WRONG_USAGE, Failure, err, print_failure
from app.model.errors import GatewayError

COMMANDS = {
    "serve": (
        "serve_command.serve",
        "Run the gateway, or the part of it that these roles are, until Ctrl-C or a signal ends it.",
    ),
    "demo": (
        "demo_command.demo",
        "Start a broker and a gateway, send a text, a picture and a data set through both, and compare the results.",
    ),
    "send": ("send_command.send", "Send files as the attachments of one message."),
    "ls": ("list_commands.attachments", "List attachments, newest first."),
    "show": (
        "list_commands.show_attachment",
        "Show one attachment, with its warnings and the evidence for choices between several readings.",
    ),
    "get": ("get_command.get", "Fetch an attachment's content. Resumes from FILE.part (not for converted content)."),
    "contents": ("get_command.contents", "Show the contents of a data set, as PROC CONTENTS does."),
    "profile": (
        "profile_command.show_profile",
        "Show the values of a data set: missing and different values, range, mean and frequent values.",
    ),
    "rm": (
        "rm_command.rm",
        "Delete attachments with their content, messages with all their attachments, or deliveries that have ended.",
    ),
    "watch": ("watch_command.watch", "Show attachments being received and deliveries being sent, until Ctrl-C."),
    "deliveries": ("list_commands.deliveries", "List deliveries, newest first."),
    "audit": (
        "list_commands.audit",
        "List the entries of the audit log, newest first. Needs a key with the scope admin.",
    ),
    "trace": (
        "trace_command.trace",
        "Decode captured bytes of MQ, SAS attachment messages, MQTT, Rendezvous and the SAP DB order interface.",
    ),
    "fsck": (
        "repair_commands.fsck",
        "Check journal, catalog, content and tables against each other, and every byte against its digest.",
    ),
    "rebuild": (
        "repair_commands.rebuild",
        "Make a new catalog from the journal, the content store and the old catalog, if that is intact.",
    ),
    "backup": ("repair_commands.backup", "Copy journal, catalog, content and tables while the gateway runs."),
    "restore": (
        "repair_commands.restore",
        "Restore a backup into an empty place and compare every byte with its digest.",
    ),
    "quarantine": ("list_commands.quarantine", "List and handle messages that the gateway cannot read."),
    "webhooks": ("webhooks_command.webhooks", "Show webhooks, and send events again."),
    "receivers": ("receivers_command.receivers", "Show receivers that share a journal, have one leave, or forget it."),
    "mcp": (
        "mcp_command.mcp",
        "Serve a gateway's tools for language models on standard input and output, until the input ends, or Ctrl-C.",
    ),
    "receipt": ("receipt_command.receipt", "Fetch signed receipts, and verify them without a gateway."),
    "tables": ("tables_command.tables", "Read and maintain the tables that the pipeline builds from data sets."),
    "config": ("config_command.config", "Check and show the configuration."),
    "keys": ("keys_command.keys", "Make, list and revoke the API keys of clients."),
    "journal": ("journal_command.journal", "Import captures into journals, and list segments."),
    "pipeline": ("pipeline_command.pipeline", "Assemble whole journals and write tables, on Apache Spark."),
}
"""Where each command, or group of commands, is defined, and the first sentence of its help."""


@cache
def loaded(name: str) -> Any:
    """Import a command. Ctrl-C meanwhile ends the process at once."""
    module, _, attribute = COMMANDS[name][0].partition(".")
    handler = signal.getsignal(signal.SIGINT)
    end_at_interrupts()
    try:
        defined = getattr(import_module(f"app.cli.{module}"), attribute)
    finally:
        signal.signal(signal.SIGINT, handler)
    holder = typer.Typer()
    if isinstance(defined, typer.Typer):
        holder.add_typer(defined, name=name)
    else:
        holder.command(name)(defined)
    return get_group(holder).commands[name]


class _Commands(TyperGroup):
    """The commands, each loaded when it is asked for. Usage errors from pydantic become sentences."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _with_plain_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _with_plain_errors():
            return super().invoke(ctx)

    def resolve_command(self, *arguments: Any) -> tuple[str | None, Any, list[str]]:
        name, command, others = super().resolve_command(*arguments)
        return name, command and loaded(command.name), others


@contextmanager
def _with_plain_errors() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        from pydantic import ValidationError  # noqa: PLC0415 - most commands need neither

        from app.model.validation import sentence  # noqa: PLC0415

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
for each, (_, line) in COMMANDS.items():
    application.command(each, help=line)(lambda: None)  # `_Commands` runs the command itself


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
    except GatewayError as error:
        _end(Failure(str(error)))
    except OSError as error:
        _end(Failure(f"{error.filename}: {error.strerror}" if error.filename else str(error)))
    except UnicodeEncodeError:
        _refuse_bytes(sys.argv)
        raise
    except Exception as error:
        from attachment_gateway_client import AttachmentGatewayError  # noqa: PLC0415 - most commands need neither

        from app.cli.rest_client import as_failure  # noqa: PLC0415

        if isinstance(error, AttachmentGatewayError):
            _end(as_failure(error))
        raise


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """End the process if an argument is not text. Names, keys and addresses are; a path need not be."""
    for number, argument in enumerate(arguments):
        try:
            argument.encode()
        except UnicodeEncodeError:
            why = f"argument {number} is {os.fsencode(argument)!r}, which is not {sys.getfilesystemencoding().upper()}"
            _end(Failure(why, "rename a file or folder that has such a name", WRONG_USAGE))


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
