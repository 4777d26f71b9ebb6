"""Consistent backups of all that a gateway keeps, made while it runs.

Every message that was acknowledged before the call is in the journal, or its results are in the catalog and the content
store. So the copies are made in this order: sealed segments; the catalog as it is at one moment; the segments that were
sealed since, and the durable part of the one being written; the content that the catalog names. A segment that the
catalog needs may be retired before it is copied, when its attachments are settled. Then the catalog is copied again.

What receivers that share a journal have acknowledged is at first on the disk of each. So they are asked to publish it,
and the backup waits until they have. It names those that do not.

Bytes are kept by their digest: a segment, an object or a file of a table that is in the backups is not copied again.
The manifest is written last; without it there is no backup.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from os import fstat
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import BinaryIO

from app import plugins
from app.model.attachment import AttachmentState, DeliveryState
from app.model.errors import DamagedError, GatewayError
from app.model.message import segment_name
from app.model.times import to_time
from app.ports import Catalog, ContentStore
from app.ports.catalog.shared_journal import AWAY_SECONDS, ReceivingJournal
from app.service.access import audit
from app.service.quarantine.quarantine_records import COPIES
from app.service.repair import backup_manifests
from app.service.repair.backup_manifests import BackupFile, BackupHeader, data_name
from app.service.repair.catalog_pages import attachments_in, pages
from app.service.repair.content_check import Measure, measure
from app.service.repair.repair_stores import GatewayStores, ProgressListener, journal_archive

JOURNAL, CONTENT, TABLES, AUDIT, CATALOG = "journal/", "content/", "tables/", "audit/", "catalog.sqlite"
_OTHER_OBJECTS = (COPIES, "pipeline/")
_OPEN_DELIVERIES = (DeliveryState.QUEUED, DeliveryState.SENDING)
_ATTEMPTS = 5
_AT_ONCE = 500
PIECE = 1 << 20
ASK_SECONDS = 0.25
"""The pause between two looks whether receivers have published what they had."""

Read = Callable[[], Iterable[bytes | memoryview]]


@dataclass(slots=True)
class BackupReport:
    """The results of a backup. `problems` are sentences about damaged or missing bytes, which are not in the backup."""

    id: str
    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    pruned: int = 0
    problems: list[str] = field(default_factory=list)


def back_up(
    estate: GatewayStores, place: ContentStore, progress: ProgressListener, keep: int | None = None
) -> BackupReport:
    """Make a backup. With `keep`, only the newest `keep` backups stay. Raises GatewayError when none could be made."""
    return _Backup(estate, place, progress).make(keep)


class _Backup:
    def __init__(self, estate: GatewayStores, place: ContentStore, progress: ProgressListener) -> None:
        self._estate, self._place, self._progress = estate, place, progress
        if estate.catalog is not None and estate.catalog.combined() is not None:
            raise GatewayError(
                f"the catalog {estate.database.place} has the results of several archives, and a backup is of one "
                "journal: copy the folder or the places of these results while no batch runs, and keep the archives"
            )
        self._archive = journal_archive(estate.settings, estate.catalog)
        now = estate.clock.now()
        moment = to_time(now).strftime("%Y%m%dT%H%M%S.%fZ")
        self._report = BackupReport(f"{moment}-{secrets.token_hex(2)}")
        self._now = now
        self._there = set(place.names(backup_manifests.DATA))
        self._files: dict[str, BackupFile] = {}
        self._deleted: list[str] = []
        self._known: dict[tuple[str, int], BackupFile] = {}
        """The sealed segments of the last backup, by path and size."""
        if known := backup_manifests.backups(place):
            header, files = backup_manifests.read(place, known[-1])
            mine = self._archive.identity()
            if header.journal is not None and mine is not None and header.journal.id != mine.id:
                # Its segments have the same names.
                raise GatewayError(
                    f"the backups in this place are of journal {header.journal.id}, and this is journal {mine.id}: "
                    "give each gateway a place of its own"
                )
            self._known = {(file.path, file.size): file for file in files if file.path.startswith(JOURNAL)}

    def make(self, keep: int | None) -> BackupReport:
        identity = self._estate.catalog.journal_identity() if self._estate.catalog else None
        epoch = None if identity is None else backup_manifests.restored_epoch(self._place, identity.id)
        if identity is not None and epoch is not None and identity.epoch < epoch:
            raise GatewayError(
                f"a backup of this journal was restored elsewhere with epoch {epoch}, and this gateway has epoch "
                f"{identity.epoch}: stop it, or back it up to a place of its own"
            )
        if self._estate.catalog is not None and self._estate.settings.journal.shared:
            self._published(self._estate.catalog)
        self._sealed()
        with TemporaryDirectory(prefix="backup-") as folder:
            snapshot = self._consistent(Path(folder))
            with closing(plugins.catalog()(f"sqlite:///{snapshot}")) as catalog:
                journal = catalog.journal_identity()
                self._contents(catalog)
                self._deliveries(catalog)
            for prefix in _OTHER_OBJECTS:
                for name in list(self._estate.store.names(prefix)):
                    self._copy_file(self._estate.store, name, CONTENT + name)
            self._tables()
            self._audit_log()
            whole = Path(folder) / "whole.sqlite"
            plugins.catalog().database(f"sqlite:///{snapshot}").snapshot(whole)
            self._keep(CATALOG, measure(_file(whole)), lambda: _file(whole))
        header = BackupHeader(self._report.id, self._now, journal, max(self._copied(), default=0) + 1, self._deleted)
        backup_manifests.write(self._place, header, self._files.values())
        self._report.files, self._report.bytes = len(self._files), sum(file.size for file in self._files.values())
        if keep is not None:
            self._report.pruned = backup_manifests.prune(self._place, keep)
        return self._report

    def _consistent(self, folder: Path) -> Path:
        """Copy the catalog and the segments that it needs; return the path of the catalog's copy."""
        for attempt in range(_ATTEMPTS):
            snapshot = folder / f"catalog-{attempt}.sqlite"
            self._estate.database.snapshot(snapshot)
            self._journal(folder)
            with closing(plugins.catalog()(f"sqlite:///{snapshot}")) as catalog:
                missing = catalog.needed_segments() - self._copied()
            if not missing:
                return snapshot
        numbers = ", ".join(map(str, sorted(missing)))
        self._report.problems.append(f"journal segments that attachments need are missing: {numbers}")
        return snapshot

    # --- the journal ----------------------------------------------------------------------------------------------

    def _published(self, catalog: Catalog) -> None:
        """Have receivers publish all that they have acknowledged, and wait as long as one that has not been away
        publishes something: a minute since the last time."""
        catalog.ask_to_publish()
        self._progress.begin("receivers", None)
        before: dict[str, int] = {}
        longest = 0.0
        while owing := [each for each in catalog.receiving_journals() if each.owes]:
            now, published = monotonic(), {each.id: each.published for each in owing}
            if published != before:
                before, longest = published, now + AWAY_SECONDS
            if now > longest or all(each.is_away for each in owing):
                break
            sleep(ASK_SECONDS)
        self._report.problems.extend(map(_lacking, owing))

    def _sealed(self) -> bool:
        """Copy sealed segments that are not in this backup yet, or were copied while they were written.

        Return whether there were any.
        """
        new = []
        for segment in self._archive.segments():
            copied = self._files.get(JOURNAL + segment_name(segment.number))
            if copied is None or copied.size < segment.size:
                new.append(segment)
        self._progress.begin("journal", sum(segment.size for segment in new))
        for segment in new:
            path = JOURNAL + segment_name(segment.number)
            known = self._known.get((path, segment.size))
            if known is not None and known.name in self._there:
                self._files[path] = known
                self._progress.advance(segment.size)
            else:
                with suppress(KeyError):  # retired meanwhile
                    self._copy_segment(path, partial(self._archive.segment_bytes, segment.number))
        return bool(new)

    def _copy_segment(self, path: str, read: Read) -> None:
        self._keep(path, measure(read()), read)

    def _journal(self, folder: Path) -> None:
        """Copy the segments that were sealed since, and the durable part of the segment being written.

        That segment may be sealed meanwhile.
        """
        while self._sealed():
            pass
        opened = self._archive.open_segment()
        if opened is not None:
            copy = folder / "open.arrows"
            with copy.open("wb") as file:
                for piece in opened.pieces:
                    file.write(piece)
            self._copy_segment(JOURNAL + segment_name(opened.number), lambda: _file(copy))
        while self._sealed():
            pass

    def _copied(self) -> set[int]:
        """Return the numbers of the segments in this backup."""
        names = (path.removeprefix(JOURNAL) for path in self._files if path.startswith(JOURNAL))
        return {int(name.partition(".")[0]) for name in names}

    # --- content --------------------------------------------------------------------------------------------------

    def _contents(self, catalog: Catalog) -> None:
        total = sum(record.size or 0 for record in attachments_in(catalog, AttachmentState.FINISHED))
        self._progress.begin("content", total)
        for record in attachments_in(catalog, AttachmentState.FINISHED):
            if record.storage != "store" or not record.object_name or not record.sha256:
                continue
            try:
                self._copy_object(record.object_name, Measure(record.size or 0, record.sha256))
            except KeyError:
                now = self._estate.catalog.attachment(record.id) if self._estate.catalog else None
                if now is None or now.state is not AttachmentState.FINISHED:  # it was deleted meanwhile
                    self._deleted.append(record.id)
                else:
                    why = f"the object {record.object_name} of attachment {record.id} is missing"
                    self._report.problems.append(why)

    def _deliveries(self, catalog: Catalog) -> None:
        for state in _OPEN_DELIVERIES:
            for delivery in pages(lambda at, s=state: catalog.deliveries(s, None, at, _AT_ONCE)):  # type: ignore[misc]
                for attachment in delivery.attachments:
                    try:
                        self._copy_object(attachment.object_name, Measure(attachment.size, attachment.sha256))
                    except (KeyError, ValueError):
                        why = f"the object {attachment.object_name} of delivery {delivery.id} is missing"
                        self._report.problems.append(why)

    def _copy_object(self, name: str, expected: Measure) -> None:
        try:
            self._keep(CONTENT + name, expected, lambda: self._estate.store.read(name))
        except DamagedError as error:
            self._report.problems.append(f"{name} is not in the backup: {error}")

    # --- tables ---------------------------------------------------------------------------------------------------

    def _tables(self) -> None:
        """Copy logs before the files that they name, so that each copied version has all of its files."""
        settings = self._estate.settings
        if settings.tables.url is None and not (settings.data / "tables").is_dir():
            return
        store = plugins.content_store()(settings.tables_url)
        names = sorted(store.names(), key=lambda name: ("_delta_log/" not in name, name))
        self._progress.begin("tables", None)
        for name in names:
            self._copy_file(store, name, TABLES + name)

    # --- the audit log --------------------------------------------------------------------------------------------

    def _audit_log(self) -> None:
        with audit.opened_files(self._estate.settings.audit_folder) as files:
            sizes = {name: fstat(file.fileno()).st_size for name, file in files.items()}
            self._progress.begin("audit log", sum(sizes.values()))
            for name, file in files.items():
                read = partial(_beginning, file, sizes[name])
                self._keep(AUDIT + name, measure(read()), read)

    # --- bytes ----------------------------------------------------------------------------------------------------

    def _copy_file(self, store: ContentStore, name: str, path: str) -> None:
        why = ""
        for _ in range(_ATTEMPTS):  # it may be replaced while it is copied, as the last checkpoint of a table is
            try:
                self._keep(path, measure(store.read(name)), lambda: store.read(name))
            except KeyError:  # removed meanwhile
                return
            except DamagedError as error:
                why = str(error)
            else:
                return
        self._report.problems.append(f"{name} is not in the backup: {why}")

    def _keep(self, path: str, known: Measure, read: Read) -> None:
        """Put a file into the backup. Raises DamagedError when its bytes differ from the known digest."""
        file = BackupFile(path, known.size, known.sha256)
        if file.name not in self._there:
            with self._place.create(data_name(known.sha256)) as target:
                digest = sha256()
                for piece in read():
                    digest.update(piece)
                    target.write(piece)
                    self._progress.advance(len(piece))
                if digest.hexdigest() != known.sha256:
                    raise DamagedError(f"SHA-256 is {digest.hexdigest()}, expected {known.sha256}")
            self._there.add(file.name)
            self._report.copied_files += 1
            self._report.copied_bytes += known.size
        else:
            self._progress.advance(known.size)
        self._files[path] = file


def _lacking(receiver: ReceivingJournal) -> str:
    """Return why a backup may lack messages of a receiver, for people."""
    if receiver.is_away:
        why, advice = f"has not been seen since {to_time(receiver.seen_at):%F %T} UTC", "start it again"
    else:
        why, advice = "has not published all that it had", "its check `publishing` says why"
    return (
        f"receiver {receiver.receiver} (journal {receiver.id}) {why}: what it has acknowledged and not published is "
        f"not in the backup; {advice}, and make another one"
    )


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _beginning(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the first bytes of a file, which may grow meanwhile."""
    file.seek(0)
    while size > 0 and (piece := file.read(min(size, PIECE))):
        size -= len(piece)
        yield piece
