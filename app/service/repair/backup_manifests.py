"""The place of backups: the contents of each backup, and the bytes that backups share.

- `data/<2 digits>/<SHA-256>` holds bytes by their digest, once for all backups that contain them.
- `backups/<id>.jsonl.gz` is written last and makes a backup: a header with the formats of what is in it, then
  one file a line.
- `restored/<journal>-<epoch>.json` records that a backup was restored: the original gateway must not add to this place.
"""

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from re import compile as pattern
from typing import Any, NamedTuple

from app.model import data_formats
from app.model.errors import GatewayError
from app.model.records import JournalIdentity
from app.ports import ContentStore
from app.service.repair.record_files import gzip_lines, write_gzip_lines

DATA, BACKUPS, RESTORED = "data/", "backups/", "restored/"
_SUFFIX = ".jsonl.gz"
_RESTORED = pattern(rf"{RESTORED}([0-9a-f]{{32}})-(\d+)\.json")


class BackupFile(NamedTuple):
    """A file of a backup: its path, and its bytes by size and digest."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The name of the object that holds the bytes."""
        return data_name(self.sha256)


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """The header of a backup.

    `deleted` are attachments that its catalog still calls finished and that were deleted while the backup was made.
    """

    id: str
    created_at: int
    journal: JournalIdentity | None
    following: int
    deleted: list[str] = field(default_factory=list)


def data_name(sha256: str) -> str:
    """Return the name of the object that holds the bytes with this digest."""
    return f"{DATA}{sha256[:2]}/{sha256}"


def backups(place: ContentStore) -> list[str]:
    """Return the identifiers of all backups, oldest first."""
    names = (name.removeprefix(BACKUPS) for name in place.names(BACKUPS))
    return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def write(place: ContentStore, header: BackupHeader, files: Iterable[BackupFile]) -> None:
    """Write a manifest, which makes the backup."""
    lines = ({"formats": data_formats.numbers_in_backups(), **asdict(header)}, *map(BackupFile._asdict, files))
    write_gzip_lines(place, f"{BACKUPS}{header.id}{_SUFFIX}", (json.dumps(line).encode() + b"\n" for line in lines))


def read(place: ContentStore, backup: str) -> tuple[BackupHeader, list[BackupFile]]:
    """Return the header and the files of a backup.

    Raises KeyError when there is none, GatewayError when its manifest is damaged, and NewerFormat when it has anything
    in a format of a newer version.
    """
    lines: Iterator[dict[str, Any]] = map(json.loads, gzip_lines(place, f"{BACKUPS}{backup}{_SUFFIX}"))
    try:
        head = next(lines)
        data_formats.require_known(head.pop("formats", {}), f"the backup {backup}")
        journal = head.pop("journal")
        header = BackupHeader(**head, journal=None if journal is None else JournalIdentity(*journal))
        return header, [BackupFile(**line) for line in lines]
    except (StopIteration, TypeError, ValueError, zlib.error) as error:
        raise GatewayError(f"the manifest of backup {backup} is damaged: {error}") from error


def mark_restored(place: ContentStore, journal: JournalIdentity) -> None:
    """Record that a journal continues elsewhere with this epoch."""
    with place.create(f"{RESTORED}{journal.id}-{journal.epoch}.json") as target:
        target.write(json.dumps(journal._asdict()).encode())


def restored_epoch(place: ContentStore, journal_id: str) -> int | None:
    """Return the highest epoch with which a journal was restored from here; None when it never was."""
    found = (_RESTORED.fullmatch(name) for name in place.names(RESTORED))
    return max((int(match[2]) for match in found if match and match[1] == journal_id), default=None)


def prune(place: ContentStore, keep: int) -> int:
    """Remove all but the newest `keep` backups, and the bytes that only they need; return how many backups were
    removed."""
    known = backups(place)
    old = known[:-keep]
    if not old:
        return 0
    needed = {file.name for backup in known[-keep:] for file in read(place, backup)[1]}
    for backup in old:
        place.delete(f"{BACKUPS}{backup}{_SUFFIX}")
    for name in list(place.names(DATA)):
        if name not in needed:
            place.delete(name)
    return len(old)
