"""The transition table, over every pair of state and input."""

import pytest

from app.assembly.states import CLOSED, DECISIONS, TRANSITIONS, Input, diagram, follow, sources_of
from app.model.attachment import AttachmentState as State
from tests.support.cases import for_each


@for_each("state", State)
@for_each("happened", Input)
def test_every_pair_is_in_the_table_or_refused(state: State, happened: Input) -> None:
    assert follow(state, happened) is TRANSITIONS.get((state, happened))


def test_a_message_never_stops_the_stream() -> None:
    assert all(follow(state, Input.MESSAGE) is not None for state in State)


def test_deleted_is_for_ever() -> None:
    assert {follow(State.DELETED, happened) for happened in Input} == {State.DELETED, None}


def test_every_state_can_be_reached_and_left_as_the_essay_says() -> None:
    reached = {State.RECEIVING}
    while grown := {there for (here, _), there in TRANSITIONS.items() if here in reached} - reached:
        reached |= grown
    assert reached == set(State)
    assert all(follow(state, Input.DELETE) is State.DELETED for state in State if state is not State.DELETED)


def test_only_what_is_complete_can_finish() -> None:
    assert [here for (here, happened) in TRANSITIONS if happened is Input.CONTENT_READ] == [State.COMPLETE]


def test_what_is_closed_is_opened_by_no_message() -> None:
    assert {follow(state, Input.MESSAGE) for state in CLOSED} == CLOSED
    assert not [state for state in CLOSED if follow(state, Input.ALL_THERE)]


@pytest.mark.parametrize("target", State)
def test_decisions_lead_to_a_state_from_where_the_table_says(target: State) -> None:
    assert all(any(follow(state, each) is target for each in DECISIONS) for state in sources_of(target))
    others = set(State).difference(sources_of(target))
    assert not [state for state in others if any(follow(state, each) is target for each in DECISIONS)]


def test_the_diagram_shows_every_change() -> None:
    drawn = diagram()
    for (here, happened), there in TRANSITIONS.items():
        assert (f"{here} --> {there}: {happened}" in drawn) == (here != there)
