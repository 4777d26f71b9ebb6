"""The Protocol of a framing, by which attachments are cut into physical messages, and functions that framings share.

Each framing is one object, in a module of its own, with one line in `app.framing.registry`, or in another package that
declares it as an entry point. Hosts, REST, the command line, the settings and the composition root get the object by
the framing's name in a physical message or a destination. Only the registry compares names. Transports and captures get
its `FramingTraits`.

A framing has no memory. Facts from earlier messages of a source are an argument (`known`). `app.assembly` puts the
parts together, according to the events.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.codecs.ibm_mq.constants import SEGMENT_FLAGS
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.rendezvous_messages import MapItem
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import Event, Pieces
from app.model.evidence import Choice, OnDoubt
from app.model.framing_facts import FramingTraits
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions, OutgoingAttachment
from app.wire import WireError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile  # which takes a while to load

Body = bytes | memoryview

ArrangementName = Literal["numbered", "grouped", "ranged"]
"""How parts are put in order, and missing ones found (`app.assembly.arrangement`).

`numbered` means by sequence numbers from 1 up to a count, `grouped` by MsgSeqNumber and Offset, `ranged` by the bytes
of a file. The events decide it.
"""


# --- reading messages -------------------------------------------------------------------------------------------------


class Descriptors(NamedTuple):
    """The columns of a batch by which framings find sequenced parts with NumPy.

    They are the message types, and the bytes of all correlids, one after the other. The correlid of a row begins at its
    offset. There is one offset more than there are rows. Rows that `may_be_segments` are left to `read_event`.
    """

    msg_types: npt.NDArray[np.int64]
    correl_ids: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    may_be_segments: npt.NDArray[np.bool_]


def descriptors_of_batch(batch: pa.RecordBatch) -> Descriptors:
    """Return the columns of a journal batch."""
    column = batch.column("correl_id")
    _, offsets, data = column.buffers()
    return Descriptors(
        batch.column("msg_type").to_numpy(),
        np.frombuffer(data or b"", np.uint8),
        np.frombuffer(offsets, "<i4", len(column) + 1, 4 * column.offset).astype(np.int64),
        (batch.column("msg_flags").to_numpy() & SEGMENT_FLAGS | batch.column("offset").to_numpy()) != 0,
    )


def descriptors_of(messages: Sequence[PhysicalMessage]) -> Descriptors:
    """Return the columns of messages."""
    correl_ids = [message.correl_id for message in messages]
    return Descriptors(
        np.array([message.msg_type for message in messages], np.int64),
        np.frombuffer(b"".join(correl_ids), np.uint8),
        np.fromiter(accumulate(map(len, correl_ids), initial=0), np.int64, len(messages) + 1),
        np.array([each.msg_flags & SEGMENT_FLAGS | each.offset for each in messages], np.int64) != 0,
    )


class Columns(NamedTuple):
    """The parts and unsequenced messages that the columns of a batch show. Rows ascend.

    `parts` are rows that hold sequenced parts. For each part, `keys` has the 16-byte key of the attachment (a row of
    bytes), and `sequences` the sequence number. `bare` are rows that hold unsequenced messages
    (`app.model.event.Unsequenced`), with their `bare_keys`.
    """

    parts: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint8]
    sequences: npt.NDArray[np.int64]
    bare: npt.NDArray[np.int64]
    bare_keys: npt.NDArray[np.uint8]


KEY_SIZE = 16
"""The length of the key of an attachment of numbered parts, in bytes."""

_NO_ROWS, _NO_KEYS = np.zeros(0, np.int64), np.zeros((0, KEY_SIZE), np.uint8)
NO_COLUMNS = Columns(_NO_ROWS, _NO_KEYS, _NO_ROWS, _NO_ROWS, _NO_KEYS)
"""The columns of no message."""


class ArrivalOptions(NamedTuple):
    """How the messages of a source are numbered.

    `known` is what `Arrivals.take_learned` has returned for it before. `counts` is the setting that states what last
    messages count, and `on_doubt` what happens where that is in doubt. `capture` identifies the capture that the
    messages are read from, in place of their times: read again, they get the same keys.
    """

    known: Mapping[str, str] = MappingProxyType({})
    counts: str | None = None
    on_doubt: OnDoubt = "hold"
    capture: bytes = b""


NO_OPTIONS = ArrivalOptions()
"""The options of a source that has none, and of which nothing is known."""


class Arrivals(Protocol):
    """Numbers the messages of one source, in their order of arrival, where they have no numbers themselves."""

    def number(self, message: PhysicalMessage) -> Sequence[PhysicalMessage]:
        """Return what is journalled in place of a message: the message with its attachment and number, or as one that
        was refused."""

    def interrupt(self, message: PhysicalMessage) -> None:
        """Take note of a message that its transport could not read, and which may have been any message."""

    def resume(self, message: PhysicalMessage) -> None:
        """Take note of a message that was journalled before, as `number` returned it, so that numbering continues
        after it."""

    def take_learned(self) -> Mapping[str, str]:
        """Return what has been learnt about the senders on each subject since the last call, for
        `ArrivalOptions.known`."""


# --- reading content --------------------------------------------------------------------------------------------------


class Received(Protocol):
    """The parts of a complete attachment, in order."""

    @property
    def first(self) -> PhysicalMessage:
        """The message of the first part. Fields that it lacks are as its source is configured."""

    @property
    def encoding(self) -> int:
        """The Encoding that is configured for the source; 0 for none."""

    @property
    def keys(self) -> Sequence[int]:
        """The keys of the parts in assembly."""

    def __len__(self) -> int: ...

    def message(self, number: int) -> PhysicalMessage:
        """Return the message of this part (0 is the first)."""

    def bodies(self, numbers: Sequence[int] | None = None) -> Iterator[memoryview]:
        """Return the bodies of these parts (0 is the first), or of all. Each call may read the journal again."""


Span = tuple[int, int, Body, bool]
"""A span of bytes of a file: the number of its part (0 is the first), the first byte in the part's body, the bytes
themselves, and whether a record of the file ends with them."""


DescribedFile = tuple[FileDescription | None, Iterable[Span]]
"""One of several files: its sender's announcement, and its bytes. They are read before the next file is asked for."""


