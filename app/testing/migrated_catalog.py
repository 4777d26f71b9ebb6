"""Catalogs in SQLite that begin with the newest schema: running all migrations takes longer than most tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from app import plugins


def migrated(path: Path) -> str:
    """Return the URL of a catalog in a file, which is made, as empty as the migrations leave it, if it is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_empty())
    return _url(path)


@cache
def _empty() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "catalog.sqlite"
        plugins.catalog()(_url(path)).close()
        return path.read_bytes()


def _url(path: Path) -> str:
    return f"sqlite:///{path}"
