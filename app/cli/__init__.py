"""The command line. This module imports nothing at first, so that Ctrl-C is handled from the first moment."""

INTERRUPTED = 130
"""The exit status after Ctrl-C: the shell's status for a program that SIGINT ends."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C.

    After a KeyboardInterrupt in `exec()` of a text, which libraries use while they load, `python -m` ends by SIGINT
    whatever the exit status is. It does not after an exception of a subclass.
    """


def interrupt(*_: object) -> None:
    """Raise Interrupted. This is a handler of signals."""
    raise Interrupted


def end_at_interrupts() -> None:
    """Have Ctrl-C end the process at once.

    Until all imports are done, there is nothing to clean up, and libraries that are interrupted while they load print
    a traceback or continue. After a command, everything is cleaned up, and Python's own end would print a traceback.
    """
    import os  # noqa: PLC0415 - as few imports as possible come before the handler
    import signal  # noqa: PLC0415

    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


def main() -> None:
    """Run a command line; see `app.cli.application.run`."""
    end_at_interrupts()
    import os  # noqa: PLC0415 - the handler comes first
    import signal  # noqa: PLC0415
    import sys  # noqa: PLC0415

    # Standard files that are closed, as in `>&-`, go to the null device. Otherwise the next files that are opened get
    # their numbers, and what is printed.
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    from app.cli.application import run  # noqa: PLC0415

    try:
        signal.signal(signal.SIGINT, interrupt)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        end_at_interrupts()