class FileContent(NamedTuple):
    """The places of a file's bytes in its parts.

    `spans` yields them in order, each time from the start. If the file is `of_lines`, its records become lines of text;
    otherwise they are joined. The first `begins_at` parts have no bytes of it. `description` is the sender's
    announcement of the file. `evidence` returns the choices between readings, once all spans have been read.
    Where the content may be several files, `files` yields them in order.
    """

    spans: Callable[[], Iterable[Span]]
    of_lines: bool = False
    begins_at: int = 0
    description: FileDescription | None = None
    dialects: int | None = None
    evidence: Callable[[], tuple[Choice, ...]] = tuple
    files: Callable[[], Iterable[DescribedFile]] | None = None

    def described(self) -> Iterable[DescribedFile]:
        """Return each file with its announcement: mostly the only one."""
        return [(self.description, self.spans())] if self.files is None else self.files()


class PartReader(Protocol):
    """A reader of a file, part by part in order, from the second part on, while the parts are in memory."""

    description: FileDescription | None
    dialects: int | None

    @property
    def evidence(self) -> tuple[Choice, ...]:
        """The choices between readings, once all parts have been read."""

    def spans(self, body: Body) -> list[tuple[int, int]] | None:
        """Return the (start, length) of the file's records in a part; None if it does not consist of whole records."""

    def record_start(self, bodies: Sequence[Body]) -> int | None:
        """Return where the record begins that is the rest of each of these parts; None if `spans` must look."""


class DataSetFacts(NamedTuple):
    """The facts that reading a data set gives."""

    observations: int
    variables: int
    dialects: int | None = None
    warnings: tuple[str, ...] = ()
    evidence: tuple[Choice, ...] = ()


class DataSetTable(NamedTuple):
    """A small data set that has been read."""

    facts: DataSetFacts
    table: pa.RecordBatch


StoreTable = Callable[[pa.Schema, Iterable[pa.RecordBatch]], int]
"""A function that writes a table as the content of an attachment, replaces one written before, and returns its rows."""


# --- writing ----------------------------------------------------------------------------------------------------------


class DeliveryContents(Protocol):
    """The contents of a delivery's attachments in the content store. Raises KeyError for one that is gone."""

    def pieces(self, attachment: OutgoingAttachment) -> Iterator[memoryview]:
        """Return the bytes of a file in pieces of any size. Each call reads the file again."""

    def table(self, attachment: OutgoingAttachment) -> "AbstractContextManager[ParquetFile]":
        """Open the table of a data set."""


AfterRefusal = Literal["with it", "with its attachment", "never"]
"""How a delivery continues after a message was refused: with this message, with the first one of its attachment, or not
at all."""


