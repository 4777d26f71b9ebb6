"""An uploaded file -> the data set that is sent: defined for its destination, checked, stored as one Parquet object.

What is stored is what every attempt of a delivery encodes, whatever the file was.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from app.codecs.ibm_mq import encodings
from app.dataset.parquet import write_row_groups
from app.model.errors import TheirError
from app.ports import ContentStore
from app.service.content.access import opened
from app.service.finishing.measured import Measured
from app.settings import Destination
from app.tables.out.pieces import Pieces
from app.tables.read import formats
from app.tables.read.defining import Definition, define
from app.tables.read.reading import Options
from app.tables.read.wishes import Target, Wishes

MOST_FAULTS = 2000
"""Errors, and warnings, that are told of a file."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file in the store, and what its sender calls it."""

    object_name: str
    file_name: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a file is to be read (`format` None: its content tells) and what is wanted of the data set."""

    format: str | None = None
    options: Options = field(default_factory=Options)
    wishes: Wishes = field(default_factory=Wishes)


class Prepared(NamedTuple):
    """What became of a file of this format. Where the definition has errors, nothing was stored and `size` is 0."""

    format: str
    definition: Definition
    size: int = 0
    sha256: str = ""


def target_of(destination: Destination, most_bytes: int) -> Target:
    """What a destination takes, of at most so many bytes. Raises TheirError where its character set is not known."""
    charset = encodings.charset(destination.ccsid, destination.encoding)
    if charset is None:
        why = f"the destination's character set {destination.ccsid} is none that data sets can be written in"
        raise TheirError("charset", "", -1, why)
    is_ibm = encodings.float_format(destination.encoding) == "s390"
    return Target(charset, "ibm" if is_ibm else "ieee", destination.data_set_version, most_bytes, destination.dialect)


def convert(
    store: ContentStore, uploaded: Uploaded, asked: Asked, target: Target
) -> Generator[memoryview, None, tuple[str, Definition]]:
    """Reads an uploaded file and yields the Parquet file of the data set, or nothing where the definition has errors.
    Returns the file's format and the definition without its rows. Raises TheirError for a file that cannot be read."""
    with opened(store, uploaded.object_name) as file:
        found = asked.format or formats.format_of(file, uploaded.file_name, uploaded.media_type)
        definition = define(formats.read(file, found, asked.options), asked.wishes, target)
        if not definition.errors:
            pieces = Pieces()
            for _ in write_row_groups(definition.schema, definition.batches(), pieces):
                yield from pieces.taken()
            yield from pieces.rest()
    return found, definition._replace(
        errors=definition.errors[:MOST_FAULTS],
        warnings=definition.warnings[:MOST_FAULTS],
        schema=pa.schema([]),
        batches=_no_rows,
    )


def _no_rows() -> Iterator[pa.RecordBatch]:
    return iter(())


def prepare(
    store: ContentStore,
    uploaded: Uploaded,
    asked: Asked,
    target: Target,
    object_name: str,
    run: Callable[..., Generator[Any, None, tuple[str, Definition]]] | None = None,
    check_room: Callable[[], None] = lambda: None,
) -> Prepared:
    """Reads an uploaded file and stores the data set under this name. `run` calls `convert` elsewhere, and `check_room`
    may refuse to store more. Raises TheirError for a file that cannot be read."""
    pieces = convert(store, uploaded, asked, target) if run is None else run(convert, store, uploaded, asked, target)
    try:
        first = next(pieces)
    except StopIteration as end:
        return Prepared(*end.value)
    with store.create(object_name) as writer:
        measured = Measured(writer)
        measured.write(first)
        while True:
            check_room()
            try:
                measured.write(next(pieces))
            except StopIteration as end:
                found, definition = end.value
                break
    return Prepared(found, definition, measured.size, measured.sha256)
