"""Files and folders of commands."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from app.cli.console import Failure, err, size


def require_folder(place: str) -> None:
    """Check that a place to read from exists, if it is a path and not a URL: opening it would create it.

    Raises Failure.
    """
    if "://" not in place and not Path(place).is_dir():
        raise Failure(f"cannot read {place}: {'not a folder' if Path(place).exists() else 'no such folder'}")


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Open a file that appears, and is reported, when the block ends without an error.

    Raises Failure when it cannot be written.
    """
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise Failure(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    err.print(f"{target}  {size(target.stat().st_size)}", markup=False, highlight=False)
