"""Valid messages with something wrong in them are read, or refused as theirs: a framing raises nothing else.

Bytes at random seldom come past the first check. So these are messages that the framings write, changed in a few
places: bits, lengths, cuts, pieces of other messages, and fields of the descriptor.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.codecs.sas import dialect
from app.framing.part_runs import runs_and_others
from app.framing.registry import FRAMINGS
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, FramingOptions
from app.service.sending.framer import Framer
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import FILES, delivery
from tests.framing.order_packets import parquet, table
from tests.support.length import examples

WAYS = [("big-4-excluded-packed", 273), ("little-8-absent-aligned", 546)]
SMALL = [each for each in FILES if len(each[2]) < 100_000]
DATA_SET = (AttachmentKind.DATA_SET, "WORK.T", parquet(table(30).select(["id", "price", "name", "day", "stamp"])))
EDGES = [*range(5), 8, *(side for bits in (7, 8, 15, 16, 31, 32) for side in ((1 << bits) - 1, 1 << bits))]


@cache
def written(name: str) -> Sequence[PhysicalMessage]:
    """What a framing writes, in two dialects."""
    framing = FRAMINGS[name]
    contents = [each for each in [*SMALL, DATA_SET] if each[0] in framing.kinds]
    with TemporaryDirectory() as folder, service_context(Path(folder)) as context:
        made = delivery(context, contents)
        if not framing.application_message:
            made = replace(made, application_body=None)
        sent = [
            message
            for manner, encoding in WAYS
            for message in Framer(FramingOptions(1500, manner, 1208, encoding, framing=name), context.store).frame(made)
        ]
        return [each._replace(body=bytes(each.body)) for each in sent]


# --- edits --------------------------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """A change of a body at a byte (modulo its length), by a number."""

    change: Callable[[bytearray, int, int, bytes], None]
    at: int
    number: int


def flip(body: bytearray, at: int, number: int, _: bytes) -> None:
    if body:
        body[at % len(body)] ^= 1 << number % 8


def cut(body: bytearray, at: int, _: int, __: bytes) -> None:
    del body[at % (len(body) + 1) :]


def remove(body: bytearray, at: int, number: int, _: bytes) -> None:
    at %= len(body) + 1
    del body[at : at + 1 + number % 8]


def insert(body: bytearray, at: int, number: int, _: bytes) -> None:
    at %= len(body) + 1
    body[at:at] = number.to_bytes(8, "big")[: 1 + number % 8]


def overwrite(body: bytearray, at: int, number: int, _: bytes) -> None:
    """Put a number of 1, 2 or 4 bytes, in either byte order, where a length or a count may be."""
    at, size = at % (len(body) + 1), (1, 2, 4)[at % 3]
    value = (EDGES[number % len(EDGES)] % (1 << 8 * size)).to_bytes(size, ("big", "little")[number % 2])
    body[at : at + size] = value


def swap(body: bytearray, at: int, number: int, _: bytes) -> None:
    """Exchange two words."""
    if len(body) >= 8:
        one, other = at % (len(body) - 3), number % (len(body) - 3)
        body[one : one + 4], body[other : other + 4] = body[other : other + 4], body[one : one + 4]


def splice(body: bytearray, at: int, number: int, donor: bytes) -> None:
    """Go on with another message, from the same byte or from anywhere."""
    at %= len(body) + 1
    body[at:] = donor[at if number % 2 else number % (len(donor) + 1) :]


PLACES = st.integers(0, 63) | st.integers(0, 4000)
EDITS = st.builds(
    Edit, st.sampled_from([flip, cut, remove, insert, overwrite, swap, splice]), PLACES, st.integers(0, 1 << 16)
)
LONGS = st.sampled_from([-(1 << 31), -1, 0, 1, 2, 4, 8, 16, 37, 273, 500, 546, 1200, 1208, 100_000, 100_001, 2**31 - 1])
IDENTIFIERS = st.sampled_from([b"", bytes(24), b" " * 24, b"\xff" * 24]) | st.binary(min_size=24, max_size=24)
TEXTS = st.text(max_size=8) | st.sampled_from(["-1", "1_0", "²", "9" * 40, "\ud800", "_INBOX.", "00-" + "0" * 52])
NAMES = st.sampled_from(
    ["traceparent", "filename", "title", "rendezvous.parts", "rendezvous.subject", "rendezvous.reply", "gap"]
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ("msg_type", "msg_seq_number", "offset", "msg_flags", "original_length", "encoding", "ccsid"), LONGS
    ),
    **dict.fromkeys(("correl_id", "message_id", "group_id"), IDENTIFIERS),
    "properties": st.dictionaries(NAMES, TEXTS, max_size=3),
}
DESCRIPTORS: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.fixed_dictionaries({}, optional=FIELDS)


@st.composite
def mutated(draw: st.DrawFn, sent: Sequence[PhysicalMessage]) -> tuple[list[PhysicalMessage], PhysicalMessage]:
    """A message that has been changed, and those before it."""
    numbers = st.integers(0, len(sent) - 1)
    at = draw(numbers)
    body = bytearray(sent[at].body)
    for edit in draw(st.lists(EDITS, min_size=1, max_size=5)):
        edit.change(body, edit.at, edit.number, bytes(sent[draw(numbers)].body) if edit.change is splice else b"")
    return [*sent[max(0, at - 3) : at]], sent[at]._replace(**draw(DESCRIPTORS), body=memoryview(bytes(body)))


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_message_with_anything_wrong_is_an_event_or_their_error(name: str) -> None:
    framing, sent = FRAMINGS[name], written(name)
    record = AttachmentRecord("a", "orders", bytes(16), kind=AttachmentKind.BINARY_FILE)

    @settings(max_examples=examples(40))
    @given(mutated(sent))
    def check(made: tuple[list[PhysicalMessage], PhysicalMessage]) -> None:
        before, changed = made
        runs_and_others([*before, changed])
        arrivals = framing.arrivals()
        numbered = [] if arrivals is None else [one for each in [*before, changed] for one in arrivals.number(each)]
        for message in [changed, *numbered[-1:]]:
            framing.is_header(message)
            for read in (lambda it: framing.read(it, dialect.ALL), framing.attachment_key):
                with suppress(InvalidInputError):
                    read(message)
        for first, second in [(changed, sent[0]), *((each, changed) for each in before)]:
            if (reader := framing.begin_file(record, first.body)) is not None:
                for start, length in reader.spans(second.body) or []:
                    assert 0 <= start <= start + length <= len(second.body)

    check()
