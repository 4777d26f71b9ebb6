"""The preparation of a message: its files become data sets, or every fault of every file is reported."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from app.dataset import value_labels
from app.dataset.checks import Fault
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.names import in_capitals
from app.service.sending.drafts import DraftedAttachment, DraftedMessage
from app.service.sending.sending_errors import MessageFault, UnsuitableDataSets
from app.service.sending.upload_conversion import ConversionRequest, ConvertedFile
from app.service.sending.upload_parts import Companions, StoredPart

_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,8}$")

Convert = Callable[[StoredPart, ConversionRequest, Companions, str], ConvertedFile]
"""A function that reads a part as the request says, with its companions, stores the data set under an object name,
and returns it. Raises InvalidInputError."""

StoreCatalog = Callable[[Catalog, str, str], ConvertedFile]
"""A function that stores the data set of a catalog for a library under an object name, and returns it."""


class Preparation(NamedTuple):
    """A message with all names, its parts with data sets instead of their files, and the converted files by part."""

    message: DraftedMessage
    parts: Mapping[str, StoredPart]
    data_sets: Mapping[str, ConvertedFile]

    def warnings(self) -> Iterator[MessageFault]:
        """Yield the warnings about data sets: changes, and facts that are not sent."""
        for number, attachment in enumerate(self.message.attachments):
            if attachment.part in self.data_sets:
                faults = self.data_sets[attachment.part].definition.warnings
                yield from (MessageFault(("attachments", number, "data_set"), fault) for fault in faults)


def has_data_sets(message: DraftedMessage) -> bool:
    """Tell whether any attachment of a message is a data set."""
    return any(attachment.kind is AttachmentKind.DATA_SET for attachment in message.attachments)


def prepare(
    message: DraftedMessage,
    parts: Mapping[str, StoredPart],
    folder: str,
    convert: Convert,
    store_catalog: StoreCatalog,
) -> Preparation:
    """Convert the files of data sets, each to an object `{folder}/data-set-{n}`.

    If variables have value labels, they become one more data set, named FORMATS, behind the others.

    Raises UnsuitableDataSets with all faults of all files. The caller removes the objects that were stored until then.
    """
    data_sets: dict[str, ConvertedFile] = {}
    stored = dict(parts)
    attachments: list[DraftedAttachment] = []
    faults: list[MessageFault] = []
    for number, attachment in enumerate(message.attachments):
        if attachment.kind is not AttachmentKind.DATA_SET:
            attachments.append(attachment)
            continue
        part, object_name = parts[attachment.part], f"{folder}/data-set-{number}"
        where = ("attachments", number)
        if (names := _names(attachment)) is None:
            why = f"{attachment.name!r} is no name of a data set: give LIBRARY.MEMBER, or the member alone"
            faults.append(MessageFault((*where, "name"), Fault(None, "member", why)))
            continue
        try:
            catalog_part, define = attachment.conversion.catalog, attachment.conversion.define
            companions = Companions(parts[catalog_part] if catalog_part else None, parts[define] if define else None)
            converted = convert(part, _request(attachment, names, part), companions, object_name)
        except InvalidInputError as error:
            faults.append(MessageFault((*where, "part"), Fault(None, error.code, str(error))))
            continue
        definition = converted.definition
        faults += (MessageFault((*where, "data_set"), fault) for fault in definition.errors)
        data_sets[attachment.part] = converted
        stored[attachment.part] = part._replace(object_name=object_name, size=converted.size, sha256=converted.sha256)
        attachments.append(replace(attachment, name=definition.member, qualifier_1=definition.library))
    catalog = _merged(attachments, data_sets, faults)
    if faults:
        raise UnsuitableDataSets(faults)
    if catalog:
        first = next(each for each in attachments if each.part in data_sets)
        added = _catalog_attachment(first, parts)
        object_name = f"{folder}/data-set-{len(attachments)}"
        converted = store_catalog(catalog, added.qualifier_1 or "", object_name)
        if converted.definition.errors:
            raise UnsuitableDataSets([MessageFault(("attachments",), each) for each in converted.definition.errors])
        attachments.append(added)
        data_sets[added.part] = converted
        stored[added.part] = StoredPart(added.part, None, "", object_name, converted.size, converted.sha256)
    return Preparation(replace(message, attachments=tuple(attachments)), stored, data_sets)


def _merged(
    attachments: list[DraftedAttachment], data_sets: Mapping[str, ConvertedFile], faults: list[MessageFault]
) -> Catalog:
    """Return the value labels of all data sets; nothing if the message has its own data set of them.

    A format with two sets of labels is a fault.
    """
    merged: dict[str, ValueLabels] = {}
    for number, attachment in enumerate(attachments):
        if attachment.part not in data_sets:
            continue
        if in_capitals(attachment.name or "") == value_labels.MEMBER:
            return {}
        for name, labels in data_sets[attachment.part].definition.catalog.items():
            if merged.setdefault(name, labels) != labels:
                why = f"the format {name} has other value labels in another data set of the message"
                faults.append(MessageFault(("attachments", number, "data_set"), Fault(None, "value-labels", why)))
    return merged


def _catalog_attachment(first: DraftedAttachment, parts: Mapping[str, StoredPart]) -> DraftedAttachment:
    """Return the attachment of the message's value labels, in the library of its first data set."""
    name = value_labels.MEMBER
    while name in parts:
        name += "_"
    return DraftedAttachment(
        name, AttachmentKind.DATA_SET, value_labels.MEMBER, first.qualifier_1, description="Value labels"
    )


_Names = tuple[str | None, str | None]
"""The library and the member of a data set; what is None is taken from its file."""


def _names(attachment: DraftedAttachment) -> _Names | None:
    """Return the names that an attachment gives to its data set; None for a name of two parts with an empty one."""
    library, member = attachment.qualifier_1, attachment.name
    if library is None and member is not None and "." in member:
        library, _, member = member.partition(".")
        return (library, member) if library and member else None
    return library, member


def _request(attachment: DraftedAttachment, names: _Names, part: StoredPart) -> ConversionRequest:
    """Return the conversion request of an attachment whose data set has these names."""
    library, member = names
    file_stem = _EXTENSION.sub("", part.base_name)
    overrides = replace(attachment.conversion.overrides, library=library, member=member, file_stem=file_stem)
    return replace(attachment.conversion, overrides=overrides)
