"""The preparation of a message: its files become data sets, or every fault of every file is reported."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from app.dataset.checks import Fault
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.service.sending.drafts import AttachmentDraft, MessageDraft
from app.service.sending.errors import MessageFault, UnsuitableDataSets
from app.service.sending.parts import StoredPart
from app.service.sending.upload_conversion import ConversionRequest, ConvertedFile

_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,8}$")

Convert = Callable[[StoredPart, ConversionRequest, str], ConvertedFile]
"""A function that reads a part as the request says, stores the data set under an object name, and returns it. Raises
InvalidInputError."""


class Preparation(NamedTuple):
    """A message with all names, its parts with data sets instead of their files, and the converted files by part."""

    message: MessageDraft
    parts: Mapping[str, StoredPart]
    data_sets: Mapping[str, ConvertedFile]

    def warnings(self) -> Iterator[MessageFault]:
        """Yield the warnings about data sets: changes, and facts that are not sent."""
        for number, attachment in enumerate(self.message.attachments):
            if attachment.part in self.data_sets:
                faults = self.data_sets[attachment.part].definition.warnings
                yield from (MessageFault(("attachments", number, "data_set"), fault) for fault in faults)


def has_data_sets(message: MessageDraft) -> bool:
    """Tell whether any attachment of a message is a data set."""
    return any(attachment.kind is AttachmentKind.DATA_SET for attachment in message.attachments)


def prepare(message: MessageDraft, parts: Mapping[str, StoredPart], folder: str, convert: Convert) -> Preparation:
    """Convert the files of data sets, each to an object `{folder}/data-set-{n}`.

    Raises UnsuitableDataSets with all faults of all files. The caller removes the objects that were stored until then.
    """
    data_sets: dict[str, ConvertedFile] = {}
    stored = dict(parts)
    attachments: list[AttachmentDraft] = []
    faults: list[MessageFault] = []
    for number, attachment in enumerate(message.attachments):
        if attachment.kind is not AttachmentKind.DATA_SET:
            attachments.append(attachment)
            continue
        part, object_name = parts[attachment.part], f"{folder}/data-set-{number}"
        where = ("attachments", number)
        try:
            converted = convert(part, _request(attachment, part), object_name)
        except InvalidInputError as error:
            faults.append(MessageFault((*where, "part"), Fault(None, error.code, str(error))))
            continue
        definition = converted.definition
        faults += (MessageFault((*where, "data_set"), fault) for fault in definition.errors)
        data_sets[attachment.part] = converted
        stored[attachment.part] = part._replace(object_name=object_name, size=converted.size, sha256=converted.sha256)
        attachments.append(replace(attachment, name=definition.member, qualifier_1=definition.library))
    if faults:
        raise UnsuitableDataSets(faults)
    return Preparation(replace(message, attachments=tuple(attachments)), stored, data_sets)


def _request(attachment: AttachmentDraft, part: StoredPart) -> ConversionRequest:
    """Return the conversion request of an attachment, with the names that it gives to its data set."""
    library, member = attachment.qualifier_1, attachment.name
    if library is None and member is not None and "." in member:
        library, _, member = member.partition(".")
    file_stem = _EXTENSION.sub("", part.base_name)
    wishes = replace(attachment.conversion.wishes, library=library, member=member, file_stem=file_stem)
    return replace(attachment.conversion, wishes=wishes)
