"""Conversion between the records of `app.model.records` and rows of the tables."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import chain
from operator import attrgetter, itemgetter
from struct import iter_unpack, pack
from typing import Any

from sqlalchemy import Row

from adapters.sql_catalog.schema import catalog_tables
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


def message_record(row: Row[Any]) -> MessageRecord:
    values = dict(zip(_MESSAGE_COLUMNS, row, strict=True))
    del values["correl_key"]
    values["attachments"] = tuple(values["attachments"])
    return MessageRecord(**values)


def quarantine_columns(records: Sequence[QuarantineRecord]) -> Columns:
    columns = columns_of(QuarantineRecord, records)
    columns["why_kind"] = [kind_of_reason(why) for why in columns["why"]]
    return columns


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
    return [PartRun(*triplet) for blob in blobs for triplet in iter_unpack("<3q", blob)]


def unpack_extents(blob: bytes) -> tuple[Extent, ...]:
    return tuple(Extent(*triplet) for triplet in iter_unpack("<3q", blob))
