"""What assembly asks before a step and hands over behind it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from adapters.sql_catalog import tables
from adapters.sql_catalog.bulk import Bulk
from adapters.sql_catalog.closing import complete_ones, finish, refuse
from adapters.sql_catalog.column_types import AnyText, Octets
from adapters.sql_catalog.part import CatalogPart, chunks, log_events
from adapters.sql_catalog.rows import (
    Columns,
    attachment_columns,
    attachment_record,
    columns_of,
    correl_key,
    message_columns,
    message_record,
    pack_triplets,
    unpack_runs,
)
from app.model.records import AttachmentRecord, Checkpoint, MessageRecord, PartRun, QuarantineRecord

Merge = Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[Any]]

_attachments, _messages, _part_runs = tables.attachments, tables.messages, tables.part_runs

# What an attachment is known and listed by: it never changes, so that pages stay in order and indexes are left alone.
_IDENTITY = frozenset(("id", "source", "correl_id", "first_received_at"))

# Written by finishing alone.
_CONTENT = frozenset(
    ("finished_at", "size", "sha256", "content_type", "storage", "object_name", "observations", "variables")
)

# What is told of a closed attachment by what still comes for it. Whoever assembles may have forgotten it meanwhile, and
# begins to count anew: nothing goes back, and all else stays as it was when the attachment was closed.
_COUNTED = frozenset(("parts_received", "bytes_received", "duplicates", "last_position", "last_received_at"))

# Indexed, and seldom other than before. SQLite rewrites the indexes of every column that a statement sets, even to what
# it was; so these have a statement of their own, which sets them only where they change. That halves what is written.
_SELDOM = ("state", "kind", "message_id")

_id = bindparam("attachment", type_=AnyText)
_ADD_RUNS = Bulk(
    insert(_part_runs).from_select(
        ["attachment_id", "runs"],
        select(_id, bindparam("new_runs", type_=Octets)).where(
            ~exists().where(_attachments.c.id == _id, tables.IS_ENDED)
        ),
    ),
    ("attachment", "new_runs"),
)
_REMOVE = Bulk(delete(_attachments).where(_attachments.c.id == _id), ("attachment",))
_new = {name: bindparam(f"new_{name}", type_=_attachments.c[name].type) for name in _SELDOM}
_SET_SELDOM = Bulk(
    update(_attachments)
    .where(_attachments.c.id == _id, tables.IS_NOT_CLOSED)
    .where(or_(*(_attachments.c[name].is_distinct_from(new) for name, new in _new.items())))
    .values(_new),
    ("attachment", *(bind.key for bind in _new.values())),
)
_reached = bindparam("reached", type_=BigInteger)
_ADVANCE = (
    update(tables.progress)
    .where(or_(tables.progress.c.position.is_(None), tables.progress.c.position < _reached))
    .values(position=_reached)
)


class Assembly(CatalogPart):
    """The calls of `app.ports.Catalog` under "assembly"."""

    def progress(self) -> int | None:
        with self._database.read() as connection:
            return connection.scalar(select(tables.progress.c.position))

    def source_dialects(self) -> dict[str, int]:
        with self._database.read() as connection:
            return {row.source: row.dialects for row in connection.execute(select(tables.source_dialects))}

    def attachments_by_key(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, AttachmentRecord]:
        found = {}
        with self._database.read() as connection:
            for some in chunks(correl_ids):
                known = select(_attachments).where(_attachments.c.source == source, _attachments.c.correl_id.in_(some))
                for row in connection.execute(known):
                    found[row.correl_id] = attachment_record(row)
        return found

    def messages_by_correl_id(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, MessageRecord]:
        """The oldest message, should several begin with the same 16 bytes."""
        found: dict[bytes, MessageRecord] = {}
        with self._database.read() as connection:
            for some in chunks([correl_key(correl_id) for correl_id in correl_ids]):
                known = select(_messages).where(_messages.c.source == source, _messages.c.correl_key.in_(some))
                for row in connection.execute(known.order_by(_messages.c.correl_key, _messages.c.header_position)):
                    found.setdefault(row.correl_key, message_record(row))
        return found

    def part_runs(self, attachment_id: str) -> list[PartRun]:
        runs = select(_part_runs.c.runs).where(_part_runs.c.attachment_id == attachment_id)
        with self._database.read() as connection:
            return unpack_runs(connection.scalars(runs.order_by(_part_runs.c.number)))

    def checkpoint(self, checkpoint: Checkpoint) -> set[str]:
        attachments = attachment_columns(checkpoint.attachments)
        with self._database.write() as connection:
            self._upsert_attachment.run(connection, attachments)
            _SET_SELDOM.run(connection, _seldom(attachments))
            missed = _close(connection, checkpoint)
            _REMOVE.run(connection, {"attachment": checkpoint.removed_attachments})
            self._upsert_message.run(connection, message_columns(checkpoint.messages))
            self._upsert_quarantine.run(connection, columns_of(QuarantineRecord, checkpoint.quarantine))
            masks = checkpoint.source_dialects
            self._upsert_dialects.run(connection, {"source": [*masks], "dialects": [*masks.values()]})
            log_events(connection, [event for event in checkpoint.events if event.subject not in missed])
            if checkpoint.progress is not None:
                connection.execute(_ADVANCE, {"reached": checkpoint.progress})
        return missed

    @cached_property
    def _upsert_attachment(self) -> Bulk:
        merged = {column.name: _unless_closed for column in _attachments.columns}
        merged.update(dict.fromkeys(_COUNTED, _not_back_when_closed))
        return self._upsert(_attachments, "id", kept=_IDENTITY.union(_CONTENT, _SELDOM), merged=merged)

    @cached_property
    def _upsert_message(self) -> Bulk:
        return self._upsert(_messages, "id", merged={"complete_at": func.coalesce})

    @cached_property
    def _upsert_quarantine(self) -> Bulk:
        return self._upsert(tables.quarantine, "id")

    @cached_property
    def _upsert_dialects(self) -> Bulk:
        return self._upsert(tables.source_dialects, "source")

    def _upsert(
        self, table: Table, key: str, *, kept: Collection[str] = (), merged: Mapping[str, Merge] = MappingProxyType({})
    ) -> Bulk:
        """An INSERT that becomes an UPDATE where the key is there: of every column but those `kept`; those `merged`
        follow from the old value and the new."""
        statement = self._database.insert(table)
        changes: dict[str, Any] = {}
        for column in table.columns:
            name, new = column.name, statement.excluded[column.name]
            if name != key and name not in kept:
                changes[name] = merged[name](column, new) if name in merged else new
        names = [column.name for column in table.columns]
        return Bulk(statement.on_conflict_do_update(index_elements=[key], set_=changes), names)


def _seldom(attachments: Columns) -> Columns:
    return {"attachment": attachments["id"], **{f"new_{name}": attachments[name] for name in _SELDOM}}


def _close(connection: Connection, checkpoint: Checkpoint) -> set[str]:
    """Adds part runs and closes what is complete; returns the identifiers of what was to be closed and is not."""
    told = {each.id for each in checkpoint.finished}.union(each.id for each in checkpoint.refused)
    complete = complete_ones(connection, told)
    finished = [each for each in checkpoint.finished if each.id in complete]
    stored = {each.id for each in finished if each.storage == "store"}
    runs = {each: added for each, added in checkpoint.part_runs.items() if added and each not in stored}
    packed = [pack_triplets(added) for added in runs.values()]
    _ADD_RUNS.run(connection, {"attachment": [*runs], "new_runs": packed})
    finish(connection, finished)
    refuse(connection, [each for each in checkpoint.refused if each.id in complete])
    return told - complete


def _unless_closed(old: ColumnElement[Any], new: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((tables.IS_CLOSED, old), else_=new)


def _not_back_when_closed(old: ColumnElement[Any], new: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((and_(tables.IS_CLOSED, old > new), old), else_=new)
