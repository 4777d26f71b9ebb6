"""The conversion of an uploaded file to a data set: defined for its destination, checked, stored as a Parquet object.

Every attempt of a delivery encodes the stored object, independent of the file's format.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from app.codecs.ibm_mq import encodings
from app.dataset import value_labels
from app.dataset.checks import Fault
from app.dataset.numeric import FloatFormat
from app.dataset.parquet import write_row_groups
from app.dataset.value_labels import Catalog
from app.framing.registry import framing
from app.model.errors import InvalidInputError
from app.ports import ContentStore
from app.service.content.stored_content import Measured, opened
from app.service.sending.outbox import framing_options
from app.service.sending.upload_parts import Companions, StoredPart
from app.settings import Destination
from app.tables.read import define_xml, file_formats, label_catalogs
from app.tables.read.define_xml import Definitions
from app.tables.read.defining import Definition, define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, FileTable, ReadOptions
from app.tables.write.output_pieces import OutputPieces
from app.wire import WireError

MOST_FAULTS = 2000
"""The most errors, and the most warnings, that are reported for a file."""

T = TypeVar("T")


class Runner(Protocol):
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
    """The options to read a file with, and the sender's choices for the data set. A format of None is detected.

    `catalog` and `define` are the names of parts with value labels and a define.xml.
    """

    format: str | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    overrides: DataSetOverrides = field(default_factory=DataSetOverrides)
    catalog: str | None = None
    define: str | None = None


class ConvertedFile(NamedTuple):
    """The data set that a file of this format became. If its definition has errors, what is stored of it
    is not sent."""

    format: str
    definition: Definition
    size: int = 0
    sha256: str = ""


def target_of(
    destination: Destination, most_bytes: int, expansion: int | None = None, files: tuple[str, ...] = ()
) -> DataSetTarget:
    """Return the limits of a destination, with at most `most_bytes` bytes, and `expansion` times the bytes of the file.
    `files` are the names of the message's files.

    Raises InvalidInputError for an unknown character set.
    """
    charset = encodings.charset(destination.ccsid, destination.encoding)
    if charset is None:
        why = f"data sets cannot be written in the destination's character set, CCSID {destination.ccsid}"
        raise InvalidInputError("charset", "", -1, why)
    floats: FloatFormat = "ibm" if encodings.float_format(destination.encoding) == "s390" else "ieee"
    carries = framing(destination.framing)
    return DataSetTarget(
        charset,
        floats,
        destination.data_set_version,
        most_bytes,
        destination.dialect,
        expansion,
        keeps_types=carries.traits.keeps_types,
        extras=carries.extras,
        sent_as=framing_options(destination, destination.body_limit),
        files=files,
    )


def convert(
    store: ContentStore,
    part: StoredPart,
    request: ConversionRequest,
    target: DataSetTarget,
    companions: Companions = Companions(),  # noqa: B008 - a tuple
) -> Generator[memoryview, None, tuple[str, Definition]]:
    """Yield the Parquet file of the data set that a file is read as, or nothing if the definition has errors.

    Returns the file's format and the definition without its rows. Raises InvalidInputError for a file that cannot be
    read."""
    definitions: Definitions | None = None
    catalog: Catalog = {}
    warnings: tuple[Fault, ...] = ()
    if companions.define is not None:
        with _companion(store, companions.define, "define.xml") as file:
            definitions = define_xml.read(file)
        catalog = definitions.catalog
    if (labels := companions.catalog) is not None:
        with _companion(store, labels, "catalog") as file:
            added, warnings = label_catalogs.read(
                file, labels.file_name or "", labels.content_type, request.options.encoding
            )
        catalog = {**catalog, **added}  # it takes precedence for a format that both have
    with opened(store, part.object_name) as file:
        found = request.format or file_formats.format_of(file, part.file_name or "", part.content_type)
        reading = define_xml.read_enriched(file, found, request.options, request.overrides, definitions)
        definition = define(reading, request.overrides, replace(target, source_bytes=part.size), catalog)
        definition = definition._replace(warnings=(*warnings, *definition.warnings))
        if not definition.errors:
            definition = yield from _written(definition, target)
    return found, _without_rows(definition)


def convert_catalog(
    catalog: Catalog, library: str, target: DataSetTarget
) -> Generator[memoryview, None, tuple[str, Definition]]:
    """Yield the Parquet file of the data set that a catalog of value labels is sent as, and return as `convert`."""
    table = value_labels.to_table(catalog)
    definition = define(FileTable(table.schema, table.to_batches), DataSetOverrides(library=library), target)
    if not definition.errors:
        definition = yield from _written(definition, target)
    return "catalog", _without_rows(definition)


@contextmanager
def _companion(store: ContentStore, part: StoredPart, what: str) -> Iterator[BinaryIO]:
    """Open a part; errors of reading say what it is, and its name."""
    try:
        with opened(store, part.object_name) as file:
            yield file
    except InvalidInputError as error:
        named = what if part.base_name == what else f"{what}: {part.base_name}"
        raise InvalidInputError(error.code, named, -1, str(error)) from None


def _written(definition: Definition, target: DataSetTarget) -> Generator[memoryview, None, Definition]:
    """Yield the Parquet file of a data set. Return its definition, with an error if messages have no place for it."""
    pieces = OutputPieces()
    rows, how = definition.batches(), target.sent_as
    try:
        if how is not None:
            name = (definition.library, definition.member)
            rows = framing(how.framing).checked_rows(name, definition.schema, rows, how)
        for _ in write_row_groups(definition.schema, rows, pieces):
            yield from pieces.taken()
    except (WireError, InvalidInputError) as error:
        why = f"messages of the destination have no place for it: {error}"
        return definition._replace(errors=(Fault(None, "size", why),))
    yield from pieces.rest()
    return definition


def _without_rows(definition: Definition) -> Definition:
    """Return a definition that can be pickled."""
    return definition._replace(
        errors=definition.errors[:MOST_FAULTS],
        warnings=definition.warnings[:MOST_FAULTS],
        schema=pa.schema([]),
        batches=partial(iter, ()),
    )


def convert_and_store(
    store: ContentStore,
    part: StoredPart,
    request: ConversionRequest,
    target: DataSetTarget,
    object_name: str,
    run: Runner = run_here,
    check_room: Callable[[], None] = lambda: None,
    companions: Companions = Companions(),  # noqa: B008 - a tuple
) -> ConvertedFile:
    """Read an uploaded file and store its data set under this name.

    `run` calls `convert`. `check_room` raises if no more may be stored. Raises InvalidInputError for a file that
    cannot be read.
    """
    return store_converted(store, run(convert, store, part, request, target, companions), object_name, check_room)


def store_converted(
    store: ContentStore,
    pieces: Generator[bytes | memoryview, None, tuple[str, Definition]],
    object_name: str,
    check_room: Callable[[], None],
) -> ConvertedFile:
    """Store the data set that a conversion yields under this name."""
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
