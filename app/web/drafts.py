"""What a client wants sent: the description it gives, and the delivery that this becomes."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator
from pydantic_core import from_json

from app.codecs.ibm_mq.encodings import charset
from app.codecs.ibm_mq.words import MQFMT_STRING
from app.framing.registry import framing
from app.model.attachment import AttachmentKind
from app.model.records import DeliveryRecord, OutgoingAttachment
from app.settings import Destination
from app.web.data_set_drafts import DataSetDraft, Name, Strict
from app.web.problems import Problem, field_errors
from app.web.schemas import KINDS, KindWord
from app.web.upload import Form, PartHead, StoredPart

FILE_SPECIFICATIONS = ("FILENAME", "FILEREF")
"""What qualifier 1 of a file may be: whether qualifier 2 is a file's name or a fileref."""

T = TypeVar("T")

Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Text = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]


class ApplicationMessageDraft(Strict):
    """The application message: `text`, which is written in the destination's character set, or the bytes of `base64`,
    which are sent as they are."""

    text: str | None = Field(default=None, examples=["This is the actual application message."])
    base64: str | None = Field(
        default=None, description="bytes; with the format MQSTR they are text in the destination's character set"
    )
    format: Annotated[str, StringConstraints(max_length=8, pattern=r"^[ -~]*$")] | None = Field(
        default=None,
        description="the descriptor's Format: MQSTR for text, blank for bytes, where nothing else is said",
        examples=["MQSTR"],
    )
    ccsid: int | None = Field(
        default=None, ge=1, le=65535, description="the destination's CCSID, which need not be given; no other is taken"
    )

    @field_validator("base64")
    @classmethod
    def _is_base64(cls, given: str | None) -> str | None:
        if given is not None:
            try:
                base64.b64decode(given, validate=True)
            except binascii.Error as error:
                raise ValueError(f"not base64: {error}") from None
        return given

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("give text or base64, one of the two")
        return self

    def body(self, to: Destination) -> bytes:
        """The bytes that go to a destination. Raises ValueError for what cannot be in its character set."""
        if self.ccsid not in (None, to.ccsid):
            raise ValueError(f"{self.ccsid} is not the destination's CCSID {to.ccsid}, in which all its messages are")
        codec = charset(to.ccsid, to.encoding)
        if self.text is None:
            body = base64.b64decode(self.base64 or "")
            if self.message_format().rstrip() == MQFMT_STRING and codec is not None:
                _in_charset(lambda: body.decode(codec), "the bytes are no text", to.ccsid)
            return body
        if codec is None:
            raise ValueError(f"text cannot be written in the destination's CCSID {to.ccsid}; give base64")
        text = self.text
        return _in_charset(lambda: text.encode(codec), "text cannot be written", to.ccsid)

    def message_format(self) -> str:
        return self.format if self.format is not None else MQFMT_STRING if self.text is not None else ""


def _in_charset(convert: Callable[[], T], what: str, ccsid: int) -> T:
    try:
        return convert()
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else error
        raise ValueError(f"{what} in the destination's CCSID {ccsid}: {reason}") from None


class AttachmentDraft(Strict):
    """One attachment: the part with its bytes, and what its entry in the header says."""

    part: str = Field(description="name of the part with its bytes", examples=["file"])
    kind: KindWord = Field(examples=["text-file"])
    name: Name | None = Field(
        default=None,
        description="qualifier 2: a file's name; a data set's member or `LIBRARY.MEMBER`, else what its file says",
        examples=["report.txt"],
    )
    qualifier_1: Name | None = Field(
        default=None, description="of a file FILENAME, as if nothing is said, or FILEREF; of a data set its library"
    )
    data_set: DataSetDraft | None = Field(default=None, description="of a data set: how to read its file, what it is")
    description: Text | None = None
    minor_version: Int32 = 0
    major_version: Int32 = 0

    @model_validator(mode="after")
    def _suits_its_kind(self) -> Self:
        is_data_set = self.kind == AttachmentKind.DATA_SET.word
        if self.name is None and not is_data_set:
            raise ValueError("a file needs a name")
        if self.data_set is not None and not is_data_set:
            raise ValueError("data_set is for data sets")
        if not is_data_set and self.qualifier_1 not in (None, *FILE_SPECIFICATIONS):
            raise ValueError(
                f"the qualifier_1 of a file is {' or '.join(FILE_SPECIFICATIONS)}, not {self.qualifier_1!r}"
            )
        return self


