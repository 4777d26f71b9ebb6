"""The messages received of an attachment on TIB/Rendezvous, compared with its sender's announcements.

A file announces its size (FDC), a data set its observations and variables (DAT). What has come of either is counted
while it comes, so that a last message that can be read in two ways is read by this, too (`app.framing.counting`). Of an
attachment of several files, each is compared with its own announcement.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np

from app.codecs.rendezvous.constants import HEADER_SIZE
from app.codecs.rendezvous.fields import message_end
from app.codecs.sas.file_messages import FileDescription, RecordTotals, is_announced_size
from app.codecs.sas.numbered import find_fields, numbered
from app.codecs.sas.rendezvous_messages import (
    RendezvousDefinition,
    read_definition,
    read_file_description,
    record_places,
)
from app.model.attachment import AttachmentKind
from app.wire import WireError
from app.wire.kinds import Buffer


class Completeness(Enum):
    """Whether all of an attachment has come, by what its sender announced."""

    CERTAIN = 4
    """A binary file with exactly the announced bytes: no message with data is missing; or several."""
    LIKELY = 3
    """Text files with the announced sizes, if line ends are counted so, or a data set with all its values."""
    UNKNOWN = 2
    """Nothing was announced."""
    CONTRADICTED = 1
    """What came is not what was announced, or begins without its first message."""


MOST_FILES: Final = 1000
"""The most files of one attachment: the catalog has the place of each."""
_BEGINS: Final = {"DAT": AttachmentKind.DATA_SET, "FDC": None}
_RECORDS: Final = {"ATX": AttachmentKind.TEXT_FILE, "ATB": AttachmentKind.BINARY_FILE}
_REPEATS: Final = (1, 0, 2)
"""The fields that each observation's value may repeat in addition to its own two: its type of record, none, the count,
too."""


@dataclass(slots=True)
class AttachmentProgress:
    """The messages of one attachment so far, by what they bring. It `is_misplaced` if one is of another kind.

    `begins` are the numbers of the messages with which its files begin. `description`, `records` and `is_empty` are of
    the last one, `before` is how complete those before it are.
    """

    kind: AttachmentKind
    messages: int = 0
    begins: list[int] = field(default_factory=list)
    before: Completeness = Completeness.CERTAIN
    is_empty: bool = True
    description: FileDescription | None = None
    definition: RendezvousDefinition | None = None
    is_odd: bool = False
    is_misplaced: bool = False
    records: RecordTotals = field(default_factory=RecordTotals)
    values: list[int | None] = field(default_factory=lambda: [0] * len(_REPEATS))

    def add(self, name: str, body: Buffer) -> None:
        """Count a message. One that its attachment cannot have, or that cannot be read, makes the attachment odd."""
        self.messages += 1
        try:
            self._add(name, body)
        except WireError:
            self.is_odd = True

    def _add(self, name: str, body: Buffer) -> None:
        if name == "FDC":
            self.is_misplaced |= self.kind is AttachmentKind.DATA_SET
            description = read_file_description(body)
            if len(self.begins) == MOST_FILES or (self.begins and self.is_empty):
                self.is_odd = True  # too many files, or one without records, whose descriptor may have come twice
            else:
                self.begins.append(self.messages)
            if len(self.begins) > 1:
                self.before = self._files()
                self.records, self.is_empty = RecordTotals(), True
            self.description = description
        elif name == "DAT":
            definition = read_definition(body)
            self.is_odd |= self.definition not in (None, definition)
            self.is_misplaced |= self.kind is not AttachmentKind.DATA_SET
            self.definition = definition
        elif name in _RECORDS:
            self.is_misplaced |= self.kind is not _RECORDS[name]
            self.is_empty = False
            if self.description is not None and self.description.filesize:
                self.records.add_all([length for _, length in record_places(body)])
        else:
            self.is_misplaced |= self.kind is not AttachmentKind.DATA_SET
            if name == "ATO" and self.definition is not None and self.definition.observations >= 0:
                fields = _fields(body)
                for place, repeats in enumerate(_REPEATS):
                    values, rest = divmod(fields - 2 + repeats, 2 + repeats)
                    before = self.values[place]
                    self.values[place] = None if before is None or rest or values < 0 else before + values

    def whole(self) -> Completeness:
        """Tell whether all has come, by what was announced."""
        if self.is_odd or self.is_misplaced or (self.messages and self.description is None and self.definition is None):
            return Completeness.CONTRADICTED
        if self.definition is not None:
            observations, variables = self.definition.observations, self.definition.variables
            if observations < 0:
                return Completeness.UNKNOWN
            return Completeness.LIKELY if observations * variables in self.values else Completeness.CONTRADICTED
        return self._files()

    def _files(self) -> Completeness:
        """Tell whether all files have come whole, as far as they have begun."""
        return min(self.before, self._last_file(), key=lambda each: each.value)

    def _last_file(self) -> Completeness:
        if len(self.begins) > 1 and self.is_empty:
            return Completeness.CONTRADICTED
        if self.description is None or not self.description.filesize:
            return Completeness.UNKNOWN
        if not is_announced_size(self.description, self.records, of_lines=self.kind is AttachmentKind.TEXT_FILE):
            return Completeness.CONTRADICTED
        is_exact = self.kind is AttachmentKind.BINARY_FILE and not (self.description.filesize - self.records.size) % (
            1 << 32
        )
        return Completeness.CERTAIN if is_exact else Completeness.LIKELY


def _fields(body: Buffer) -> int:
    """Return the number of fields of a message. Raises WireError."""
    if message_end(body, 0, len(body)) == len(body):
        name = bytes(body[HEADER_SIZE : HEADER_SIZE + body[HEADER_SIZE] - 1])
        if (found := find_fields(np.frombuffer(body, np.uint8), name)) is not None:
            return len(found.type)
    return len(numbered(body))
