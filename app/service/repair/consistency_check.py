"""The check of journal, catalog, content and tables against each other, each byte against its digest.

A check only reads, so that it may run while a gateway runs. Differences are checked again before they are reported, as
data may change meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from app import plugins
from app.model.attachment import AttachmentState, DeliveryState
from app.model.errors import CatalogDamaged, GatewayError
from app.model.message import Position
from app.model.records import CONTENT_LOST, AttachmentRecord, DeliveryRecord
from app.ports import Catalog, Journal, JournalArchive, JournalReader
from app.service.content.stored_content import object_name
from app.service.quarantine.quarantine_records import COPIES, copied_body
from app.service.repair import record_files
from app.service.repair.archive_check import damage_of, damaged_copies
from app.service.repair.catalog_pages import AT_ONCE, OPEN, attachments_in, batched, ended_attachments, pages
from app.service.repair.content_check import measure, object_size, unsound
from app.service.repair.finding_kinds import CannotCheck, Finding
from app.service.repair.record_files import Dropped
from app.service.repair.record_json import Row
from app.service.repair.repair_stores import GatewayStores, ProgressListener

ATTACHMENTS, UPLOADS = "attachments/", "outgoing/"

_OTHER_JOURNAL = ("catalog-foreign", "journal-replaced")
_OPEN_DELIVERIES = (DeliveryState.QUEUED, DeliveryState.SENDING)

Check = Callable[[GatewayStores, Catalog, ProgressListener], Iterator[Finding]]


def check_all(estate: GatewayStores, progress: ProgressListener) -> Iterator[Finding]:
    """Yield every difference. Raises CannotCheck at the end for parts that could not be checked."""
    yield from _segments(estate, progress)
    if estate.catalog is None:
        kind = "catalog-missing" if estate.catalog_error is None else "catalog-damaged"
        has_objects = next(iter(estate.store.names(ATTACHMENTS)), None) is not None
        if estate.catalog_error is not None or estate.journal.segments() or has_objects:
            yield Finding(kind, estate.database.place, estate.database.place, estate.catalog_error or "")
    else:
        try:
            yield from _compared(estate, estate.catalog, progress)
        except CatalogDamaged as error:
            yield Finding("catalog-damaged", estate.database.place, estate.database.place, str(error))
    unchecked = []
    for check_place in (damaged_copies, _tables):
        try:
            yield from check_place(estate, progress)
        except CannotCheck as error:
            unchecked.append(str(error))
    if unchecked:
        raise CannotCheck("; ".join(unchecked))


def _compared(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    foreign = [*_binding(estate, catalog)]
    yield from foreign
    if not any(finding.kind in _OTHER_JOURNAL for finding in foreign):
        for check in (_published, _needed, _contents, _objects, _messages, _uploads, _quarantine, _records):
            yield from check(estate, catalog, progress)


# --- the journal --------------------------------------------------------------------------------------------------


def _segments(estate: GatewayStores, progress: ProgressListener) -> Iterator[Finding]:
    segments = estate.journal.segments()
    progress.begin("journal", sum(segment.size for segment in segments))
    for segment in segments:
        damage = damage_of(estate.journal, segment.number)
        progress.advance(segment.size)
        if damage is not None:
            yield Finding("segment-damaged", str(segment.number), f"segment {segment.number}", damage)
    folder = estate.settings.journal_folder
    if not estate.settings.journal.shared or not folder.is_dir():
        return
    own = plugins.archive()(folder)  # what this receiver has not published
    for segment in own.segments():
        if (damage := damage_of(own, segment.number)) is not None:
            where = own.path(segment.number)
            yield Finding("segment-damaged", where, where, f"{damage}; it is not published yet")


def _binding(estate: GatewayStores, catalog: Catalog) -> Iterator[Finding]:
    """Find that the journal is not the catalog's, or lacks the last message that the catalog includes.

    Messages may come, and segments be sealed, while it is checked.
    """
    if estate.archive is not None and (estate.settings.journal.shared or catalog.combined() is not None):
        return
    bound, reached = catalog.journal_identity(), catalog.progress()
    journal = estate.journal.identity()
    if bound is not None and journal is not None and bound.id != journal.id:
        why = f"it is bound to {bound.id}, the journal is {journal.id}"
        kind = "journal-replaced" if is_ahead(estate.journal, catalog) else "catalog-foreign"
        yield Finding(kind, bound.id, estate.database.place, why)
        return
    if reached is None:
        return
    position = Position.unpack(reached)
    writer, archive = estate.writer, estate.archive
    is_written = writer is not None and _is_written(writer, position)
    if not (is_written or (archive is not None and _is_archived(archive, position))):
        held = [segment.number for segment in estate.journal.segments()]
        last = f"segment {held[-1]} is the last" if held else "there is no segment"
        yield Finding("journal-behind", str(position.segment), f"segment {position.segment}", last)


def _is_written(writer: Journal, position: Position) -> bool:
    end = writer.end()
    return end is not None and end >= position and writer.has(position.segment)


def _is_archived(archive: JournalArchive, position: Position) -> bool:
    """Tell whether a gateway's journal, which is only read here, has a position or later ones."""
    unsealed = archive.open_segment()  # before the segments: it may be sealed now
    newest = max((segment.number for segment in archive.segments()), default=0)
    if newest > position.segment or (unsealed is not None and unsealed.end >= position):
        return True
    if newest < position.segment:
        return False
    try:
        return len(archive.batch_sizes(newest)) > position.batch
    except (KeyError, GatewayError):  # it was found damaged, or has just been retired
        return True


