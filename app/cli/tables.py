"""Data sets as `get` fetches them: in which format, and what is chosen of their rows and columns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from app.cli.console import Failure

PARQUET = "parquet"

EXTENSIONS: Mapping[str, str] = {
    PARQUET: ".parquet",
    "arrow": ".arrows",
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
"""The formats that data sets come in, and what their files end with."""

_BY_EXTENSION = {extension: word for word, extension in reversed(list(EXTENSIONS.items()))} | {
    ".arrow": "arrow",
    ".jsonl": "ndjson",
    ".pq": PARQUET,
}


class Choice(NamedTuple):
    """A format, and the query that asks for it."""

    word: str
    query: dict[str, Any]

    @property
    def is_stored(self) -> bool:
        """Whether it comes as it is stored: of known size and digest, and from any byte on."""
        return self.word == PARQUET and self.query.keys() == {"format"}

    def file_name(self, stored: str) -> str:
        """The name of its file, if that of the stored data set is `stored`."""
        return stored.removesuffix(EXTENSIONS[PARQUET]) + EXTENSIONS[self.word]


def choose(word: str | None, output: str | None, xpt_version: str | None, **options: Any) -> Choice:
    """The format by its word, or else by what the output is called, or else Parquet. Raises Failure."""
    if word is None:
        word = _BY_EXTENSION.get(Path(output).suffix.lower(), PARQUET) if output else PARQUET
    if word not in EXTENSIONS:
        raise Failure(f"{word!r} is no format of data sets", f"known: {', '.join(EXTENSIONS)}")
    if xpt_version is not None:
        if not word.startswith("xpt"):
            raise Failure("--xpt-version is for transport files", "add --format xpt")
        word = {"5": "xpt-v5", "8": "xpt"}[xpt_version]
    return Choice(word, {"format": word} | {name: value for name, value in options.items() if value is not None})
