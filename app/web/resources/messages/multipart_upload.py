"""Streaming of multipart/form-data into the content store.

The event loop only collects received bytes. A worker thread parses, hashes and writes one batch while the next is
collected. So an upload of any size costs two batches of memory, and it holds no thread while its client is slow. An
upload that breaks off leaves nothing in the store.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, MultipartState, parse_options_header
from starlette.requests import Request

from app.ports import ContentStore
from app.service.sending.upload_parts import PartWriter, StoredPart
from app.service.sending.upload_space import SpaceReservation, UploadSpace
from app.web.http.digests import Digests
from app.web.http.disposition import file_name_of, name_of, text_of
from app.web.problems import Problem
from app.web.server.thread_pools import BATCH, pools_of, run_in

FIELDS_BYTES = 64 << 10
"""Maximum bytes of all parts together that are kept in memory: the description, and the fields of a form."""


@dataclass
class Form:
    """The parts of an upload: short fields by name, and stored parts in their order."""

    fields: dict[str, str] = field(default_factory=dict)
    parts: list[StoredPart] = field(default_factory=list)


class PartHead(NamedTuple):
    """The header fields of a part."""

    name: str
    file_name: str | None
    content_type: str


class UploadWriter:
    """One body that is written to the store, as objects `{prefix}/{n}`.

    Its methods block; one thread at a time may call them.

    `is_field` decides whether a part is kept in `form.fields` or stored, and may refuse it by raising Problem.
    `on_field` is called for each complete field.
    """

    def __init__(
        self,
        content_type: str,
        store: ContentStore,
        prefix: str,
        *,
        is_field: Callable[[PartHead], bool],
        on_field: Callable[[str, str], None],
        max_parts: int,
        digests: Digests | None = None,
    ) -> None:
        """Begin an upload. `digests` are the digests of the whole body; each part has its own in its header."""
        self.form = Form()
        self._store, self._prefix, self._max_parts = store, prefix, max_parts
        self._is_field, self._on_field = is_field, on_field
        self._digests = digests or Digests({})
        self._part_digests = Digests({})
        media_type, parameters = parse_options_header(content_type)
        if media_type != b"multipart/form-data":
            raise Problem("unsupported-media-type", "send multipart/form-data", accepted=["multipart/form-data"])
        boundary = parameters.get(b"boundary", b"")
        if not 1 <= len(boundary) <= 70:
            raise Problem("malformed", "multipart/form-data needs a boundary of 1 to 70 characters")
        self._openings = tuple(b"\r\n--" + boundary + end for end in (b"\r\n", b"--"))
        self._before, self._is_begun = b"\r\n", False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_part_end": self._end,
            },
        )
        self._parts = self._kept = 0
        self._headers: dict[bytes, bytes] = {}
        self._name = self._value = b""
        self._field: bytearray | None = None
        self._writer: PartWriter | None = None
        self._head = PartHead("", None, "")

    def feed(self, chunks: list[bytes]) -> None:
        """Parse the next bytes of the body. Raises Problem."""
        try:
            for chunk in chunks:
                self._digests.update(chunk)
                self._parser.write(chunk if self._is_begun else self._without_preamble(chunk))
        except FormParserError as error:
            raise Problem("malformed", f"not well-formed multipart/form-data: {error}") from None

    def _without_preamble(self, chunk: bytes) -> bytes:
        """Return what the bytes have from the first boundary on: what is before it is ignored (RFC 2046)."""
        data = self._before + chunk
        at = min((found for opening in self._openings if (found := data.find(opening)) >= 0), default=-1)
        if at < 0:
            self._before = data[1 - len(self._openings[0]) :]
            return b""
        self._is_begun = True
        return data[at + len(b"\r\n") :]

    def finish(self) -> Form:
        """Return the complete form. Raises Problem when the body ended early."""
        if self._parser.state != MultipartState.END:
            raise Problem("malformed", "the body ends before the closing boundary")
        self._digests.check("the body")
        return self.form

    def discard(self) -> None:
        """Remove everything that was stored."""
        _discard(self._writer, self.form.parts, self._store)
        self._writer = None

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > self._max_parts:
            raise Problem("too-large", f"more than {self._max_parts} parts", limit=self._max_parts)
        self._headers = {}

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _headers_finished(self) -> None:
        self._head = _head(self._headers)
        fields = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._headers.items()}
        self._part_digests = Digests(fields)
        if self._is_field(self._head):
            self._field = bytearray()
        else:
            self._writer = PartWriter(self._store, f"{self._prefix}/{len(self.form.parts)}")

    def _data(self, data: bytes, start: int, end: int) -> None:
        piece = memoryview(data)[start:end]
        self._part_digests.update(piece)
        if self._writer is not None:
            self._writer.write(piece)
        elif self._field is not None:
            self._kept += len(piece)
            if self._kept > FIELDS_BYTES:
                raise Problem("too-large", f"fields over {FIELDS_BYTES} bytes together", limit=FIELDS_BYTES)
            self._field += piece

    def _end(self) -> None:
        self._part_digests.check(f"the part {self._head.name!r}")
        if self._writer is not None:
            writer, self._writer = self._writer, None
            self.form.parts.append(writer.finish(*self._head))
        elif self._field is not None:
            text, self._field = text_of(self._field, self._head.name), None
            if self._head.name in self.form.fields:
                raise Problem("malformed", f"the field {self._head.name!r} is repeated")
            self.form.fields[self._head.name] = text
            self._on_field(self._head.name, text)


class Body(Protocol):
    """What a request's body goes through; its methods block."""

    def feed(self, chunks: list[bytes]) -> None:
        """Take the next bytes of the body. Raises Problem."""

    def finish(self) -> Form:
        """Return the complete form. Raises Problem when the body ended early, or differs from its digest."""

    def discard(self) -> None:
        """Remove everything that was stored."""


