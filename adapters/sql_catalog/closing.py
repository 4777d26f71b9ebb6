"""Complete attachments become finished or quarantined, one or very many in a transaction."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select, update

from adapters.sql_catalog import tables
from adapters.sql_catalog.bulk import Bulk
from adapters.sql_catalog.column_types import AnyText
from adapters.sql_catalog.part import chunks
from adapters.sql_catalog.rows import columns_of, pack_triplets
from app.model.records import Finished, RefusedContent

_attachments = tables.attachments
_id = bindparam("attachment", type_=AnyText)
_COMPLETE = update(_attachments).where(_attachments.c.id == _id, tables.IS_COMPLETE)

_FOUND = ("finished_at", "size", "sha256", "content_type", "storage", "object_name", "observations", "variables")
_found = {name: bindparam(f"found_{name}", type_=_attachments.c[name].type) for name in _FOUND}
_dialects = bindparam("found_dialects", type_=_attachments.c.dialects.type)
_FINISH = Bulk(
    _COMPLETE.values(
        state=literal_column("'finished'"), dialects=func.coalesce(_dialects, _attachments.c.dialects), **_found
    ),
    ("attachment", "found_dialects", *(bind.key for bind in _found.values())),
)
_REFUSE = Bulk(
    _COMPLETE.values(
        state=literal_column("'quarantined'"),
        reason_code=bindparam("code", type_=AnyText),
        reason=bindparam("why", type_=AnyText),
    ),
    ("attachment", "code", "why"),
)
_ADD_EXTENTS = Bulk(insert(tables.extents), ("attachment_id", "extents"))
_FORGET = [
    Bulk(delete(table).where(table.c.attachment_id == _id), ("attachment",))
    for table in (tables.part_runs, tables.extents)
]


def complete_ones(connection: Connection, attachment_ids: Collection[str]) -> set[str]:
    """Those of these attachments that are complete."""
    found: set[str] = set()
    for some in chunks(list(attachment_ids)):
        complete = select(_attachments.c.id).where(_attachments.c.id.in_(some), tables.IS_COMPLETE)
        found.update(connection.scalars(complete))
    return found


def finish(connection: Connection, finished: Sequence[Finished]) -> None:
    """complete -> finished. Content in the store needs neither parts nor extents any more."""
    columns = columns_of(Finished, finished)
    found = {f"found_{name}": columns[name] for name in (*_FOUND, "dialects")}
    _FINISH.run(connection, {"attachment": columns["id"], **found})
    forget_pieces(connection, [each.id for each in finished if each.storage == "store"])
    in_journal = [each for each in finished if each.storage == "journal"]
    packed = [pack_triplets(each.extents) for each in in_journal]
    _ADD_EXTENTS.run(connection, {"attachment_id": [each.id for each in in_journal], "extents": packed})


def refuse(connection: Connection, refused: Sequence[RefusedContent]) -> None:
    """complete -> quarantined."""
    columns = columns_of(RefusedContent, refused)
    _REFUSE.run(connection, {"attachment": columns["id"], "code": columns["code"], "why": columns["reason"]})


def forget_pieces(connection: Connection, attachment_ids: Sequence[str]) -> None:
    """Forgets of what parts attachments were put together, and where in the journal their content lies."""
    for forget in _FORGET:
        forget.run(connection, {"attachment": attachment_ids})
