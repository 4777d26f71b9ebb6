"""Downloads of stored content, which continue where a broken connection ended."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from attachment_gateway_client.calls import LONGEST_PAUSE, RETRIES, pause
from attachment_gateway_client.errors import ContentChanged, DigestMismatch, Problem, Unreachable
from attachment_gateway_client.schemas import Attachment

PIECE = 1 << 20


def is_special(path: Path) -> bool:
    """Tell whether a path is that of a device or a named pipe: it is written to, and no file may take its place."""
    return path.exists() and not (path.is_file() or path.is_dir())


class Download:
    """One download. A path gets its content when it is complete and right; until then it is in `NAME.part`, where a
    later download continues. An open file gets the bytes as they come, and so does a device or a named pipe.

    `progress` is called with the number of received bytes. Raises OSError.
    """

    def __init__(
        self, attachment: Attachment, target: Path | BinaryIO, progress: Callable[[int], None] | None = None
    ) -> None:
        if attachment["size"] is None or attachment["sha256"] is None:
            raise ValueError(f"the attachment {attachment['id']} is {attachment['state']} and has no content")
        self.size, self._sha256 = attachment["size"], attachment["sha256"]
        self._progress = progress or (lambda _received: None)
        self._digest = hashlib.sha256()
        self.received = self._failures = self._before = 0
        self._target, self._part = None, None
        self._closing: BinaryIO | None = None
        if not isinstance(target, Path):
            self._file = target
        elif is_special(target):
            self._file = self._closing = target.open("wb")
        else:
            self._target = target.resolve()  # a symbolic link stays, too
            self._part = self._target.with_name(self._target.name + ".part")
            have = self._part.stat().st_size if self._part.exists() else 0
            if 0 < have <= self.size:  # of an earlier attempt
                with self._part.open("rb") as file:
                    self._digest = hashlib.file_digest(file, "sha256")
                self.received = self._before = have
            self._file = self._closing = self._part.open("r+b" if self.received else "wb")
            self._file.seek(self.received)
        self._progress(self.received)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if self._closing is not None:
            self._closing.close()

    @property
    def is_complete(self) -> bool:
        return self.received >= self.size

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the next request."""
        plain = {"Accept-Encoding": "identity"}
        if not self.received:
            return plain
        return plain | {"Range": f"bytes={self.received}-", "If-Range": f'"{self._sha256}"'}

    def begin(self, status: int) -> None:
        """Take the status of a response. Raises ContentChanged if it does not continue where the last one ended."""
        self._before = self.received
        if self.received and status != 206:
            raise ContentChanged("the content has changed since the first part was fetched")

    def write(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._file.write(piece)
        self._digest.update(piece)
        self.received += len(piece)
        self._progress(self.received)

    def failed(self, error: Unreachable | Problem) -> float:
        """Return the seconds to wait before the next attempt. Raises the error when it is time to give up: after some
        attempts in a row without a further byte, and at once if there was no connection with the first attempt, or for
        a problem that stays."""
        fresh = self.received > self._before
        self._failures = 1 if fresh else self._failures + 1
        self._before = self.received
        is_final = not error.is_temporary if isinstance(error, Problem) else error.is_refused and not self.received
        if is_final or self._failures > RETRIES:
            raise error
        wanted = error.retry_after if isinstance(error, Problem) else None
        return pause(self._failures - 1) if wanted is None else min(wanted, LONGEST_PAUSE)

    def finish(self) -> None:
        """Make the file durable and give it its name. Raises DigestMismatch, and removes what is wrong."""
        self._file.flush()
        received = self._digest.hexdigest()
        if self._target is None or self._part is None:
            if received != self._sha256:
                raise DigestMismatch(received)
            return
        os.fsync(self._file.fileno())
        if received != self._sha256:
            self._part.unlink()
            raise DigestMismatch(received)
        self._part.replace(self._target)
