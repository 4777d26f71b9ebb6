"""The statements about finished attachments and sent deliveries: what each of them says, as a JSON object."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from app.model.attachment import AttachmentKind
from app.model.message import Position
from app.model.names import table_with_rows
from app.model.receipt_records import FinishedFacts, ReceiptCause
from app.model.records import DeliveryRecord
from app.model.times import to_time

VERSION: Final = 1
"""The version of the table of fields below; docs/receipts.md has it."""
_IN_JSON = ("warnings", "evidence")
_WORDS = {None: None} | {kind: kind.word for kind in AttachmentKind}


def statement(cause: ReceiptCause, journal: str | None) -> bytes:
    """Return the statement about an event; `journal` is the identity of the journal that positions are of.

    What the event itself does not say is left out if the catalog has it no longer.
    """
    said: dict[str, Any] = {
        "version": VERSION,
        "type": cause.type,
        "subject": cause.subject,
        "time": _time(cause.time),
        "event": cause.number,
    }
    if (facts := cause.finished) is not None:
        said |= _of_attachment(facts, journal)
        # The table with its rows: none if no batch made them, or if the version is unknown.
        table = table_with_rows(facts.kind, facts.qualifier_1, facts.qualifier_2)
        versions = {} if cause.tables is None else cause.tables.versions
        said["table"] = {"name": table, "version": versions[table]} if table in versions else None
    if cause.sent is not None:
        said |= _of_delivery(cause.sent)
    try:
        written = orjson.dumps(said)
    except TypeError:  # a name with a lone surrogate, which only an escape can represent
        said |= {name: json.loads(getattr(cause.finished, name)) for name in _IN_JSON if name in said}
        written = json.dumps(said, separators=(",", ":")).encode()
    # The data of the event, an object as well, need not be read to be repeated.
    return written if cause.data == "{}" else b"%b,%b" % (written[:-1], cause.data[1:].encode())


def _of_attachment(facts: FinishedFacts, journal: str | None) -> Mapping[str, Any]:
    message = None
    if facts.message_id is not None:
        message = {
            "id": facts.message_id,
            "ordinal": facts.ordinal,
            "header_correl_id": _hexadecimal(facts.header_correl_id),
            "message_correl_id": _hexadecimal(facts.message_correl_id),
        }
    return {
        "kind": _WORDS[facts.kind],
        "qualifier_1": facts.qualifier_1,
        "description": facts.description,
        "definition_version": [facts.major_version, facts.minor_version],
        "content_type": facts.content_type,
        "correl_id": facts.correl_id.hex(),
        "message": message,
        "journal": {
            "id": journal,
            "header": None if facts.header_position is None else [*Position.unpack(facts.header_position)],
            "first": [*Position.unpack(facts.first_position)],
            "last": [*Position.unpack(facts.last_position)],
        },
        "parts": facts.parts_received,
        "first_received_at": _time(facts.first_received_at),
        "last_received_at": _time(facts.last_received_at),
        "completed_at": None if facts.completed_at is None else _time(facts.completed_at),
        "observations": facts.observations,
        "variables": facts.variables,
        "warnings": orjson.Fragment(facts.warnings),
        "evidence": orjson.Fragment(facts.evidence),
    }


def _of_delivery(delivery: DeliveryRecord) -> Mapping[str, Any]:
    return {
        "header_correl_id": delivery.header_correl_id.hex(),
        "message_correl_id": delivery.message_correl_id.hex(),
        "created_at": _time(delivery.created_at),
        "messages_sent": delivery.messages_sent,
        "subscribers": delivery.subscribers,
        "attachments": [
            {
                "kind": each.kind.word,
                "name": each.qualifier_2,
                "qualifier_1": each.qualifier_1,
                "correl_id": each.correl_id.hex(),
                "size": each.size,
                "sha256": each.sha256,
            }
            for each in delivery.attachments
        ],
    }


@lru_cache(maxsize=4096)
def _time(microseconds: int) -> str:
    """Return a time in ISO 8601. Many attachments have the same ones: those of batches and of checkpoints."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{rest:06}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return to_time(seconds * 1_000_000).strftime("%Y-%m-%dT%H:%M:%S")


def _hexadecimal(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
