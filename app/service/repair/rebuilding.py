"""A catalog made from nothing but the journal and the content store, and from what a sound old catalog knows.

The new catalog is built in a scratch place and takes the old one's place when it is whole; the old one is set aside.
A sound old catalog is recorded first. Then come the rows that the records tell and the journal no longer does: what is
settled in the content store, what was deleted, deliveries. Then the journal is replayed as at any start, and complete
attachments are finished. What was finished once and comes out of neither is quarantined as lost; what was unfinished,
and is nowhere any more, has expired.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from app import plugins
from app.model.attachment import AttachmentState
from app.model.errors import OurError
from app.model.message import Position
from app.model.records import (
    CONTENT_LOST,
    NOTHING_CAME,
    PARTS_GONE,
    AttachmentRecord,
    Checkpoint,
    DeliveryRecord,
    MessageRecord,
    QuarantineRecord,
    changed,
)
from app.observe import logger
from app.ports import Journal
from app.service.assembling.assembler import Assembler
from app.service.content.access import object_name
from app.service.context import ServiceContext
from app.service.finishing.finisher import Finisher
from app.service.repair import records
from app.service.repair.estate import Estate, Progress
from app.service.repair.reassembling import begun
from app.service.repair.recording import Recorder
from app.service.repair.records import Dropped
from app.service.repair.rows import Row
from app.service.repair.walking import OPEN, attachments_in, batched

log = logger(__name__)

_PARTS_GONE = "its parts are no longer in the journal; sent again, it begins anew"
FOLDER = "attachments/"
_GONE = "its content is neither in the content store nor in the journal"


@dataclass(slots=True)
class Rebuilt:
    """What a new catalog was made of: rows from the records, messages from the journal; attachments that were finished
    from the journal and such as nothing could bring back; objects of no attachment; and where the old catalog is."""

    recorded: int = 0
    replayed: int = 0
    finished: int = 0
    lost: int = 0
    orphaned: int = 0
    aside: str | None = None


class _Old(NamedTuple):
    """What the old catalog tells beyond its records: attachments that had not come to an end, and whether its positions
    are those of another journal."""

    unfinished: list[AttachmentRecord]
    is_foreign: bool


def rebuild(estate: Estate, progress: Progress) -> Rebuilt:
    """Make a new catalog and put it in the old one's place; `estate.catalog` is closed. Raises OurError."""
    journal = estate.writer
    assert journal is not None
    rebuilt, old = Rebuilt(), _recorded(estate, journal)
    with TemporaryDirectory(prefix="rebuild-", dir=estate.settings.data) as folder:
        scratch = f"sqlite:///{folder}/catalog.sqlite"
        catalog = plugins.catalog()(scratch)
        try:
            context = estate.service_context(catalog, journal)
            in_doubt = _load(context, None if old.is_foreign else _first(journal), rebuilt, progress)
            _replay(context, rebuilt, progress)
            _finish(context, rebuilt, progress)
            _load_what_follows(context, old)
            _lose(context, in_doubt, rebuilt)
            _expire(context, old.unfinished, rebuilt)
            rebuilt.orphaned = _orphaned(context)
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


def _recorded(estate: Estate, journal: Journal) -> _Old:
    """Have all that a sound old catalog knows in the records, and close it."""
    if estate.catalog is None:
        return _Old([], is_foreign=False)
    with closing(estate.catalog) as old:
        Recorder(old, estate.store).record_all()
        unfinished = [record for state in OPEN for record in attachments_in(old, state)]
        bound = old.journal_identity()
    return _Old(unfinished, bound is not None and bound.id != journal.identity().id)


def _first(journal: Journal) -> int | None:
    return min((segment.number for segment in journal.segments()), default=None)


def _load(context: ServiceContext, first: int | None, rebuilt: Rebuilt, progress: Progress) -> list[AttachmentRecord]:
    """Take what the records tell and the journal, which has segments from `first` on (None: nothing of the records),
    may not; return finished attachments that the journal is to bring."""
    progress.begin("records", None)
    in_doubt: list[AttachmentRecord] = []
    for some in batched(records.rows(context.store, _damaged)):
        checkpoint = Checkpoint()
        for row in some:
            taken = _taken(row, context, first, in_doubt)
            if isinstance(taken, AttachmentRecord):
                checkpoint.attachments.append(taken)
            elif isinstance(taken, MessageRecord):
                checkpoint.messages.append(taken)
            elif isinstance(taken, DeliveryRecord):
                context.catalog.add_delivery(taken, [])
            rebuilt.recorded += taken is not None
        context.catalog.checkpoint(checkpoint)
        progress.advance(len(some))
    return in_doubt


