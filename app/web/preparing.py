"""Files that are sent as data sets -> the data sets themselves, or everything that is wrong with them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.dataset.checks import Fault
from app.model.attachment import AttachmentKind
from app.model.errors import TheirError
from app.service.conversion import Slot
from app.service.gateway import Gateway
from app.service.incoming import Asked, Prepared, Uploaded, prepare, target_of
from app.web.data_set_drafts import DataSetDraft
from app.web.drafts import AttachmentDraft, MessageDraft
from app.web.problems import Problem
from app.web.upload import StoredPart

MOST_ERRORS = 1000
SHOWN_ERRORS = 5

_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,8}$")


class Preparation(NamedTuple):
    """A draft with every name filled in, its parts with data sets instead of their files, and what those are by the
    names of their parts."""

    draft: MessageDraft
    parts: Mapping[str, StoredPart]
    data_sets: Mapping[str, Prepared]


def prepare_data_sets(
    slot: Slot, gateway: Gateway, draft: MessageDraft, parts: Mapping[str, StoredPart], folder: str
) -> Preparation:
    """Stores each data set as an object `{folder}/data-set-{n}`.

    Raises Problem with all that is wrong with all of them; what was stored then, is for the caller to remove.
    """
    data_sets: dict[str, Prepared] = {}
    stored = dict(parts)
    entries: list[AttachmentDraft] = []
    errors: list[dict[str, Any]] = []
    for number, entry in enumerate(draft.attachments):
        if entry.kind == AttachmentKind.DATA_SET.word:
            part, object_name = parts[entry.part], f"{folder}/data-set-{number}"
            try:
                made = _prepared(slot, gateway, draft.destination, entry, part, object_name)
            except TheirError as error:
                errors.append(_pointing(number, "part") | {"code": error.code, "detail": str(error)})
                continue
            errors += (_pointing(number, "data_set") | told(fault) for fault in made.definition.errors)
            data_sets[entry.part] = made
            stored[entry.part] = part._replace(object_name=object_name, size=made.size, sha256=made.sha256)
            entry = entry.model_copy(  # noqa: PLW2901 - the same entry, its names filled in
                update={"name": made.definition.member, "qualifier_1": made.definition.library}
            )
        entries.append(entry)
    if errors:
        raise _unsuitable(errors)
    return Preparation(draft.model_copy(update={"attachments": entries}), stored, data_sets)


def told(fault: Fault) -> dict[str, Any]:
    """A fault as clients see it."""
    where = " ".join(_places(fault))
    said = {"variable": fault.variable, "row": fault.row, "code": fault.code}
    return {"detail": f"{where}: {fault.why}" if where else fault.why} | {
        k: v for k, v in said.items() if v is not None
    }


def _places(fault: Fault) -> Iterator[str]:
    if fault.variable is not None:
        yield fault.variable
    if fault.row is not None:
        yield f"in row {fault.row}"


def _pointing(number: int, member: str) -> dict[str, Any]:
    return {"pointer": f"#/attachments/{number}/{member}"}


def _prepared(
    slot: Slot, gateway: Gateway, destination: str, entry: AttachmentDraft, part: StoredPart, object_name: str
) -> Prepared:
    target = target_of(gateway.destinations[destination], gateway.settings.limits.upload_bytes)
    uploaded = Uploaded(part.object_name, part.file_name or "", part.content_type)
    asked = _asked(entry, part)
    return prepare(gateway.store, uploaded, asked, target, object_name, slot.run, gateway.check_room)


def _asked(entry: AttachmentDraft, part: StoredPart) -> Asked:
    library, member = entry.qualifier_1, entry.name
    if library is None and member is not None and "." in member:
        library, _, member = member.partition(".")
    file_name = re.split(r"[/\\]", part.file_name or "")[-1] or part.name
    return (entry.data_set or DataSetDraft()).asked(library, member, _EXTENSION.sub("", file_name))


def _unsuitable(errors: list[dict[str, Any]]) -> Problem:
    shown = "; ".join(error["detail"] for error in errors[:SHOWN_ERRORS])
    more = len(errors) - SHOWN_ERRORS
    return Problem("unsuitable", f"{shown}; and {more} more" if more > 0 else shown, errors=errors[:MOST_ERRORS])
