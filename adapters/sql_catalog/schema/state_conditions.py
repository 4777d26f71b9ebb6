"""The transition table of `app.assembly.states` as SQL conditions. The rules are defined only there."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, TextClause, text

from adapters.sql_catalog.schema import catalog_tables
from app.assembly.states import CLOSED, Input, follow, sources, sources_of
from app.model.attachment import AttachmentState

_state = catalog_tables.attachments.c.state


def _among(states: Collection[AttachmentState]) -> ColumnElement[bool]:
    """Return the shortest condition: SQLite may choose the index on states for a list of them."""
    others = [state for state in AttachmentState if state not in states]
    if len(states) == 1:
        return _state == next(iter(states)).value
    if len(others) == 1:
        return _state != others[0].value
    return _state.in_([state.value for state in states])


def _literal(states: Collection[AttachmentState], *, negated: bool = False) -> TextClause:
    """Return a condition for statements that run for many rows at once: only the rows' values are parameters.

    SQLite would make a table of a list of three, for each row and each place of the statement.
    """
    compared, joined = ("!=", " AND ") if negated else ("=", " OR ")
    each = joined.join(f"attachments.state {compared} '{state.value}'" for state in states)
    return text(f"({each})")


IS_CLOSED = _literal(sorted(CLOSED))
IS_NOT_CLOSED = _literal(sorted(CLOSED), negated=True)


def can(happened: Input) -> ColumnElement[bool]:
    """Return the condition that the attachment's present state allows this input."""
    return _among(sources(happened))


def can_now(happened: Input) -> TextClause:
    """Return the same condition as `can`, for statements that run for many rows at once."""
    return _literal(sources(happened))


def may_become(target: AttachmentState) -> ColumnElement[bool]:
    """Return the condition that a decision may change the attachment's present state to `target`."""
    return _among(sources_of(target))


def becomes(happened: Input) -> str:
    """Return the state after this input, which is the same for every state before it."""
    (target,) = {follow(state, happened) for state in sources(happened)}
    assert target is not None
    return target.value
