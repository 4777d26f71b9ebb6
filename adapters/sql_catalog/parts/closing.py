"""Closing of complete attachments as finished or quarantined, one or very many in a transaction."""

from collections.abc import Collection, Container, Mapping, Sequence
from operator import attrgetter
from typing import cast

from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select, update

from adapters.sql_catalog.bulk_rows import BulkStatement
from adapters.sql_catalog.parts.part import Lookup, chunks
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.bounded_types import AnyText
from adapters.sql_catalog.schema.record_rows import Columns, columns_of, pack_triplets
from adapters.sql_catalog.schema.state_conditions import becomes, can_now
from app.assembly.states import Input
from app.model.attachment import AttachmentState
from app.model.evidence import kept_warnings
from app.model.records import Finished, NewEvent, RefusedContent, changed

_attachments = catalog_tables.attachments
_STATES = {state.value: state for state in AttachmentState}
_FINISHED = becomes(Input.CONTENT_READ)
_STATES_BY_ID = Lookup(_attachments.c.id, lambda wanted: select(_attachments.c.id, _attachments.c.state).where(wanted))
_WARNINGS_BY_ID = Lookup(
    _attachments.c.id, lambda wanted: select(_attachments.c.id, _attachments.c.warnings).where(wanted)
)
_id = bindparam("attachment", type_=AnyText)
_FINISHABLE = update(_attachments).where(_attachments.c.id == _id, can_now(Input.CONTENT_READ))
_REFUSABLE = update(_attachments).where(_attachments.c.id == _id, can_now(Input.CONTENT_REFUSED))

FOUND = (
    "finished_at",
    "size",
    "sha256",
    "content_type",
    "storage",
    "object_name",
    "checksums",
    "observations",
    "variables",
    "record_length",
    "announced_size",
    "files",
    "warnings",
    "evidence",
)
"""The columns that only finishing writes."""

_found = {name: bindparam(f"found_{name}", type_=_attachments.c[name].type) for name in FOUND}
_dialects = bindparam("found_dialects", type_=_attachments.c.dialects.type)
_FINISH = BulkStatement(
    _FINISHABLE.values(
        state=literal_column(f"'{_FINISHED}'"), dialects=func.coalesce(_dialects, _attachments.c.dialects), **_found
    ),
    ("attachment", "found_dialects", *(bind.key for bind in _found.values())),
)
_REFUSE = BulkStatement(
    _REFUSABLE.values(
        state=literal_column(f"'{becomes(Input.CONTENT_REFUSED)}'"),
        reason_code=bindparam("code", type_=AnyText),
        reason=bindparam("why", type_=AnyText),
    ),
    ("attachment", "code", "why"),
)
_ADD_EXTENTS = BulkStatement(insert(catalog_tables.extents), ("attachment_id", "extents"))
_FORGET = [
    BulkStatement(delete(table).where(table.c.attachment_id == _id), ("attachment",))
    for table in (catalog_tables.part_runs, catalog_tables.extents)
]


def states(connection: Connection, attachment_ids: Collection[str]) -> dict[str, AttachmentState]:
    """Return the states of these attachments, without unknown ones."""
    found: dict[str, AttachmentState] = {}
    for some in chunks(list(attachment_ids)):
        found.update((row.id, _STATES[row.state]) for row in _STATES_BY_ID.run(connection, some))
    return found


def as_finished(attachments: Columns, finished: Mapping[str, Finished]) -> Columns:
    """Return rows to be inserted. Those of `finished` are already finished."""
    outcomes = [*map(finished.get, attachments["id"])]
    if None not in outcomes:
        changed: Columns = {name: [*map(attrgetter(name), outcomes)] for name in FOUND}
    else:
        changed = {
            name: [
                value if found is None else getattr(found, name)
                for value, found in zip(attachments[name], outcomes, strict=True)
            ]
            for name in FOUND
        }
    changed["state"] = [
        value if found is None else _FINISHED for value, found in zip(attachments["state"], outcomes, strict=True)
    ]
    changed["dialects"] = [
        value if found is None or found.dialects is None else found.dialects
        for value, found in zip(attachments["dialects"], outcomes, strict=True)
    ]
    return attachments | changed


def finish(connection: Connection, finished: Sequence[Finished]) -> None:
    """Change complete attachments to finished. They keep warnings that came while their content was read."""
    noted: dict[str, Sequence[str]] = {}
    for some in chunks([each.id for each in finished]):
        noted.update((row.id, row.warnings) for row in _WARNINGS_BY_ID.run(connection, some))
    finished = [
        changed(each, warnings=kept_warnings((*each.warnings, *more)))
        if (more := [why for why in noted.get(each.id, ()) if why not in each.warnings])
        else each
        for each in finished
    ]
    columns = columns_of(Finished, finished)
    found = {f"found_{name}": columns[name] for name in (*FOUND, "dialects")}
    _FINISH.run(connection, {"attachment": columns["id"], **found})


def place_content(connection: Connection, finished: Sequence[Finished], known: Container[str] | None = None) -> None:
    """Save where finished content is. Content in the content store needs neither parts nor extents any more.

    Attachments that are not `known` have none. None means that all are known.
    """
    stored = [each.id for each in finished if each.storage == "store"]
    forget_pieces(connection, stored if known is None else [each for each in stored if each in known])
    in_journal = [each for each in finished if each.storage == "journal"]
    packed = [pack_triplets(each.extents) for each in in_journal]
    _ADD_EXTENTS.run(connection, {"attachment_id": [each.id for each in in_journal], "extents": packed})


def refuse(connection: Connection, refused: Sequence[RefusedContent]) -> None:
    """Change complete attachments to quarantined."""
    columns = columns_of(RefusedContent, refused)
    _REFUSE.run(connection, {"attachment": columns["id"], "code": columns["code"], "why": columns["reason"]})


def warn(connection: Connection, warned: Sequence[NewEvent]) -> list[NewEvent]:
    """Add the warnings of these events to attachments whose content was read; return the events of those that lacked
    it."""
    logged: list[NewEvent] = []
    for event in warned:  # there are few
        of_it = _attachments.c.id == event.subject
        was_read = _attachments.c.state.in_([AttachmentState.FINISHED.value, AttachmentState.QUARANTINED.value])
        before: list[str] | None = connection.scalar(select(_attachments.c.warnings).where(of_it, was_read))
        if before is None:
            continue
        if more := [each for each in cast("list[str]", event.data["warnings"]) if each not in before]:
            connection.execute(update(_attachments).where(of_it).values(warnings=[*before, *more]))
            logged.append(event)
    return logged


def forget_pieces(connection: Connection, attachment_ids: Sequence[str]) -> None:
    """Delete the part runs and the journal extents of attachments."""
    for forget in _FORGET:
        forget.run(connection, {"attachment": attachment_ids})
