"""The places of a file's bytes in the parts that the SAS Common Messaging Interface defines."""

from collections.abc import Iterator, Sequence

from app.codecs.ibm_mq.encodings import in_charset
from app.codecs.sas import dialect, file_messages
from app.codecs.sas.dialect import Dialect
from app.framing import sas_evidence
from app.framing.protocol import Body, FileContent, Received, Span
from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord
from app.wire import WireError


def read_file(record: AttachmentRecord, received: Received, *, is_whole: bool = True) -> FileContent:
    """Return the places of a file's records; if the parts are not the whole file, the last one may be incomplete.
    Raises WireError for a description that cannot be read."""
    first = received.first
    description, dialects = file_messages.read_file_description(first.body, record.dialects or dialect.ALL)
    is_text = record.kind is AttachmentKind.TEXT_FILE
    has_bytes_as_characters = len(in_charset("\n", first.ccsid, first.encoding)) == 1
    behind = range(1, len(received))
    chosen = file_messages.detect(
        lambda: received.bodies(behind), dialects, text=is_text and has_bytes_as_characters, is_whole=is_whole
    )

    rivals = file_messages.RivalDialects(dialects, chosen, joined=not is_text)

    def spans() -> Iterator[Span]:
        body: Body = b""

        def walked() -> Iterator[Body]:
            nonlocal body
            for each in received.bodies(behind):
                body = each
                rivals.see(each)
                yield each

        for part, start, length, ends in file_messages.spans(walked(), chosen, is_whole=is_whole):
            yield part + 1, start, body[start : start + length], ends

    def evidence() -> sas_evidence.Evidence:
        return sas_evidence.of_file(dialects, chosen, rivals.found)

    return FileContent(
        spans, of_lines=is_text, begins_at=1, description=description, dialects=dialects, evidence=evidence
    )


def begin_file(record: AttachmentRecord, body: Body) -> "SasPartReader | None":
    """Begin to read a binary file by its first part, which is its description; None for other files."""
    if record.kind is not AttachmentKind.BINARY_FILE:
        return None
    try:
        description, dialects = file_messages.read_file_description(body, record.dialects or dialect.ALL)
    except WireError:
        return None
    return SasPartReader(description, dialects)


class SasPartReader:
    """A reader of a file's records part by part; see `app.framing.protocol.PartReader`."""

    def __init__(self, description: file_messages.FileDescription, dialects: int) -> None:
        self.description: file_messages.FileDescription | None = description
        self.dialects: int | None = dialects
        self._possible = dialects or dialect.ALL
        self._chosen: Dialect | None = None
        self._plain = file_messages.tried_first(self._possible)
        self._rivals: file_messages.RivalDialects | None = None

    @property
    def evidence(self) -> sas_evidence.Evidence:
        # A file without a byte has no record that could show how it is read.
        chosen = self._chosen or file_messages.detect(lambda: (), self._possible)
        found = self._rivals.found if self._rivals is not None else ()
        return sas_evidence.of_file(self._possible, chosen, found)

    def spans(self, body: Body) -> list[tuple[int, int]] | None:
        """Return the (start, length) of the records in a part; None if it does not consist of whole records."""
        if (start := self.record_start([body])) is not None:
            return [(start, len(body) - start)]
        try:
            self._chosen = self._chosen or file_messages.detect(lambda: [body], self._possible)
            self._see([body], self._chosen)
            return [(start, length) for _, start, length, _ in file_messages.spans([body], self._chosen)]
        except WireError:
            return None

    def record_start(self, bodies: Sequence[Body]) -> int | None:
        plain = self._plain if self._chosen in (None, self._plain) else None
        if plain is None or (start := file_messages.record_start(bodies, plain)) is None:
            return None
        self._chosen = plain
        self._see(bodies, plain)
        return start

    def _see(self, bodies: Sequence[Body], chosen: Dialect) -> None:
        if self._rivals is None:
            self._rivals = file_messages.RivalDialects(self._possible, chosen, joined=True)
        if not self._rivals.is_settled:
            for body in bodies:
                self._rivals.see(body)
