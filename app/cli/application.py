"""The commands by name."""

import sys

import typer

from app.cli import (
    backing_up,
    configuring,
    fetching,
    importing,
    listing,
    pipelining,
    profiling,
    repairing,
    sending,
    serving,
    tables,
    tracing,
    watching,
)
from app.cli.console import Failure, err
from app.cli.demo.command import demo

application = typer.Typer(
    name="attachment-gateway",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Transfer attachments between message brokers and REST.",
)
application.command()(serving.serve)
application.command()(demo)
application.command()(sending.send)
application.command("ls")(listing.attachments)
application.command()(fetching.get)
application.command()(fetching.contents)
application.command("profile")(profiling.show_profile)
application.command()(watching.watch)
application.command()(listing.deliveries)
application.command()(tracing.trace)
application.command()(repairing.fsck)
application.command()(repairing.rebuild)
application.command()(backing_up.backup)
application.command()(backing_up.restore)
application.add_typer(listing.quarantine, name="quarantine")
application.add_typer(tables.tables, name="tables")
application.add_typer(configuring.config, name="config")
application.add_typer(importing.journal, name="journal")
application.add_typer(pipelining.pipeline, name="pipeline")


def main() -> None:
    """Run a command line.

    Errors that the user can correct end with a sentence and an exit status, all others with a traceback.
    """
    try:
        application()
    except Failure as failure:
        err.print("[bold red]error:[/] ", end="")
        err.print(str(failure), markup=False, highlight=False)
        if failure.hint:
            err.print(failure.hint, style="dim", markup=False, highlight=False)
        sys.exit(failure.code)
