"""Conversion between the records of `app.model.records` and rows of the tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from itertools import chain
from operator import attrgetter, itemgetter
from struct import iter_unpack, pack
from typing import Any, TypeVar

from sqlalchemy import Boolean, Integer, Row, Table

from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.bounded_types import UNREADABLE, AnyText, BitMask, Octets, damaged
from app.codecs.sas.correlid import compared
from app.model.attachment import AttachmentKind, AttachmentState, DeliveryState
from app.model.errors import kind_of_reason
from app.model.identity import addressed
from app.model.records import (
    AttachmentRecord,
    DeliveryRecord,
    EventRecord,
    Extent,
    FramingOptions,
    GroupProgress,
    MessageRecord,
    OutgoingAttachment,
    PartRun,
    QuarantineRecord,
)

T = TypeVar("T")

Values = dict[str, Any]
Columns = dict[str, Sequence[Any]]

# A row's own mapping of names to values takes several times as long as these names.
_ATTACHMENT_COLUMNS, _MESSAGE_COLUMNS = (
    tuple(catalog_tables.attachments.c.keys()),
    tuple(catalog_tables.messages.c.keys()),
)
_GROUP = ("group_last", "group_ended", "group_size")
_FIELDS = [field.name for field in fields(AttachmentRecord)]
_GROUP_AT = _FIELDS.index("group")
_ATTACHMENT_VALUES = itemgetter(*(_ATTACHMENT_COLUMNS.index(name) for name in _FIELDS if name != "group"))
_GROUP_VALUES = itemgetter(*map(_ATTACHMENT_COLUMNS.index, _GROUP))
_STATE, _KIND, *_LISTS = (
    _FIELDS.index(name) - (_FIELDS.index(name) > _GROUP_AT) for name in ("state", "kind", "pending_counts", "warnings")
)
_STATES = {state.value: state for state in AttachmentState}
_KINDS = {int(kind): kind for kind in AttachmentKind}
_NO_GROUP = (None, None, None)
SEGMENT_SHIFT = 32
"""The number of bits of a packed position below its segment."""
ENDED = (DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.CANCELLED)


_TYPES: Mapping[type[Any], type[Any]] = {AnyText: str, Octets: bytes, BitMask: int, Boolean: bool, Integer: int}
"""The types of values by those of columns. Values in JSON have any type."""


def reads(table: Table) -> Callable[[Callable[[Row[Any]], T]], Callable[[Row[Any]], T]]:
    """Return the decorator of a function that reads rows of a table: it raises CatalogDamaged, with the key of the row,
    for a row that this program has not written.

    A damaged file may give values of other types. Most rows have values of the same types, which are compared once.
    """
    columns = tuple(table.columns)
    key = columns.index(next(iter(table.primary_key)))
    known: set[tuple[type[Any], ...]] = set()

    def require_types(row: Row[Any]) -> None:
        for column, value in zip(columns, row, strict=False):
            wanted = next((each for kind, each in _TYPES.items() if isinstance(column.type, kind)), object)
            if not (isinstance(value, wanted) or (value is None and column.nullable)):
                raise TypeError(f"{column.name} is {type(value).__name__}, not {wanted.__name__}")

    def decorate(read: Callable[[Row[Any]], T]) -> Callable[[Row[Any]], T]:
        @wraps(read)
        def record(row: Row[Any]) -> T:
            try:
                if (types := (*map(type, row),)) not in known:
                    require_types(row)
                    known.add(types)
                return read(row)
            except UNREADABLE as error:
                raise damaged(f"row {row[key]!r} of {table.name}", error) from error

        return record

    return decorate


def _reader(record: type[Any]) -> Callable[[Any], Values]:
    names = tuple(field.name for field in fields(record))
    get = attrgetter(*names)
    return lambda value: dict(zip(names, get(value), strict=True))


def columns_of(record: type[Any], records: Sequence[Any]) -> Columns:
    """Return the fields of records of one kind, as columns."""
    names = getattr(record, "_fields", None) or [field.name for field in fields(record)]
    return {name: [*map(attrgetter(name), records)] for name in names}


_delivery_fields = _reader(DeliveryRecord)
_outgoing_fields = _reader(OutgoingAttachment)


def folded(name: str) -> str:
    """Return a name in the form for searching: without letter case, in every script, and the same on every database."""
    return name.casefold()


def attachment_columns(records: Sequence[AttachmentRecord]) -> Columns:
    columns = columns_of(AttachmentRecord, records)
    columns["state"] = [state.value for state in columns["state"]]
    columns["kind"] = [None if kind is None else int(kind) for kind in columns["kind"]]
    columns["name_folded"] = [folded(name) for name in columns["qualifier_2"]]
    groups = [progress or _NO_GROUP for progress in columns.pop("group")]
    columns.update((name, [progress[place] for progress in groups]) for place, name in enumerate(_GROUP))
    return columns


@reads(catalog_tables.attachments)
def attachment_record(row: Row[Any]) -> AttachmentRecord:
    values = [*_ATTACHMENT_VALUES(row)]
    values[_STATE] = _STATES[values[_STATE]]
    values[_KIND] = None if values[_KIND] is None else _KINDS[values[_KIND]]
    for place in _LISTS:
        values[place] = tuple(values[place])
    last, ended, size = _GROUP_VALUES(row)
    values.insert(_GROUP_AT, None if ended is None else GroupProgress(last, ended, size))
    return AttachmentRecord(*values)


def message_columns(records: Sequence[MessageRecord]) -> Columns:
    columns = columns_of(MessageRecord, records)
    correl_ids = map(addressed, columns["header_correl_id"], columns["message_correl_id"])
    columns["correl_key"] = list(map(compared, correl_ids))
    return columns


@reads(catalog_tables.messages)
def message_record(row: Row[Any]) -> MessageRecord:
    values = dict(zip(_MESSAGE_COLUMNS, row, strict=True))
    del values["correl_key"]
    values["attachments"] = tuple(values["attachments"])
    return MessageRecord(**values)


def quarantine_columns(records: Sequence[QuarantineRecord]) -> Columns:
    columns = columns_of(QuarantineRecord, records)
    columns["why_kind"] = [kind_of_reason(why) for why in columns["why"]]
    return columns


@reads(catalog_tables.quarantine)
def quarantine_record(row: Row[Any]) -> QuarantineRecord:
    values = dict(row._mapping)
    del values["why_kind"]
    return QuarantineRecord(**values)


def delivery_values(record: DeliveryRecord) -> Values:
    values = _delivery_fields(record)
    values["state"] = record.state.value
    values["attachments"] = [
        _outgoing_fields(outgoing) | {"correl_id": outgoing.correl_id.hex(), "kind": int(outgoing.kind)}
        for outgoing in record.attachments
    ]
    values["cut"] = None if record.cut is None else record.cut._asdict()
    values["holds_content"] = record.state in ENDED and any(outgoing.object_name for outgoing in record.attachments)
    return values


@reads(catalog_tables.deliveries)
def delivery_record(row: Row[Any]) -> DeliveryRecord:
    values = dict(row._mapping)
    for name in ("holds_content", "claimed_by", "claimed_until"):
        del values[name]
    values["state"] = DeliveryState(values["state"])
    values["cut"] = None if values["cut"] is None else FramingOptions(**values["cut"])
    values["attachments"] = tuple(
        OutgoingAttachment(
            **outgoing | {"correl_id": bytes.fromhex(outgoing["correl_id"]), "kind": AttachmentKind(outgoing["kind"])}
        )
        for outgoing in values["attachments"]
    )
    return DeliveryRecord(**values)


@reads(catalog_tables.events)
def event_record(row: Row[Any]) -> EventRecord:
    return EventRecord._make(row)


def pack_triplets(triplets: Sequence[PartRun] | Sequence[Extent]) -> bytes:
    """Return runs or extents as little-endian 64-bit integers, 24 bytes each."""
    return pack(f"<{3 * len(triplets)}q", *chain.from_iterable(triplets))


def runs_by_segment(runs: Iterable[PartRun]) -> dict[int, list[PartRun]]:
    """Return runs by their journal segment. A run lies in one batch, and so in one segment."""
    found: dict[int, list[PartRun]] = {}
    for run in runs:
        found.setdefault(run.position >> SEGMENT_SHIFT, []).append(run)
    return found


def unpack_runs(blobs: Iterable[bytes]) -> list[PartRun]:
    """Return the runs that `pack_triplets` has packed. Raises CatalogDamaged."""
    return [PartRun(*triplet) for blob in blobs for triplet in _triplets(blob)]


def unpack_extents(blob: bytes) -> tuple[Extent, ...]:
    """Return the extents that `pack_triplets` has packed. Raises CatalogDamaged."""
    return tuple(Extent(*triplet) for triplet in _triplets(blob))


def _triplets(blob: bytes) -> Iterable[tuple[int, int, int]]:
    try:
        return iter_unpack("<3q", blob)
    except UNREADABLE as error:
        raise damaged("where an attachment is in the journal", error) from error
