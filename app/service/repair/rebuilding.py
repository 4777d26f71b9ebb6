"""The rebuilding of a catalog from the journal and the content store, and from a readable old catalog.

The new catalog is built in a temporary place and replaces the old one when it is complete. The old one is set aside.
These are the steps:

- A readable old catalog is recorded.
- Rows that are in the records and no longer in the journal are loaded: settled content, deleted attachments,
  deliveries.
- The journal is replayed as at any start, and complete attachments are finished.
- Attachments that were finished once, and are in neither, are quarantined as lost.
- Attachments that were unfinished, and are found nowhere, expire.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from app import plugins
from app.model.attachment import AttachmentState
from app.model.errors import CatalogDamaged, GatewayError
from app.model.message import Position
from app.model.principals import ApiKey
from app.model.records import (
    CONTENT_LOST,
    NOTHING_CAME,
    PARTS_GONE,
    AttachmentRecord,
    Checkpoint,
    DeliveryRecord,
    MessageRecord,
    QuarantineCopy,
    QuarantineRecord,
    changed,
)
from app.observe import logger
from app.ports import Catalog, CatalogDatabase, ContentStore, Journal
from app.service.assembling.assembler import Assembler
from app.service.content.stored_content import object_name
from app.service.context import ServiceContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import begun
from app.service.quarantine.quarantine_records import copied_body
from app.service.repair import record_files
from app.service.repair.catalog_pages import AT_ONCE, OPEN, attachments_in, batched, pages
from app.service.repair.content_check import object_size
from app.service.repair.reassembling import temporary_place
from app.service.repair.record_files import Dropped
from app.service.repair.record_json import Row
from app.service.repair.recorder import Recorder
from app.service.repair.repair_stores import GatewayStores, ProgressListener

log = logger(__name__)

_PARTS_GONE = "its parts are no longer in the journal; it begins anew when it is sent again"
FOLDER = "attachments/"
_GONE = "its content is neither in the content store nor in the journal"


@dataclass(slots=True)
class Rebuilt:
    """The sources of a new catalog.

    They are rows from the records, messages from the journal, attachments finished from the journal, attachments that
    could not be brought back, objects without an attachment, and the place of the old catalog. `unsent` has, for
    each webhook, how many events of the old log it had not got: it begins anew with the events after the rebuilding.
    """

    recorded: int = 0
    replayed: int = 0
    finished: int = 0
    lost: int = 0
    orphaned: int = 0
    aside: str | None = None
    unsent: dict[str, int] = field(default_factory=dict)


class _Old(NamedTuple):
    """Facts of the old catalog beyond its records: unfinished attachments, whether its positions are of another
    journal, the API keys, and how many events each webhook had not got."""

    unfinished: list[AttachmentRecord]
    is_foreign: bool
    keys: Sequence[ApiKey] = ()
    unsent: Mapping[str, int] = MappingProxyType({})


def rebuild(estate: GatewayStores, progress: ProgressListener) -> Rebuilt:
    """Make a new catalog and replace the old one; `estate.catalog` is closed. Raises GatewayError."""
    journal = estate.writer
    assert journal is not None
    old = _recorded(estate, journal)
    rebuilt = Rebuilt(unsent=dict(old.unsent))
    with temporary_place(estate.settings) as folder:
        scratch = f"sqlite:///{folder}/catalog.sqlite"
        catalog = plugins.catalog()(scratch)
        try:
            context = estate.service_context(catalog, journal)
            first = min((segment.number for segment in journal.segments()), default=None)
            to_find = _load(context, None if old.is_foreign else first, rebuilt, progress)
            progress.begin("journal", None)
            rebuilt.replayed = Assembler(context, lambda _complete: None, read_early=False).recover()
            progress.advance(rebuilt.replayed)
            _finish(context, rebuilt, progress)
            _add_recorded_facts(context, old)
            _add_quarantine_copies(context, estate.database)
            _quarantine_lost(context, to_find, rebuilt)
            _expire(context, old.unfinished, rebuilt)
            rebuilt.orphaned = _orphaned(context)
            for key in old.keys:
                catalog.add_key(key)
            catalog.bind(journal.identity())
            catalog.flush()
        finally:
            catalog.close()
        copy = Path(folder) / "whole.sqlite"
        plugins.catalog().database(scratch).snapshot(copy)
        if estate.database.exists():
            rebuilt.aside = estate.database.set_aside()
        estate.database.load(copy)
    catalog = plugins.catalog()(estate.settings.catalog_url)
    try:
        Recorder(catalog, estate.store).record_all()
    finally:
        catalog.close()
    log.info("catalog_rebuilt", recorded=rebuilt.recorded, replayed=rebuilt.replayed, lost=rebuilt.lost)
    return rebuilt


def _recorded(estate: GatewayStores, journal: Journal) -> _Old:
    """Write everything that a readable old catalog has to the records, and close it. Of a damaged one only the keys of
    clients are taken, if these are sound."""
    if estate.catalog is not None:
        try:
            return _recorded_of(estate.catalog, estate.store, journal)
        except CatalogDamaged as error:
            log.warning("catalog_damaged", reason=str(error))
    return _Old([], is_foreign=False, keys=estate.database.sound_keys())


def _recorded_of(catalog: Catalog, store: ContentStore, journal: Journal) -> _Old:
    with closing(catalog) as old:
        Recorder(old, store).record_all()
        unfinished = [record for state in OPEN for record in attachments_in(old, state)]
        bound, keys, last = old.journal_identity(), old.api_keys(), old.last_event()
        unsent = {name: last - record.position for name, record in old.webhooks().items() if record.position < last}
    for name, count in unsent.items():
        log.warning("webhook_events_left_out", webhook=name, at_most=count)
    return _Old(unfinished, bound is not None and bound.id != journal.identity().id, keys, unsent)


def _load(
    context: ServiceContext, first: int | None, rebuilt: Rebuilt, progress: ProgressListener
) -> list[AttachmentRecord]:
    """Load the rows of the records that the journal may no longer have.

    The journal has segments from `first` on; None means that no row of the records is in it. Return the finished
    attachments that the journal must bring.
    """
    progress.begin("records", None)
    to_find: list[AttachmentRecord] = []
    for some in batched(record_files.rows(context.store, _damaged)):
        checkpoint = Checkpoint()
        for row in some:
            taken = _row_to_load(row, context, first, to_find)
            if isinstance(taken, AttachmentRecord):
                checkpoint.attachments.append(taken)
            elif isinstance(taken, MessageRecord):
                checkpoint.messages.append(taken)
            elif isinstance(taken, DeliveryRecord):
                context.catalog.add_delivery(taken, [])
            rebuilt.recorded += taken is not None
        context.catalog.checkpoint(checkpoint)
        progress.advance(len(some))
    return to_find


def _row_to_load(
    row: Row | Dropped, context: ServiceContext, first: int | None, to_find: list[AttachmentRecord]
) -> Row | None:
    """Return the row to begin with; None for a row that the journal brings, or that must not come back."""
    if isinstance(row, MessageRecord):
        return None if _is_held(row.header_position, first) else row
    if isinstance(row, DeliveryRecord):
        return row
    if not isinstance(row, AttachmentRecord):
        return None
    if row.state is AttachmentState.FINISHED:
        if object_size(context.store, object_name(row.id)) == row.size:
            return replace(row, storage="store", object_name=object_name(row.id), reason_code=None, reason=None)
        to_find.append(row)
    elif row.state is AttachmentState.DELETED or (row.state not in OPEN and not _is_held(row.first_position, first)):
        return row
    return begun(row)


def _is_held(position: int, first: int | None) -> bool:
    """Tell whether the journal begins before this position, so that replaying it brings the row."""
    return first is not None and Position.unpack(position).segment >= first


def _damaged(error: GatewayError) -> None:
    log.error("records_damaged", reason=str(error))


def _add_recorded_facts(context: ServiceContext, old: _Old) -> None:
    """Add the recorded facts that the journal no longer has to its messages, and the outcome to quarantine entries.

    Deleted messages, which the journal has brought back, are deleted again. Positions of quarantined
    messages in another journal are dropped, since they mean nothing here.
    """
    for some in batched(record_files.rows(context.store, _damaged)):
        messages = [row for row in some if isinstance(row, MessageRecord)]
        quarantine = [row for row in some if isinstance(row, QuarantineRecord)]
        if old.is_foreign:
            new = [row for row in quarantine if context.catalog.quarantine_entry(row.id) is None]
            quarantine = [replace(row, position=0, in_journal=False) for row in new]
        context.catalog.checkpoint(Checkpoint(messages=messages, quarantine=quarantine))
        for row in some:
            if isinstance(row, Dropped) and row.kind == "message":
                context.catalog.drop_message(row.id, [])


def _add_quarantine_copies(context: ServiceContext, old: CatalogDatabase) -> None:
    """Add the copies of quarantined messages that the journal no longer has. Damaged ones are left out."""
    entries = pages(lambda at: context.catalog.quarantined(None, None, at, AT_ONCE))
    for some in batched(entry.id for entry in entries if not entry.in_journal):
        sound: list[QuarantineCopy] = []
        for copy in old.quarantine_copies([each for each in some if context.catalog.quarantine_copy(each) is None]):
            try:
                copied_body(copy, context.store)
            except (KeyError, GatewayError) as error:
                log.warning("quarantine_copy_damaged", entry=copy.id, reason=str(error))
            else:
                sound.append(copy)
        context.catalog.checkpoint(Checkpoint(quarantine_copies=sound))


def _finish(context: ServiceContext, rebuilt: Rebuilt, progress: ProgressListener) -> None:
    """Finish complete attachments. The gateway later retries those that cannot be finished now."""
    progress.begin("content", None)
    finisher = Finisher(context)
    for record in [*attachments_in(context.catalog, AttachmentState.COMPLETE)]:
        try:
            finisher.finish({record.id: None})
        except GatewayError as error:
            log.warning("attachment_not_finished", attachment=record.id, reason=str(error))
        else:
            rebuilt.finished += 1
        progress.advance(1)


def _quarantine_lost(context: ServiceContext, to_find: list[AttachmentRecord], rebuilt: Rebuilt) -> None:
    """Quarantine attachments that were finished once, and that neither the store nor the journal has brought back."""
    for some in batched(to_find):
        now = {record.id: record for record in context.catalog.attachments_by_id([each.id for each in some])}
        for record in some:
            found = now.get(record.id)
            if found is not None and found.state not in (AttachmentState.RECEIVING, AttachmentState.EXPIRED):
                continue
            rebuilt.lost += 1
            state = AttachmentState.QUARANTINED
            if found is None:
                lost = replace(
                    record, state=state, reason_code=CONTENT_LOST, reason=_GONE, storage=None, object_name=None
                )
                context.catalog.checkpoint(Checkpoint(attachments=[lost]))
            else:
                context.catalog.set_state([record.id], state, reason_code=CONTENT_LOST, reason=_GONE)
            log.error("attachment_lost", attachment=record.id, name=record.qualifier_2, source=record.source)


def _expire(context: ServiceContext, unfinished: list[AttachmentRecord], rebuilt: Rebuilt) -> None:
    """Add attachments that were unfinished, and of which the journal has nothing left, as expired. Messages that turned
    out to be application messages are left out."""
    for some in batched(unfinished):
        ids = [each.id for each in some]
        known = {record.id for record in context.catalog.attachments_by_id(ids)}
        known.update(message.waited_as or "" for message in context.catalog.messages_that_waited(ids))
        gone = [record for record in some if record.id not in known]
        values = {**NOTHING_CAME, "state": AttachmentState.EXPIRED, "reason_code": PARTS_GONE, "reason": _PARTS_GONE}
        context.catalog.checkpoint(Checkpoint(attachments=[changed(record, **values) for record in gone]))
        rebuilt.lost += len(gone)
        for record in gone:
            log.error("attachment_lost", attachment=record.id, name=record.qualifier_2, source=record.source)


def _orphaned(context: ServiceContext) -> int:
    """Return the number of objects whose attachments are unknown."""
    names = context.store.names(FOLDER)
    return sum(
        len(some) - len(context.catalog.attachments_by_id([name.removeprefix(FOLDER) for name in some]))
        for some in batched(names)
    )