class RawUpload:
    """A body that is one file, written to the store as the object `{prefix}/0`."""

    def __init__(
        self,
        store: ContentStore,
        prefix: str,
        file_name: str,
        content_type: str,
        fields: Mapping[str, str],
        digests: Digests,
    ) -> None:
        """Set what the file is. `fields` are the fields that a form would have."""
        self._store, self._object_name, self._digests = store, f"{prefix}/0", digests
        self._about = (file_name, content_type)
        self.form = Form(dict(fields))
        self._writer: PartWriter | None = None

    def feed(self, chunks: list[bytes]) -> None:
        """Write the next bytes."""
        if self._writer is None:
            self._writer = PartWriter(self._store, self._object_name)
        for chunk in chunks:
            self._digests.update(chunk)
            self._writer.write(memoryview(chunk))

    def finish(self) -> Form:
        """Return the form with the file. Raises Problem when it differs from its digest."""
        self._digests.check("the file")
        assert self._writer is not None
        writer, self._writer = self._writer, None
        self.form.parts.append(writer.finish("file", *self._about))
        return self.form

    def discard(self) -> None:
        """Remove what was stored."""
        _discard(self._writer, self.form.parts, self._store)
        self._writer = None


class DescriptionUpload:
    """A body that is the JSON of a message, whose parts were all uploaded before."""

    def __init__(self, on_text: Callable[[str], None], digests: Digests) -> None:
        self._on_text, self._digests = on_text, digests
        self._text = bytearray()

    def feed(self, chunks: list[bytes]) -> None:
        """Keep the next bytes. Raises Problem for too many."""
        for chunk in chunks:
            self._digests.update(chunk)
            self._text += chunk
            if len(self._text) > FIELDS_BYTES:
                raise Problem("too-large", f"a description over {FIELDS_BYTES} bytes", limit=FIELDS_BYTES)

    def finish(self) -> Form:
        """Check the description, and return a form without parts. Raises Problem."""
        self._digests.check("the body")
        self._on_text(text_of(self._text, "JSON"))
        return Form()

    def discard(self) -> None:
        """Do nothing, as nothing was stored."""


def _discard(writer: PartWriter | None, parts: Sequence[StoredPart], store: ContentStore) -> None:
    if writer is not None:
        writer.abandon()
    for part in parts:
        store.delete(part.object_name)


async def receive(request: Request, upload: Body, limit: int, room: UploadSpace) -> Form:
    """Stream a request's body through an upload; discard the upload if that fails.

    Space is kept in `room` for what the request announces. Raises Problem, ClientDisconnect and StoreFull.
    """
    threads = pools_of(request).uploads
    try:
        announced = int(request.headers.get("content-length", 0))
        _check_size(announced, limit)
        with room.reserved(announced) as reservation:
            return await _receive(request, upload, limit, reservation)
    except BaseException:
        await run_in(threads, upload.discard)
        raise


async def _receive(request: Request, upload: Body, limit: int, reservation: SpaceReservation) -> Form:
    threads = pools_of(request).uploads
    working: asyncio.Future[None] | None = None
    batch: list[bytes] = []
    gathered = writing = total = 0
    try:
        async for chunk in request.stream():
            batch.append(chunk)
            gathered += len(chunk)
            total += len(chunk)
            _check_size(total, limit)
            if gathered >= BATCH:
                reservation.grow_to(gathered + writing)
                if working is not None:
                    await working
                    reservation.written(writing)
                working = asyncio.get_running_loop().run_in_executor(threads, upload.feed, batch)
                batch, writing, gathered = [], gathered, 0
        reservation.grow_to(gathered + writing)
        if working is not None:
            await working
        await run_in(threads, lambda: upload.feed(batch))
        return await run_in(threads, upload.finish)
    finally:
        if working is not None:
            await asyncio.wait([working])


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise Problem("too-large", f"an upload may have {limit} bytes", limit=limit)


def _head(headers: dict[bytes, bytes]) -> PartHead:
    kind, parameters = parse_options_header(headers.get(b"content-disposition", b""))
    if kind != b"form-data" or b"name" not in parameters:
        raise Problem("malformed", "a part has no Content-Disposition: form-data with a name")
    name = name_of(parameters[b"name"], "name")
    content_type = headers.get(b"content-type", b"").decode("latin-1").strip().lower()
    return PartHead(name, file_name_of(headers[b"content-disposition"]), content_type)
