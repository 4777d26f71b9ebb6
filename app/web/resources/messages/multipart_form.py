"""Conversion of an upload's parts to a message and the stored parts of its attachments."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from pydantic import ValidationError
from pydantic_core import from_json

from app.framing.registry import framing
from app.ports import ContentStore
from app.service.sending import drafts
from app.service.sending.upload_parts import StoredPart, kind_of_part
from app.settings import Destination
from app.web.http.disposition import why_meaningless
from app.web.problems import Problem, invalid_content, invalid_request
from app.web.resources.messages.draft_schemas import AttachmentDraft, MessageDraft
from app.web.resources.messages.multipart_upload import Form, PartHead

MESSAGE = "message"
"""Name of the part that describes the message."""

_FORM_FIELDS = ("destination", "description", "kind", "name", "data_set")
COMPANIONS = ("catalog", "define")
"""Names of a form's files that describe data sets."""
NO_COMPANIONS: Mapping[str, str] = {}


class Described(NamedTuple):
    """A message, and its stored parts by the names that it uses. Equal requests have equal fingerprints."""

    message: drafts.DraftedMessage
    parts: Mapping[str, StoredPart]
    fingerprint: str


class UploadSource(Protocol):
    """The complete uploads that a message may name in place of parts."""

    def take(self, chosen: Mapping[str, str]) -> list[StoredPart]:
        """Check uploads, by the names of their parts, and copy their content to the message's folder. Blocks. Raises
        Problem."""


class DescriptionReader:
    """A reader of an upload's parts that returns the described message.

    Either the first part is the JSON `message`, which names every other part; or the upload is a plain form, with
    fields and files in any order. Raises Problem or SendingError at the first error.
    """

    def __init__(self, destinations: Mapping[str, Destination], store: ContentStore, uploads: UploadSource) -> None:
        self._destinations, self._store, self._uploads = destinations, store, uploads
        self._draft: MessageDraft | None = None
        self._seen: list[str] = []

    def is_field(self, head: PartHead) -> bool:
        """Tell whether a part is short text to be kept in memory; otherwise it is content to be stored."""
        self._seen.append(head.name)
        if head.name == MESSAGE:
            if len(self._seen) > 1:
                raise invalid_content("#", f"the part {MESSAGE!r} must be the first, and the only one of its name")
            return True
        if self._draft is not None:
            if head.name not in self._draft.part_names:
                raise invalid_content("#/attachments", f"no attachment names the part {head.name!r}")
            if self._seen.count(head.name) > 1:
                raise invalid_content("#/attachments", f"the part {head.name!r} is repeated, or is also an upload")
            return False
        if head.file_name is None and head.name not in _FORM_FIELDS:
            raise invalid_content(f"#/{head.name}", f"unknown field; a form has {', '.join(_FORM_FIELDS)} and files")
        return head.file_name is None

    def on_field(self, name: str, text: str) -> None:
        """Check a complete field."""
        if name == MESSAGE:
            draft = self._draft = _validated(lambda: MessageDraft.model_validate_json(text, strict=True))
            self._check(draft)
            self._seen += draft.uploads
        elif name == "destination":
            drafts.find_destination(self._destinations, text)

    @property
    def upload_ids(self) -> tuple[str, ...]:
        """Return the identifiers of the uploads that the message names."""
        return () if self._draft is None else tuple(self._draft.uploads.values())

    def result(self, form: Form) -> Described:
        """Return the description and its parts, once all parts have arrived. Uploads are copied to the message's
        folder. Kinds that the sender did not state are recognised, which reads from the store."""
        if self._draft is None:
            # Browsers send a part also for an input without a chosen file.
            chosen = [part for part in form.parts if part.size or part.file_name != ""]
            for part in form.parts:
                if part not in chosen:
                    self._store.delete(part.object_name)
            if len(chosen) < len(form.parts):
                form.parts[:] = chosen
                if not _attached(form):
                    raise invalid_content("#/attachments", "no file was chosen; choose at least one")
            draft = _validated(lambda: _draft_of_form(form))
            self._check(draft)
            companions = {part.name: part for part in form.parts if part.name in COMPANIONS}
            attached = {str(number): part for number, part in enumerate(_attached(form))}
            return self._described(draft, form, companions | attached, {name: name for name in companions})
        errors = [
            {"pointer": f"#/attachments/{n}/{field}", "detail": f"there is no part {part!r}"}
            for n, entry in enumerate(self._draft.attachments)
            for field, part in _named_parts(entry)
            if part not in self._seen
        ]
        if errors:
            raise Problem("invalid", "; ".join(error["detail"] for error in errors), errors=errors)
        form.parts += self._uploads.take(self._draft.uploads)
        return self._described(self._draft, form, {part.name: part for part in form.parts})

    def _described(
        self,
        draft: MessageDraft,
        form: Form,
        parts: Mapping[str, StoredPart],
        companions: Mapping[str, str] = NO_COMPANIONS,
    ) -> Described:
        """Return the description. `companions` are the parts that describe all data sets of a form."""
        kinds = framing(drafts.find_destination(self._destinations, draft.destination).framing).kinds
        found = [
            entry.stated_kind() or kind_of_part(self._store, parts[entry.part], kinds) for entry in draft.attachments
        ]
        names = [parts[entry.part].base_name for entry in draft.attachments]
        for number, (entry, name) in enumerate(zip(draft.attachments, names, strict=True)):
            if why := why_meaningless(name if entry.name is None else entry.name):
                raise invalid_content(f"#/attachments/{number}/name", why)
        completed = _validated(lambda: draft.completed(found, names, companions))
        self._check(completed)
        return Described(completed.draft(), parts, completed.fingerprint(form.parts))

    def _check(self, draft: MessageDraft) -> None:
        destination = drafts.find_destination(self._destinations, draft.destination)
        any_kind = min(framing(destination.framing).kinds)
        drafts.check_destination_takes(draft.draft(any_kind), destination)


def _validated(make: Callable[[], MessageDraft]) -> MessageDraft:
    try:
        return make()
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False), is_body=True) from None


def _draft_of_form(form: Form) -> MessageDraft:
    message: dict[str, object] = {
        name: form.fields[name] for name in ("destination", "description") if name in form.fields
    }
    entry: dict[str, object] = {name: form.fields[name] for name in ("kind", "name") if form.fields.get(name)}
    if "data_set" in form.fields:
        try:
            entry["data_set"] = from_json(form.fields["data_set"])
        except ValueError as error:
            raise invalid_content("#/data_set", f"not JSON: {error}") from None
    message["attachments"] = [{"part": f"{number}", **entry} for number in range(len(_attached(form)))]
    return MessageDraft.model_validate(message)


def _attached(form: Form) -> list[StoredPart]:
    """Return the files of a form that are attachments. Raises Problem for two catalogs, or two define.xml."""
    companions = [part.name for part in form.parts if part.name in COMPANIONS]
    if twice := next((name for name in COMPANIONS if companions.count(name) > 1), None):
        raise invalid_content(f"#/{twice}", f"the file {twice!r} is repeated")
    return [part for part in form.parts if part.name not in COMPANIONS]


def _named_parts(entry: AttachmentDraft) -> Iterator[tuple[str, str]]:
    """Yield the parts that an attachment names, each with the member that names it."""
    yield "part", entry.part
    for field in COMPANIONS:
        if entry.data_set is not None and (part := getattr(entry.data_set, field)) is not None:
            yield f"data_set/{field}", part
