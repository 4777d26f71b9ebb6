"""The framing `file_transfer`: files over MQTT, as EMQX takes them (EIP-0021).

The topic of a message says what it is (`app.codecs.file_transfer.commands`). A file has an identifier, which is one of
the topics' prefix; `$file` and `$file-async` are the same one. It is complete when `init`, `fin` and all bytes up to
the size in `fin` have come, in any order. Segments may overlap. Where their bytes differ, the checksum of the file
decides; without one, the file is held. The checksum in `fin` counts, and the one in `init` where `fin` has none.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, sha256
from itertools import count
from zlib import crc32

from app.assembly.ranges import LARGEST_FILE, LONGEST_RANGE, RangePlace, is_range
from app.codecs.file_transfer.commands import (
    ANSWERS,
    ASYNCHRONOUS,
    CANCEL,
    SEND_AGAIN,
    SUCCESS,
    Command,
    FileMetadata,
    read_command,
    read_metadata,
    write_answer,
    write_metadata,
)
from app.framing.protocol import (
    KEY_SIZE,
    AfterRefusal,
    ArrangementName,
    Body,
    DataSetFacts,
    DeliveryContents,
    FileContent,
    Framing,
    Received,
    SenderAnswer,
    Span,
    StoreTable,
    fixed_records,
    message_identifier,
)
from app.model.attachment import AttachmentDefinition, AttachmentKind, AttachmentState
from app.model.errors import InvalidInputError
from app.model.event import Aborted, Event, Pieces, RangePart
from app.model.framing_facts import Captures, FramingTraits
from app.model.message import (
    CORRELATION_DATA,
    OTHER_BYTES,
    RESPONSE_TOPIC,
    TOPIC,
    TOPIC_PREFIX,
    PhysicalMessage,
)
from app.model.records import ABORTED, AttachmentRecord, DeliveryRecord, FramingOptions, OutgoingAttachment
from app.wire import WireError

_SPACE_SIZE = 8
_OWN_ID = re.compile(r"[0-9a-f]{32}")
_LONGEST_DESCRIPTION = 4096

_TRAITS = FramingTraits(
    "file_transfer", needs_descriptor=False, told_by_topic=True, captures=Captures(frozenset({"mqtt"}))
)


@dataclass(frozen=True)
class FileTransfer(Framing):
    """The framing `file_transfer`; see `app.framing.protocol.Framing`."""

    traits: FramingTraits = _TRAITS
    arrangement: ArrangementName = "ranged"
    kinds: frozenset[AttachmentKind] = frozenset({AttachmentKind.BINARY_FILE})
    application_message: bool = False
    options: frozenset[str] = frozenset({"body_limit"})

    def read(self, message: PhysicalMessage, known: int) -> Event | Pieces:  # noqa: ARG002 - it has no dialects
        """Return the event of a message; an empty segment has none.

        Raises InvalidInputError: `no-topic`, `bad-topic`, `bad-init`, `bad-segment` or `segment-too-large`.
        """
        command, key = command_of(message), self.attachment_key(message)
        match command.name:
            case "init":
                given = _metadata(message.body)
                description = (
                    given.user_data[:_LONGEST_DESCRIPTION].replace("\0", " ").encode("utf-8", "replace").decode()
                )
                definition = AttachmentDefinition(AttachmentKind.BINARY_FILE, key, "FILENAME", given.name, description)
                # A sender that resumes moves the times: all else must be as it was.
                said = json.dumps(given._replace(expire_at=None, segments_ttl=None), sort_keys=True)
                return RangePart(key, 0, definition=definition, statement=_number(said))
            case "segment":
                body = message.body
                if len(body) > LONGEST_RANGE or command.number + len(body) > LARGEST_FILE:
                    why = f"a segment has at most {LONGEST_RANGE:,} bytes, and a file at most {LARGEST_FILE:,}"
                    raise InvalidInputError("segment-too-large", "body", -1, why)
                if command.checksum and (found := sha256(body).hexdigest()) != command.checksum:
                    why = f"the segment has the SHA-256 {found}, but its topic says {command.checksum}"
                    raise InvalidInputError("bad-segment", "body", -1, why)
                return RangePart(key, command.number, len(body)) if body else Pieces()
            case "fin":
                if command.number > LARGEST_FILE:
                    raise InvalidInputError(
                        "segment-too-large", "size", -1, f"a file has at most {LARGEST_FILE:,} bytes"
                    )
                return RangePart(key, command.number, statement=_number(command.checksum))
        return Aborted(key)

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        """Return the 24 bytes that identify the file that a message is of, below a prefix of topics. An identifier of
        16 bytes in hexadecimal digits, as this framing writes it, is their beginning. Raises InvalidInputError."""
        prefix, file_id = message.properties.get(TOPIC_PREFIX, ""), command_of(message).file_id
        text = f"{prefix.removesuffix(ASYNCHRONOUS)}/{file_id}".encode("utf-8", "surrogatepass")
        whole = blake2b(text, digest_size=KEY_SIZE + _SPACE_SIZE).digest()
        return bytes.fromhex(file_id) + whole[KEY_SIZE:] if _OWN_ID.fullmatch(file_id) else whole

    @property
    def has_answers(self) -> bool:
        return True

    def is_answered(self, message: PhysicalMessage) -> bool:
        is_asynchronous = message.properties.get(TOPIC_PREFIX, "").endswith(ASYNCHRONOUS)
        return is_asynchronous or RESPONSE_TOPIC in message.properties

    def answer(
        self,
        message: PhysicalMessage,
        refused: InvalidInputError | None,
        record: AttachmentRecord | None,
        missing: Callable[[], Sequence[tuple[int, int]]],
    ) -> SenderAnswer | None:
        """Return the answer to a command; None for `fin` while its file is being finished.

        It goes to the response topic of the command, if that is one for answers, or else to one of the file.
        """
        properties = message.properties
        prefix, levels = properties.get(TOPIC_PREFIX, ""), properties.get(TOPIC, "")
        command = None if refused is not None and refused.code == "bad-topic" else command_of(message)
        if refused is not None:
            code, why = SEND_AGAIN if refused.code == "bad-segment" else CANCEL, f"{refused.code}: {refused}"
        elif record is None or command is None:
            code, why = SUCCESS, "success"
        elif command.name == "fin" and record.state is AttachmentState.COMPLETE:
            return None
        else:
            code, why = _outcome(command, record, missing)
        answers = prefix.removesuffix(ASYNCHRONOUS) + ANSWERS
        wanted = properties.get(RESPONSE_TOPIC, "")
        is_allowed = wanted.startswith(f"{answers}/") and not set("+#\0") & set(wanted)
        topic = wanted.removeprefix(f"{answers}/") if is_allowed else levels.split("/")[0]
        kept = {CORRELATION_DATA: properties[CORRELATION_DATA]} if CORRELATION_DATA in properties else {}
        answered = PhysicalMessage(
            message.source,
            message.framing,
            body=write_answer(f"{prefix}/{levels}", code, why),
            properties={TOPIC: topic, TOPIC_PREFIX: answers, **kept},
        )
        return SenderAnswer(answered, code)

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        """Return the places of the bytes of a complete file. `spans` raises InvalidInputError: `conflicting-segments`,
        or `bad-checksum` for other bytes than the sender announced."""
        begins_at = next((number for number, key in enumerate(received.keys) if is_range(key)), len(received))
        end = command_of(received.message(begins_at - 1))  # if there are two, the one that has a checksum
        checksum = end.checksum or _metadata(received.first.body).checksum
        doubt = OTHER_BYTES if OTHER_BYTES in record.warnings else ""

        def spans() -> Iterator[Span]:
            digest, size = sha256(), 0
            joined = _Joined(doubt)
            for number, start, data, ends in joined.spans(received):
                if checksum:
                    digest.update(data)
                size += len(data)
                yield number, start, data, ends
            if size != end.number:
                why = f"its segments have {size} bytes, but fin says {end.number}"
                raise InvalidInputError("conflicting-segments", "size", -1, why)
            if checksum and (found := digest.hexdigest()) != checksum:
                why = f"the file has the SHA-256 {found}, but its sender says {checksum}"
                raise InvalidInputError(
                    "bad-checksum", "checksum", -1, f"{why}; {joined.doubt}" if joined.doubt else why
                )
            if joined.doubt and not checksum:
                why = f"{joined.doubt}, and no checksum of the file says which are right"
                raise InvalidInputError("conflicting-segments", "offset", -1, why)

        return FileContent(spans, begins_at=begins_at)

    def leading_file(self, record: AttachmentRecord, received: Received) -> FileContent:  # noqa: ARG002
        """Return the places of the bytes in the leading segments of a file that is not complete."""
        return FileContent(partial(_Joined("").spans, received), begins_at=1)

    def data_set(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:  # noqa: ARG002
        raise InvalidInputError("no-data-set", "", -1, "file transfer has files only")

    def properties(self, attachment: OutgoingAttachment) -> Mapping[str, str]:
        """Return the longest topic of a file's messages."""
        return {TOPIC: Command(attachment.correl_id.hex(), "fin", attachment.size, attachment.sha256).topic()}

    def after_refusal(self, message: PhysicalMessage, code: int) -> AfterRefusal:
        """Return how to continue after a server refused a command: it may ask for all segments, or to cancel."""
        if code == CANCEL:
            return "never"
        return "with its attachment" if code == SEND_AGAIN and command_of(message).name == "fin" else "with it"

    def check_names(self, delivery: DeliveryRecord, options: FramingOptions) -> None:
        for attachment in delivery.attachments:
            _document(attachment, options.body_limit)

    def write(
        self, delivery: DeliveryRecord, options: FramingOptions, contents: DeliveryContents
    ) -> Iterator[PhysicalMessage]:
        """Make all physical messages of a delivery: each file by itself, with the checksums of segments and file."""
        numbers = count()
        for attachment in delivery.attachments:
            for topic, body in _commands(attachment, options.body_limit, contents):
                yield PhysicalMessage(
                    source=delivery.destination,
                    framing=_TRAITS.name,
                    body=body,
                    message_id=message_identifier(delivery.id, next(numbers)),
                    group_id=attachment.correl_id,
                    properties={TOPIC: topic.topic()},
                )