def is_ahead(journal: JournalReader, catalog: Catalog) -> bool:
    """Tell whether every segment of a journal has a higher number than any that the catalog knows.

    If so, no position in the catalog refers to a message of this journal.
    """
    last = last_segment(catalog)
    return all(segment.number > last for segment in journal.segments())


def last_segment(catalog: Catalog) -> int:
    """Return the highest number of a segment that the catalog knows."""
    reached = catalog.progress()
    return max([0 if reached is None else Position.unpack(reached).segment, *catalog.needed_segments()])


def _published(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    """Find segments that receivers have published, and that are gone: each number was used once."""
    if not estate.settings.journal.shared:
        return
    progress.begin("published segments", None)
    last = Position.unpack(catalog.published()).segment
    held = {segment.number for segment in estate.journal.segments()}
    for number in range(min(held, default=1), last + 1):
        if number not in held:
            yield Finding("segment-missing", str(number), f"segment {number}", "receivers have published it")


def _needed(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    """Find unfinished attachments whose parts were in segments, or at the end of segments, that are gone.

    While a gateway runs, parts after the last sealed segment are not counted, since the gateway may still be writing
    them.
    """
    progress.begin("unfinished attachments", None)
    bound = max((segment.number for segment in estate.journal.segments()), default=0)
    bound = bound if estate.writer is None else 1 << 31
    for state in OPEN:
        for record in attachments_in(catalog, state):
            places = [Position.unpack(run.position + run.length - 1) for run in catalog.part_runs(record.id)]
            if record.pending_position is not None:
                places.append(Position.unpack(record.pending_position))
            gone = {place.segment for place in places if place.segment <= bound and not _is_held(estate, place)}
            if gone:
                now = catalog.attachment(record.id)  # it may have been finished meanwhile
                if now is not None and now.state in OPEN:
                    numbers = ", ".join(map(str, sorted(gone)))
                    yield Finding(
                        "parts-missing", record.id, _described(record), f"its parts in segments {numbers} are gone"
                    )


def _is_held(estate: GatewayStores, place: Position) -> bool:
    """Tell whether the journal has this position, even if it is damaged."""
    try:
        list(estate.journal.extents([place]))
    except KeyError:
        return False
    except GatewayError:
        return True
    return True


# --- attachments and their content ---------------------------------------------------------------------------------


def _contents(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    total = sum(record.size or 0 for record in attachments_in(catalog, AttachmentState.FINISHED))
    progress.begin("content", total)
    for record in attachments_in(catalog, AttachmentState.FINISHED):
        if unsound(record, catalog, estate.store, estate.journal, progress.advance) is None:
            continue
        now = catalog.attachment(record.id)  # it may have been settled or deleted meanwhile
        if now is None or now.state is not AttachmentState.FINISHED:
            continue
        why = unsound(now, catalog, estate.store, estate.journal, lambda _amount: None)
        if why is not None and not (why.kind == "content-missing" and _is_being_written(estate, catalog, now)):
            yield Finding(why.kind, record.id, _described(record), why.why)
    for record in attachments_in(catalog, AttachmentState.QUARANTINED):
        if record.sha256 is not None and record.reason_code != CONTENT_LOST:
            yield Finding("content-quarantined", record.id, _described(record), record.reason or "")


def _is_being_written(estate: GatewayStores, catalog: Catalog, record: AttachmentRecord) -> bool:
    """Tell whether content may be in the segment that a gateway is writing, which can be read only when it is
    sealed."""
    if estate.writer is not None:
        return False
    last = max((segment.number for segment in estate.journal.segments()), default=0)
    return any(extent.segment > last for extent in catalog.extents(record.id))


def _described(record: AttachmentRecord) -> str:
    name = f" ({record.qualifier_2!r} of {record.source})" if record.qualifier_2 else f" (of {record.source})"
    return f"attachment {record.id}{name}"


def _objects(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    """Find objects without an attachment. If the records have the attachment, its row is missing."""
    progress.begin("objects", None)
    unknown: dict[str, str] = {}
    for names in batched(estate.store.names(ATTACHMENTS)):
        by_id = {name.removeprefix(ATTACHMENTS): name for name in names}
        known = {record.id: record for record in catalog.attachments_by_id([*by_id])}
        unknown |= {each: name for each, name in by_id.items() if not _owns(known.get(each), name)}
        progress.advance(len(names))
    if not unknown:
        return
    recorded = {row.id: row for row in _recorded(estate) if row.id in unknown}
    for each, name in unknown.items():
        record = catalog.attachment(each)
        if _owns(record, name) or object_size(estate.store, name) is None:
            continue
        row = recorded.get(each)
        if record is None and isinstance(row, AttachmentRecord) and row.state is AttachmentState.FINISHED:
            yield Finding("row-missing", each, _described(row), "its object and its record exist")
        else:
            yield Finding("object-orphaned", name, name, "" if record is None else f"its attachment is {record.state}")


def _owns(record: AttachmentRecord | None, name: str) -> bool:
    """Tell whether an object may belong to this attachment. It is written before the row says so."""
    if record is None or object_name(record.id) != name:
        return False
    return record.state in (*OPEN, AttachmentState.FINISHED) or (
        record.state is AttachmentState.QUARANTINED and record.sha256 is not None and record.reason_code != CONTENT_LOST
    )


def _recorded(estate: GatewayStores) -> Iterator[Row | Dropped]:
    return record_files.rows(estate.store, lambda _damage: None)


def _messages(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    """Find attachments that a message lists and that have no row."""
    progress.begin("messages", None)
    missing: dict[str, str] = {}
    for messages in batched(pages(lambda at: catalog.messages(None, at, AT_ONCE))):
        listed = {each: message.id for message in messages for each in message.attachments}
        for some in batched(listed):
            known = {record.id for record in catalog.attachments_by_id(some)}
            missing |= {each: listed[each] for each in some if each not in known}
        progress.advance(len(messages))
    if not missing:
        return
    dropped: set[str] = set()  # rows that retention may have removed: recorded as dropped, or ended without content
    for row in _recorded(estate):
        is_ended = isinstance(row, AttachmentRecord) and row.state not in (*OPEN, AttachmentState.FINISHED)
        if row.id in missing and (is_ended or isinstance(row, Dropped)):
            dropped.add(row.id)
    now = {record.id for record in catalog.attachments_by_id([*missing])}
    for each, message in missing.items():
        has_object = object_size(estate.store, object_name(each)) is not None  # then it is reported already
        if each not in dropped and each not in now and not has_object:
            yield Finding("row-missing", each, f"attachment {each}", f"message {message} lists it")


# --- deliveries and quarantine ------------------------------------------------------------------------------------


def _uploads(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    progress.begin("deliveries", None)
    for state in _OPEN_DELIVERIES:
        for delivery in pages(lambda at, s=state: catalog.deliveries(s, None, at, AT_ONCE)):  # type: ignore[misc]
            why = _upload(estate, delivery, progress)
            if why is None:
                continue
            now = catalog.delivery(delivery.id)
            if now is not None and now.state in _OPEN_DELIVERIES:
                yield Finding("upload-damaged", delivery.id, f"delivery {delivery.id}", why)
    if estate.writer is None:
        return  # a running gateway may be receiving an upload
    for name in estate.store.names(UPLOADS):
        if catalog.delivery(name.split("/")[1]) is None:
            yield Finding("upload-orphaned", name, name)


def _upload(estate: GatewayStores, delivery: DeliveryRecord, progress: ProgressListener) -> str | None:
    for attachment in delivery.attachments:
        try:
            found = measure(estate.store.read(attachment.object_name), progress.advance)
        except (KeyError, ValueError):
            return f"{attachment.object_name or 'an object'} is gone"
        except GatewayError as error:
            return str(error)
        if found.sha256 != attachment.sha256:
            return f"SHA-256 of {attachment.object_name} is {found.sha256}, was {attachment.sha256}"
    return None


def _quarantine(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    progress.begin("quarantine", None)
    for entry in pages(lambda at: catalog.quarantined(None, None, at, AT_ONCE)):
        if entry.in_journal or (copy := catalog.quarantine_copy(entry.id)) is None:
            continue
        try:
            size = len(copied_body(copy, estate.store))
        except KeyError:
            why = f"{entry.object_name} is gone"
        except GatewayError as error:
            why = str(error)
        else:
            progress.advance(size)
            why = "" if size == entry.size else f"{size:,} bytes are there, {entry.size:,} were written"
        if why and catalog.quarantine_entry(entry.id) is not None:
            yield Finding("quarantine-damaged", entry.id, f"quarantined message {entry.id}", why)
    for name in estate.store.names(COPIES):
        owner = catalog.quarantine_entry(name.removeprefix(COPIES))  # it may not say yet that it has the object
        if owner is None and object_size(estate.store, name) is not None:
            yield Finding("object-orphaned", name, name)


# --- records and tables -------------------------------------------------------------------------------------------


def _records(estate: GatewayStores, catalog: Catalog, progress: ProgressListener) -> Iterator[Finding]:
    progress.begin("records", None)
    for file in record_files.files(estate.store):
        try:
            record_files.check(estate.store, file)
        except KeyError:  # merged meanwhile
            continue
        except GatewayError as error:
            yield Finding("records-damaged", file.name, file.name, str(error))
    recorded = {row.id for row in _recorded(estate)}
    first = min((segment.number for segment in estate.journal.segments()), default=None)
    missing = sum(
        record.id not in recorded
        for record in ended_attachments(catalog)
        if first is None or Position.unpack(record.first_position).segment < first
    )
    if missing and (estate.writer is not None or first is not None):
        yield Finding("records-missing", record_files.FOLDER, record_files.FOLDER, f"{missing:,} attachments")


def _tables(estate: GatewayStores, progress: ProgressListener) -> Iterator[Finding]:
    progress.begin("tables", None)
    if estate.settings.tables.url is None and not (estate.settings.data / "tables").is_dir():
        return
    try:
        store = estate.tables()
        names = sorted(store.names())
    except GatewayError as error:
        raise CannotCheck(f"the tables were not checked: {error}") from error
    for name in names:
        try:
            for file in store.verify(name):
                progress.advance(file.rows)
                if file.damage is not None:
                    yield Finding("table-damaged", name, f"table {name}", file.damage)
        except KeyError:  # removed meanwhile
            continue
        except Exception as error:  # noqa: BLE001 - any library's errors: tables that cannot be read are the findings
            yield Finding("table-damaged", name, f"table {name}", str(error).partition("\n")[0])


class CheckSummary(NamedTuple):
    """The results of a check."""

    findings: Sequence[Finding]
    unchecked: Sequence[str]


def checked(estate: GatewayStores, progress: ProgressListener) -> CheckSummary:
    """Return every difference, and the parts that could not be checked."""
    findings: list[Finding] = []
    try:
        findings.extend(check_all(estate, progress))
    except CannotCheck as error:  # the earlier findings count
        return CheckSummary(findings, [str(error)])
    return CheckSummary(findings, [])
