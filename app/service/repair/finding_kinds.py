"""The kinds of findings of a check, each with its cost and its repair."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class Action(StrEnum):
    """The actions of a repair, in the order in which they are done."""

    REBUILD_CATALOG = "rebuild-catalog"
    REBIND = "bind-catalog"
    RESERVE = "reserve-segments"
    RESTORE_ROW = "restore-row"
    RESTORE_CONTENT = "restore-content"
    EXPIRE = "expire"
    FAIL_DELIVERY = "fail-delivery"
    SET_OBJECT_ASIDE = "set-object-aside"
    REMOVE_UPLOAD = "remove-upload"
    RECORD = "record-catalog"
    COPY_SEGMENT = "copy-segment"
    SET_SEGMENT_ASIDE = "set-segment-aside"
    NONE = "none"


class FindingKind(NamedTuple):
    """A kind of finding: the difference, its cost until it is repaired, and its repair."""

    what: str
    cost: str
    repair: str
    action: Action


_CONTENT = "the attachment's content cannot be served, or would be served damaged"
_RESTORE = "assembled again from the journal, if its parts are there and give the same SHA-256; else quarantined"

KINDS: Mapping[str, FindingKind] = {
    "catalog-missing": FindingKind(
        "there is no catalog, but a journal or content",
        "nothing can be listed or served",
        "rebuilt from the journal and the records in the content store",
        Action.REBUILD_CATALOG,
    ),
    "catalog-damaged": FindingKind(
        "the catalog's database is damaged",
        "the gateway may not start, or may give wrong answers",
        "set aside, and rebuilt from the journal and the records in the content store",
        Action.REBUILD_CATALOG,
    ),
    "catalog-foreign": FindingKind(
        "the catalog belongs to another journal, which used the same numbers",
        "the gateway does not start",
        "set aside, and rebuilt from this journal, the content store, and the catalog's rows about both",
        Action.REBUILD_CATALOG,
    ),
    "journal-replaced": FindingKind(
        "the journal that the catalog belongs to is gone, and another one is in its place",
        "the gateway does not start; messages that only the lost journal had are gone unless they are sent again",
        "the catalog belongs to the new journal from now on; attachments in the lost one are expired or quarantined",
        Action.REBIND,
    ),
    "journal-behind": FindingKind(
        "the journal ends before the last message that the catalog includes",
        "the gateway does not start; parts in the lost segments are gone unless they are sent again",
        "the numbers of the lost segments are never used again",
        Action.RESERVE,
    ),
    "parts-missing": FindingKind(
        "parts of an unfinished attachment were in journal segments that are gone",
        "the attachment cannot be finished, unless all of it is sent again",
        "expired; it begins anew when it is sent again",
        Action.EXPIRE,
    ),
    "segment-damaged": FindingKind(
        "a journal segment is not as it was written",
        "the messages in the damaged places are lost, unless their attachments are in the content store already",
        "set aside as soon as no attachment needs the rest of it",
        Action.SET_SEGMENT_ASIDE,
    ),
    "archive-damaged": FindingKind(
        "a segment in the archive is not as it was written",
        "the pipeline reports the messages in the damaged places as damaged, or stops there",
        "copied again from the journal, if that has the segment undamaged; else nothing: restore it from a backup",
        Action.COPY_SEGMENT,
    ),
    "segment-missing": FindingKind(
        "a segment that receivers have published is not in the archive",
        "assembly waits for it, if it is not assembled yet; what unfinished attachments have in it is missing",
        "nothing: put it back; if that cannot be done, `attachment-gateway journal give-up` continues without it",
        Action.NONE,
    ),
    "row-missing": FindingKind(
        "the catalog has no row of an attachment",
        "the attachment is not listed and not served",
        "restored from the records, or from the journal",
        Action.RESTORE_ROW,
    ),
    "object-missing": FindingKind("an object of the content store is gone", _CONTENT, _RESTORE, Action.RESTORE_CONTENT),
    "object-damaged": FindingKind(
        "an object of the content store is not as it was written", _CONTENT, _RESTORE, Action.RESTORE_CONTENT
    ),
    "content-missing": FindingKind(
        "finished content is no longer in the journal, and not in the content store",
        _CONTENT,
        _RESTORE,
        Action.RESTORE_CONTENT,
    ),
    "content-damaged": FindingKind(
        "finished content in the journal is not as it was received", _CONTENT, _RESTORE, Action.RESTORE_CONTENT
    ),
    "content-quarantined": FindingKind(
        "content was found damaged, and the attachment quarantined",
        "the attachment's content is not served",
        _RESTORE,
        Action.RESTORE_CONTENT,
    ),
    "object-orphaned": FindingKind(
        "an object of the content store belongs to no attachment and to no quarantined message",
        "it takes space in the content store",
        "set aside, below `aside/`",
        Action.SET_OBJECT_ASIDE,
    ),
    "upload-orphaned": FindingKind(
        "an uploaded object belongs to no delivery",
        "it takes space in the content store",
        "removed",
        Action.REMOVE_UPLOAD,
    ),
    "upload-damaged": FindingKind(
        "content of a delivery that is not sent yet is gone or damaged",
        "the delivery cannot be sent, or would be sent damaged",
        "the delivery fails, with this reason",
        Action.FAIL_DELIVERY,
    ),
    "quarantine-damaged": FindingKind(
        "the copy of a quarantined message is gone or damaged",
        "the message can be listed, but not shown or processed again",
        "nothing",
        Action.NONE,
    ),
    "records-damaged": FindingKind(
        "an object of the catalog's records is damaged",
        "a catalog rebuilt from nothing would lack its rows",
        "the whole catalog is recorded anew, and the object set aside",
        Action.RECORD,
    ),
    "records-missing": FindingKind(
        "ended attachments are not in the catalog's records, and no longer in the journal",
        "a catalog rebuilt from nothing would lack them",
        "the whole catalog is recorded anew",
        Action.RECORD,
    ),
    "table-damaged": FindingKind(
        "a file of a table is not as it was written, or cannot be read",
        "queries that read the file fail, and the table's files are not joined",
        "nothing: restore it from a backup, or remove it and run `pipeline batch` over the archive",
        Action.NONE,
    ),
}
"""Every kind of difference, by its identifier."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference. `subject` names the object of a repair: an attachment, an object, a segment or a delivery."""

    kind: str
    subject: str
    where: str
    detail: str = ""

    @property
    def known(self) -> FindingKind:
        return KINDS[self.kind]

    def as_json(self) -> dict[str, Any]:
        """Return the finding with the texts of its kind."""
        kind = self.known
        texts = {"what": kind.what, "cost": kind.cost, "repair": kind.repair, "action": kind.action.value}
        return {**asdict(self), **texts}


class CannotCheck(Exception):
    """A check that could not be made, so that its findings are unknown."""
