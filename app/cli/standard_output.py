"""Standard output whose errors are those of a command: a full disk is a sentence, a closed pipe the quiet end."""

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

from app.cli.terminal import BROKEN_PIPE, Failure


class _Output(FileIO):
    """The file descriptor of standard output. After an error, what is still in buffers goes nowhere."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self._forget()
            raise SystemExit(BROKEN_PIPE) from None
        except OSError as error:
            self._forget()
            raise Failure(f"cannot write to standard output: {error.strerror}") from error

    def _forget(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def install() -> None:
    """Make `sys.stdout` such a standard output, unless it has been replaced or closed."""
    given = sys.stdout
    if given is not sys.__stdout__ or not isinstance(given, TextIOWrapper):
        return
    given.flush()
    output = BufferedWriter(_Output(given.fileno(), "wb", closefd=False))
    sys.stdout = TextIOWrapper(
        output, given.encoding, given.errors, line_buffering=given.line_buffering, write_through=given.write_through
    )
