"""All states of a model of publishing: what holds in every order of steps."""

import pytest

from tests.support.publishing_model import Fault, Size, explore

SIZES = [
    Size(receivers=2, segments=2, endings=1, paused=0, assemblers=1),
    Size(receivers=2, segments=2, endings=1, paused=1, assemblers=0),
    Size(receivers=2, segments=3, endings=0, paused=0, assemblers=0),
    Size(receivers=3, segments=1, endings=1, paused=0, assemblers=0),
]
WRONG = {
    Fault.RECORDS_BEFORE_ADDING: "a number is recorded that is not used",
    Fault.IGNORES_THE_ORIGIN: "a segment is lost",
    Fault.SKIPS_A_TAKEN_NUMBER: "a number was used before a lower one was recorded",
    Fault.OVERWRITES: "a segment is lost",
    Fault.KNOWS_BEFORE_THE_NUMBER: "a segment was published twice",
    Fault.RETIRES_BEFORE_RECORDING: "a segment may be retired before it is recorded",
    Fault.RECORDS_ANY_NUMBER: "a number was used before a lower one was recorded",
    Fault.SAVES_PROGRESS_LATER: "assembly took something twice, or not what the archive has",
    Fault.TRIES_ONE_NUMBER: "not everything can be assembled any more",
}


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nothing_is_lost_and_nothing_is_published_twice(size: Size) -> None:
    explored = explore(size)
    assert (explored.wrong, explored.path) == (None, [])
    assert explored.states > 500


def test_what_is_left_out_is_found() -> None:
    found = {fault: explore(Size(endings=1, assemblers=fault is Fault.SAVES_PROGRESS_LATER), fault) for fault in Fault}
    assert {fault: explored.wrong for fault, explored in found.items()} == WRONG
