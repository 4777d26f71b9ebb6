"""The table of a complete data set, from its messages of the SAS Common Messaging Interface."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import NamedTuple

from app.codecs.ibm_mq.encodings import float_format, integer_order, is_ebcdic
from app.codecs.sas import data_set_messages, dialect
from app.codecs.sas.constants import MessageKind
from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.codecs.sas.message_reader import TYPE_SIZE
from app.dataset import decode, indexes_and_constraints, missing, schema
from app.dataset.decode import SmallDataSet, decode_together
from app.dataset.numeric import FloatFormat
from app.dataset.observation_layout import SAMPLE_ROWS, Representation
from app.framing import sas_evidence
from app.framing.message_charsets import charset_doubt, in_first_charset, store_table
from app.framing.protocol import Body, DataSetFacts, DataSetTable, Received, StoreTable
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.wire import WireError

_LONGEST_CACHED = 32 << 10
"""The bytes of a definition and its variables that are kept for the next data set with the same bytes."""


_DEFINING = frozenset({MessageKind.DEFINITION, MessageKind.VARIABLES})


class _Bodies:
    """The bodies of some parts."""

    def __init__(self, received: Received, numbers: Sequence[int]) -> None:
        self._received, self.numbers = received, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[memoryview]:
        return self._received.bodies(self.numbers) if self.numbers else iter(())

    @property
    def size(self) -> int:
        return sum(map(len, self))


@dataclass(frozen=True, slots=True)
class _Defined:
    """The contents of a data set's definition messages, with the dialects and the character set in which they were
    read. Data sets with the same definition messages share them. Those that differ in nothing but the number of
    observations share the plans that follow from them."""

    definition: DataSetDefinition
    variables: tuple[Variable, ...]
    dialects: int
    charset: str
    plans: decode.Plans = field(default_factory=dict, compare=False)


def read_data_set(record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
    """Store the table of a data set attachment. Raises InvalidInputError and WireError."""
    messages = _by_kind(received, record.dialects or dialect.ALL)
    defined = _defined(received.first, messages, record.dialects or dialect.ALL)
    definition = defined.definition
    try:
        blocks = data_set_messages.observation_blocks(messages[MessageKind.OBSERVATIONS], definition)
    except WireError as error:
        code = "observation-torn" if definition.observations < 0 else "observation-count"
        raise InvalidInputError(code, error.row, -1, error.why) from error
    return _stored(record, received, messages, defined, blocks, store)


def read_small_data_sets(several: Mapping[str, tuple[AttachmentRecord, Received]]) -> dict[str, DataSetTable]:
    """Return the tables of those data sets whose definitions are the same, by identifier.

    Data sets are left out that have faults, indexes, constraints or more rows than a sample, or whose values do not fit
    the usual plan.
    """
    alike: dict[int, dict[str, tuple[SmallDataSet, DataSetFacts]]] = {}
    for name, (record, received) in several.items():
        with suppress(InvalidInputError, WireError):
            if (found := _small(record, received)) is not None:
                alike.setdefault(id(found[0].plan.columns), {})[name] = found
    tables: dict[str, DataSetTable] = {}
    for group in alike.values():
        batches = decode_together([small for small, _ in group.values()]) if len(group) > 1 else None
        for (name, (_, facts)), batch in zip(group.items(), batches or (), strict=False):
            tables[name] = DataSetTable(facts, batch)
    return tables


class _Alike(NamedTuple):
    """All that the plan of a data set follows from, if its values raise no doubts."""

    definitions: tuple[bytes, ...]
    names: tuple[str, str]
    dialects: int
    encodings: tuple[int, int]
    ccsid: int


class _Planned(NamedTuple):
    defined: _Defined
    plan: decode.DecodingPlan


_MOST_PLANNED = 128
"""The number of plans of small data sets that are kept. Data sets that differ in the number of observations alone have
plans of their own."""
_planned: dict[_Alike, _Planned | None] = {}
"""The plans of small data sets, the oldest first."""


def _small(record: AttachmentRecord, received: Received) -> tuple[SmallDataSet, DataSetFacts] | None:
    """Return a data set to be decoded with others; None if it has to be read by itself."""
    known, first, bodies = record.dialects or dialect.ALL, received.first, list(received.bodies())
    kinds = _kinds(tuple([bytes(body[:TYPE_SIZE]) for body in bodies]), known)
    definitions = tuple(bytes(body) for body, kind in zip(bodies, kinds, strict=True) if kind in _DEFINING)
    observations = [body for body, kind in zip(bodies, kinds, strict=True) if kind is MessageKind.OBSERVATIONS]
    if len(definitions) + len(observations) < len(bodies):
        return None
    names = record.qualifier_1, record.qualifier_2
    alike = _Alike(definitions, names, known, (first.encoding, received.encoding), first.ccsid)
    if alike not in _planned:
        if len(_planned) >= _MOST_PLANNED:
            _planned.pop(next(iter(_planned)), None)
        _planned[alike] = _plan_of(record, received, known)
    if (found := _planned[alike]) is None:
        return None
    defined, plan = found
    joined = b"".join([body[TYPE_SIZE:] for body in observations])
    rows = len(joined) // plan.obs_length if plan.obs_length else 0
    if rows * plan.obs_length != len(joined) or plan.observations not in {rows, -1}:
        return None
    if not 0 < rows <= SAMPLE_ROWS:
        return None
    return SmallDataSet(plan, joined), _facts(received, defined, plan, rows)


@lru_cache(maxsize=64)
def _kinds(heads: tuple[bytes, ...], dialects: int) -> list[MessageKind]:
    """Return the kinds of messages by their first bytes. Raises WireError."""
    return list(data_set_messages.message_kinds(heads, dialects))


def _plan_of(record: AttachmentRecord, received: Received, known: int) -> _Planned | None:
    defined = _defined(received.first, _by_kind(received, known), known)
    if sas_evidence.dialect_of_data_set(defined.dialects, received.first.encoding).others:
        return None
    how, warnings = _representation(received, defined)
    names = _names(record, received.first, defined)
    plan = decode.plan_by_definition(defined.definition, defined.variables, how, names, warnings, defined.plans)
    return None if plan is None else _Planned(defined, plan)


def read_leading_rows(record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
    """Store the whole rows in the leading parts of a data set whose other parts have not come. Raises InvalidInputError
    and WireError, also if the definition is not among these parts."""
    messages = _by_kind(received, record.dialects or dialect.ALL)
    defined = _defined(received.first, messages, record.dialects or dialect.ALL)
    blocks = data_set_messages.LeadingBlocks(messages[MessageKind.OBSERVATIONS], defined.definition)
    return _stored(record, received, messages, replace(defined, definition=blocks.definition, plans={}), blocks, store)


def _stored(
    record: AttachmentRecord,
    received: Received,
    messages: Mapping[MessageKind, _Bodies],
    defined: _Defined,
    blocks: data_set_messages.ObservationBlocks,
    store: StoreTable,
) -> DataSetFacts:
    first = received.first
    how, warnings = _representation(received, defined)
    metadata = _names(record, first, defined) | _index_metadata(defined, messages, warnings)
    plan = decode.first_plan(
        defined.definition, defined.variables, how, lambda: blocks, metadata, warnings, defined.plans
    )
    rows, used = store_table(plan, blocks, first, store)
    return _facts(received, defined, used, rows)


def _facts(received: Received, defined: _Defined, plan: decode.DecodingPlan, rows: int) -> DataSetFacts:
    """Return what was found of a data set that has been read by this plan."""
    first, how = received.first, plan.how
    evidence = (
        sas_evidence.dialect_of_data_set(defined.dialects, first.encoding),
        sas_evidence.charset_of_texts(how.charset, first.ccsid, first.encoding),
        sas_evidence.floats_of(how.float_format, bool(is_ebcdic(first.ccsid)), first.encoding, received.encoding),
        *sas_evidence.rows_of(plan.rows),
    )
    return DataSetFacts(rows, len(defined.variables), defined.dialects, plan.warnings, evidence)


def _by_kind(received: Received, dialects: int) -> dict[MessageKind, _Bodies]:
    """Return the messages of a data set by their type."""
    kinds: dict[MessageKind, list[int]] = {kind: [] for kind in MessageKind}
    for number, kind in enumerate(data_set_messages.message_kinds(received.bodies(), dialects)):
        kinds[kind].append(number)
    return {kind: _Bodies(received, found) for kind, found in kinds.items()}


def _defined(first: PhysicalMessage, messages: Mapping[MessageKind, _Bodies], known: int) -> _Defined:
    """Return the definition and the variables, in the first character set in which they can be read."""
    definitions = messages[MessageKind.DEFINITION]
    if not len(definitions):
        raise InvalidInputError("no-definition", "type", 0, "the attachment has no data set definition message")
    if len(definitions) > 1 and len(set(map(bytes, definitions))) > 1:
        why = f"the {len(definitions)} data set definition messages differ"
        raise InvalidInputError("conflicting-definition", "type", 0, why)
    definition, variables = next(iter(definitions)), messages[MessageKind.VARIABLES]

    def read(charset: str) -> _Defined:
        if len(definition) + variables.size <= _LONGEST_CACHED:
            return _read_known(bytes(definition), tuple(map(bytes, variables)), known, charset)
        return _read_definitions(definition, variables, known, charset)

    try:
        return in_first_charset(
            first, read, lambda found: [found.definition.compress, *(each.name for each in found.variables)]
        )
    except WireError as error:
        error.part = definitions.numbers[0] if error.part is None else (variables.numbers or (0,))[error.part]
        raise


def _read_definitions(body: Body, variables: _Bodies | Sequence[Body], known: int, charset: str) -> _Defined:
    definition, dialects = data_set_messages.read_definition(body, known, charset)
    schema.check_definition(definition)
    size = sum(map(len, variables))
    if size > definition.variables * data_set_messages.LONGEST_VARIABLE + TYPE_SIZE * len(variables):
        why = f"{size:,} bytes are too many for the definitions of {definition.variables:,} variables"
        raise InvalidInputError("variable-count", "number of variables", -1, why)
    if size > _LONGEST_CACHED:
        return _Defined(definition, *_read_variables(variables, definition.variables, dialects, charset), charset)
    defining = tuple(map(bytes, variables))
    read, dialects = _read_known_variables(defining, definition.variables, dialects, charset)
    defined = tuple(getattr(definition, name) for name in _SHARED)
    return _Defined(definition, read, dialects, charset, _plans(defined, defining, dialects, charset))


def _read_variables(
    bodies: _Bodies | Sequence[Body], count: int, dialects: int, charset: str
) -> tuple[tuple[Variable, ...], int]:
    return data_set_messages.read_variables(list(bodies), count, dialects, charset)


_read_known = lru_cache(maxsize=32)(_read_definitions)
_read_known_variables = lru_cache(maxsize=32)(_read_variables)
"""Programs send many data sets with the same variables, often with different numbers of observations."""
_SHARED = [field.name for field in fields(DataSetDefinition) if field.name != "observations"]
"""What data sets that share their plans have in common."""


@lru_cache(maxsize=32)
def _plans(defined: tuple[object, ...], variables: tuple[bytes, ...], dialects: int, charset: str) -> decode.Plans:  # noqa: ARG001 - the key
    """Return the plans of data sets with these definitions: none at first, to which `decode` adds those it makes."""
    return {}


def _representation(received: Received, defined: _Defined) -> tuple[Representation, list[str]]:
    """Return the representation of the values, and warnings about facts that contradict it.

    The definitions state the byte order. The descriptor states the floating-point format, or else the
    source's configuration. Without either, the values of EBCDIC data sets are IBM floating point.
    """
    first = received.first
    chosen = dialect.preferred(defined.dialects, first.encoding)
    named = float_format(first.encoding) or float_format(received.encoding)
    is_ibm = missing.is_ebcdic(defined.charset) if named is None else named == "s390"
    floats: FloatFormat = "ibm" if is_ibm else "ieee"
    warnings = []
    if integer_order(first.encoding) not in {None, chosen.order}:
        warnings.append(f"the descriptor's Encoding {first.encoding} is not the byte order of the definitions")
    if (doubt := charset_doubt(first, defined.charset)) is not None:
        warnings.append(doubt)
    if named is None and is_ibm and not is_ebcdic(first.ccsid):
        warnings.append("no Encoding is declared, and texts are EBCDIC: numbers are read as IBM floating point")
    return Representation("big" if chosen.order == ">" else "little", floats, defined.charset), warnings


def _names(record: AttachmentRecord, first: PhysicalMessage, defined: _Defined) -> dict[str, str]:
    names = {"sas.library": record.qualifier_1, "sas.member": record.qualifier_2}
    return {key: name for key, name in names.items() if name} | {
        "sas.dialect": dialect.preferred(defined.dialects, first.encoding).name
    }


def _index_metadata(defined: _Defined, messages: Mapping[MessageKind, _Bodies], warnings: list[str]) -> dict[str, str]:
    """Return the metadata of indexes, as JSON, and of integrity constraints, in base64, as their layout is not
    published.

    Data that cannot be read, or is too long, gives a warning; the data set is kept.
    """
    metadata = {}
    for kind, key, shown in _INDEX_READERS:
        bodies = messages[kind]
        if bodies.size > indexes_and_constraints.MOST_BYTES:
            warnings.append(f"{bodies.size:,} bytes of {kind.name.lower()} were not kept")
        elif len(bodies):
            try:
                metadata[key] = shown(list(bodies), defined)
            except WireError as error:
                warnings.append(f"the {kind.name.lower()} could not be read: {error}")
    return metadata


def _indexes(bodies: Sequence[memoryview], defined: _Defined) -> str:
    found, _ = data_set_messages.read_indexes(bodies, defined.dialects, defined.charset)
    return indexes_and_constraints.written_indexes(found)


def _constraints(bodies: Sequence[memoryview], _: _Defined) -> str:
    return indexes_and_constraints.written_constraints(data_set_messages.read_constraints(bodies))


_INDEX_READERS: tuple[tuple[MessageKind, str, Callable[[Sequence[memoryview], _Defined], str]], ...] = (
    (MessageKind.INDEXES, indexes_and_constraints.INDEXES, _indexes),
    (MessageKind.CONSTRAINTS, indexes_and_constraints.CONSTRAINTS, _constraints),
)
