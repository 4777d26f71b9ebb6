"""The client for programs with an event loop of asyncio. `Client` is made from it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeVar

import httpx

from attachment_gateway_client import calls, downloads, sending
from attachment_gateway_client.calls import Flow, located
from attachment_gateway_client.errors import Problem, Unreachable
from attachment_gateway_client.events import SILENCE_SECONDS, Event, EventReader, is_passing
from attachment_gateway_client.missing import MISSING_EVENT, MissingParts
from attachment_gateway_client.schemas import (
    Attachment,
    Delivery,
    Message,
    MessageSummary,
    Quarantine,
    Rehearsal,
    TableSummary,
    Upload,
)
from attachment_gateway_client.sending import File, Progress

T = TypeVar("T")


class AsyncClient:
    """A client of the gateway at a URL. Use it as a context manager, or close it.

    `token` is an API key, or another bearer token; white space around it is removed. The proxies of the environment are
    used, except for a gateway on this machine. Raises InvalidToken, and ValueError for a URL or a proxy that cannot be
    used.
    """

    def __init__(self, url: str = calls.DEFAULT_URL, token: str | None = None) -> None:
        how = calls.options(url, token)
        self.url = url.rstrip("/")
        # With a transport of its own the client takes no proxy of the environment.
        transport = httpx.AsyncHTTPTransport(verify=how["verify"]) if calls.is_loopback(how["base_url"].host) else None
        with calls.with_proxies():
            self._http = httpx.AsyncClient(**how, transport=transport, event_hooks={"request": [self._check]})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _check(self, request: httpx.Request) -> None:
        """Raise InvalidPath before a request leaves the gateway, also one that follows a redirect."""
        calls.require_below(self._http.base_url, request.url)

    # --- any request ----------------------------------------------------------------------------------------------

    async def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Send a request to a path below /v1, or a URL there, and return its response.

        Redirects are not followed. Raises Problem, Unreachable, and InvalidPath for what is not below /v1 of the
        gateway: no other server gets the token.
        """
        try:
            response = await self._http.request(method, path.lstrip("/"), **how)
        except httpx.TransportError as error:
            raise calls.unreachable(self.url, error) from error
        if calls.is_refused(response):
            raise calls.problem_of(response)
        return response

    async def get(self, path: str, **parameters: Any) -> Any:
        """Return the JSON at a path below /v1; parameters that are None are left out. Raises as `request`."""
        return (await self.request("GET", path, params=calls.given(parameters))).json()

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
        **parameters: Any,
    ) -> AsyncIterator[httpx.Response]:
        """Open a response whose body is read piece by piece.

        `silence` is the number of seconds without a byte after which the connection counts as broken (None: never).
        Raises as `request`, and Unreachable also while the body is read.
        """
        timeout = httpx.Timeout(30, read=silence)
        plain = {"Accept-Encoding": "identity", **(headers or {})}
        try:
            async with self._http.stream(
                "GET", path.lstrip("/"), params=calls.given(parameters), headers=plain, timeout=timeout
            ) as response:
                if calls.is_refused(response):
                    await response.aread()
                    raise calls.problem_of(response)
                yield response
        except httpx.TransportError as error:
            raise calls.unreachable(self.url, error) from error

    async def pages(
        self,
        path: str,
        most: int | None = None,
        *,
        limit: int = calls.PAGE,
        **parameters: Any,
    ) -> AsyncIterator[Any]:
        """Yield the items of a listing, page by page, at most `most`, in requests for at most `limit`. Raises
        as `request`."""
        cursor, left = None, most
        while left is None or left > 0:
            page = await self.get(path, cursor=cursor, limit=calls.page_size(limit, left), **parameters)
            for item in page["items"]:
                yield item
            left = None if left is None else left - len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    # --- what is there --------------------------------------------------------------------------------------------

    def attachments(self, most: int | None = None, **filters: Any) -> AsyncIterator[Attachment]:
        """Yield attachments, newest first, or as `sort` says. The filters are the parameters of `GET
        /v1/attachments`."""
        return self.pages("attachments", most, **filters)

    async def attachment(self, identifier: str) -> Attachment:
        """Return an attachment by its identifier, or its first digits. Raises Problem."""
        found: Attachment = await self.get(located("attachments", identifier))
        return found

    async def wait_for_attachment(self, identifier: str, seconds: float | None = None) -> Attachment:
        """Return an attachment once its state is final, or after `seconds`. Raises Problem."""
        found: Attachment = await self._run(sending.wait(located("attachments", identifier), seconds))
        return found

    def messages(self, most: int | None = None, **filters: Any) -> AsyncIterator[MessageSummary]:
        """Yield messages with attachments, newest first."""
        return self.pages("messages", most, **filters)

    async def message(self, identifier: str) -> Message:
        """Return a message with its attachments. Raises Problem."""
        found: Message = await self.get(located("messages", identifier))
        return found

    def deliveries(self, most: int | None = None, **filters: Any) -> AsyncIterator[Delivery]:
        """Yield deliveries, newest first."""
        return self.pages("deliveries", most, **filters)

    async def delivery(self, identifier: str) -> Delivery:
        """Return a delivery. Raises Problem."""
        found: Delivery = await self.get(located("deliveries", identifier))
        return found

    async def wait_for_delivery(self, identifier: str, seconds: float | None = None) -> Delivery:
        """Return a delivery once it is sent, failed or cancelled, or after `seconds`. Raises Problem."""
        found: Delivery = await self._run(sending.wait(located("deliveries", identifier), seconds))
        return found

    def quarantine(self, most: int | None = None, **filters: Any) -> AsyncIterator[Quarantine]:
        """Yield the messages that the gateway cannot read, newest first."""
        return self.pages("quarantine", most, **filters)

    def tables(self, most: int | None = None) -> AsyncIterator[TableSummary]:
        """Yield the tables, by name."""
        return self.pages("tables", most)

    # --- content --------------------------------------------------------------------------------------------------

    async def fetch(
        self,
        attachment: str | Attachment,
        target: Path | str | BinaryIO,
        progress: Any = None,
    ) -> Attachment:
        """Fetch the content of a finished attachment into a file, compare it with its SHA-256, and return the
        attachment.

        It continues where a broken connection, or an earlier attempt, ended: until the content is complete, it is in
        `TARGET.part`. `progress` is called with the number of received bytes. Raises Problem, Unreachable,
        DigestMismatch, ContentChanged, OSError.
        """
        record = await self.attachment(attachment) if isinstance(attachment, str) else attachment
        path = f"{located('attachments', record['id'])}/content"
        with downloads.Download(record, Path(target) if isinstance(target, str) else target, progress) as download:
            while not download.is_complete:
                try:
                    async with self.stream(path, download.headers, SILENCE_SECONDS) as response:
                        download.begin(response.status_code)
                        async for piece in response.aiter_raw(downloads.PIECE):
                            await asyncio.to_thread(download.write, piece)
                except (Unreachable, Problem) as error:
                    await asyncio.sleep(download.failed(error))
            download.finish()
        return record

    async def read(self, identifier: str, **options: Any) -> bytes:
        """Return the content of an attachment, of a data set for example with `format="csv"`. Raises Problem."""
        async with self.content(identifier, **options) as response:
            return await response.aread()

    @asynccontextmanager
    async def content(self, identifier: str, **options: Any) -> AsyncIterator[httpx.Response]:
        """Open the content of an attachment, to be read with `aiter_bytes`. The options are the parameters of `GET
        /v1/attachments/{id}/content`. Raises Problem, and Unreachable also while it is read."""
        async with self.stream(f"{located('attachments', identifier)}/content", **options) as response:
            yield response

    async def delete_attachment(self, identifier: str) -> None:
        """Delete an attachment and its content. Raises Problem."""
        await self.request("DELETE", located("attachments", identifier))

    # --- sending --------------------------------------------------------------------------------------------------

    async def send(
        self,
        destination: str,
        *files: File | Path | str,
        description: str = "",
        message: str | bytes | None = None,
        key: str | None = None,
        progress: Progress | None = None,
        resumable_from: int = sending.RESUMABLE_FROM,
    ) -> Delivery:
        """Send files as the attachments of one message, and return its delivery.

        Large files are uploaded resumably. `message` is the application message, `key` an idempotency key: all
        requests with the same one send one message. Without it, this call has its own, for what it repeats. Raises
        Problem, Unreachable, OSError.
        """
        draft, parts = sending.described(
            destination, [File.of(file) for file in files], description=description, message=message
        )
        how = {"key": key, "progress": progress, "resumable_from": resumable_from}
        delivery: Delivery = await self.send_message(draft, parts, **how)
        return delivery

    async def send_message(self, draft: Mapping[str, Any], parts: Mapping[str, File], **how: Any) -> Any:
        """Send a message by its description (`MessageDraft` of the OpenAPI document) and its files by the names of
        their parts. It has the options and errors of `send`."""
        return await self._run(sending.send(draft, parts, **how))

    async def dry_run(
        self, draft: Mapping[str, Any], parts: Mapping[str, File], progress: Progress | None = None
    ) -> Rehearsal:
        """Return what would be sent, with every variable of data sets; send nothing. Raises as `send`."""
        rehearsal: Rehearsal = await self._run(sending.send(draft, parts, dry_run=True, progress=progress))
        return rehearsal

    async def upload(self, file: File | Path | str) -> Upload:
        """Upload a file resumably, to be named in `uploads` of a message. Raises as `send`."""
        upload: Upload = await self._run(sending.upload(File.of(file)))
        return upload

    async def cancel(self, identifier: str) -> Delivery:
        """Cancel a delivery that has not been sent. Raises Problem."""
        cancelled: Delivery = (await self.request("POST", f"{located('deliveries', identifier)}/cancel")).json()
        return cancelled

    async def retry(self, identifier: str) -> Delivery:
        """Send a failed or cancelled delivery again. Raises Problem."""
        queued: Delivery = (await self.request("POST", f"{located('deliveries', identifier)}/retry")).json()
        return queued

    # --- events ---------------------------------------------------------------------------------------------------

    async def events(
        self,
        after: str | int | None = None,
        *,
        patient: bool = False,
        **filters: Any,
    ) -> AsyncIterator[Event]:
        """Yield the events after the one with this `id` (0: all), or only new ones, without end.

        A broken connection is opened again, and continues after the last event. `patient` also waits for a gateway that
        cannot be reached at first. The filters are `type`, `source`, `destination`, `subject`. Raises Problem,
        `events-gone` if the catalog has been rebuilt or restored, and Unreachable before the first connection.
        """
        reader, failures = EventReader(after), 0
        while True:
            try:
                how = {**reader.parameters, **filters}
                async with self.stream("events", reader.headers, SILENCE_SECONDS, **how) as response:
                    patient, failures = True, 0
                    reader.begin()
                    async for line in response.aiter_lines():
                        if (event := reader.feed(line)) is not None:
                            yield event
            except (Unreachable, Problem) as error:
                if not (patient and is_passing(error)):
                    raise
            await asyncio.sleep(calls.pause(failures))
            failures += 1

    async def missing(
        self, after: str | int | None = None, *, patient: bool = False, **filters: Any
    ) -> AsyncIterator[MissingParts]:
        """Yield what the gateway asks the senders of attachments for, as `events` does."""
        async for event in self.events(after, patient=patient, type=MISSING_EVENT, **filters):
            yield MissingParts.of_event(event)

    # --- flows ----------------------------------------------------------------------------------------------------

    async def _run(self, flow: Flow[T]) -> T:
        """Return the result of a flow."""
        result: Any = None
        failure: Exception | None = None
        while True:
            try:
                step = flow.send(result) if failure is None else flow.throw(failure)
            except StopIteration as end:
                returned: T = end.value
                return returned
            result, failure = None, None
            try:
                if isinstance(step, calls.Pause):
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, calls.Call):
                    how: dict[str, Any] = {"params": step.parameters, "headers": step.headers}
                    sent = {"json": step.json, "files": step.files}
                    how |= sent if step.pieces is None else {"content": calls.read_in_threads(step.pieces())}
                    result = await self.request(step.method, step.path, **how)
                else:
                    result = await asyncio.to_thread(step.run)
            except (Problem, Unreachable, OSError) as error:
                failure = error
