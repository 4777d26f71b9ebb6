"""Data sets for `get`: their format, and the selection of their rows and columns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from app.cli.terminal import Failure

PARQUET = "parquet"

EXTENSIONS: Mapping[str, str] = {
    PARQUET: ".parquet",
    "arrow": ".arrows",
    "arrow-file": ".arrow",
    "csv": ".csv",
    "json": ".json",
    "ndjson": ".ndjson",
    "dataset-json": ".json",
    "dataset-ndjson": ".ndjson",
    "dsjc": ".dsjc",
    "xpt": ".xpt",
    "xpt-v5": ".xpt",
    "sas": ".zip",
}
"""The formats of data sets, and the extensions of their files."""

_BY_EXTENSION = {extension: word for word, extension in reversed(list(EXTENSIONS.items()))} | {
    ".feather": "arrow-file",
    ".jsonl": "ndjson",
    ".pq": PARQUET,
}


class FormatChoice(NamedTuple):
    """A format, and the query parameters that request it."""

    word: str
    query: dict[str, Any]

    @property
    def is_stored(self) -> bool:
        """Whether the content is returned as stored: with known size and digest, and resumable at any byte."""
        return self.word == PARQUET and self.query.keys() == {"format"}

    def file_name(self, stored: str) -> str:
        """Return the name of its file, given the name of the stored data set."""
        return stored.removesuffix(EXTENSIONS[PARQUET]) + EXTENSIONS[self.word]


def choose(word: str | None, output: str | None, xpt_version: str | None, **options: Any) -> FormatChoice:
    """Return the format by its name, else by the output's extension. Raises Failure.

    It is Parquet for a folder, for standard output (`-`), and for a file without an extension.
    """
    if word is None:
        word = _by_extension(output)
    if word not in EXTENSIONS:
        raise Failure(f"unknown format of data sets {word!r}", f"known formats: {', '.join(EXTENSIONS)}")
    if xpt_version is not None:
        if not word.startswith("xpt"):
            raise Failure("--xpt-version is only for transport files", "add --format xpt")
        word = {"5": "xpt-v5", "8": "xpt"}[xpt_version]
    return FormatChoice(word, {"format": word} | {name: value for name, value in options.items() if value is not None})


def _by_extension(output: str | None) -> str:
    extension = Path(output).suffix.lower() if output else ""
    if not extension or Path(output or "").is_dir():
        return PARQUET
    if extension not in _BY_EXTENSION:
        known = ", ".join(sorted(_BY_EXTENSION))
        raise Failure(f"{output}: unknown extension {extension!r}; known are {known}", "or state the format: --format")
    return _BY_EXTENSION[extension]