class MessageDraft(Strict):
    """A message to send. `description` is that of every attachment that has none of its own."""

    destination: str = Field(examples=["partner"])
    description: Text = ""
    original_msg_type: Int32 = Field(default=0, description="the message type the application gives it")
    original_correl_id: Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{2}){0,24}$")] = Field(
        default="", description="the correlation identifier the application gives it; hexadecimal"
    )
    application_message: ApplicationMessageDraft | None = None
    attachments: Annotated[list[AttachmentDraft], Field(min_length=1)]

    @model_validator(mode="after")
    def _parts_differ(self) -> Self:
        parts = [attachment.part for attachment in self.attachments]
        if len(set(parts)) < len(parts):
            raise ValueError("two attachments name the same part")
        return self


def schemas() -> dict[str, Any]:
    """What a message's description looks like, for OpenAPI's components."""
    whole = MessageDraft.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**whole.pop("$defs"), "MessageDraft": whole}


MESSAGE = "message"
"""Name of the part that describes the message."""

_FORM_FIELDS = ("destination", "description", "kind", "name", "data_set")
_TEXT_TYPES = re.compile(r"text/|application/(json|xml|javascript|yaml)\b")


class DraftReader:
    """Finds out, part by part, what an upload asks for.

    Either its first part is the JSON `message`, which names every other part; or it is a plain form, with fields and
    files in any order. Raises Problem as soon as something is wrong.
    """

    def __init__(self, destinations: Mapping[str, Destination]) -> None:
        self._destinations = destinations
        self._draft: MessageDraft | None = None
        self._seen: list[str] = []

    def is_field(self, head: PartHead) -> bool:
        """Whether a part is short text to be kept in memory, not content to be stored."""
        self._seen.append(head.name)
        if head.name == MESSAGE:
            if len(self._seen) > 1:
                raise _invalid("#", f"the part {MESSAGE!r} must be the first, and the only one of its name")
            return True
        if self._draft is not None:
            self._expect(head.name)
            return False
        if head.file_name is None and head.name not in _FORM_FIELDS:
            raise _invalid(f"#/{head.name}", f"no such field; a form has {', '.join(_FORM_FIELDS)} and files")
        return head.file_name is None

    def on_field(self, name: str, text: str) -> None:
        """A field is whole."""
        if name == MESSAGE:
            self._draft = _validated(lambda: MessageDraft.model_validate_json(text))
            self._check_destination(self._draft.destination)
            self._check_suits(self._draft)
        elif name == "destination":
            self._check_destination(text)

    def result(self, form: Form) -> tuple[MessageDraft, dict[str, StoredPart]]:
        """The draft, and its parts by the names it uses, once everything has come."""
        if self._draft is None:
            draft = _validated(lambda: _draft_of_form(form))
            self._check_suits(draft)
            return draft, {str(n): part for n, part in enumerate(form.parts)}
        errors = [
            {"pointer": f"#/attachments/{n}/part", "detail": f"there is no part {entry.part!r}"}
            for n, entry in enumerate(self._draft.attachments)
            if entry.part not in self._seen
        ]
        if errors:
            raise Problem("invalid", "; ".join(error["detail"] for error in errors), errors=errors)
        return self._draft, {part.name: part for part in form.parts}

    def _expect(self, name: str) -> None:
        assert self._draft is not None
        if name not in {entry.part for entry in self._draft.attachments}:
            raise _invalid("#/attachments", f"no attachment names the part {name!r}")
        if self._seen.count(name) > 1:
            raise _invalid("#/attachments", f"the part {name!r} comes twice")

    def _check_destination(self, name: str) -> None:
        if name not in self._destinations:
            known = sorted(self._destinations)
            errors = [{"pointer": "#/destination", "detail": f"not one of {', '.join(known) or 'none'}"}]
            raise Problem("unknown-destination", f"there is no destination {name!r}", known=known, errors=errors)

    def _check_suits(self, draft: MessageDraft) -> None:
        """Not everything can be sent to every destination."""
        destination = self._destinations[draft.destination]
        carries = framing(destination.framing)
        name = carries.traits.name
        errors = [
            {"pointer": f"#/attachments/{number}/kind", "detail": f"the framing {name} carries no {entry.kind}"}
            for number, entry in enumerate(draft.attachments)
            if KINDS[entry.kind] not in carries.kinds
        ]
        if draft.application_message is not None and not carries.application_message:
            why = f"the framing {name} carries no application message"
            errors.append({"pointer": "#/application_message", "detail": why})
        elif draft.application_message is not None:
            try:
                draft.application_message.body(destination)
            except ValueError as error:
                errors.append({"pointer": "#/application_message", "detail": str(error)})
        if errors:
            why = "; ".join(error["detail"] for error in errors)
            raise Problem("invalid", f"the destination {draft.destination!r} does not take this: {why}", errors=errors)


