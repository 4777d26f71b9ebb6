"""The command line. This module imports almost nothing, so that Ctrl-C is handled from the first moment."""

import os
import signal

INTERRUPTED = 130
"""The exit status after Ctrl-C, as of a program that SIGINT ends."""


def main() -> None:
    """Run a command line; see `app.cli.application.run`.

    Until all imports are done, Ctrl-C ends the process at once: there is nothing to put in order yet, and libraries
    that are interrupted while they are loaded print a traceback or go on.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from app.cli.application import run  # noqa: PLC0415 - the handler comes first

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
