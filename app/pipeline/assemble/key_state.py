"""The state of an attachment between two micro-batches, as one small row without bodies.

The attachment and its message are JSON objects of the fields with values other than the default, so that people and
other versions of this program can read them. The runs of its parts are compressed differences from run to run. Parts
that are interleaved with parts of other senders have a run each, but the runs are alike. So an attachment's state
hardly grows with the attachment.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
import orjson

from app.assembly.collecting import TrackedAttachment
from app.assembly.part_places import Parts
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.evidence import Choice
from app.model.records import AttachmentRecord, ContainedFile, GroupProgress, MessageRecord, PartRun
from app.pipeline.assemble.assemble_key import KeyState

T = TypeVar("T")

_BYTES = frozenset(("correl_id", "header_correl_id", "message_correl_id", "original_correl_id", "application_body"))
_BIG = frozenset(("dialects",))
_WRITTEN: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(_BYTES, lambda value: b64encode(value).decode()),
    **dict.fromkeys(_BIG, "{:x}".format),
}
_READ: Mapping[str, Any] = {
    **dict.fromkeys(_BYTES, b64decode),
    **dict.fromkeys(_BIG, lambda text: int(text, 16)),
    "state": AttachmentState,
    "kind": AttachmentKind,
    "group": lambda values: GroupProgress(*values),
    "pending_counts": tuple,
    "warnings": tuple,
    "files": lambda files: tuple(map(ContainedFile._make, files)),
    "evidence": lambda choices: tuple(map(Choice.of, choices)),
    "attachments": tuple,
}


class KeyStateRow(NamedTuple):
    """The columns of state: two JSON texts, empty if absent, and the runs.

    `message` is a list if several messages are under one key.
    """

    attachment: str = ""
    runs: bytes = b""
    message: str = ""

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return len(self.attachment.encode()) + len(self.runs) + len(self.message.encode())


def pack(held: KeyState) -> KeyStateRow:
    attachment, messages = held
    texts = [_to_json(message) for message in messages]
    return KeyStateRow(
        "" if attachment is None else _to_json(attachment.current()),
        b"" if attachment is None else pack_runs(attachment.parts.runs),
        texts[0] if len(texts) == 1 else f"[{','.join(texts)}]" if texts else "",
    )


def unpack(row: KeyStateRow) -> KeyState:
    attachment, runs, message = row
    found = orjson.loads(message) if message else []
    return KeyState(
        TrackedAttachment(_from_json(AttachmentRecord, orjson.loads(attachment)), Parts(unpack_runs(runs)))
        if attachment
        else None,
        tuple(_from_json(MessageRecord, each) for each in (found if isinstance(found, list) else [found])),
    )


def pack_runs(runs: Iterable[PartRun]) -> bytes:
    """Return runs as compressed differences of sequence number, length and position; no bytes without runs."""
    triplets = np.array(list(runs), np.int64).reshape(-1, 3)
    if not len(triplets):
        return b""
    return zlib.compress(np.diff(triplets, axis=0, prepend=np.zeros((1, 3), np.int64)).T.tobytes(), 1)


def unpack_runs(packed: bytes) -> list[PartRun]:
    if not packed:
        return []
    differences = np.frombuffer(zlib.decompress(packed), np.int64).reshape(3, -1)
    return list(map(PartRun._make, np.cumsum(differences, axis=1).T.tolist()))


def _to_json(record: AttachmentRecord | MessageRecord) -> str:
    values: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.default is MISSING or value != field.default:
            values[field.name] = _WRITTEN[field.name](value) if field.name in _WRITTEN and value is not None else value
    return orjson.dumps(values, default=list).decode()


def _from_json(record: type[T], values: Mapping[str, Any]) -> T:
    return record(
        **{name: _READ[name](value) if name in _READ and value is not None else value for name, value in values.items()}
    )
