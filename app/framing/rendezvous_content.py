"""The content of a complete attachment, from the messages that the SAS Common Messaging Interface defines for it on
TIB/Rendezvous.

Observations become rows of bytes as the queue layouts have them, and then a table by the same code.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from app.codecs.sas import data_set_messages, rendezvous_indexes, rendezvous_messages
from app.codecs.sas.data_set_messages import DOUBLE_SIZE, LONGEST_VARIABLE, Variable
from app.codecs.sas.dialect import DIALECTS
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.numbered import message_name
from app.codecs.sas.rendezvous_messages import RendezvousDefinition
from app.codecs.sas.rendezvous_observations import Shape, read_observations
from app.dataset import decode, indexes_and_constraints, schema
from app.dataset.observation_layout import Representation
from app.framing import sas_evidence
from app.framing.message_charsets import Stored, charset_doubt, in_first_charset, store_table
from app.framing.protocol import (
    Body,
    DataSetFacts,
    DescribedFile,
    FileContent,
    PartReader,
    Received,
    Span,
    StoreTable,
)
from app.framing.rendezvous_progress import MOST_FILES
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.evidence import Choice, Ground, Question
from app.model.records import AttachmentRecord
from app.wire import WireError, in_part

MAX_GEN = "sas.max_gen"

_RECORDS = {"ATX": AttachmentKind.TEXT_FILE, "ATB": AttachmentKind.BINARY_FILE}
_NOT_BEHIND = {"DAT": "ATO", "VAR": "ATO", "ATO": None, "ATI": None, "ATC": None}
"""The messages of a data set, and what none of them may be after: definitions are sent before the observations (SAS,
Data Set Attachment Layout). Observations that come before them have changed places with others."""


# --- files ------------------------------------------------------------------------------------------------------------


def read_file(record: AttachmentRecord, received: Received) -> FileContent:
    """Return where the records of a complete file lie, or of several. Raises InvalidInputError and WireError."""
    description = rendezvous_messages.read_file_description(received.first.body)
    kinds: set[AttachmentKind] = set()
    kind = record.kind or AttachmentKind.BINARY_FILE

    def files() -> Iterator[DescribedFile]:
        kinds.clear()
        bodies = enumerate(received.bodies(range(1, len(received))), 1)
        number, following = 1, [description]
        while following:
            begun = following.pop()
            yield begun, _spans_of_file(bodies, number, kinds, following)
            number += 1

    def evidence() -> tuple[Choice, ...]:
        others = kinds - {kind}
        return tuple(Choice(Question.FILE_KIND, kind.word, Ground.PREFERENCE, (each.word,)) for each in others)

    return FileContent(
        lambda: chain.from_iterable(spans for _, spans in files()),
        of_lines=kind is AttachmentKind.TEXT_FILE,
        begins_at=1,
        description=description,
        evidence=evidence,
        files=files,
    )


def _spans_of_file(
    bodies: Iterator[tuple[int, Body]], number: int, kinds: set[AttachmentKind], following: list[FileDescription]
) -> Iterator[Span]:
    """Yield the records of file `number` of an attachment, up to the descriptor of the next one, which is added to
    `following`. The `kinds` of all records are added. Raises InvalidInputError and WireError."""
    is_empty = True
    for part, body in bodies:
        with in_part(part):
            name = message_name(body)
        if name == "FDC":
            _require_records(number, is_empty=is_empty)
            if number == MOST_FILES:
                why = f"an attachment of more than {MOST_FILES:,} files: have its sender send several attachments"
                raise InvalidInputError("too-many-files", "name", -1, why)
            _require_one_kind(kinds)
            with in_part(part):
                following.append(rendezvous_messages.read_file_description(body))
            return
        with in_part(part):
            found, places = _records(body)
        is_empty = False
        kinds.add(found)
        if number > 1:
            _require_one_kind(kinds)
        for start, length in places:
            yield part, start, body[start : start + length], True
    if number > 1:
        _require_records(number, is_empty=is_empty)


def _require_records(number: int, *, is_empty: bool) -> None:
    if is_empty:
        raise InvalidInputError(
            "file-without-records",
            "name",
            -1,
            f"file {number} of an attachment of several has a descriptor (FDC) but no records (ATX or ATB) behind it, "
            "so messages are missing, came twice or have changed places",
        )


def _require_one_kind(kinds: set[AttachmentKind]) -> None:
    if len(kinds) > 1:
        raise InvalidInputError(
            "mixed-files",
            "name",
            -1,
            "records of text files (ATX) and of binary files (ATB) in an attachment of several files, which must be "
            "either all text or all binary: have its sender end each attachment with a last message (LST), or state by "
            "the source's setting `counts` that one is for all",
        )


def _records(body: Body) -> tuple[AttachmentKind, list[tuple[int, int]]]:
    """Return the kind of file whose records a message has, and their places."""
    name = message_name(body)
    if name not in _RECORDS:
        raise InvalidInputError("unexpected-message", "name", -1, f"{name} among the records of a file")
    return _RECORDS[name], rendezvous_messages.record_places(body)


def begin_file(record: AttachmentRecord, body: Body) -> PartReader | None:
    """Begin to read a binary file by its first part, its description."""
    if record.kind is not AttachmentKind.BINARY_FILE:
        return None
    try:
        return _RecordReader(rendezvous_messages.read_file_description(body))
    except WireError:
        return None


class _RecordReader:
    """Reads the records of a file part by part; see `app.framing.protocol.PartReader`."""

    def __init__(self, description: FileDescription) -> None:
        self.description: FileDescription | None = description
        self.dialects: int | None = None
        self.evidence: tuple[Choice, ...] = ()

    def spans(self, body: Body) -> list[tuple[int, int]] | None:
        try:
            kind, places = _records(body)
        except (WireError, InvalidInputError):
            return None
        return places if kind is AttachmentKind.BINARY_FILE else None

    def record_start(self, _bodies: Sequence[Body]) -> int | None:
        return None


# --- data sets --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Defined:
    """What the definition messages of a data set say, and in which character set they say it."""

    definition: RendezvousDefinition
    variables: tuple[Variable, ...]
    charset: str


class _TooPrecise(Exception):
    """Numbers that have more bytes than their variables say."""


def read_data_set(record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
    """Store the table of a data set attachment. Raises InvalidInputError and WireError."""
    messages: dict[str, list[int]] = {name: [] for name in _NOT_BEHIND}
    for number, body in enumerate(received.bodies()):
        with in_part(number):
            name = message_name(body)
        if name not in messages:
            why = f"{name} among the messages of a data set"
            raise InvalidInputError("unexpected-message", "name", -1, why, number)
        if (later := _NOT_BEHIND[name]) is not None and messages[later]:
            why = f"{name} after {later}, so that the order of the observations is in doubt"
            raise InvalidInputError("out-of-order", "name", -1, why, number)
        messages[name].append(number)
    defined = _defined(received, messages)
    try:
        rows, plan = _stored(record, received, messages, defined, store)
    except _TooPrecise:
        wide = tuple(replace(each, length=DOUBLE_SIZE) if each.is_numeric else each for each in defined.variables)
        warning = "numbers have more bytes than the lengths of their variables say: all of them are kept"
        rows, plan = _stored(record, received, messages, replace(defined, variables=wide), store, warning)
    charset = sas_evidence.charset_of_texts(plan.how.charset, received.first.ccsid, received.first.encoding)
    return DataSetFacts(rows, len(defined.variables), None, plan.warnings, (charset,))


def _defined(received: Received, messages: dict[str, list[int]]) -> _Defined:
    """Return the definition and the variables, in the first character set in which they read."""
    definitions = list(received.bodies(messages["DAT"]))
    if not definitions:
        raise InvalidInputError("no-definition", "type", 0, "the attachment has no data set definition message")
    if len(set(map(bytes, definitions))) > 1:
        why = f"{len(definitions)} data set definition messages that are not the same"
        raise InvalidInputError("conflicting-definition", "type", 0, why)

    def read(charset: str) -> _Defined:
        definition = rendezvous_messages.read_definition(definitions[0], charset)
        schema.check_definition(definition)
        bodies: list[memoryview] = []
        room = definition.variables * LONGEST_VARIABLE + LONGEST_VARIABLE * len(messages["VAR"])
        for body in received.bodies(messages["VAR"]):
            bodies.append(body)
            room -= len(body)
            if room < 0:
                why = f"more than {sum(map(len, bodies)):,} bytes define {definition.variables:,} variables"
                raise InvalidInputError("variable-count", "number of variables", -1, why)
        return _Defined(definition, rendezvous_messages.read_variables(bodies, definition.variables, charset), charset)

    try:
        return in_first_charset(received.first, read)
    except WireError as error:
        error.part = messages["DAT"][0] if error.part is None else (messages["VAR"] or [0])[error.part]
        raise


def _stored(
    record: AttachmentRecord,
    received: Received,
    messages: dict[str, list[int]],
    defined: _Defined,
    store: StoreTable,
    *warnings: str,
) -> Stored:
    all_warnings = [*warnings, *filter(None, [charset_doubt(received.first, defined.charset)])]
    max_gen = defined.definition.max_gen
    named = {"sas.library": record.qualifier_1, "sas.member": record.qualifier_2, MAX_GEN: str(max_gen or "")}
    metadata = {key: text for key, text in named.items() if text}
    metadata |= {"sas.dialect": DIALECTS[0].name, "sas.obs_length": str(defined.definition.obs_length)}
    metadata |= _index_metadata(received, messages, defined, all_warnings)
    blocks = _Blocks(received, messages["ATO"], defined)
    definition = replace(defined.definition, obs_length=blocks.length)
    how = Representation("big", "ieee", defined.charset)
    plan = decode.first_plan(definition, defined.variables, how, lambda: blocks, metadata, all_warnings)
    return store_table(plan, blocks, received.first, store)


class _Blocks:
    """The rows of a data set as bytes, a block for each of its messages of observations."""

    def __init__(self, received: Received, numbers: Sequence[int], defined: _Defined) -> None:
        self._received, self._numbers, self._defined = received, numbers, defined
        self._shape = Shape.of(defined.variables)
        lengths = [variable.length for variable in defined.variables]
        self.length = sum(lengths)
        cells = zip(lengths, self._shape.widths, strict=True)
        kept = np.concatenate([np.arange(width) < length for length, width in cells] or [np.empty(0, np.bool_)])
        # What is behind the length of a variable must be zeros.
        self._kept = None if kept.all() else kept

    def __iter__(self) -> Iterator[memoryview]:
        each, total = max(len(self._defined.variables), 1), self._defined.definition.observations
        first = at = 0
        for number, body in zip(self._numbers, self._received.bodies(self._numbers), strict=True):
            with in_part(number):
                block = read_observations(body, self._shape, first)
            # A message says the number of its values, its rows, or the observations of the data set.
            stated, values = block.stated, block.values
            if stated not in {values, total, total * each} and stated * each - values not in range(-each + 1, 2 * each):
                why = f"{stated:,} observations by its number, which has {values:,} values of {each:,} variables"
                raise InvalidInputError("observation-count", "ATO.count", -1, f"a message of {why}", number)
            data = block.data
            if self._kept is not None:
                kept = np.resize(np.roll(self._kept, -at), len(data))
                if data[~kept].any():
                    raise _TooPrecise
                data = np.ascontiguousarray(data[kept])
            yield data.data
            first += block.values
            at = (at + len(block.data)) % max(self._shape.length, 1)


def _index_metadata(
    received: Received, messages: dict[str, list[int]], defined: _Defined, warnings: list[str]
) -> dict[str, str]:
    """Return indexes, as JSON, and the messages of integrity constraints.

    Neither can cost the data set: what cannot be read or is too long is a warning.
    """
    metadata: dict[str, str] = {}
    for name, key in (
        ("ATI", indexes_and_constraints.INDEXES),
        ("ATC", indexes_and_constraints.RENDEZVOUS_CONSTRAINTS),
    ):
        bodies = list(received.bodies(messages[name]))
        size = sum(map(len, bodies))
        if size > indexes_and_constraints.MOST_BYTES:
            warnings.append(f"{size:,} bytes of {name} messages were not kept")
            continue
        try:
            if name == "ATC":
                for body in bodies:
                    rendezvous_indexes.read_constraints(body, defined.charset)
                if bodies:
                    metadata[key] = indexes_and_constraints.written_constraints(b"".join(bodies))
            elif bodies:
                found = [each for body in bodies for each in rendezvous_indexes.read_indexes(body, defined.charset)]
                metadata[key] = indexes_and_constraints.written_indexes(
                    data_set_messages.Index(each.upercmx, each.name, each.flags, len(each.keys), list(each.keys))
                    for each in found
                )
        except WireError as error:
            warnings.append(f"the {name} messages could not be read: {error}")
    return metadata
