"""What the adapters that write files share."""

import errno
import os
from pathlib import Path

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Makes a folder and those above it, as far as they are missing; their names are durable."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
