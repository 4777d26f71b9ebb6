"""Files whose bytes are the bodies of their parts, joined in order."""

from collections.abc import Iterator

from app.framing.protocol import FileContent, Received, Span


def joined_file(received: Received, skip: int = 0) -> FileContent:
    """Return a file that consists of the bodies of all parts, without the first `skip` bytes of each."""

    def spans() -> Iterator[Span]:
        for part, body in enumerate(received.bodies()):
            yield part, skip, body[skip:] if skip else body, True

    return FileContent(spans)
