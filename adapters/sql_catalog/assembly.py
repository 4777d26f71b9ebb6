"""What assembly asks before a step and hands over behind it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    LargeBinary,
    Table,
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
from adapters.sql_catalog.column_types import AnyText
from adapters.sql_catalog.database import Insert
from adapters.sql_catalog.part import CatalogPart, chunks, execute_many, log_events
from adapters.sql_catalog.rows import (
    attachment_record,
    attachment_values,
    correl_key,
    message_record,
    message_values,
    pack_triplets,
    quarantine_values,
    unpack_runs,
)
from app.model.records import AttachmentRecord, Checkpoint, MessageRecord, PartRun

Merge = Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[Any]]

_attachments, _messages, _part_runs = tables.attachments, tables.messages, tables.part_runs

# What an attachment is known and listed by: it never changes, so that pages stay in order and indexes are left alone.
_IDENTITY = frozenset(("id", "source", "correl_id", "first_received_at"))

# Written by finishing alone.
_CONTENT = frozenset(
    ("finished_at", "size", "sha256", "content_type", "storage", "object_name", "observations", "variables")
)

# Assembly works on what it read before and may hand over what has been decided otherwise meanwhile.
_OUTCOME = frozenset(("dialects", "reason_code", "reason"))

# Indexed, and seldom other than before. SQLite rewrites the indexes of every column that a statement sets, even to what
# it was; so these have a statement of their own, which sets them only where they change. That halves what is written.
_SELDOM = ("state", "kind", "message_id")

_ADD_RUNS = insert(_part_runs).from_select(
    ["attachment_id", "runs"],
    select(bindparam("attachment", type_=AnyText), bindparam("runs", type_=LargeBinary)).where(
        ~exists().where(_attachments.c.id == bindparam("attachment", type_=AnyText), tables.IS_ENDED)
    ),
)
_REMOVE_ATTACHMENT = delete(_attachments).where(_attachments.c.id == bindparam("attachment", type_=AnyText))
_new = {name: bindparam(f"new_{name}", type_=_attachments.c[name].type) for name in _SELDOM}
_SET_SELDOM = (
    update(_attachments)
    .where(_attachments.c.id == bindparam("attachment", type_=AnyText))
    .where(or_(*(_attachments.c[name].is_distinct_from(new) for name, new in _new.items())))
    .values({**_new, "state": case((tables.IS_CLOSED, _attachments.c.state), else_=_new["state"])})
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

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        runs = [
            {"attachment": attachment, "runs": pack_triplets(added)}
            for attachment, added in checkpoint.part_runs.items()
            if added
        ]
        dialects = [{"source": source, "dialects": mask} for source, mask in checkpoint.source_dialects.items()]
        removed = [{"attachment": attachment} for attachment in checkpoint.removed_attachments]
        attachments = [attachment_values(record) for record in checkpoint.attachments]
        seldom = [
            {"attachment": values["id"], **{f"new_{name}": values[name] for name in _SELDOM}} for values in attachments
        ]
        messages = [message_values(record) for record in checkpoint.messages]
        quarantine = [quarantine_values(record) for record in checkpoint.quarantine]
        with self._database.write() as connection:
            execute_many(connection, self._upsert_attachment, attachments)
            execute_many(connection, _SET_SELDOM, seldom)
            execute_many(connection, _ADD_RUNS, runs)
            execute_many(connection, _REMOVE_ATTACHMENT, removed)
            execute_many(connection, self._upsert_message, messages)
            execute_many(connection, self._upsert_quarantine, quarantine)
            execute_many(connection, self._upsert_dialects, dialects)
            log_events(connection, checkpoint.events)
            if checkpoint.progress is not None:
                connection.execute(_ADVANCE, {"reached": checkpoint.progress})

    @cached_property
    def _upsert_attachment(self) -> Insert:
        merged = dict.fromkeys(_OUTCOME, _unless_closed)
        return self._upsert(_attachments, "id", kept=_IDENTITY.union(_CONTENT, _SELDOM), merged=merged)

    @cached_property
    def _upsert_message(self) -> Insert:
        return self._upsert(_messages, "id", merged={"complete_at": func.coalesce})

    @cached_property
    def _upsert_quarantine(self) -> Insert:
        return self._upsert(tables.quarantine, "id")

    @cached_property
    def _upsert_dialects(self) -> Insert:
        return self._upsert(tables.source_dialects, "source")

    def _upsert(
        self, table: Table, key: str, *, kept: Collection[str] = (), merged: Mapping[str, Merge] = MappingProxyType({})
    ) -> Insert:
        """An INSERT that becomes an UPDATE where the key is there: of every column but those `kept`; those `merged`
        follow from the old value and the new."""
        statement = self._database.insert(table)
        changes: dict[str, Any] = {}
        for column in table.columns:
            name, new = column.name, statement.excluded[column.name]
            if name != key and name not in kept:
                changes[name] = merged[name](column, new) if name in merged else new
        return statement.on_conflict_do_update(index_elements=[key], set_=changes)


def _unless_closed(old: ColumnElement[Any], new: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((tables.IS_CLOSED, old), else_=new)
