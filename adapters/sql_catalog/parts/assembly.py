"""The catalog's queries and checkpoints for assembly."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
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
    func,
    insert,
    or_,
    select,
    update,
)

from adapters.sql_catalog.bulk_rows import BulkStatement
from adapters.sql_catalog.database_connections import Insert
from adapters.sql_catalog.log_beginnings import newest_log
from adapters.sql_catalog.parts.closing import (
    FOUND,
    as_finished,
    finish,
    forget_pieces,
    place_content,
    refuse,
    states,
    warn,
)
from adapters.sql_catalog.parts.part import CatalogPart, Lookup, among, chunks, log_events
from adapters.sql_catalog.parts.receiving import NOTHING_CAME
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.bounded_types import AnyText
from adapters.sql_catalog.schema.record_rows import (
    Columns,
    attachment_columns,
    attachment_record,
    columns_of,
    message_columns,
    message_record,
    pack_triplets,
    quarantine_columns,
    runs_by_segment,
)
from adapters.sql_catalog.schema.state_conditions import IS_CLOSED, IS_NOT_CLOSED, becomes, can
from app.assembly.states import CLOSED, DONE, Input, follow
from app.codecs.sas.correlid import COMPARED_SIZE, KEY_SIZE, compared
from app.model.attachment import AttachmentState
from app.model.errors import CatalogChanged
from app.model.records import AttachmentRecord, Checkpoint, MessageRecord, PartRun, QuarantineCopy

Merge = Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[Any]]

_attachments, _messages, _part_runs = catalog_tables.attachments, catalog_tables.messages, catalog_tables.part_runs

# The columns that identify and order an attachment. They do not change, so that pages stay in order and indexes are not
# rewritten. Only reprocessing may find an earlier first message.
_IDENTITY = frozenset(("id", "source", "correl_id", "first_received_at"))

# The columns that change on a closed attachment when more of it comes. Assembly may have forgotten it meanwhile and
# counts from zero again. So these values never decrease, and all other columns stay as they were when it was closed.
_COUNTED = frozenset(("parts_received", "bytes_received", "duplicates", "last_position", "last_received_at"))

# An application message comes once. Assembly may have forgotten that it came.
_ANSWER = ("application_body", "application_format", "application_ccsid", "application_position")

_RECEIVING = AttachmentState.RECEIVING

# These columns are indexed and seldom change. SQLite rewrites the indexes of every column that a statement sets, even
# to the same value. So they have their own statement, which sets them only where they change. That halves the bytes
# written.
_INDEXED = ("state", "kind", "message_id")

# What assembly notes of an attachment, and finishing adds to.
_NOTED = frozenset({"warnings", "evidence"})

# What is recorded of finished content only.
_LATER = ("settled_at",)

_BEGUN_ANEW: dict[str, Any] = {
    "state": becomes(Input.SENT_AGAIN),
    "reason_code": None,
    "reason": None,
    **NOTHING_CAME,
    **dict.fromkeys((*FOUND, *_LATER)),
    "files": (),
    "warnings": [],
    "evidence": (),
}

_source = bindparam("source", type_=AnyText)
_BY_KEY = Lookup(
    _attachments.c.correl_id, lambda wanted: select(_attachments).where(_attachments.c.source == _source, wanted)
)
_BY_CORREL_KEY = Lookup(
    _messages.c.correl_key,
    lambda wanted: (
        select(_messages)
        .where(_messages.c.source == _source, wanted)
        .order_by(_messages.c.correl_key, _messages.c.header_position)
    ),
)
_BY_MESSAGE_KEY = Lookup(
    _messages.c.correl_key,
    lambda wanted: select(_messages).where(_messages.c.source == _source, wanted).order_by(_messages.c.header_position),
    behind=COMPARED_SIZE - KEY_SIZE,
)
_UNANNOUNCED = Lookup(
    _attachments.c.id,
    lambda wanted: select(_attachments.c.id).where(wanted, _attachments.c.kind.is_(None), IS_NOT_CLOSED),
)
_SAVED_MESSAGES = Lookup(_messages.c.id, lambda wanted: select(_messages.c.id).where(wanted))
_id = bindparam("attachment", type_=AnyText)
_ADD_RUNS = BulkStatement(insert(catalog_tables.part_runs), ("attachment_id", "runs", "segment"))
_FORGET_RUNS = BulkStatement(delete(_part_runs).where(_part_runs.c.attachment_id == _id), ("attachment",))
_REMOVE = BulkStatement(delete(_attachments).where(_attachments.c.id == _id), ("attachment",))
_new = {name: bindparam(f"new_{name}", type_=_attachments.c[name].type) for name in _INDEXED}
_SET_INDEXED = BulkStatement(
    update(_attachments)
    .where(_attachments.c.id == _id, IS_NOT_CLOSED)
    .where(or_(*(_attachments.c[name].is_distinct_from(new) for name, new in _new.items())))
    .values(_new),
    ("attachment", *(bind.key for bind in _new.values())),
)
_SET_FIRST = BulkStatement(
    update(_attachments)
    .where(_attachments.c.id == _id, IS_NOT_CLOSED)
    .values(first_received_at=bindparam("received_at", type_=BigInteger)),
    ("attachment", "received_at"),
)
_reached = bindparam("reached", type_=BigInteger)
_ADVANCE = (
    update(catalog_tables.progress)
    .where(or_(catalog_tables.progress.c.position.is_(None), catalog_tables.progress.c.position < _reached))
    .values(position=_reached)
)


class AssemblyPart(CatalogPart):
    """`app.ports.catalog.assembly` over SQL."""

    def progress(self) -> int | None:
        with self._database.read() as connection:
            return connection.scalar(select(catalog_tables.progress.c.position))

    def restarts(self) -> int:
        with self._database.read() as connection:
            return connection.scalar(select(catalog_tables.progress.c.restarts)) or 0

    def source_dialects(self) -> dict[str, int]:
        with self._database.read() as connection:
            return {row.source: row.dialects for row in connection.execute(select(catalog_tables.source_dialects))}

    def attachments_by_key(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, AttachmentRecord]:
        found = {}
        with self._database.read() as connection:
            for some in chunks(correl_ids):
                for row in _BY_KEY.run(connection, some, source=source):
                    found[row.correl_id] = attachment_record(row)
        return found

    def messages_by_correl_id(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, MessageRecord]:
        """Return the messages that these correlids address. If several have the same 20 bytes, return the oldest."""
        found: dict[bytes, MessageRecord] = {}
        with self._database.read() as connection:
            for some in chunks([compared(correl_id) for correl_id in correl_ids]):
                for row in _BY_CORREL_KEY.run(connection, some, source=source):
                    found.setdefault(row.correl_key, message_record(row))
        return found

    def messages_by_key(self, source: str, keys: Sequence[bytes]) -> list[MessageRecord]:
        with self._database.read() as connection:
            found = [row for some in chunks(keys) for row in _BY_MESSAGE_KEY.run(connection, some, source=source)]
        return [message_record(row) for row in found]

    def checkpoint(self, checkpoint: Checkpoint) -> set[str]:
        return self.checkpoints([checkpoint])

    def checkpoints(self, checkpoints: Iterable[Checkpoint]) -> set[str]:
        missed: set[str] = set()
        with self._database.write() as connection:
            for each in checkpoints:
                missed |= self._save(connection, each)
        return missed

    def _save(self, connection: Connection, checkpoint: Checkpoint) -> set[str]:
        """Save a checkpoint in the caller's transaction. Return what it could not finish or refuse."""
        if checkpoint.restarts is not None:
            # Assembly may hold attachments that were begun anew with the parts that they had.
            restarts = connection.scalar(select(catalog_tables.progress.c.restarts)) or 0
            if more := restarts - checkpoint.restarts:
                raise CatalogChanged(f"{more} attachments were begun anew meanwhile: assembly reads them again")
            if checkpoint.log is not None and newest_log(connection).name != checkpoint.log:
                raise CatalogChanged("the database was started or put back meanwhile: assembly reads it again")
        # Clients cannot know of other attachments that waited than the unannounced ones of the catalog.
        subjects = [*dict.fromkeys(event.subject for event in checkpoint.identified)]
        known = {row.id for some in chunks(subjects) for row in _UNANNOUNCED.run(connection, some)}
        identified = [event for event in checkpoint.identified if event.subject in known]
        missed, not_expired = self._save_attachments(connection, checkpoint)
        if checkpoint.restarts is not None:
            ids = [each.id for each in checkpoint.messages if each.id in checkpoint.saved_before]
            there = {each for some in chunks(ids) for each in _SAVED_MESSAGES.run(connection, some).scalars()}
            _require_saved("messages", ids, there)
        warned = warn(connection, checkpoint.warned)
        incomplete = {each.id for each in checkpoint.messages if not missed.isdisjoint(each.attachments)}
        messages = message_columns(checkpoint.messages)
        if incomplete:
            times = zip(messages["id"], messages["complete_at"], strict=True)
            messages["complete_at"] = [None if each in incomplete else time for each, time in times]
        self._upsert_message.run(connection, messages)
        masks = checkpoint.source_dialects
        replaced: dict[Table, Columns] = {
            catalog_tables.quarantine: quarantine_columns(checkpoint.quarantine),
            catalog_tables.quarantine_copies: columns_of(QuarantineCopy, checkpoint.quarantine_copies),
            catalog_tables.source_dialects: {"source": [*masks], "dialects": [*masks.values()]},
        }
        for table, columns in replaced.items():
            self._upserts[table].run(connection, columns)
        without_events = missed | not_expired | incomplete
        events = [event for event in checkpoint.events if event.subject not in without_events]
        log_events(connection, [*identified, *events, *warned])
        if checkpoint.progress is not None:
            connection.execute(_ADVANCE, {"reached": checkpoint.progress})
        return missed

    def _save_attachments(self, connection: Connection, checkpoint: Checkpoint) -> tuple[set[str], set[str]]:
        """Save the attachments of a checkpoint.

        Return two sets of identifiers: attachments to be closed that are not complete, and attachments that were not
        expired because more of them came or they had expired before.

        New rows are inserted in their final state: most rows of a large checkpoint are new.
        """
        _REMOVE.run(connection, {"attachment": checkpoint.removed_attachments})
        _reopen(connection, checkpoint.reopened, Input.SENT_AGAIN)
        _reopen(connection, checkpoint.reprocessed, Input.REPROCESSED)
        to_close = {each.id for each in checkpoint.finished}.union(each.id for each in checkpoint.refused)
        reported = {record.id: record.state for record in checkpoint.attachments}
        before = states(connection, to_close.union(reported, checkpoint.part_runs))
        if checkpoint.restarts is not None:
            _require_saved("attachments", reported.keys() & checkpoint.saved_before, before)
        after = before | {each: state for each, state in reported.items() if before.get(each) not in CLOSED}
        complete = {each for each in to_close & after.keys() if follow(after[each], Input.CONTENT_READ) is not None}
        missed = to_close - complete
        finished = {each.id: each for each in checkpoint.finished if each.id not in missed}

        attachments = attachment_columns(checkpoint.attachments)
        at_once = {each: found for each, found in finished.items() if each not in before}
        self._upsert_attachment.run(connection, as_finished(attachments, at_once) if at_once else attachments)
        old = [each in before for each in attachments["id"]]
        indexed = {f"new_{name}": [*compress(attachments[name], old)] for name in _INDEXED}
        _SET_INDEXED.run(connection, {"attachment": [*compress(attachments["id"], old)], **indexed})
        again = set(checkpoint.reprocessed)
        first = {each.id: each.first_received_at for each in checkpoint.attachments if each.id in again}
        _SET_FIRST.run(connection, {"attachment": [*first], "received_at": [*first.values()]})
        no_more = {each for each, state in before.items() if state in DONE}
        no_more.update(each.id for each in finished.values() if each.storage == "store")
        _FORGET_RUNS.run(connection, {"attachment": checkpoint.without_parts})
        _add_runs(connection, {each: added for each, added in checkpoint.part_runs.items() if each not in no_more})
        finish(connection, [found for each, found in finished.items() if each in before])
        place_content(connection, [*finished.values()], before)
        refuse(connection, [each for each in checkpoint.refused if each.id not in missed])
        expired = {
            each for each, state in reported.items() if state is AttachmentState.EXPIRED and each not in to_close
        }
        return missed, {each for each in expired if follow(before.get(each, _RECEIVING), Input.SILENCE) is None}

    @cached_property
    def _upsert_attachment(self) -> BulkStatement:
        merged: dict[str, Merge] = {
            **dict.fromkeys(_attachments.columns.keys(), lambda old, new: case((IS_CLOSED, old), else_=new)),
            **dict.fromkeys(_COUNTED, lambda old, new: case((and_(IS_CLOSED, old > new), old), else_=new)),
        }
        return self._upsert(_attachments, "id", kept=_IDENTITY.union(FOUND, _INDEXED, _LATER) - _NOTED, merged=merged)

    @cached_property
    def _upsert_message(self) -> BulkStatement:
        return BulkStatement(self._message_upsert, _messages.columns.keys())

    @cached_property
    def _message_upsert(self) -> Insert:
        answer = dict.fromkeys(
            _ANSWER, lambda old, new: case((_messages.c.application_body.is_not(None), old), else_=new)
        )
        return self._merging(
            _messages, "id", merged={"complete_at": func.coalesce, "waited_as": func.coalesce, **answer}
        )

    @cached_property
    def _upserts(self) -> Mapping[Table, BulkStatement]:
        """Return the statements of the tables whose rows are replaced as a whole."""
        tables = catalog_tables.quarantine, catalog_tables.quarantine_copies, catalog_tables.source_dialects
        return {table: self._upsert(table, next(iter(table.primary_key)).name) for table in tables}

    def _upsert(
        self, table: Table, key: str, *, kept: Collection[str] = (), merged: Mapping[str, Merge] = MappingProxyType({})
    ) -> BulkStatement:
        return BulkStatement(self._merging(table, key, kept=kept, merged=merged), table.columns.keys())

    def _merging(
        self, table: Table, key: str, *, kept: Collection[str] = (), merged: Mapping[str, Merge] = MappingProxyType({})
    ) -> Insert:
        """Return an INSERT that becomes an UPDATE where the key exists. It sets every column except those `kept`. The
        functions in `merged` combine the old value and the new."""
        statement = self._database.insert(table)
        changes: dict[str, Any] = {}
        for column in table.columns:
            name, new = column.name, statement.excluded[column.name]
            if name != key and name not in kept:
                changes[name] = merged[name](column, new) if name in merged else new
        return statement.on_conflict_do_update(index_elements=[key], set_=changes)