def _taken(
    row: Row | Dropped, context: ServiceContext, first: int | None, in_doubt: list[AttachmentRecord]
) -> Row | None:
    """Return the row to begin with; None for one that the journal brings, or that is not to come back."""
    if isinstance(row, MessageRecord):
        return None if _is_held(row.header_position, first) else row
    if isinstance(row, DeliveryRecord):
        return row
    if not isinstance(row, AttachmentRecord):
        return None
    if row.state is AttachmentState.FINISHED:
        if _is_stored(row, context):
            return replace(row, storage="store", object_name=object_name(row.id), reason_code=None, reason=None)
        in_doubt.append(row)
    elif row.state is AttachmentState.DELETED or (row.state not in OPEN and not _is_held(row.first_position, first)):
        return row
    return begun(row)


def _is_held(position: int, first: int | None) -> bool:
    """Return whether the journal begins before this position, so that replaying it brings what is there."""
    return first is not None and Position.unpack(position).segment >= first


def _is_stored(row: AttachmentRecord, context: ServiceContext) -> bool:
    try:
        return context.store.size(object_name(row.id)) == row.size
    except KeyError:
        return False


def _damaged(error: OurError) -> None:
    log.error("records_damaged", reason=str(error))


def _replay(context: ServiceContext, rebuilt: Rebuilt, progress: Progress) -> None:
    progress.begin("journal", None)
    rebuilt.replayed = Assembler(context, lambda _complete: None).recover()
    progress.advance(rebuilt.replayed)


def _load_what_follows(context: ServiceContext, old: _Old) -> None:
    """Add to messages that the journal brought what it no longer has of them, and to quarantine what became of it. Of a
    quarantined message in another journal, the place means nothing here."""
    for some in batched(records.rows(context.store, _damaged)):
        messages = [row for row in some if isinstance(row, MessageRecord)]
        quarantine = [row for row in some if isinstance(row, QuarantineRecord)]
        if old.is_foreign:
            new = [row for row in quarantine if context.catalog.quarantine_entry(row.id) is None]
            quarantine = [replace(row, position=0, in_journal=False) for row in new]
        context.catalog.checkpoint(Checkpoint(messages=messages, quarantine=quarantine))


def _finish(context: ServiceContext, rebuilt: Rebuilt, progress: Progress) -> None:
    """Finish what is complete. What cannot be finished now is tried again by the gateway."""
    progress.begin("content", None)
    finisher = Finisher(context)
    for record in [*attachments_in(context.catalog, AttachmentState.COMPLETE)]:
        try:
            finisher.finish(record.id)
        except OurError as error:
            log.warning("attachment_not_finished", attachment=record.id, reason=str(error))
        else:
            rebuilt.finished += 1
        progress.advance(1)


def _lose(context: ServiceContext, in_doubt: list[AttachmentRecord], rebuilt: Rebuilt) -> None:
    """Mark what was finished once, and has come neither from the store nor from the journal."""
    for some in batched(in_doubt):
        now = {record.id: record for record in context.catalog.attachments_by_id([each.id for each in some])}
        for record in _not_back(some, now):
            rebuilt.lost += 1
            state = AttachmentState.QUARANTINED
            if record.id not in now:
                lost = replace(
                    record, state=state, reason_code=CONTENT_LOST, reason=_GONE, storage=None, object_name=None
                )
                context.catalog.checkpoint(Checkpoint(attachments=[lost]))
            else:
                context.catalog.set_state([record.id], state, reason_code=CONTENT_LOST, reason=_GONE)
            log.error("attachment_lost", attachment=record.id, name=record.qualifier_2, source=record.source)


def _not_back(recorded: list[AttachmentRecord], now: dict[str, AttachmentRecord]) -> Iterator[AttachmentRecord]:
    for record in recorded:
        found = now.get(record.id)
        if found is None or found.state in (AttachmentState.RECEIVING, AttachmentState.EXPIRED):
            yield record


def _expire(context: ServiceContext, unfinished: list[AttachmentRecord], rebuilt: Rebuilt) -> None:
    """List what was unfinished, and of which nothing is left in the journal."""
    for some in batched(unfinished):
        known = {record.id for record in context.catalog.attachments_by_id([each.id for each in some])}
        gone = [record for record in some if record.id not in known]
        said = {**NOTHING_CAME, "state": AttachmentState.EXPIRED, "reason_code": PARTS_GONE, "reason": _PARTS_GONE}
        context.catalog.checkpoint(Checkpoint(attachments=[changed(record, **said) for record in gone]))
        rebuilt.lost += len(gone)
        for record in gone:
            log.error("attachment_lost", attachment=record.id, name=record.qualifier_2, source=record.source)


def _orphaned(context: ServiceContext) -> int:
    """Return how many objects are content of attachments that nothing knows any more."""
    names = context.store.names(FOLDER)
    return sum(
        len(some) - len(context.catalog.attachments_by_id([name.removeprefix(FOLDER) for name in some]))
        for some in batched(names)
    )
