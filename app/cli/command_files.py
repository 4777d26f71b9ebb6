"""Files and folders of commands."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from attachment_gateway_client.downloads import is_special

from app.cli.terminal import Failure, err, size


def require_folder(place: str) -> None:
    """Check that a place to read from exists, if it is a path and not a URL: opening it would create it.

    Raises Failure.
    """
    if "://" not in place and not Path(place).is_dir():
        raise Failure(f"cannot read {place}: {'not a folder' if Path(place).exists() else 'no such folder'}")


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Open a file that appears, and is reported, when the block ends without an error.

    A device or a named pipe is written to at once, and stays what it is. Of a symbolic link, the file that it leads to
    is written. Raises Failure when it cannot be written.
    """
    place = target.resolve()
    try:
        with place.open("wb") if is_special(place) else _replacing(place) as file:
            yield file
    except OSError as error:
        raise Failure(f"cannot write {target}: {error.strerror or error}") from error
    if place.is_file():
        err.print(f"{target}  {size(place.stat().st_size)}", markup=False, highlight=False)


@contextmanager
def _replacing(place: Path) -> Iterator[BinaryIO]:
    part = place.with_name(place.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