def _invalid(pointer: str, why: str) -> Problem:
    return Problem("invalid", why, errors=[{"pointer": pointer, "detail": why}])


def _validated(make: Callable[[], MessageDraft]) -> MessageDraft:
    try:
        return make()
    except ValidationError as error:
        errors = field_errors(error.errors(include_url=False, include_context=False, include_input=False))
        detail = "; ".join(f"{wrong.get('pointer', '#')}: {wrong['detail']}" for wrong in errors)
        raise Problem("invalid", detail, errors=errors) from None


def _draft_of_form(form: Form) -> MessageDraft:
    said: dict[str, object] = {key: form.fields[key] for key in ("destination", "description") if key in form.fields}
    said["attachments"] = [_entry_of_form(form, number, part) for number, part in enumerate(form.parts)]
    return MessageDraft.model_validate(said)


def _entry_of_form(form: Form, number: int, part: StoredPart) -> dict[str, object]:
    kind = form.fields.get("kind") or _guessed_kind(part)
    entry: dict[str, object] = {"part": f"{number}", "kind": kind, "name": form.fields.get("name")}
    if kind != AttachmentKind.DATA_SET.word:
        entry["name"] = entry["name"] or re.split(r"[/\\]", part.file_name or "")[-1] or part.name
    if "data_set" in form.fields:
        entry["data_set"] = _json(form.fields["data_set"])
    return entry


def _json(text: str) -> object:
    try:
        return from_json(text)
    except ValueError as error:
        raise _invalid("#/data_set", f"not JSON: {error}") from None


def _guessed_kind(part: StoredPart) -> str:
    return (AttachmentKind.TEXT_FILE if _TEXT_TYPES.match(part.content_type) else AttachmentKind.BINARY_FILE).word


def fingerprint(draft: MessageDraft, parts: Sequence[StoredPart]) -> str:
    """What two requests have in common that ask for the same: their description, and the SHA-256 of each part."""
    whole = sha256(draft.model_dump_json().encode())
    for part in parts:
        whole.update(f"\n{part.name}={part.sha256}".encode())
    return whole.hexdigest()


def delivery(
    delivery_id: str,
    draft: MessageDraft,
    parts: Mapping[str, StoredPart],
    to: Destination,
    *,
    now: int,
    key: str | None = None,
    asked: str = "",
) -> DeliveryRecord:
    """The delivery that a draft becomes, with correlids of its own; `parts` are by the names that the draft uses, and
    `asked` is the fingerprint of a request with an idempotency key."""
    application = draft.application_message
    return DeliveryRecord(
        id=delivery_id,
        destination=draft.destination,
        header_correl_id=_correl_id(),
        message_correl_id=_correl_id(),
        attachments=tuple(_outgoing(entry, parts[entry.part], draft.description) for entry in draft.attachments),
        created_at=now,
        updated_at=now,
        original_msg_type=draft.original_msg_type,
        original_correl_id=bytes.fromhex(draft.original_correl_id).ljust(24, b"\0"),
        application_body=application.body(to) if application else None,
        application_format=application.message_format() if application else "",
        application_ccsid=to.ccsid if application else 0,
        idempotency_key=key,
        fingerprint=asked,
    )


def _correl_id() -> bytes:
    """16 random bytes; the other 8 are where sequence numbers stand."""
    return token_bytes(16) + bytes(8)


def _outgoing(entry: AttachmentDraft, part: StoredPart, description: str) -> OutgoingAttachment:
    return OutgoingAttachment(
        correl_id=token_bytes(16),
        kind=KINDS[entry.kind],
        qualifier_1=entry.qualifier_1 or FILE_SPECIFICATIONS[0],
        qualifier_2=entry.name or "",
        description=description if entry.description is None else entry.description,
        minor_version=entry.minor_version,
        major_version=entry.major_version,
        object_name=part.object_name,
        size=part.size,
        sha256=part.sha256,
    )
