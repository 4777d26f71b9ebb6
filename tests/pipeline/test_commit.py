"""What a batch came to is committed once, and by one driver at a time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.model.attachment import AttachmentState
from app.model.errors import OurError
from app.model.records import AttachmentRecord
from app.pipeline.commit import Committer
from app.pipeline.finishing import Result
from app.pipeline.job import Job, open_job
from app.service.surroundings import Surroundings
from app.tables.quality import Increment
from tests.support.surroundings import surroundings


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with surroundings(tmp_path) as around:
        yield around


def committer(around: Surroundings) -> Committer:
    opened = open_job(Job.of(around.settings, str(around.settings.data / "journal"), in_place=False, tables=False))
    return Committer(opened, around.catalog, around.clock, lambda _tasks: [])


def received(reached: int, identifier: str) -> Result:
    return Result(reached, Increment("s", 0), AttachmentRecord(identifier, "s", identifier.encode()))


def test_batches_follow_each_other(around: Surroundings) -> None:
    ours = committer(around)
    assert ours.commit([]) is None
    for reached in (5, 9):
        committed = ours.commit([received(reached, f"a{reached}")])
        assert committed is not None
        assert (committed.reached, committed.was_known) == (reached, False)
        assert around.catalog.progress() == ours.progress == reached
    again = committer(around).commit([received(9, "a9")])
    assert again is not None
    assert again.was_known


def test_two_drivers_are_one_too_many(around: Surroundings) -> None:
    ours, theirs = committer(around), committer(around)
    theirs.commit([received(5, "a5")])
    with pytest.raises(OurError, match="somebody else commits"):
        ours.commit([received(7, "a7")])
    assert around.catalog.progress() == 5
    assert around.catalog.attachment("a7") is None
    found = around.catalog.attachment("a5")
    assert found is not None
    assert found.state is AttachmentState.RECEIVING
