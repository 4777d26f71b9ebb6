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
