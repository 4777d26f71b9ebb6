"""A catalog with very many rows, written past the program: attachments of months, with their messages, deliveries,
events, quarantine, uploads and dead letters.

The rows are the same in every run. Few attachments are unfinished, are in quarantine or have warnings; one source has
a thousandth of them, and one name and one message are of a single attachment.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import md5
from random import Random
from typing import Any

import psycopg
from sqlalchemy import Table
from sqlalchemy.engine import make_url

from adapters.sql_catalog.schema import catalog_tables

BEGAN = 1_750_000_000_000_000
"""When the first row came, in microseconds."""
APART = 1_000_000
"""Microseconds from one attachment to the next. Each tenth one comes at the same time as the one before."""
FAR = 4_000_000_000_000_000
"""A time in the future, in microseconds."""
RARE_NAME = "only-once-in-zagreb.sas7bdat"
RARE_SOURCE = "harbour"
SOURCES = ("orders", "invoices", "stock", "claims", "ledger")
DESTINATIONS = ("partner", "archive", "warehouse")
OWNER = "anonymous:anonymous"
HOOK = "hook"

STATES = ("finished",) * 980 + ("receiving",) * 5 + ("complete",) * 1 + ("expired",) * 12 + ("quarantined",) * 2
"""A thousand attachments are in these states."""
_STEMS = ("orders", "invoice", "stock", "claim", "ledger", "balance", "customers", "rates", "positions", "trades")
_CODES = (("truncated", "the part ends after … bytes"), ("no-count", "no count came"), ("bad-header", "byte … is …"))
_DELIVERY_STATES = ("sent",) * 96 + ("failed",) * 2 + ("cancelled",) + ("queued",)
_CONTENT = b"a few bytes of content"


def identifier(letter: str, number: int) -> str:
    """Return the identifier of a row: 32 hexadecimal digits in no order, as the gateway's are."""
    return md5(f"{letter}{number}".encode(), usedforsecurity=False).hexdigest()


