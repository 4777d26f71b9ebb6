"""The Protocol of a framing: all that the product knows of how attachments are cut into physical messages.

There is one object a framing, in a module of its own, and one line in `app.framing.registry`. Hosts, REST, the command
line, the settings and the composition root ask the object by the name that a physical message or a destination has.
Nobody else compares names. Transports and captures get its `FramingTraits`.

A framing has no memory. What the messages of a source have told before is an argument (`known`). How parts come
together is a matter of `app.assembly`, and follows from the events.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.codecs.sas.files import FileDescription
from app.model.attachment import AttachmentKind
from app.model.event import Event, Pieces
from app.model.framing import FramingTraits
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions, OutgoingAttachment

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile  # which takes a while to load

Body = bytes | memoryview

ArrangementName = Literal["numbered", "grouped"]
"""How the parts of an attachment come together, are put in order, and are found missing (`app.assembly.arrangement`):
`numbered` by sequence numbers from 1 up to a count, `grouped` by MsgSeqNumber and Offset. The events decide it."""


# --- reading messages -------------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """What the columns of a journal batch tell of its messages. Rows ascend.

    `headers` are rows that hold headers. `parts` are rows that hold sequenced parts; `keys` has the 16-byte key of the
    attachment for each of them (a row of bytes), and `sequences` the sequence number.
    """

    headers: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint8]
    sequences: npt.NDArray[np.int64]


KEY_SIZE = 16
"""Bytes of the key of an attachment of numbered parts."""

_NO_ROWS = np.zeros(0, np.int64)
NO_COLUMNS = Columns(_NO_ROWS, _NO_ROWS, np.zeros((0, KEY_SIZE), np.uint8), _NO_ROWS)
"""What columns tell of no message."""


class Arrivals(Protocol):
    """Gives the messages of one source what they do not say themselves, in the order in which they come in."""

    def number(self, message: PhysicalMessage) -> Sequence[PhysicalMessage]:
        """Return what is journalled in place of a message: the message with its attachment and number, or as one that
        was refused."""


# --- reading content --------------------------------------------------------------------------------------------------


class Received(Protocol):
    """The parts of a complete attachment, in order."""

    @property
    def first(self) -> PhysicalMessage:
        """The message of the first part, with what its source is configured to mean where it does not say it."""

    @property
    def encoding(self) -> int:
        """The Encoding that the source is configured to have; 0 for none."""

    def __len__(self) -> int: ...

    def bodies(self, numbers: Sequence[int] | None = None) -> Iterator[memoryview]:
        """Return the bodies of these parts (0 is the first), or of all; each call reads the journal again."""


Span = tuple[int, int, Body, bool]
"""Bytes of a file: the part that they are in (0 is the first), their first byte in its body, the bytes themselves, and
whether a record of the file ends with them."""


class FileContent(NamedTuple):
    """Where the bytes of a file lie in its parts.

    `spans` goes over them in order, each time from the start. Records become lines of text where the file is made
    `of_lines`, and are joined otherwise. The first `begins_at` parts hold nothing of it. `description` is what the
    sender announced of the file.
    """

    spans: Callable[[], Iterable[Span]]
    of_lines: bool = False
    begins_at: int = 0
    description: FileDescription | None = None
    dialects: int | None = None


class PartReader(Protocol):
    """Reads a file part by part while its parts are in memory, in order, from the second part on."""

    description: FileDescription | None
    dialects: int | None

    def spans(self, body: Body) -> list[tuple[int, int]] | None:
        """Return the (start, length) of the file's records in a part; None where it is not made of whole records."""


class DataSetFacts(NamedTuple):
    """What reading a data set found out."""

    observations: int
    variables: int
    dialects: int | None = None


StoreTable = Callable[[pa.Schema, Iterable[pa.RecordBatch]], int]
"""Writes a table as the content of an attachment, in the place of one written before, and returns its rows."""


# --- writing ----------------------------------------------------------------------------------------------------------


class Contents(Protocol):
    """The contents of a delivery's attachments, as the content store has them. Raises KeyError for one that is gone."""

    def pieces(self, attachment: OutgoingAttachment) -> Iterator[memoryview]:
        """Return the bytes of a file in pieces of any size; each call reads it again."""

    def table(self, attachment: OutgoingAttachment) -> "AbstractContextManager[ParquetFile]":
        """Open the table of a data set."""


class Framing(Protocol):
    """One way to cut attachments into physical messages: how it is read, what it carries, how it is written."""

    @property
    def traits(self) -> FramingTraits:
        """What transports and captures know of it, its name above all."""

    # --- reading messages ---------------------------------------------------------------------------------------------

    def arrivals(self) -> Arrivals | None:
        """Begin to number the messages of a source as they come in, before they are journalled; None where they say
        themselves what they belong to."""

    def read(self, message: PhysicalMessage, known: int) -> Event | Pieces:
        """Return what a physical message means, given the dialects that its source has used. Raises TheirError."""

    def is_header(self, message: PhysicalMessage) -> bool:
        """Tell whether a message is a header: `read` answers `Announced`, or refuses it. The headers of a source are
        read in order, each with the dialects of those before it."""

    def read_columns(self, batch: pa.RecordBatch, framed: npt.NDArray[np.bool_]) -> Columns | None:
        """Return what columns tell of the `framed` rows of a journal batch, as `read` would. Rows that are neither
        headers nor parts are read one by one; with None all are."""

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        """Return the key of the attachment that a message is a part of. Raises TheirError where it has none."""

    # --- reading content ----------------------------------------------------------------------------------------------

    @property
    def arrangement(self) -> ArrangementName:
        """How parts are put in order, and which are missing."""

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        """Return where the content of a complete file lies. Raises TheirError and WireError."""

    def begin_file(self, record: AttachmentRecord, body: Body) -> PartReader | None:
        """Begin to read a file of numbered parts by its first one; None leaves it to `file`, once it is complete."""

    def data_set(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
        """Store the table of a complete data set; its last call of `store` counts. Raises TheirError and WireError."""

    # --- writing ------------------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> frozenset[AttachmentKind]:
        """Which kinds of attachment it carries."""

    @property
    def application_message(self) -> bool:
        """Whether it carries an application message beside attachments."""

    @property
    def options(self) -> frozenset[str]:
        """The fields of `FramingOptions` that change what is written."""

    def properties(self, attachment: OutgoingAttachment) -> Mapping[str, str]:
        """Return the properties that a message of an attachment has beside its descriptor, all of them or none."""

    def write(self, delivery: DeliveryRecord, options: FramingOptions, contents: Contents) -> Iterator[PhysicalMessage]:
        """Make all physical messages of a delivery, one at a time; the same delivery gives the same ones each time.
        Raises TheirError, WireError, UnicodeEncodeError and ArrowException for what cannot be written so."""
