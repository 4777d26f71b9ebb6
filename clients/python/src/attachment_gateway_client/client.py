"""The client for programs without an event loop. Made by `make docs` of asynchronous.py."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


class Client:
    """A client of the gateway at a URL. Use it as a context manager, or close it.

    `token` is an API key, or another bearer token; white space around it is removed. The proxies of the environment are
    used, except for a gateway on this machine. Raises InvalidToken, and ValueError for a URL or a proxy that cannot be
    used.
    """

    def __init__(self, url: str = calls.DEFAULT_URL, token: str | None = None) -> None:
        how = calls.options(url, token)
        self.url = url.rstrip("/")
        # With a transport of its own the client takes no proxy of the environment.
        transport = httpx.HTTPTransport(verify=how["verify"]) if calls.is_loopback(how["base_url"].host) else None
        with calls.with_proxies():
            self._http = httpx.Client(**how, transport=transport, event_hooks={"request": [self._check]})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def _check(self, request: httpx.Request) -> None:
        """Raise InvalidPath before a request leaves the gateway, also one that follows a redirect."""
        calls.require_below(self._http.base_url, request.url)

    # --- any request ----------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Send a request to a path below /v1, or a URL there, and return its response.

        Redirects are not followed. Raises Problem, Unreachable, and InvalidPath for what is not below /v1 of the
        gateway: no other server gets the token.
        """
        try:
            response = self._http.request(method, path.lstrip("/"), **how)
        except httpx.TransportError as error:
            raise calls.unreachable(self.url, error) from error
        if calls.is_refused(response):
            raise calls.problem_of(response)
        return response

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the JSON at a path below /v1; parameters that are None are left out. Raises as `request`."""
        return self.request("GET", path, params=calls.given(parameters)).json()

    @contextmanager
    def stream(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
        **parameters: Any,
    ) -> Iterator[httpx.Response]:
        """Open a response whose body is read piece by piece.

        `silence` is the number of seconds without a byte after which the connection counts as broken (None: never).
        Raises as `request`, and Unreachable also while the body is read.
        """
        timeout = httpx.Timeout(30, read=silence)
        plain = {"Accept-Encoding": "identity", **(headers or {})}
        try:
            with self._http.stream(
                "GET", path.lstrip("/"), params=calls.given(parameters), headers=plain, timeout=timeout
            ) as response:
                if calls.is_refused(response):
                    response.read()
                    raise calls.problem_of(response)
                yield response
        except httpx.TransportError as error:
            raise calls.unreachable(self.url, error) from error

    def pages(
        self,
        path: str,
        most: int | None = None,
        *,
        limit: int = calls.PAGE,
        **parameters: Any,
    ) -> Iterator[Any]:
        """Yield the items of a listing, page by page, at most `most`, in requests for at most `limit`. Raises
        as `request`."""
        cursor, left = None, most
        while left is None or left > 0:
            page = self.get(path, cursor=cursor, limit=calls.page_size(limit, left), **parameters)
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    # --- what is there --------------------------------------------------------------------------------------------

    def attachments(self, most: int | None = None, **filters: Any) -> Iterator[Attachment]:
        """Yield attachments, newest first, or as `sort` says. The filters are the parameters of `GET
        /v1/attachments`."""
        return self.pages("attachments", most, **filters)

    def attachment(self, identifier: str) -> Attachment:
        """Return an attachment by its identifier, or its first digits. Raises Problem."""
        found: Attachment = self.get(located("attachments", identifier))
        return found

    def wait_for_attachment(self, identifier: str, seconds: float | None = None) -> Attachment:
        """Return an attachment once its state is final, or after `seconds`. Raises Problem."""
        found: Attachment = self._run(sending.wait(located("attachments", identifier), seconds))
        return found

    def messages(self, most: int | None = None, **filters: Any) -> Iterator[MessageSummary]:
        """Yield messages with attachments, newest first."""
        return self.pages("messages", most, **filters)

    def message(self, identifier: str) -> Message:
        """Return a message with its attachments. Raises Problem."""
        found: Message = self.get(located("messages", identifier))
        return found

    def deliveries(self, most: int | None = None, **filters: Any) -> Iterator[Delivery]:
        """Yield deliveries, newest first."""
        return self.pages("deliveries", most, **filters)

    def delivery(self, identifier: str) -> Delivery:
        """Return a delivery. Raises Problem."""
        found: Delivery = self.get(located("deliveries", identifier))
        return found

    def wait_for_delivery(self, identifier: str, seconds: float | None = None) -> Delivery:
        """Return a delivery once it is sent, failed or cancelled, or after `seconds`. Raises Problem."""
        found: Delivery = self._run(sending.wait(located("deliveries", identifier), seconds))
        return found

    def quarantine(self, most: int | None = None, **filters: Any) -> Iterator[Quarantine]:
        """Yield the messages that the gateway cannot read, newest first."""
        return self.pages("quarantine", most, **filters)

    def tables(self, most: int | None = None) -> Iterator[TableSummary]:
        """Yield the tables, by name."""
        return self.pages("tables", most)

    # --- content --------------------------------------------------------------------------------------------------

    def fetch(
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
        record = self.attachment(attachment) if isinstance(attachment, str) else attachment
        path = f"{located('attachments', record['id'])}/content"
        with downloads.Download(record, Path(target) if isinstance(target, str) else target, progress) as download:
            while not download.is_complete:
                try:
                    with self.stream(path, download.headers, SILENCE_SECONDS) as response:
                        download.begin(response.status_code)
                        for piece in response.iter_raw(downloads.PIECE):
                            download.write(piece)
                except (Unreachable, Problem) as error:
                    time.sleep(download.failed(error))
            download.finish()
        return record

    def read(self, identifier: str, **options: Any) -> bytes:
        """Return the content of an attachment, of a data set for example with `format="csv"`. Raises Problem."""
        with self.content(identifier, **options) as response:
            return response.read()

    @contextmanager
    def content(self, identifier: str, **options: Any) -> Iterator[httpx.Response]:
        """Open the content of an attachment, to be read with `iter_bytes`. The options are the parameters of `GET
        /v1/attachments/{id}/content`. Raises Problem, and Unreachable also while it is read."""
        with self.stream(f"{located('attachments', identifier)}/content", **options) as response:
            yield response

    def delete_attachment(self, identifier: str) -> None:
        """Delete an attachment and its content. Raises Problem."""
        self.request("DELETE", located("attachments", identifier))

    # --- sending --------------------------------------------------------------------------------------------------

    def send(
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
        delivery: Delivery = self.send_message(draft, parts, **how)
        return delivery

    def send_message(self, draft: Mapping[str, Any], parts: Mapping[str, File], **how: Any) -> Any:
        """Send a message by its description (`MessageDraft` of the OpenAPI document) and its files by the names of
        their parts. It has the options and errors of `send`."""
        return self._run(sending.send(draft, parts, **how))

    def dry_run(
        self, draft: Mapping[str, Any], parts: Mapping[str, File], progress: Progress | None = None
    ) -> Rehearsal:
        """Return what would be sent, with every variable of data sets; send nothing. Raises as `send`."""
        rehearsal: Rehearsal = self._run(sending.send(draft, parts, dry_run=True, progress=progress))
        return rehearsal

    def upload(self, file: File | Path | str) -> Upload:
        """Upload a file resumably, to be named in `uploads` of a message. Raises as `send`."""
        upload: Upload = self._run(sending.upload(File.of(file)))
        return upload

    def cancel(self, identifier: str) -> Delivery:
        """Cancel a delivery that has not been sent. Raises Problem."""
        cancelled: Delivery = self.request("POST", f"{located('deliveries', identifier)}/cancel").json()
        return cancelled

    def retry(self, identifier: str) -> Delivery:
        """Send a failed or cancelled delivery again. Raises Problem."""
        queued: Delivery = self.request("POST", f"{located('deliveries', identifier)}/retry").json()
        return queued

    # --- events ---------------------------------------------------------------------------------------------------

    def events(
        self,
        after: str | int | None = None,
        *,
        patient: bool = False,
        **filters: Any,
    ) -> Iterator[Event]:
        """Yield the events after the one with this `id` (0: all), or only new ones, without end.

        A broken connection is opened again, and continues after the last event. `patient` also waits for a gateway that
        cannot be reached at first. The filters are `type`, `source`, `destination`, `subject`. Raises Problem,
        `events-gone` if the catalog has been rebuilt or restored, and Unreachable before the first connection.
        """
        reader, failures = EventReader(after), 0
        while True:
            try:
                how = {**reader.parameters, **filters}
                with self.stream("events", reader.headers, SILENCE_SECONDS, **how) as response:
                    patient, failures = True, 0
                    reader.begin()
                    for line in response.iter_lines():
                        if (event := reader.feed(line)) is not None:
                            yield event
            except (Unreachable, Problem) as error:
                if not (patient and is_passing(error)):
                    raise
            time.sleep(calls.pause(failures))
            failures += 1

    def missing(
        self, after: str | int | None = None, *, patient: bool = False, **filters: Any
    ) -> Iterator[MissingParts]:
        """Yield what the gateway asks the senders of attachments for, as `events` does."""
        for event in self.events(after, patient=patient, type=MISSING_EVENT, **filters):
            yield MissingParts.of_event(event)

    # --- flows ----------------------------------------------------------------------------------------------------

    def _run(self, flow: Flow[T]) -> T:
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
                    time.sleep(step.seconds)
                elif isinstance(step, calls.Call):
                    how: dict[str, Any] = {"params": step.parameters, "headers": step.headers}
                    sent = {"json": step.json, "files": step.files}
                    how |= sent if step.pieces is None else {"content": step.pieces()}
                    result = self.request(step.method, step.path, **how)
                else:
                    result = step.run()
            except (Problem, Unreachable, OSError) as error:
                failure = error