class SenderAnswer(NamedTuple):
    """An answer to a sender: the message that it gets, and the code in it, by which answers are counted."""

    message: PhysicalMessage
    code: int


class Framing(Protocol):
    """A way to cut attachments into physical messages: how to read it, which kinds it carries, and how to write it.

    An implementation inherits the answers that most framings give: no arrivals, no headers, no columns, no reading of
    files in advance, no properties; and those of one that reads files alone and writes nothing.
    """

    @property
    def traits(self) -> FramingTraits:
        """The framing's name, and the facts that transports and captures need."""

    # --- reading messages ---------------------------------------------------------------------------------------------

    def arrivals(self, options: ArrivalOptions = NO_OPTIONS) -> Arrivals | None:  # noqa: ARG002
        """Begin to number the messages of a source on arrival, before they are journalled; None where they state
        themselves what they belong to."""
        return None

    def read(self, message: PhysicalMessage, known: int) -> Event | Pieces:
        """Return what a physical message means, given the dialects that its source has used. Raises
        InvalidInputError."""

    def is_header(self, message: PhysicalMessage) -> bool:  # noqa: ARG002
        """Tell whether a message is a header: `read` returns `Announced` for it, or refuses it.

        The headers of a source are read in order, each with the dialects of those before it.
        """
        return False

    def read_columns(self, batch: Descriptors, framed: npt.NDArray[np.bool_]) -> Columns | None:  # noqa: ARG002
        """Return the parts and unsequenced messages among the `framed` rows of a batch, as `read` would find them.

        Other rows are read one by one. If the result is None, all rows are. Messages that may be segments are not among
        the `framed` rows.
        """
        return None

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        """Return the key of the attachment that a message is a part of. Raises InvalidInputError if it has none."""

    # --- answering messages -------------------------------------------------------------------------------------------

    @property
    def has_answers(self) -> bool:
        """Whether senders may want answers: `is_answered` is asked only then."""
        return False

    def is_answered(self, message: PhysicalMessage) -> bool:  # noqa: ARG002
        """Tell whether the sender of a message wants an answer, once the message is durable."""
        return False

    def answer(
        self,
        message: PhysicalMessage,  # noqa: ARG002
        refused: InvalidInputError | None,  # noqa: ARG002
        record: AttachmentRecord | None,  # noqa: ARG002
        missing: Callable[[], Sequence[tuple[int, int]]],  # noqa: ARG002
    ) -> SenderAnswer | None:
        """Return the answer to a message, whose body is not known any more; None while it cannot be given yet.

        The message was `refused`, or taken for the attachment of this `record`, of which `missing` returns the closed
        ranges that have not come."""
        return None

    @property
    def names_missing(self) -> bool:
        """Whether a request can name the parts that have not come: they have numbers that their sender gave them."""
        return False

    # --- reading content ----------------------------------------------------------------------------------------------

    @property
    def key_in_body(self) -> bool:
        """Whether `attachment_key` reads the body. Otherwise the descriptor has the key."""
        return False

    @property
    def arrangement(self) -> ArrangementName:
        """How parts are put in order and missing ones are found."""

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        """Return the places of the content of a complete file. Raises InvalidInputError and WireError."""

    def leading_file(self, record: AttachmentRecord, received: Received) -> FileContent:
        """Return the places of the content in the leading parts of a file that is not complete. Raises as `file`; so
        does `spans`, after the content before the fault."""
        return self.file(record, received)

    def begin_file(self, record: AttachmentRecord, body: Body) -> PartReader | None:  # noqa: ARG002
        """Begin to read a file of numbered parts by its first part; None leaves the file to `file`, once it is
        complete."""
        return None

    def data_set(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:  # noqa: ARG002
        """Store the table of a complete data set. The last call of `store` counts. Raises InvalidInputError and
        WireError."""
        raise InvalidInputError("no-data-set", "", -1, f"the framing {self.traits.name} carries no data set")

    def small_data_sets(
        self,
        several: Mapping[str, tuple[AttachmentRecord, Received]],  # noqa: ARG002
    ) -> dict[str, DataSetTable]:
        """Return the tables of complete data sets that are read faster together than each by itself, by identifier.
        Data sets that are left out are for `data_set`, which raises the reason why one cannot be read."""
        return {}

    def leading_rows(
        self,
        record: AttachmentRecord,  # noqa: ARG002
        received: Received,  # noqa: ARG002
        store: StoreTable,  # noqa: ARG002
    ) -> DataSetFacts | None:
        """Store the whole rows in the leading parts of a data set that is not complete; None where that cannot be
        done. Raises as `data_set`."""
        return None

    # --- writing ------------------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> frozenset[AttachmentKind]:
        """The kinds of attachment that the framing can write."""
        return frozenset()

    @property
    def application_message(self) -> bool:
        """Whether the framing can write an application message in addition to attachments."""
        return False

    @property
    def options(self) -> frozenset[str]:
        """The fields of `FramingOptions` that change the messages."""
        return frozenset()

    @property
    def extras(self) -> frozenset[str]:
        """The properties of a data set that are more than its variables and that it carries, by their names in `sas.*`
        metadata. Sending a data set that has others is warned of."""
        return frozenset()

    def check_names(self, delivery: DeliveryRecord, options: FramingOptions) -> None:  # noqa: ARG002
        """Check that messages have a place for the names and descriptions of a delivery. Raises as `write`, which
        needs the contents for the rest."""
        return

    def longest_text(self, options: FramingOptions) -> int | None:  # noqa: ARG002
        """Return the most bytes of a character value of a data set; None for as many as SAS has."""
        return None

    def check_values(
        self,
        field: pa.Field,  # noqa: ARG002
        values: pa.Array,  # noqa: ARG002
        damaged: pa.Array | None,  # noqa: ARG002
        files: Sequence[str],  # noqa: ARG002
    ) -> None:
        """Check values of a variable of a data set, and the bytes of those that did not decode. `files` are the names
        of the message's files. Raises BadValueError for the first value that messages have no place for."""
        return

    def checked_rows(
        self,
        name: tuple[str, str],  # noqa: ARG002
        schema: pa.Schema,  # noqa: ARG002
        batches: Iterator[pa.RecordBatch],
        options: FramingOptions,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of a data set of this library and name as they are. Raises InvalidInputError and WireError
        if messages have no place for one of them, or for what describes them: after the last ones at the latest."""
        return batches

    def application(self, content: bytes | Sequence[MapItem]) -> bytes:
        """Return the body of an application message, of bytes or of the values of a map. Raises WireError."""
        if not isinstance(content, bytes):
            raise WireError("values", 0, f"the framing {self.traits.name} carries no map")
        return content

    def properties(self, attachment: OutgoingAttachment) -> Mapping[str, str]:  # noqa: ARG002
        """Return the properties of a message of an attachment, in addition to its descriptor: all or none."""
        return NO_PROPERTIES

    def after_refusal(self, message: PhysicalMessage, code: int) -> AfterRefusal:  # noqa: ARG002
        """Return how a delivery continues after its receiver refused a message with this reason code of MQTT 5."""
        return "with it"

    def write(
        self,
        delivery: DeliveryRecord,  # noqa: ARG002
        options: FramingOptions,  # noqa: ARG002
        contents: DeliveryContents,  # noqa: ARG002
    ) -> Iterator[PhysicalMessage]:
        """Make all physical messages of a delivery, one at a time. The same delivery always gives the same messages.

        Raises InvalidInputError, WireError, UnicodeEncodeError and ArrowException for content that cannot be written
        so."""
        raise WireError("framing", 0, f"the framing {self.traits.name} writes no messages")


def joined_file(received: Received, skip: int = 0) -> FileContent:
    """Return a file that consists of the bodies of all parts, without the first `skip` bytes of each."""

    def spans() -> Iterator[Span]:
        for part, body in enumerate(received.bodies()):
            yield part, skip, body[skip:] if skip else body, True

    return FileContent(spans)


Bodies = Callable[[OutgoingAttachment], Iterator[bytes | memoryview]]
"""The bodies of an attachment's parts, in order."""


def message_identifier(delivery: str, number: int) -> bytes:
    """Return the MsgId of the physical message with this number in a delivery."""
    return blake2b(f"{delivery}/{number}".encode(), digest_size=24).digest()


def fixed_records(pieces: Iterator[memoryview], length: int) -> Iterator[memoryview]:
    """Yield the same bytes in records of one length; the last one may be shorter."""
    tail = b""
    for piece in pieces:
        start = 0
        if tail:
            start = min(length - len(tail), len(piece))
            tail += piece[:start]
            if len(tail) < length:
                continue
            yield memoryview(tail)
        whole = start + (len(piece) - start) // length * length
        for at in range(start, whole, length):
            yield piece[at : at + length]
        tail = bytes(piece[whole:])
    if tail:
        yield memoryview(tail)
