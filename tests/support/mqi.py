"""The real pymqi and the real ibmmq, on the client library of the tests' queue manager."""

import ctypes
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Literal

from adapters.ibm_mq.client import import_library
from tests.queue_manager.build import BUILDS, CLIENT_LIBRARIES, build

Library = Literal["pymqi", "ibmmq"]

_loaded: list[ctypes.CDLL] = []


def load(library: Library) -> ModuleType:
    """Import the library's package in this process; build it if it is missing.

    Both may be loaded in one process.
    """
    folder = build()
    if library not in sys.modules:
        # A loaded shared object satisfies all later requests for its name.
        _loaded.append(ctypes.CDLL(str(folder / "lib64" / CLIENT_LIBRARIES[library])))
        sys.path.append(str(folder / library))
    loaded: ModuleType = import_library(library)
    return loaded


def environment(library: Library | None) -> dict[str, str]:
    """Return the environment in which a Python process can import this library and not the other one.

    With None it can import neither.
    """
    folders = {"PYTHONPATH": (), "LD_LIBRARY_PATH": ()} if library is None else _folders(library)
    return os.environ | {name: _path(name, added) for name, added in folders.items()}


def _folders(library: Library) -> dict[str, tuple[Path, ...]]:
    folder = build()
    return {"PYTHONPATH": (folder / library,), "LD_LIBRARY_PATH": (folder / "lib64",)}


def _path(name: str, added: tuple[Path, ...]) -> str:
    """Return a search path that begins with these folders and has none of any other build."""
    kept = (part for part in os.environ.get(name, "").split(os.pathsep) if part and BUILDS not in Path(part).parents)
    return os.pathsep.join((*map(str, added), *kept))
