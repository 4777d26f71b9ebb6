"""The commands of file transfer: what the topic of a message says, and the document that begins a file.

| topic below its prefix | body |
|---|---|
| `{file_id}/init` | a JSON document (`FileMetadata`) |
| `{file_id}/{offset}[/{checksum}]` | the bytes of the file from the offset on |
| `{file_id}/fin/{size}[/{checksum}]` | nothing |
| `{file_id}/abort` | nothing |

Checksums are SHA-256, in 64 hexadecimal digits. Commands below a prefix that ends with `-async` are answered by a JSON
document (`write_answer`).
"""

import json
import re
from typing import Final, Literal, NamedTuple

from app.wire import WireError

LONGEST_ID: Final = 255
LONGEST_NAME: Final = 255
"""The most bytes of a file identifier and of a file name, in UTF-8. The specification calls these safe."""
LONGEST_DOCUMENT: Final = 65536
"""The most bytes of the document that begins a file."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_CHECKSUM: Final = re.compile(r"[0-9A-Fa-f]{64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


ASYNCHRONOUS: Final = "-async"
ANSWERS: Final = "-response"
"""The ends of the prefixes of commands that are answered by messages, and of these answers."""

ANSWER_VERSION: Final = "0.1"
SUCCESS, SEND_AGAIN, CANCEL = 0x00, 0x80, 0x83
"""Reason codes of MQTT as file transfer uses them: the server asks for the segment again, or for those of the file that
are missing; or it asks the client to cancel the transfer."""
NO_PACKET: Final = 0
"""No packet identifier: a subscriber does not see the publisher's."""


class Command(NamedTuple):
    """What a topic says. `number` is the offset of a segment, or the size of the file in `fin`. The checksum is in
    lower case; empty for none."""

    file_id: str
    name: Literal["init", "segment", "fin", "abort"]
    number: int = 0
    checksum: str = ""

    def topic(self) -> str:
        """Return the levels of the topic below its prefix."""
        match self.name:
            case "segment":
                levels = [self.file_id, str(self.number)]
            case "fin":
                levels = [self.file_id, "fin", str(self.number)]
            case _:
                levels = [self.file_id, self.name]
        return "/".join([*levels, self.checksum] if self.checksum else levels)


def read_command(topic: str) -> Command:
    """Return the command that these levels of a topic say. Raises WireError."""
    file_id, *levels = topic.split("/")
    if not 0 < len(file_id.encode("utf-8", "surrogatepass")) <= LONGEST_ID:
        raise WireError("file_id", -1, f"a file identifier has 1 to {LONGEST_ID} bytes: {file_id[:80]!r}")
    match levels:
        case ["init"]:
            return Command(file_id, "init")
        case ["abort"]:
            return Command(file_id, "abort")
        case ["fin", size]:
            return Command(file_id, "fin", _number("size", size))
        case ["fin", size, checksum]:
            return Command(file_id, "fin", _number("size", size), read_checksum(checksum))
        case [offset] if offset != "fin":
            return Command(file_id, "segment", _number("offset", offset))
        case [offset, checksum]:
            return Command(file_id, "segment", _number("offset", offset), read_checksum(checksum))
    raise WireError("topic", -1, f"no command of file transfer: {topic[:200]!r}")


def _number(row: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise WireError(row, -1, f"{text[:80]!r} is not a decimal number")
    return int(text)


def read_checksum(text: object) -> str:
    """Return a SHA-256 in lower case. Raises WireError."""
    if not isinstance(text, str) or not _CHECKSUM.fullmatch(text):
        raise WireError("checksum", -1, f"{text!r:.80} is not a SHA-256 in 64 hexadecimal digits")
    return text.lower()


class FileMetadata(NamedTuple):
    """The document that begins a file. Only the name is required. Times are seconds; `expire_at` counts from 1970.

    The specification leaves open what the object `user_data` has. Here it is a text: that of `description`, if the
    object has nothing else, or the object in JSON with sorted names.
    """

    name: str
    size: int | None = None
    checksum: str = ""
    expire_at: int | None = None
    segments_ttl: int | None = None
    user_data: str = ""


def read_metadata(document: bytes) -> FileMetadata:
    """Return the document that begins a file; fields that are not of the specification are ignored. Raises WireError.

    The size is informational: `fin` counts.
    """
    if len(document) > LONGEST_DOCUMENT:
        raise WireError("body", LONGEST_DOCUMENT, f"{len(document)} bytes; at most {LONGEST_DOCUMENT} are allowed")
    try:
        given = json.loads(document)
        user_data = _user_data(given.get("user_data")) if isinstance(given, dict) else ""
    except (ValueError, RecursionError) as error:
        raise WireError("body", getattr(error, "pos", 0), f"it is not JSON: {error}"[:200]) from error
    if not isinstance(given, dict):
        raise WireError("body", 0, "it is not a JSON object")
    name = _checked_name(given.get("name"))
    numbers = {row: _whole_number(row, given[row], least) for row, least in _NUMBERS if given.get(row) is not None}
    checksum = "" if given.get("checksum") is None else read_checksum(given["checksum"])
    return FileMetadata(name, checksum=checksum, user_data=user_data, **numbers)


def _checked_name(name: object) -> str:
    if isinstance(name, str) and not _CONTROL.search(name) and 0 < len(name.encode()) <= LONGEST_NAME:
        return name
    why = f"{name!r:.80}: a file name has 1 to {LONGEST_NAME} bytes, and no control characters"
    raise WireError("name", -1, why)


_NUMBERS: Final = (("size", 0), ("expire_at", 0), ("segments_ttl", 1))


def _whole_number(row: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise WireError(row, -1, f"{value!r:.80} is not a whole number from {least} on")
    return value


def _user_data(given: object) -> str:
    if isinstance(given, dict) and given.keys() == {"description"}:
        given = given["description"]
    if given is None or isinstance(given, str):
        return given or ""
    return json.dumps(given, ensure_ascii=False, sort_keys=True)


def write_metadata(metadata: FileMetadata) -> bytes:
    """Return the document that begins a file. Raises WireError for a name that `read_metadata` refuses."""
    _checked_name(metadata.name)
    given = {name: value for name, value in metadata._asdict().items() if value not in (None, "")}
    if metadata.user_data:
        given["user_data"] = {"description": metadata.user_data}
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()


def write_answer(topic: str, code: int, description: str) -> bytes:
    """Return the answer to the command on a topic."""
    given = {
        "vsn": ANSWER_VERSION,
        "topic": topic,
        "packet_id": NO_PACKET,
        "reason_code": code,
        "reason_description": description,
    }
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
