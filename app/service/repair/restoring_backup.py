"""The restoring of a backup into an empty place, each byte compared with its digest.

Content and tables come first, then the journal, and the catalog last. The journal keeps its identity and gets an epoch
that no earlier gateway of it can have reached, and none that was restored from the same place before. Its next segment
has a number as far ahead: what the old gateway has journalled since the backup has other positions. The backup's place
records that epoch, so that the old and the new gateway cannot both continue.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from app import plugins
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, GatewayError
from app.model.message import SEALED_SEGMENT
from app.model.records import JournalIdentity
from app.ports import ContentStore
from app.service.access import audit
from app.service.repair import backup_manifests
from app.service.repair.backup import AUDIT, CATALOG, CONTENT, JOURNAL, TABLES
from app.service.repair.backup_manifests import BackupFile, BackupHeader
from app.service.repair.recorder import Recorder
from app.service.repair.repair_stores import ProgressListener
from app.settings import Settings

AHEAD = 1_000_000
"""The distance to the new epoch and to the next segment. A gateway gets a new epoch at every start; none starts so
often after its last backup, or seals this number of segments."""


class RestoredBackup(NamedTuple):
    """The results of a restore."""

    id: str
    files: int
    bytes: int
    epoch: int


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
    targets.require_empty()
    progress.begin("restore", sum(file.size for file in files))
    for prefix, store in ((CONTENT, targets.content), (TABLES, targets.tables), (JOURNAL, targets.journal)):
        for file in files:
            if file.path.startswith(prefix):
                with store().create(file.path.removeprefix(prefix)) as target:
                    _copy(place, file, target.write, progress)
    for file in files:
        if file.path.startswith(AUDIT):
            with audit.new_file(settings.audit_folder, file.path.removeprefix(AUDIT)) as log:
                _copy(place, file, log.write, progress)
    identity = targets.begin_journal(header, place)
    for file in files:
        if file.path == CATALOG:
            targets.load_catalog(place, file, header, identity, progress)
    if identity is not None:
        backup_manifests.mark_restored(place, identity)
    return RestoredBackup(header.id, len(files), sum(file.size for file in files), identity.epoch if identity else 0)


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
        return self._store(str(self._settings.journal_folder))

    def _store(self, url: str) -> ContentStore:
        if url not in self._opened:
            self._opened[url] = plugins.content_store()(url)
        return self._opened[url]

    def require_empty(self) -> None:
        folder = self._settings.journal_folder
        if folder.is_dir() and any(path.suffix == SEALED_SEGMENT for path in folder.iterdir()):
            raise GatewayError(f"there is a journal in {folder}: restore into an empty place")
        if not self._database.is_empty():
            raise GatewayError(f"the catalog {self._database.place} is not empty: restore into an empty place")
        if next(self._settings.audit_folder.glob("*.jsonl"), None) is not None:
            raise GatewayError(f"there is an audit log in {self._settings.audit_folder}: restore into an empty place")
        for what, store in (("content store", self.content()), ("tables", self.tables())):
            if next(iter(store.names()), None) is not None:
                raise GatewayError(f"the {what} is not empty: restore into an empty place")

    def begin_journal(self, header: BackupHeader, place: ContentStore) -> JournalIdentity | None:
        """Set the identity of the restored journal, before anything is written to it."""
        if header.journal is None:
            return None
        last = max(header.journal.epoch, backup_manifests.restored_epoch(place, header.journal.id) or 0)
        identity = header.journal._replace(epoch=last + AHEAD)
        following = header.following + identity.epoch - header.journal.epoch
        plugins.journal().begin(self._settings.journal_folder, identity, following)
        journal = plugins.journal()(self._settings.journal_folder)
        try:
            return journal.identity()
        finally:
            journal.close()

    def load_catalog(
        self,
        place: ContentStore,
        file: BackupFile,
        header: BackupHeader,
        identity: JournalIdentity | None,
        progress: ProgressListener,
    ) -> None:
        with TemporaryDirectory(prefix="restore-") as folder:
            copy = Path(folder) / "catalog.sqlite"
            with copy.open("wb") as target:
                _copy(place, file, target.write, progress)
            if self._database.exists():
                self._database.set_aside()
            self._database.load(copy)
        catalog = plugins.catalog()(self._settings.catalog_url)
        try:
            if identity is not None:
                catalog.bind(identity)
            catalog.set_state(header.deleted, AttachmentState.DELETED)
            Recorder(catalog, self.content()).record_all()
        finally:
            catalog.close()


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