FILE_TRANSFER = FileTransfer()


def command_of(message: PhysicalMessage) -> Command:
    """Return the command of a message. Raises InvalidInputError."""
    if (topic := message.properties.get(TOPIC)) is None:
        raise InvalidInputError("no-topic", "topic", -1, "the message has no topic, which says what it is")
    try:
        return read_command(topic)
    except WireError as error:
        raise InvalidInputError("bad-topic", error.row, error.at, error.why) from error


def _number(said: str) -> int:
    """Return a number below 2**31 for what was said; 0 for nothing."""
    return crc32(said.encode("utf-8", "surrogatepass")) >> 1 or 1 if said else 0


def _metadata(body: Body) -> FileMetadata:
    try:
        return read_metadata(bytes(body))
    except WireError as error:
        raise InvalidInputError("bad-init", error.row, error.at, error.why) from error


def _outcome(
    command: Command, record: AttachmentRecord, missing: Callable[[], Sequence[tuple[int, int]]]
) -> tuple[int, str]:
    """Return the reason code and its description for a command that was not refused."""
    is_ended = record.state in (AttachmentState.QUARANTINED, AttachmentState.DELETED)
    if is_ended and not (command.name == "abort" and record.reason_code == ABORTED):
        return CANCEL, f"the file is {record.state}: {record.reason_code}"
    if command.name == "abort" and record.state is not AttachmentState.DELETED:
        return CANCEL, f"the file is {record.state}: it cannot be aborted any more"
    is_finished = record.state is AttachmentState.FINISHED
    is_said = command.number == record.size and command.checksum in ("", record.sha256)
    if command.name != "fin" or (is_finished and is_said):
        return SUCCESS, "success"
    if is_finished:
        return CANCEL, f"the file is finished with {record.size} bytes and the SHA-256 {record.sha256}"
    ranges = ", ".join(f"{first - 1}-{last - 1}" for first, last in missing())
    if record.kind is None or not ranges:
        return SEND_AGAIN, "the init of the file has not come"
    return SEND_AGAIN, f"bytes have not come: {ranges}"


