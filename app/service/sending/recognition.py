"""The kind of an attachment that its sender did not state: recognised from the content of its file.

This is the only place that decides it, for REST and for the command line.
"""

import re
from collections.abc import Collection

from app.model.attachment import AttachmentKind
from app.ports import ContentStore
from app.service.content.stored_content import opened
from app.service.sending.upload_parts import StoredPart
from app.tables.read.file_formats import table_format

_LOOKED_AT = 1 << 20
_LONGEST_CHARACTER = 4
_TEXT_TYPES = re.compile(r"text/|application/(json|xml|javascript|yaml)\b")


def recognised_kind(head: bytes, content_type: str, kinds: Collection[AttachmentKind]) -> AttachmentKind:
    """Return the kind of a file, given its first bytes, its media type, and the kinds that its destination takes.

    A table in a format that can be recognised is a data set. UTF-8 without NUL, and everything that its media type
    calls text, is a text file; all else is a binary file. A table is sent as a file where a destination takes no data
    sets. If the destination takes none of this, the result is what the content is.
    """
    is_text = bool(_TEXT_TYPES.match(content_type)) or _is_text(head)
    found = [AttachmentKind.DATA_SET] if table_format(head) else []
    found += [AttachmentKind.TEXT_FILE] if is_text else []
    found += [AttachmentKind.BINARY_FILE]
    return next((kind for kind in found if kind in kinds), found[0])


def kind_of_part(store: ContentStore, part: StoredPart, kinds: Collection[AttachmentKind]) -> AttachmentKind:
    """Return the kind of a stored file, for a destination that takes these kinds."""
    with opened(store, part.object_name) as file:
        return recognised_kind(file.read(_LOOKED_AT), part.content_type, kinds)


def _is_text(head: bytes) -> bool:
    """Tell whether there are bytes, in UTF-8 without NUL. A character that is cut off at the end is ignored."""
    if not head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        is_cut = len(head) == _LOOKED_AT and error.start > len(head) - _LONGEST_CHARACTER
        return is_cut and b"\0" not in head
    return b"\0" not in head
