"""Reading of messages of any framing."""

from app.framing.registry import FRAMINGS
from app.model.errors import InvalidInputError
from app.model.event import Event, Pieces
from app.model.message import UNREADABLE, PhysicalMessage


def read_event(message: PhysicalMessage, known: int) -> Event | Pieces:
    """Return what a message means, given the dialects its source has used. Raises InvalidInputError, also for a
    message that no transport could read."""
    framing = FRAMINGS.get(message.framing)
    if framing is not None:
        return framing.read(message, known)
    if message.framing == UNREADABLE:
        properties = message.properties
        raise InvalidInputError(properties.get("refused-code", "unreadable"), "", -1, properties.get("refused-why", ""))
    raise InvalidInputError(
        "unknown-framing", "framing", -1, f"unknown framing {message.framing!r}: messages of it are kept, not read"
    )


def is_header(message: PhysicalMessage) -> bool:
    """Tell whether a message is a header. Headers are read in the order of their source."""
    framing = FRAMINGS.get(message.framing)
    return framing is not None and framing.is_header(message)