def _require_saved(what: str, saved_before: Iterable[str], there: Container[str]) -> None:
    """Raise CatalogChanged if rows that assembly read or wrote before are not there: it would add them again."""
    if gone := [each for each in saved_before if each not in there]:
        raise CatalogChanged(f"{len(gone)} {what} were deleted meanwhile ({min(gone)}): assembly reads them again")


def _reopen(connection: Connection, attachment_ids: Sequence[str], happened: Input) -> None:
    """Change attachments for which this can happen to receiving, and keep only the values of the header."""
    for some in chunks(attachment_ids):
        which = among(connection, _attachments.c.id, some), can(happened)
        here = [*connection.scalars(select(_attachments.c.id).where(*which))]
        connection.execute(update(_attachments).where(*which).values(_BEGUN_ANEW))
        forget_pieces(connection, here)


def _add_runs(connection: Connection, added: Mapping[str, Sequence[PartRun]]) -> None:
    """Add a row for each attachment and segment, so that the attachments that need a segment can be found."""
    rows = [
        (each, pack_triplets(runs), segment)
        for each, all_runs in added.items()
        for segment, runs in runs_by_segment(all_runs).items()
    ]
    ids, packed, segments = zip(*rows, strict=True) if rows else ((), (), ())
    _ADD_RUNS.run(connection, {"attachment_id": ids, "runs": packed, "segment": segments})