class _Joined:
    """Segments, joined by their offsets. Where they overlap, the earlier bytes are taken, and `doubt` says where others
    differ."""

    def __init__(self, doubt: str) -> None:
        self.doubt = doubt
        self._behind: deque[tuple[int, Body]] = deque()
        """The offsets and the bytes of what was taken last, as far as more segments may overlap it."""

    def spans(self, received: Received) -> Iterator[Span]:
        """Yield the bytes that each segment adds."""
        at = 0
        numbers = [number for number, key in enumerate(received.keys) if is_range(key)]
        for number, body in zip(numbers, received.bodies(numbers), strict=True):
            offset = RangePlace.of(received.keys[number]).offset
            self._compare(offset, body)
            if offset + len(body) > at:
                start = at - offset
                self._behind.append((at, body[start:]))
                yield number, start, body[start:], True
                at = offset + len(body)

    def _compare(self, offset: int, body: Body) -> None:
        while self._behind and self._behind[0][0] + len(self._behind[0][1]) <= offset:
            self._behind.popleft()
        for begin, data in self._behind:
            first, last = max(begin, offset), min(begin + len(data), offset + len(body))
            if first >= last or self.doubt:
                continue
            if bytes(data[first - begin : last - begin]) != bytes(body[first - offset : last - offset]):
                self.doubt = f"two segments have different bytes between byte {first} and byte {last - 1}"


def _commands(attachment: OutgoingAttachment, limit: int, contents: DeliveryContents) -> Iterable[tuple[Command, Body]]:
    file_id = attachment.correl_id.hex()
    yield Command(file_id, "init"), _document(attachment, limit)
    offset = 0
    for piece in fixed_records(contents.pieces(attachment), min(limit, LONGEST_RANGE)):
        yield Command(file_id, "segment", offset, sha256(piece).hexdigest()), piece
        offset += len(piece)
    yield Command(file_id, "fin", attachment.size, attachment.sha256), b""


def _document(attachment: OutgoingAttachment, limit: int) -> bytes:
    name, description = attachment.qualifier_2, attachment.description
    document = write_metadata(FileMetadata(name, attachment.size, attachment.sha256, user_data=description))
    if len(document) > limit:
        why = f"the name and the description take {len(document)} bytes as JSON, but a message has room for {limit}"
        raise InvalidInputError("too-large", "description", -1, why)
    return document
