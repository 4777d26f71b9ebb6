"""A small binary file that is read part by part has the content that its framing finds in all parts together."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from app.codecs.sas import correlid, dialect, files
from app.codecs.sas.constants import SUBORDINATE_MSG_TYPE
from app.codecs.sas.dialect import DIALECTS
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Finished
from app.service.content.access import object_name
from app.service.context import Stores
from app.service.finishing import files as finishing
from app.service.finishing.files import content_of
from app.settings import Settings
from app.wire import WireError

KEY = b"k" * correlid.KEY_SIZE
numbers = count(1)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    journal = ArrowJournal(tmp_path / "journal")
    store = ObjectStore(tmp_path / "content")
    yield Stores(settings=Settings(), journal=journal, store=store, in_place=False)
    journal.close()


@st.composite
def bodies(draw: st.DrawFn) -> list[bytes]:
    """Draw the parts of a file as a sender writes them, or with some bytes changed, added or left out."""
    spoken = draw(st.sampled_from(DIALECTS))
    records = draw(st.lists(st.binary(max_size=30), max_size=6))
    ended = [record + draw(st.sampled_from([b"", b"", b"\0"])) for record in records]
    description = files.FileDescription(draw(st.integers(0, 40)), draw(st.integers(0, 300)))
    made = [
        files.write_file_description(description, spoken),
        *files.write_records(ended, spoken, draw(st.integers(12, 60))),
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


def content(record: AttachmentRecord, positions: list[Position], stores: Stores) -> tuple[Finished, bytes] | str:
    """Return what is finished and its bytes, or the error."""
    try:
        first = stores.journal.read(positions[0])
        found = content_of(record, first, range(1, len(positions) + 1), positions, stores)
    except (InvalidInputError, WireError) as error:
        return str(error)
    return found, b"".join(stores.store.read(object_name(record.id)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies(), st.sampled_from([dialect.ALL, *(dialect.mask_of(each) for each in DIALECTS)]))
def test_part_by_part_and_all_together_agree(stores: Stores, parts: list[bytes], dialects: int) -> None:
    positions = journalled(stores, parts)
    record = AttachmentRecord(
        f"{next(numbers):032x}",
        "s",
        KEY,
        kind=AttachmentKind.BINARY_FILE,
        dialects=dialects,
        parts_expected=len(parts),
        bytes_received=sum(map(len, parts)),
    )
    found = content(record, positions, stores)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(finishing, "_part_by_part", lambda *_: None)
        assert found == content(record, positions, stores)


def test_a_small_file_of_whole_records_is_not_read_as_a_whole(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = DIALECTS[0]
    description = files.FileDescription(30, 6)
    parts = [files.write_file_description(description, spoken), *files.write_records([b"abc", b"def"], spoken, 9)]
    monkeypatch.setattr(finishing, "_file_content", None)
    record = AttachmentRecord("a", "s", KEY, kind=AttachmentKind.BINARY_FILE, dialects=dialect.ALL, parts_expected=3)
    found = content(record, journalled(stores, parts), stores)
    assert not isinstance(found, str)
    finished, data = found
    assert data == b"abcdef"
    assert (finished.size, finished.record_length, finished.announced_size, finished.warnings) == (6, 30, 6, ())
