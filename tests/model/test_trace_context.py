"""`traceparent` is read as W3C Trace Context has it, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.identity import attachment_id
from app.model.trace_context import (
    TRACE_PARENT,
    TraceContext,
    own_trace_parent,
    span_id_of,
    trace_fields,
    trace_parent_in,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

_HEX = "0123456789abcdef"


def hexadecimal(size: int) -> st.SearchStrategy[str]:
    return st.text(_HEX, min_size=size, max_size=size).filter(lambda text: text.strip("0") != "")


def test_the_recommendation_s_own_example() -> None:
    context = TraceContext.parse(f"00-{TRACE}-{SPAN}-01")
    assert context == TraceContext(TRACE, SPAN, is_sampled=True)
    assert str(context) == f"00-{TRACE}-{SPAN}-01"


@given(hexadecimal(32), hexadecimal(16), st.booleans())
def test_what_is_written_is_read_back(trace: str, span: str, is_sampled: bool) -> None:
    context = TraceContext(trace, span, is_sampled)
    assert TraceContext.parse(str(context)) == context
    assert TraceContext.of(str(context)) == context


@given(st.text(_HEX + "-g F\n", max_size=64) | st.text(max_size=64) | st.text(_HEX, min_size=55, max_size=55))
def test_any_other_text_is_none(text: str) -> None:
    assert TraceContext.parse(text) is None


@given(hexadecimal(32), hexadecimal(16), st.integers(0, 54), st.characters(exclude_characters=_HEX))
def test_one_wrong_character_makes_it_invalid(trace: str, span: str, at: int, wrong: str) -> None:
    text = str(TraceContext(trace, span, is_sampled=True))
    broken = text[:at] + wrong + text[at + 1 :]
    assert broken == text or TraceContext.parse(broken) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01more",
        f"01-{TRACE}-{SPAN}-01-{'x' * 512}",
        f"00-{TRACE}-{SPAN}-\u0660\u0661",
    ],
)
def test_what_the_recommendation_forbids(text: str) -> None:
    assert TraceContext.parse(text) is None
    assert trace_parent_in({TRACE_PARENT: text}) is None


def test_a_later_version_becomes_version_00() -> None:
    assert trace_parent_in({TRACE_PARENT: f"cc-{TRACE}-{SPAN}-ff-what-comes"}) == f"00-{TRACE}-{SPAN}-01"
    assert trace_parent_in({TRACE_PARENT: f"00-{TRACE}-{SPAN}-fe"}) == f"00-{TRACE}-{SPAN}-00"
    assert trace_parent_in({}) is None


def test_a_trace_of_its_own_begins_with_the_first_phase_and_is_chosen_by_the_identifier() -> None:
    subjects = [attachment_id("orders", number.to_bytes(16, "big")) for number in range(400)]
    assert not any(own_trace_parent(each, "receive", 0) for each in subjects)
    assert all(own_trace_parent(each, "receive", 1) for each in subjects)
    chosen = {each for each in subjects if own_trace_parent(each, "receive", 0.5)}
    assert chosen == {each for each in subjects if own_trace_parent(each, "receive", 0.5)}
    assert 100 < len(chosen) < 300
    assert TraceContext.of(own_trace_parent(subjects[0], "receive", 1)) == TraceContext(
        subjects[0], span_id_of(subjects[0], "receive"), is_sampled=True
    )


def test_spans_differ_by_subject_and_phase() -> None:
    spans = {span_id_of(subject, phase) for subject in ("a", "b") for phase in ("receive", "process")}
    assert len(spans) == 4
    assert all(TraceContext.parse(str(TraceContext(TRACE, span, is_sampled=False))) for span in spans)


def test_a_log_line_has_the_trace_s_identifier() -> None:
    assert trace_fields(f"00-{TRACE}-{SPAN}-01") == {"trace_id": TRACE}
    assert trace_fields(None) == {}
