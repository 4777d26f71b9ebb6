"""A small binary file that is read part by part, or together with others, has the content that its framing finds in all
its parts."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, groupby
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.object_store import ObjectStore
from app.codecs.sas import correlid, dialect, file_messages
from app.codecs.sas.constants import SUBORDINATE_MSG_TYPE
from app.codecs.sas.dialect import DIALECTS
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Finished, PartRun
from app.service.content.stored_content import object_name
from app.service.context import Stores
from app.service.finishing import complete_content as finishing
from app.service.finishing.complete_content import content_of
from app.service.finishing.plain_files import plain_files
from app.service.finishing.stored_parts import CompleteAttachment
from app.settings import Settings
from app.wire import WireError
from tests.support.length import examples

KEY = b"k" * correlid.KEY_SIZE
numbers = count(1)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    journal = ArrowJournal(tmp_path / "journal")
    store = ObjectStore(tmp_path / "content")
    yield Stores(settings=Settings(data=tmp_path), journal=journal, store=store, in_place=False)
    journal.close()


@st.composite
def bodies(draw: st.DrawFn) -> list[bytes]:
    """Draw the parts of a file as a sender writes them, or with some bytes changed, added or left out."""
    spoken = draw(st.sampled_from(DIALECTS))
    records = draw(st.lists(st.binary(max_size=30), max_size=6))
    ended = [record + draw(st.sampled_from([b"", b"", b"\0"])) for record in records]
    description = file_messages.FileDescription(draw(st.integers(0, 40)), draw(st.integers(0, 300)))
    made = [
        file_messages.write_file_description(description, spoken),
        *file_messages.write_records(ended, spoken, draw(st.integers(12, 60))),
    ]
    if draw(st.booleans()):
        at = draw(st.integers(0, len(made) - 1))
        made[at] = draw(st.sampled_from([made[at] + b"\0", made[at][:-1], b"", draw(st.binary(max_size=20))]))
    return made


def journalled(stores: Stores, parts: list[bytes]) -> list[Position]:
    assert isinstance(stores.journal, ArrowJournal)
    sent = [
        PhysicalMessage("s", "sas_queue", SUBORDINATE_MSG_TYPE, correlid.join(KEY, number), body)
        for number, body in enumerate(parts, 1)
    ]
    return stores.journal.append(sent)


def record_of(parts: list[bytes], dialects: int = dialect.ALL) -> AttachmentRecord:
    return AttachmentRecord(
        f"{next(numbers):032x}",
        "s",
        KEY,
        kind=AttachmentKind.BINARY_FILE,
        dialects=dialects,
        parts_expected=len(parts),
        parts_received=len(parts),
        bytes_received=sum(map(len, parts)),
    )


def content(record: AttachmentRecord, positions: list[Position], stores: Stores) -> tuple[Finished, bytes] | str:
    """Return what is finished and its bytes, or the error."""
    try:
        first = stores.journal.read(positions[0])
        found = content_of(record, first, range(1, len(positions) + 1), positions, stores)
    except (InvalidInputError, WireError) as error:
        return str(error)
    return found, stored(found, stores)


def stored(found: Finished, stores: Stores) -> bytes:
    if found.storage == "journal":
        return b"".join(stores.journal.views(found.extents))
    return b"".join(stores.store.read(object_name(found.id)))


MASKS = st.sampled_from([dialect.ALL, *(dialect.mask_of(each) for each in DIALECTS)])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies(), MASKS)
def test_part_by_part_and_all_together_agree(stores: Stores, parts: list[bytes], dialects: int) -> None:
    positions = journalled(stores, parts)
    record = record_of(parts, dialects)
    found = content(record, positions, stores)
    with pytest.MonkeyPatch.context() as patched:
        ways = finishing._WAYS[AttachmentKind.BINARY_FILE]
        patched.setitem(finishing._WAYS, AttachmentKind.BINARY_FILE, ways[1:])
        assert found == content(record, positions, stores)


# --- many files together ----------------------------------------------------------------------------------------------


def sealed(stores: Stores) -> ArrowArchive:
    assert isinstance(stores.journal, ArrowJournal)
    stores.journal.seal()
    return ArrowArchive(stores.settings.data / "journal")


def runs_of(positions: list[Position]) -> list[PartRun]:
    """Return the runs of parts at these positions, by sequence number."""
    numbered = enumerate((position.pack() for position in positions), 1)
    runs = [list(run) for _, run in groupby(numbered, lambda part: part[1] - part[0])]
    return [PartRun(run[0][0], len(run), run[0][1]) for run in runs]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20))
@given(st.lists(bodies(), min_size=1, max_size=5), MASKS, st.booleans(), st.randoms(use_true_random=False))
def test_files_read_together_are_as_each_read_alone(
    stores: Stores, several: list[list[bytes]], dialects: int, in_place: bool, random: Random
) -> None:
    stores = replace(stores, in_place=in_place)
    order = [number for number, parts in enumerate(several) for _ in parts]
    random.shuffle(order)
    left = {number: iter(parts) for number, parts in enumerate(several)}
    places: dict[int, list[Position]] = {number: [] for number in left}
    for start in range(0, len(order), 7):  # several record batches, with parts of several files in each
        some = order[start : start + 7]
        for number, position in zip(some, journalled(stores, [next(left[number]) for number in some]), strict=True):
            places[number].append(position)
    wholes = [
        CompleteAttachment(record_of(parts, dialects), runs_of(places[number])) for number, parts in enumerate(several)
    ]
    for number, whole in enumerate(wholes):
        found = plain_files([whole], sealed(stores), stores).get(whole.record.id)
        again = plain_files(wholes, sealed(stores), stores).get(whole.record.id)
        assert found == again
        if found is not None:
            assert (found, stored(found, stores)) == content(whole.record, places[number], stores)


def test_the_files_of_most_senders_are_read_together_and_damage_costs_only_its_batch(stores: Stores) -> None:
    spoken = DIALECTS[0]
    contents = [bytes([number]) * 3000 for number in range(6)]
    several = [
        [
            file_messages.write_file_description(file_messages.FileDescription(1000, 3000), spoken),
            *file_messages.write_records([data[:1000], data[1000:2000], data[2000:]], spoken, 1500),
        ]
        for data in contents
    ]
    places = [journalled(stores, parts) for parts in several]
    backwards = [*places[4][:1], *reversed(places[4][1:])]
    places[4] = backwards
    wholes = [CompleteAttachment(record_of(parts), runs_of(at)) for parts, at in zip(several, places, strict=True)]
    wholes[5] = CompleteAttachment(replace(wholes[5].record, kind=AttachmentKind.TEXT_FILE), wholes[5].runs)
    archive = sealed(stores)
    segment = next((stores.settings.data / "journal").glob("*.arrows"))
    data = bytearray(segment.read_bytes())
    data[data.index(contents[1][:1000])] ^= 1
    segment.write_bytes(data)
    found = plain_files(wholes, archive, stores)
    expected = [contents[0], None, contents[2], contents[3], _turned(contents[4]), None]
    for whole, wanted in zip(wholes, expected, strict=True):
        finished = found.get(whole.record.id)
        assert (finished and stored(finished, stores)) == wanted


def _turned(data: bytes) -> bytes:
    """Return the bytes of a file whose records came in the reverse order."""
    return data[2000:] + data[1000:2000] + data[:1000]
