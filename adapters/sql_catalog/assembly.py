"""What assembly asks before a step and hands over behind it."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    LargeBinary,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.sql.dml import Insert as AnyInsert

from adapters.sql_catalog import tables
from adapters.sql_catalog.column_types import AnyText
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

_attachments, _messages, _part_runs = tables.attachments, tables.messages, tables.part_runs

# What finishing and deleting decide. Assembly works on what it read before and may hand over an older outcome.
_OUTCOME = frozenset(
    (
        "state",
        "dialects",
        "finished_at",
        "size",
        "sha256",
        "content_type",
        "storage",
        "object_name",
        "observations",
        "variables",
        "reason_code",
        "reason",
    )
)

_ADD_RUNS = insert(_part_runs).from_select(
    ["attachment_id", "runs"],
    select(bindparam("attachment", type_=AnyText), bindparam("runs", type_=LargeBinary)).where(
        ~exists().where(_attachments.c.id == bindparam("attachment", type_=AnyText), tables.IS_CLOSED)
    ),
)
_REMOVE_ATTACHMENT = delete(_attachments).where(_attachments.c.id == bindparam("attachment", type_=AnyText))
_SET_PROGRESS = update(tables.progress).values(position=bindparam("reached", type_=BigInteger))


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
                for row in connection.execute(known.order_by(_messages.c.header_position)):
                    found.setdefault(row.correl_key, message_record(row))
        return found

    def part_runs(self, attachment_id: str) -> list[PartRun]:
        runs = select(_part_runs.c.runs).where(_part_runs.c.attachment_id == attachment_id)
        with self._database.read() as connection:
            return unpack_runs(connection.scalars(runs.order_by(_part_runs.c.number)))

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Takes all of it or nothing. A finished or deleted attachment keeps its outcome and takes no more part runs;
        its counters change. A quarantine entry that is there already stays as it is, whatever became of it."""
        runs = [
            {"attachment": attachment, "runs": pack_triplets(added)}
            for attachment, added in checkpoint.part_runs.items()
            if added
        ]
        dialects = [{"source": source, "dialects": mask} for source, mask in checkpoint.source_dialects.items()]
        removed = [{"attachment": attachment} for attachment in checkpoint.removed_attachments]
        attachments = [attachment_values(record) for record in checkpoint.attachments]
        messages = [message_values(record) for record in checkpoint.messages]
        quarantine = [quarantine_values(record) for record in checkpoint.quarantine]
        with self._database.write() as connection:
            execute_many(connection, self._upsert_attachment, attachments)
            execute_many(connection, _ADD_RUNS, runs)
            execute_many(connection, _REMOVE_ATTACHMENT, removed)
            execute_many(connection, self._upsert_message, messages)
            execute_many(connection, self._add_quarantine, quarantine)
            execute_many(connection, self._upsert_source_dialects, dialects)
            log_events(connection, checkpoint.events)
            if checkpoint.progress is not None:
                connection.execute(_SET_PROGRESS, {"reached": checkpoint.progress})

    @cached_property
    def _upsert_attachment(self) -> AnyInsert:
        statement = self._database.insert(_attachments)
        changes: dict[str, Any] = {}
        for column in _attachments.c:
            new = statement.excluded[column.name]
            changes[column.name] = case((tables.IS_CLOSED, column), else_=new) if column.name in _OUTCOME else new
        del changes["id"]
        return statement.on_conflict_do_update(index_elements=["id"], set_=changes)

    @cached_property
    def _upsert_message(self) -> AnyInsert:
        statement = self._database.insert(_messages)
        changes: dict[str, Any] = {column.name: statement.excluded[column.name] for column in _messages.c}
        del changes["id"]
        changes["complete_at"] = func.coalesce(_messages.c.complete_at, statement.excluded.complete_at)
        return statement.on_conflict_do_update(index_elements=["id"], set_=changes)

    @cached_property
    def _add_quarantine(self) -> AnyInsert:
        return self._database.insert(tables.quarantine).on_conflict_do_nothing(index_elements=["id"])

    @cached_property
    def _upsert_source_dialects(self) -> AnyInsert:
        statement = self._database.insert(tables.source_dialects)
        return statement.on_conflict_do_update(
            index_elements=["source"], set_={"dialects": statement.excluded.dialects}
        )
