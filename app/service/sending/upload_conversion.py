"""The conversion of an uploaded file to a data set: defined for its destination, checked, stored as a Parquet object.

Every attempt of a delivery encodes the stored object, whatever the file's format was.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from app.codecs.ibm_mq import encodings
from app.dataset.parquet import write_row_groups
from app.model.errors import InvalidInputError
from app.ports import ContentStore
from app.service.content.access import opened
from app.service.content.measured import Measured
from app.service.sending.parts import StoredPart
from app.settings import Destination
from app.tables.out.pieces import Pieces
from app.tables.read import formats
from app.tables.read.defining import Definition, define
from app.tables.read.overrides import DataSetOverrides, Target
from app.tables.read.request import Options

MOST_FAULTS = 2000
"""The most errors, and the most warnings, that are reported for a file."""

T = TypeVar("T")


class Run(Protocol):
    """A function that runs a generator function, here or in another process, and yields and returns its results."""

    def __call__(
        self, function: Callable[..., Generator[bytes | memoryview, None, T]], /, *given: Any
    ) -> Generator[bytes | memoryview, None, T]: ...


def run_here(
    function: Callable[..., Generator[bytes | memoryview, None, T]], /, *given: Any
) -> Generator[bytes | memoryview, None, T]:
    """Run a generator function in this process."""
    return function(*given)


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """The options to read a file with, and the sender's choices for the data set. A format of None is detected."""

    format: str | None = None
    options: Options = field(default_factory=Options)
    wishes: DataSetOverrides = field(default_factory=DataSetOverrides)


class ConvertedFile(NamedTuple):
    """The data set that a file of this format became. If its definition has errors, nothing is stored: `size` is 0."""

    format: str
    definition: Definition
    size: int = 0
    sha256: str = ""


def target_of(destination: Destination, most_bytes: int) -> Target:
    """Return the limits of a destination, with at most `most_bytes` bytes. Raises InvalidInputError for an unknown
    character set."""
    charset = encodings.charset(destination.ccsid, destination.encoding)
    if charset is None:
        why = f"data sets cannot be written in the destination's character set, CCSID {destination.ccsid}"
        raise InvalidInputError("charset", "", -1, why)
    is_ibm = encodings.float_format(destination.encoding) == "s390"
    return Target(charset, "ibm" if is_ibm else "ieee", destination.data_set_version, most_bytes, destination.dialect)


def convert(
    store: ContentStore, part: StoredPart, request: ConversionRequest, target: Target
) -> Generator[memoryview, None, tuple[str, Definition]]:
    """Yield the Parquet file of the data set that a file is read as, or nothing if the definition has errors.

    Returns the file's format and the definition without its rows. Raises InvalidInputError for a file that cannot be
    read."""
    with opened(store, part.object_name) as file:
        found = request.format or formats.format_of(file, part.file_name or "", part.content_type)
        definition = define(formats.read(file, found, request.options), request.wishes, target)
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


def convert_and_store(
    store: ContentStore,
    part: StoredPart,
    request: ConversionRequest,
    target: Target,
    object_name: str,
    run: Run = run_here,
    check_room: Callable[[], None] = lambda: None,
) -> ConvertedFile:
    """Read an uploaded file and store its data set under this name.

    `run` calls `convert`. `check_room` raises if no more may be stored. Raises InvalidInputError for a file that
    cannot be read.
    """
    pieces = run(convert, store, part, request, target)
    try:
        first = next(pieces)
    except StopIteration as end:
        return ConvertedFile(*end.value)
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
    return ConvertedFile(found, definition, measured.size, measured.sha256)
