"""Requests of gateways for messages that were lost: for programs that send attachments over a broker themselves."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from attachment_gateway_client.events import Event

MISSING_EVENT: Final = "attachment.missing"
GONE_MSG_TYPE: Final = 100002
GONE_FORMAT: Final = "AGMISSNG"
"""The message type and the format of the message that has `MissingParts.gone` as its body."""


@dataclass(frozen=True, slots=True)
class MissingParts:
    """What has not come of one attachment.

    `attachment` is its key: with `sas_queue` the 16 bytes before the sequence number in a CorrelId, with `mq_group` the
    GroupId. `parts` are ranges of sequence numbers, or MsgSeqNumbers; a last number of None means all that follow. The
    `header` or the message with the `count` of the parts may be missing, too. `request` is 1 for the first request.
    `event` is the `id` of the event that told of it, if one did.
    """

    framing: str
    attachment: bytes
    parts: tuple[tuple[int, int | None], ...]
    header: bool
    count: bool
    request: int
    event: str | None = None

    @classmethod
    def of_document(cls, body: bytes) -> "MissingParts":
        """Return the request in a message that came to a response topic or a reply-to queue. Raises ValueError."""
        found = json.loads(body)
        if not isinstance(found, dict) or found.get("type") != "missing" or found.get("version") != 1:
            raise ValueError("no request for missing parts of version 1")
        return cls._of(found)

    @classmethod
    def of_event(cls, event: Event) -> "MissingParts":
        """Return the request of which an event `attachment.missing` tells. Raises ValueError."""
        if event["type"] != MISSING_EVENT:
            raise ValueError(f"an event {event['type']}, not {MISSING_EVENT}")
        return cls._of(event["data"], event["id"])

    @classmethod
    def _of(cls, found: dict[str, Any], event: str | None = None) -> "MissingParts":
        try:
            ranges = tuple((int(first), None if last is None else int(last)) for first, last in found["parts"])
            key, request = bytes.fromhex(found["attachment"]), int(found["request"])
            return cls(str(found["framing"]), key, ranges, bool(found["header"]), bool(found["count"]), request, event)
        except (KeyError, TypeError) as error:
            raise ValueError(f"no request for missing parts: {error!r}") from error

    def has(self, number: int) -> bool:
        """Return whether the part with this number is missing."""
        return any(first <= number and (last is None or number <= last) for first, last in self.parts)

    def numbers(self, parts: int) -> Iterator[int]:
        """Yield the numbers that are missing, of an attachment with this number of parts."""
        for first, last in self.parts:
            yield from range(first, min(parts, parts if last is None else last) + 1)

    def gone(self, reason: str) -> bytes:
        """Return the body of the answer that nothing of the attachment is sent again. The message with it goes where
        the parts went, with `GONE_MSG_TYPE` and `GONE_FORMAT`."""
        shared = {"type": "gone", "version": 1, "framing": self.framing, "attachment": self.attachment.hex()}
        return json.dumps({**shared, "reason": reason}).encode()
