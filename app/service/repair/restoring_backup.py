"""The restoring of a backup into an empty place, each byte compared with its digest.

Content and tables come first, then the journal, and the catalog last. The journal keeps its identity and gets an epoch
that no earlier gateway of it can have reached, and none that was restored from the same place before. Its next segment
has a number as far ahead: what the old gateway has journalled since the backup has other positions. The backup's place
records that epoch, so that the old and the new gateway cannot both continue.

The journal that receivers share is restored into the archive, where its segments are numbered without a gap. An archive
that still has segments of it is completed: those that it has are compared with the backup, and later ones stay.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from app import plugins
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, GatewayError
from app.model.masking import masked
from app.model.message import SEALED_SEGMENT, sealed_number
from app.model.records import JournalIdentity
from app.ports import ContentStore
from app.ports.catalog.shared_journal import ReceivingJournal
from app.service.access import audit
from app.service.repair import backup_manifests
from app.service.repair.backup import AUDIT, CATALOG, CONTENT, JOURNAL, TABLES
from app.service.repair.backup_manifests import BackupFile, BackupHeader
from app.service.repair.content_check import measure
from app.service.repair.recorder import Recorder
from app.service.repair.repair_stores import ProgressListener
from app.settings import Settings

AHEAD = 1_000_000
"""The distance to the new epoch and to the next segment. A gateway gets a new epoch at every start; none starts so
often after its last backup, or seals this number of segments."""


class RestoredBackup(NamedTuple):
    """The results of a restore. `receivers` of a shared journal have not left: nothing expires until they are back."""

    id: str
    files: int
    bytes: int
    epoch: int
    receivers: Sequence[ReceivingJournal] = ()


def restore(settings: Settings, place: ContentStore, backup: str | None, progress: ProgressListener) -> RestoredBackup:
    """Restore a backup, or the newest one.

    Raises GatewayError when there is none, when the place is not empty, or when bytes differ from those that were
    backed up.
    """
    known = backup_manifests.backups(place)
    chosen = backup or (known[-1] if known else None)
    if chosen is None or chosen not in known:
        raise GatewayError(f"unknown backup {backup!r}" if backup else "there is no backup in this place")
    header, files = backup_manifests.read(place, chosen)
    targets = _Targets(settings)
    progress.begin("restore", sum(file.size for file in files))
    with _catalog_of(place, files, progress) as catalog:
        targets.require_empty()
        if catalog is not None:
            targets.require_kind_of(catalog)
        there = targets.archived(header, files, progress)
        targets.copy(place, [file for file in files if file.path not in there], progress)
        identity = targets.begin_journal(header, place)
        receivers = [] if catalog is None else targets.load_catalog(catalog, header, identity)
    if identity is not None:
        backup_manifests.mark_restored(place, identity)
    epoch, total = identity.epoch if identity else 0, sum(file.size for file in files)
    return RestoredBackup(header.id, len(files), total, epoch, receivers)


@contextmanager
def _catalog_of(place: ContentStore, files: Iterable[BackupFile], progress: ProgressListener) -> Iterator[Path | None]:
    """Fetch the catalog of a backup into a temporary file, and yield its path; None if the backup has none."""
    with TemporaryDirectory(prefix="restore-") as folder:
        found = None
        for file in files:
            if file.path == CATALOG:
                found = Path(folder) / CATALOG
                with found.open("wb") as target:
                    _copy(place, file, target.write, progress)
        yield found


class _Targets:
    """The places that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: dict[str, ContentStore] = {}
        self._database = plugins.catalog().database(settings.catalog_url)

    def content(self) -> ContentStore:
        return self._store(self._settings.content_url)

    def tables(self) -> ContentStore:
        return self._store(self._settings.tables_url)

    def journal(self) -> ContentStore:
        shared = self._settings.journal.archive_url if self._settings.journal.shared else None
        return self._store(shared or str(self._settings.journal_folder))

    def _store(self, url: str) -> ContentStore:
        if url not in self._opened:
            self._opened[url] = plugins.content_store()(url)
        return self._opened[url]

    def require_empty(self) -> None:
        folder, is_shared = self._settings.journal_folder, self._settings.journal.shared
        if not is_shared and folder.is_dir() and any(path.suffix == SEALED_SEGMENT for path in folder.iterdir()):
            raise GatewayError(f"there is a journal in {folder}: restore into an empty place")
        if not self._database.is_empty():
            raise GatewayError(f"the catalog {self._database.place} is not empty: restore into an empty place")
        if next(self._settings.audit_folder.glob("*.jsonl"), None) is not None:
            raise GatewayError(f"there is an audit log in {self._settings.audit_folder}: restore into an empty place")
        for what, store in (("content store", self.content()), ("tables", self.tables())):
            if next(iter(store.names()), None) is not None:
                raise GatewayError(f"the {what} is not empty: restore into an empty place")

    def require_kind_of(self, copy: Path) -> None:
        """Raise GatewayError if receivers share the journal of the catalog in a file, and these settings are of a
        gateway that receives alone: it could not continue that journal."""
        if self._settings.journal.shared:
            return
        with closing(plugins.catalog()(f"sqlite:///{copy}")) as catalog:
            if catalog.receiving_journals() or catalog.published():
                raise GatewayError(
                    "receivers share the journal of this backup: set journal.shared, and journal.archive_url, into "
                    "which it is restored"
                )

    def archived(self, header: BackupHeader, files: Iterable[BackupFile], progress: ProgressListener) -> set[str]:
        """Return the paths of segments in a backup that the archive of receivers already has.

        Raises GatewayError if the archive has segments of another journal, or other bytes than the backup.
        """
        if not self._settings.journal.shared:
            return set()
        store, where = self.journal(), masked(self._settings.journal.archive_url or "")
        names = {name for name in store.names() if sealed_number(name) is not None}
        if not names:
            return set()
        found = plugins.archive()(self._settings.journal.archive_url or "", self._settings.archive_cache).identity()
        bound = header.journal
        if found is not None and (bound is None or found.id != bound.id):
            raise GatewayError(
                f"the archive {where} is of journal {found.id}, and the backup is of journal {bound and bound.id}: "
                "restore into an empty archive (journal.archive_url), or into that of the backed up gateway"
            )
        there = set()
        for file in files:
            name = file.path.removeprefix(JOURNAL)
            if not file.path.startswith(JOURNAL) or name not in names:
                continue
            if measure(store.read(name), progress.advance) != (file.size, file.sha256):
                raise GatewayError(
                    f"{name} in the archive {where} has other bytes than in the backup: move it away, and restore again"
                )
            there.add(file.path)
        return there

    def copy(self, place: ContentStore, files: Iterable[BackupFile], progress: ProgressListener) -> None:
        """Copy everything but the catalog. When that fails, remove what was copied: another backup can be restored."""
        stores = {CONTENT: self.content, TABLES: self.tables, JOURNAL: self.journal}
        copied: dict[str, list[str]] = {prefix: [] for prefix in (*stores, AUDIT)}
        folder = self._settings.audit_folder
        try:
            for prefix, names in copied.items():
                for file in files:
                    if not file.path.startswith(prefix):
                        continue
                    name = file.path.removeprefix(prefix)
                    if prefix == AUDIT:
                        with audit.new_file(folder, name) as log:
                            names.append(name)
                            _copy(place, file, log.write, progress)
                    else:
                        with stores[prefix]().create(name) as target:
                            _copy(place, file, target.write, progress)
                        names.append(name)
        except BaseException:
            for name in copied.pop(AUDIT):
                (folder / name).unlink(missing_ok=True)
            for prefix, names in copied.items():
                if names:
                    stores[prefix]().delete_all(names)
            raise

    def begin_journal(self, header: BackupHeader, place: ContentStore) -> JournalIdentity | None:
        """Set the identity of the restored journal, before anything is written to it. Receivers have journals of their
        own, and their segments in the archive have no gap."""
        if header.journal is None:
            return None
        last = max(header.journal.epoch, backup_manifests.restored_epoch(place, header.journal.id) or 0)
        identity = header.journal._replace(epoch=last + AHEAD)
        if self._settings.journal.shared:
            return identity
        following = header.following + identity.epoch - header.journal.epoch
        plugins.journal().begin(self._settings.journal_folder, identity, following)
        with closing(plugins.journal()(self._settings.journal_folder)) as journal:
            return journal.identity()

    def load_catalog(
        self, copy: Path, header: BackupHeader, identity: JournalIdentity | None
    ) -> Sequence[ReceivingJournal]:
        """Make the catalog from a file, and return the receivers that it expects back."""
        if self._database.exists():
            self._database.set_aside()
        self._database.load(copy)
        with closing(plugins.catalog()(self._settings.catalog_url)) as catalog:
            if identity is not None:
                catalog.bind(identity)
            catalog.set_state(header.deleted, AttachmentState.DELETED)
            Recorder(catalog, self.content()).record_all()
            return catalog.receiving_journals()


def _copy(
    place: ContentStore, file: BackupFile, write: Callable[[memoryview], object], progress: ProgressListener
) -> None:
    try:
        pieces: Iterable[memoryview] = place.read(file.name)
    except KeyError:
        raise GatewayError(f"the backup lacks {file.path} ({file.name}): choose another one") from None
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
        write(piece)
        progress.advance(len(piece))
    if digest.hexdigest() != file.sha256:
        raise DamagedError(f"{file.path} is damaged in the backup ({file.name}): choose another one", name=file.name)
