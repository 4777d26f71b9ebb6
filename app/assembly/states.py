"""The states of an attachment and their transitions, as a table.

- *receiving*: from its first physical message on, announced or not.
- *complete*: its header, its count and the parts 1..count are there, or all bytes of the messages of a group.
- *finished*: its content has been checked and measured, and can be read.
- *quarantined*: its content breaks its specification. Nothing is lost, and a replay tries again.
- *expired*: no message came for the configured time in which its source could receive. A late message revives it.
- *deleted*: this is final; later messages of it change nothing.

The parts of an expired attachment are kept for some more time. When its parts are gone, for this reason or another, the
attachment begins anew with the messages that are sent again. So does a quarantined one whose content was lost.

These rules are only here. The machine follows them, and the catalog makes its conditions from them.
"""

from enum import StrEnum

from app.model.attachment import AttachmentState as State


class Input(StrEnum):
    """The things that can happen to an attachment."""

    MESSAGE = "message"
    """one of its physical messages came: a header, a part or a count"""
    ALL_THERE = "all-there"
    """its header, its count and the parts 1..count are there, or all messages of a group"""
    CONTENT_READ = "content-read"
    """its content is correct and readable"""
    CONTENT_REFUSED = "content-refused"
    """its content breaks the specification"""
    PARTS_GONE = "parts-gone"
    """the journal no longer has its parts"""
    CONTENT_LOST = "content-lost"
    """its content was readable once, is gone or damaged, and cannot be assembled again"""
    SENT_AGAIN = "sent-again"
    """one of its physical messages came after its content was lost"""
    ABORT = "abort"
    """its sender gives it up"""
    SILENCE = "silence"
    """no message came for the configured time in which its source could receive"""
    REPLAY = "replay"
    """an operator asks for another attempt"""
    REPROCESSED = "reprocessed"
    """an operator has journal segments processed again, which gives another result"""
    DELETE = "delete"
    """a client deletes it"""


TRANSITIONS: dict[tuple[State, Input], State] = {
    (State.RECEIVING, Input.MESSAGE): State.RECEIVING,
    (State.RECEIVING, Input.ALL_THERE): State.COMPLETE,
    (State.RECEIVING, Input.ABORT): State.DELETED,
    (State.RECEIVING, Input.SILENCE): State.EXPIRED,
    (State.RECEIVING, Input.PARTS_GONE): State.RECEIVING,
    (State.RECEIVING, Input.CONTENT_LOST): State.QUARANTINED,
    (State.RECEIVING, Input.REPROCESSED): State.RECEIVING,
    (State.RECEIVING, Input.DELETE): State.DELETED,
    (State.COMPLETE, Input.MESSAGE): State.COMPLETE,
    (State.COMPLETE, Input.CONTENT_READ): State.FINISHED,
    (State.COMPLETE, Input.CONTENT_REFUSED): State.QUARANTINED,
    (State.COMPLETE, Input.PARTS_GONE): State.RECEIVING,
    (State.COMPLETE, Input.CONTENT_LOST): State.QUARANTINED,
    (State.COMPLETE, Input.REPROCESSED): State.RECEIVING,
    (State.COMPLETE, Input.DELETE): State.DELETED,
    (State.FINISHED, Input.MESSAGE): State.FINISHED,
    (State.FINISHED, Input.CONTENT_LOST): State.QUARANTINED,
    (State.FINISHED, Input.REPROCESSED): State.RECEIVING,
    (State.FINISHED, Input.DELETE): State.DELETED,
    (State.EXPIRED, Input.MESSAGE): State.RECEIVING,
    (State.EXPIRED, Input.PARTS_GONE): State.EXPIRED,
    (State.EXPIRED, Input.CONTENT_LOST): State.QUARANTINED,
    (State.EXPIRED, Input.REPROCESSED): State.RECEIVING,
    (State.EXPIRED, Input.DELETE): State.DELETED,
    (State.QUARANTINED, Input.MESSAGE): State.QUARANTINED,
    (State.QUARANTINED, Input.REPLAY): State.COMPLETE,
    (State.QUARANTINED, Input.PARTS_GONE): State.QUARANTINED,
    (State.QUARANTINED, Input.CONTENT_LOST): State.QUARANTINED,
    (State.QUARANTINED, Input.SENT_AGAIN): State.RECEIVING,
    (State.QUARANTINED, Input.REPROCESSED): State.RECEIVING,
    (State.QUARANTINED, Input.DELETE): State.DELETED,
    (State.DELETED, Input.MESSAGE): State.DELETED,
}
"""Every pair that changes or keeps a state. Any other pair is refused and changes nothing."""


DONE = frozenset({State.FINISHED, State.DELETED})
"""The states in which every further message is a duplicate, so that the parts need not be known."""
CLOSED = DONE | {State.QUARANTINED}
"""The states that no message of the attachment opens, except as `SENT_AGAIN`; a decision (`DECISIONS`) can."""

DECISIONS = frozenset(
    {Input.CONTENT_REFUSED, Input.CONTENT_LOST, Input.SILENCE, Input.REPLAY, Input.REPROCESSED, Input.DELETE}
)
"""The inputs that come from decisions about attachments in the catalog, and not from one of their messages."""


def follow(state: State, happened: Input) -> State | None:
    """Return the next state; None when this cannot happen to an attachment in this state."""
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
