"""Messages of TIB/Rendezvous in lines of hexadecimal: one tibrvMsg on each.

A line is a message as a program sends it, or a frame as a daemon and its clients exchange it: of a publication the data
are taken, with its subject, and what else they say to each other is skipped.
"""

from collections.abc import Iterable, Iterator

from app.capture.bounded_lines import BoundedLine
from app.capture.capture_entries import Entry, Origin, RefusedEntry, Skipped
from app.capture.hexadecimal import captures
from app.codecs.rendezvous import rendezvous_envelope
from app.codecs.rendezvous.daemon import DaemonMessageKind, is_frame, read_frame
from app.codecs.rendezvous.fields import message_end
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.wire import WireError


def read(lines: Iterable[BoundedLine], origin: Origin) -> Iterator[Entry]:
    """Return the messages of a capture in their order. Refused are `bad-capture`: a line; `bad-rendezvous-message`:
    bytes that are not one whole message; `bad-mq-image`: a publication of an image that cannot be read."""
    for found in captures(lines, origin):
        if isinstance(found, RefusedEntry):
            yield found
            continue
        try:
            yield _entry(found.data, origin, found.time or origin.now())
        except WireError as error:
            yield origin.refused(found.data, "bad-rendezvous-message", str(error), found.line)
        except InvalidInputError as error:
            yield origin.refused(found.data, error.code, str(error), found.line)


def _entry(data: bytes, origin: Origin, received_at: int) -> Entry:
    initial = origin.initial
    if message_end(data, 0, len(data)) != len(data):
        raise WireError("length", 0, f"there are {len(data):,} bytes, and the message has fewer")
    if not is_frame(data):
        return PhysicalMessage(initial.source, initial.framing, body=data, received_at=received_at)
    frame = read_frame(data)
    if frame.kind != DaemonMessageKind.DATA:
        return Skipped(f"frames of kind {frame.kind}")
    return rendezvous_envelope.read(frame, initial.source, origin.framing, received_at)
