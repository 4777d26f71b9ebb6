"""An attachment's life as a table.

An attachment is *receiving* from its first physical message, announced or not. It is *complete* once its header, its
count and the parts 1..count are there, or as many bytes as the messages of a group hold, and *finished* once its
content has been checked, measured and can be read. Content that breaks its specification makes it *quarantined*:
nothing is lost, and a replay tries again. Without any message for the configured time, in which its source could
receive, it is *expired*; a late message revives it. Its parts are kept for some time more; when they are gone, for this
reason or any other, it begins anew with whatever is sent again; so does a quarantined one whose content was lost.
*Deleted* is for ever: what still comes for it changes nothing.

These rules stand here alone: the machine follows them, and the catalog makes its conditions of them.
"""

from enum import StrEnum

from app.model.attachment import AttachmentState as State


class Input(StrEnum):
    """What can happen to an attachment."""

    MESSAGE = "message"
    """one of its physical messages came: header, part or count"""
    ALL_THERE = "all-there"
    """header, count and the parts 1..count are there, or all messages of a group"""
    CONTENT_READ = "content-read"
    """its content is right and readable"""
    CONTENT_REFUSED = "content-refused"
    """its content breaks the specification"""
    PARTS_GONE = "parts-gone"
    """the journal has its parts no more"""
    CONTENT_LOST = "content-lost"
    """its content was readable once, is gone or damaged, and cannot be put together again"""
    SENT_AGAIN = "sent-again"
    """one of its physical messages came after its content was lost"""
    SILENCE = "silence"
    """nothing came for the configured time in which its source could receive"""
    REPLAY = "replay"
    """an operator asks for another try"""
    DELETE = "delete"
    """a client removes it"""


TRANSITIONS: dict[tuple[State, Input], State] = {
    (State.RECEIVING, Input.MESSAGE): State.RECEIVING,
    (State.RECEIVING, Input.ALL_THERE): State.COMPLETE,
    (State.RECEIVING, Input.SILENCE): State.EXPIRED,
    (State.RECEIVING, Input.PARTS_GONE): State.RECEIVING,
    (State.RECEIVING, Input.CONTENT_LOST): State.QUARANTINED,
    (State.RECEIVING, Input.DELETE): State.DELETED,
    (State.COMPLETE, Input.MESSAGE): State.COMPLETE,
    (State.COMPLETE, Input.CONTENT_READ): State.FINISHED,
    (State.COMPLETE, Input.CONTENT_REFUSED): State.QUARANTINED,
    (State.COMPLETE, Input.PARTS_GONE): State.RECEIVING,
    (State.COMPLETE, Input.CONTENT_LOST): State.QUARANTINED,
    (State.COMPLETE, Input.DELETE): State.DELETED,
    (State.FINISHED, Input.MESSAGE): State.FINISHED,
    (State.FINISHED, Input.CONTENT_LOST): State.QUARANTINED,
    (State.FINISHED, Input.DELETE): State.DELETED,
    (State.EXPIRED, Input.MESSAGE): State.RECEIVING,
    (State.EXPIRED, Input.PARTS_GONE): State.EXPIRED,
    (State.EXPIRED, Input.CONTENT_LOST): State.QUARANTINED,
    (State.EXPIRED, Input.DELETE): State.DELETED,
    (State.QUARANTINED, Input.MESSAGE): State.QUARANTINED,
    (State.QUARANTINED, Input.REPLAY): State.COMPLETE,
    (State.QUARANTINED, Input.PARTS_GONE): State.QUARANTINED,
    (State.QUARANTINED, Input.CONTENT_LOST): State.QUARANTINED,
    (State.QUARANTINED, Input.SENT_AGAIN): State.RECEIVING,
    (State.QUARANTINED, Input.DELETE): State.DELETED,
    (State.DELETED, Input.MESSAGE): State.DELETED,
}
"""Every pair that changes or keeps a state on purpose. A pair that is not here is refused and changes nothing."""


DONE = frozenset({State.FINISHED, State.DELETED})
"""Whatever still comes for such an attachment is a duplicate: its parts need not be known."""
CLOSED = DONE | {State.QUARANTINED}
"""No message of the attachment opens these, only what somebody decides (`DECISIONS`), or `SENT_AGAIN`."""

DECISIONS = frozenset({Input.CONTENT_REFUSED, Input.CONTENT_LOST, Input.SILENCE, Input.REPLAY, Input.DELETE})
"""What is decided about attachments in the catalog, rather than said by one of their messages."""


def follow(state: State, happened: Input) -> State | None:
    """Return the state that follows, or None when this cannot happen to an attachment in this state."""
    return TRANSITIONS.get((state, happened))


def sources(happened: Input) -> tuple[State, ...]:
    """Return the states in which this can happen to an attachment."""
    return tuple(here for (here, what) in TRANSITIONS if what is happened)


def sources_of(target: State) -> tuple[State, ...]:
    """Return the states from which a decision leads to `target`."""
    decided = {here for (here, what), there in TRANSITIONS.items() if what in DECISIONS and there is target}
    return tuple(state for state in State if state in decided)


def diagram() -> str:
    """Return the table as a Mermaid state diagram, for the documentation."""
    arrows = [f"    {here} --> {there}: {happened}" for (here, happened), there in TRANSITIONS.items() if here != there]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {State.RECEIVING}: {Input.MESSAGE}", *arrows, ""])