def fill(url: str, attachments: int, states: Sequence[str] = STATES) -> None:
    """Fill a catalog whose schema is made: with so many attachments in these states and events, half as many messages,
    a fifth of quarantine entries and deliveries, a hundredth of dead letters, and as many uploads as the limits
    allow."""
    tables = (
        (catalog_tables.attachments, _attachments(attachments, states)),
        (catalog_tables.messages, _messages(attachments // 2)),
        (catalog_tables.quarantine, _quarantine(attachments // 5)),
        (catalog_tables.deliveries, _deliveries(attachments // 5)),
        (catalog_tables.events, _events(attachments)),
        (catalog_tables.uploads, _uploads(1000)),
        (catalog_tables.dead_letters, _dead_letters(attachments // 100)),
    )
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(address.database))) as file, file:
            file.execute("PRAGMA cache_size = -1048576")  # identifiers have no order: each row changes other pages
            for table, rows in tables:
                _insert(file, table, rows)
        return
    server = str(address.query["host"])
    with psycopg.connect(host=server, user=address.username, dbname=address.database, autocommit=True) as connection:
        for table, rows in tables:
            _copy(connection, table, rows)
        connection.execute("VACUUM ANALYZE")


def _insert(file: sqlite3.Connection, table: Table, rows: Iterator[dict[str, Any]]) -> None:
    first = next(rows)
    places = ", ".join("?" for _ in first)
    names = ", ".join(f'"{name}"' for name in first)
    statement = f'INSERT INTO "{table.name}" ({names}) VALUES ({places})'
    file.execute(statement, tuple(first.values()))
    file.executemany(statement, (tuple(row.values()) for row in rows))


def _copy(connection: "psycopg.Connection[Any]", table: Table, rows: Iterator[dict[str, Any]]) -> None:
    first = next(rows)
    names = ", ".join(f'"{name}"' for name in first)
    with connection.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as copy:
        copy.write_row(tuple(first.values()))
        for row in rows:
            copy.write_row(tuple(row.values()))


def _time(number: int) -> int:
    return BEGAN + (number - (number % 10 == 9)) * APART


def _pick(random: Random, choices: Sequence[Any]) -> Any:
    """Return one of the choices. `Random.choice` takes several times as long."""
    return choices[int(random.random() * len(choices))]


def _attachments(count: int, states: Sequence[str]) -> Iterator[dict[str, Any]]:
    random = Random(33)
    for number in range(count):
        state = _pick(random, states)
        is_finished, at = state == "finished", _time(number)
        kind = None if state in ("receiving", "expired") and random.random() < 0.2 else 1 + int(random.random() * 3)
        stem, day = _pick(random, _STEMS), number // 2000
        name = RARE_NAME if number == count // 3 else f"{stem}_{day:04d}_{int(random.random() * 1e6):06d}.sas7bdat"
        source = RARE_SOURCE if random.random() < 0.001 else SOURCES[int(5 * random.random() ** 2)]
        size = int(2 ** (6 + random.random() * 24)) if is_finished else None
        yield {
            "id": identifier("a", number),
            "source": source,
            "correl_id": number.to_bytes(16, "big"),
            "state": state,
            "message_id": identifier("m", number // 2),
            "ordinal": number % 2,
            "kind": kind,
            "qualifier_1": "FILENAME",
            "qualifier_2": name.upper(),
            "description": "",
            "minor_version": 0,
            "major_version": 1,
            "dialects": "1",
            "parts_expected": 4,
            "parts_received": 4 if is_finished else 2,
            "bytes_received": size or 1000,
            "duplicates": 0,
            "pending_counts": "[]",
            "pending_position": None,
            "first_position": number << 20,
            "last_position": (number << 20) + 4,
            "first_received_at": at,
            "last_received_at": at + 500_000,
            "completed_at": at + 500_000 if is_finished else None,
            "finished_at": at + 600_000 if is_finished else None,
            "size": size,
            "sha256": f"{number:064x}" if is_finished else None,
            "content_type": "application/octet-stream" if is_finished else None,
            "storage": "store" if is_finished else None,
            "object_name": f"attachments/{number:x}" if is_finished else None,
            "checksums": b"\0\0\0\0" if is_finished else None,
            "warnings": '["the sender says 3 parts"]' if random.random() < 0.001 else "[]",
            "evidence": "[]",
            "name_folded": name,
        }


def _messages(count: int) -> Iterator[dict[str, Any]]:
    random = Random(34)
    for number in range(count):
        yield {
            "id": identifier("m", number),
            "source": RARE_SOURCE if random.random() < 0.001 else SOURCES[int(5 * random.random() ** 2)],
            "header_correl_id": number.to_bytes(24, "big"),
            "message_correl_id": bytes(24),
            "original_msg_type": 8,
            "original_correl_id": bytes(24),
            "attachments": json.dumps([identifier("a", 2 * number), identifier("a", 2 * number + 1)]),
            "header_position": number << 21,
            "received_at": _time(2 * number),
            "application_body": b"a body",
            "application_format": "MQSTR",
            "application_ccsid": 1208,
            "complete_at": _time(2 * number) + 700_000,
            "correl_key": number.to_bytes(20, "big"),
            "waited_as": identifier("w", number) if number % 50 == 0 else None,
        }


def _quarantine(count: int) -> Iterator[dict[str, Any]]:
    random = Random(35)
    for number in range(count):
        code, kind = _CODES[2] if number == count // 3 else _pick(random, _CODES[:2])
        yield {
            "id": f"{number << 32:016x}",
            "source": RARE_SOURCE if random.random() < 0.001 else SOURCES[int(5 * random.random() ** 2)],
            "position": number << 32,
            "code": code,
            "row": "part",
            "at": 4,
            "why": kind.replace("…", str(number % 9000)),
            "msg_type": 8,
            "correl_id": bytes(24),
            "size": 500,
            "received_at": _time(5 * number),
            "state": "kept" if random.random() < 0.01 else "dismissed",
            "in_journal": False,
            "why_kind": kind,
        }


def _deliveries(count: int) -> Iterator[dict[str, Any]]:
    random = Random(36)
    for number in range(count):
        at, state = _time(5 * number), _pick(random, _DELIVERY_STATES)
        content = {
            "correl_id": number.to_bytes(16, "big").hex(),
            "kind": 3,
            "qualifier_1": "FILENAME",
            "qualifier_2": f"reply_{number}.bin",
            "description": "",
            "minor_version": 0,
            "major_version": 1,
            "object_name": "",
            "size": 5000,
            "sha256": f"{number:064x}",
        }
        yield {
            "id": identifier("d", number),
            "destination": "rarely" if number == count // 3 else _pick(random, DESTINATIONS),
            "header_correl_id": bytes(24),
            "message_correl_id": bytes(24),
            "attachments": json.dumps([content]),
            "created_at": at,
            "updated_at": at + 1_000_000,
            "state": state,
            "original_msg_type": 8,
            "original_correl_id": bytes(24),
            "application_format": "",
            "application_ccsid": 0,
            "messages_sent": 3 if state == "sent" else 0,
            "messages_total": 3,
            "attempts": 1,
            "next_attempt_at": FAR if state == "queued" else 0,
            "holds_content": False,
            "claim": 1,
            "first_claim": 1,
        }


def _events(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "type": "attachment.finished",
            "subject": identifier("a", number),
            "time": _time(number) + 600_000,
            "data": json.dumps({"source": SOURCES[number % 5], "size": number}),
        }


def _uploads(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "id": identifier("u", number),
            "owner": OWNER if number % 5 == 0 else f"key:{number % 5}",
            "created_at": _time(number),
            "expires_at": FAR,
            "length": 5000,
            "content_type": "application/octet-stream",
            "received": 5000,
            "held": 5000,
            "turn": 1,
            "is_checked": True,
        }


def _dead_letters(count: int) -> Iterator[dict[str, Any]]:
    for number in range(1, count + 1):
        yield {
            "webhook": HOOK,
            "number": number,
            "type": "attachment.finished",
            "subject": identifier("a", number),
            "time": _time(number),
            "data": json.dumps({"source": SOURCES[number % 5], "size": number}),
            "failed_at": _time(number) + 5_000_000,
            "reason": "the webhook answered 503",
        }
