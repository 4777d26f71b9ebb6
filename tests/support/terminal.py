"""A program in a terminal of its own, of any width."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ
from threading import Thread
from types import TracebackType

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class InTerminal:
    """A program whose standard streams are a terminal, within a block."""

    def __init__(self, arguments: Sequence[str | Path], columns: int, environment: Mapping[str, str]) -> None:
        self._ours, theirs = os.openpty()
        ioctl(theirs, TIOCSWINSZ, pack("HHHH", 40, columns, 0, 0))
        known = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=known | {"TERM": "xterm-256color"}
        )
        os.close(theirs)
        self._written = b""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "InTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        self._reader.join(60)
        os.close(self._ours)

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 1 << 16)
            except OSError:  # the program has closed its end
                return
            self._written += piece

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> list[str]:
        """Wait for the program's end; return the lines."""
        self.process.wait(60)
        self._reader.join(60)
        return self.lines

    @property
    def lines(self) -> list[str]:
        """What the program has written so far, by lines, without colours and movements."""
        return [
            line.rstrip() for line in re.split(r"[\r\n]+", _CONTROL.sub("", self._written.decode(errors="replace")))
        ]
