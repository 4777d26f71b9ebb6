"""A request that sends: its body is stored, its parts are described, and the message is queued."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, singledispatch
from hashlib import sha256
from secrets import token_hex
from typing import Annotated, Any, Final

from fastapi import Header, Request, Response
from fastapi.responses import JSONResponse

from app.model.validation import IDEMPOTENCY_KEY
from app.service.conversion import Slot, SlotUse
from app.service.gateway import Gateway
from app.service.sending.delivery_creation import Submission, folder_of
from app.service.sending.preparation import has_data_sets
from app.service.sending.sending_errors import (
    DestinationRefuses,
    KeyReused,
    MessageFault,
    SendingError,
    UnknownDestination,
    UnsuitableDataSets,
)
from app.service.sending.upload_conversion import Runner, run_here
from app.service.threads import uncancelled
from app.web.dependencies.caller import Caller
from app.web.http.traceparent import continued
from app.web.problems import Problem, pointer_to, responses
from app.web.resources.deliveries import DeliveryView
from app.web.resources.messages.multipart_form import DescriptionReader
from app.web.resources.messages.multipart_upload import Body, receive
from app.web.resources.messages.schemas import Rehearsal, fault_members
from app.web.resources.uploads.owned_uploads import CallersUploads, owner_of
from app.web.responses.disconnection import convert
from app.web.server.thread_pools import pools_of, run_in

IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=IDEMPOTENCY_KEY,
        description="makes it safe to repeat this request: all requests with the same key send one message",
        examples=["5b1f7a52-4f0d-4b7a-9b5e-0a8f6f3f2f7e"],
    ),
]
ACCEPTED: Final[dict[str, Any]] = {
    "description": "stored, and queued for sending",
    "headers": {
        "Location": {"description": "the delivery", "schema": {"type": "string"}},
        "Idempotency-Replayed": {
            "description": "`true` if this repeats the response to the key's first request",
            "schema": {"type": "string"},
        },
    },
}
"""The description of status 202."""
MOST_ERRORS: Final = 1000
SHOWN_ERRORS: Final = 5
REFUSED: Final = responses(
    "malformed",
    "digest-mismatch",
    "in-flight",
    "too-large",
    "unsupported-media-type",
    "unsuitable",
    "unknown-destination",
    "key-reused",
    "conversion-limit",
    "expansion-limit",
    "unavailable",
    "busy",
    "storage-full",
)
"""The descriptions of the problems with which a request that sends is refused."""
_WITHOUT_OWNER: Final = ("anonymous", "token")
"""The kinds of callers that may see every delivery."""


class SendingRequest:
    """A request that sends. Its steps: `accepted`, then `receive`, then `queue` or `rehearse`."""

    def __init__(self, request: Request, gateway: Gateway, caller: Caller, key: str | None) -> None:
        self._request, self._gateway, self._caller = request, gateway, caller
        self._key = key
        if key is not None and caller.principal.kind not in _WITHOUT_OWNER:
            # It is stored with a digest of its owner before it, so that nobody learns about another caller's
            # deliveries. A client's own key has no space, so it equals no stored one.
            self._key = f"{sha256(owner_of(caller).encode()).hexdigest()[:32]} {key}"
        self._delivery_id = token_hex(16)
        self.folder = folder_of(self._delivery_id)
        every = gateway.deliveries.destinations.items()
        self.destinations = {name: it for name, it in every if caller.principal.knows_destination(name)}
        self._uploads = CallersUploads(gateway, caller, self.folder)
        self.reader = DescriptionReader(self.destinations, gateway.store, self._uploads)

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """Accept the request for the length of the block, in which errors of sending become problems.

        Raises Problem while the gateway stops, and while another request with the same key runs.
        """
        if self._gateway.draining:
            raise Problem("unavailable", "the gateway is stopping", {"Retry-After": "5"})
        in_flight: set[str] = self._request.app.state.in_flight
        if self._key in in_flight:
            raise Problem("in-flight", "another request with this key is in progress", {"Retry-After": "1"})
        if self._key is not None:
            in_flight.add(self._key)
        try:
            yield
        except SendingError as error:
            if isinstance(error, UnknownDestination) and error.name in self._gateway.deliveries.destinations:
                self._caller.knows_destination(error.name)
            raise problem_of(error) from error
        finally:
            if self._key is not None:
                in_flight.discard(self._key)

    async def receive(self, body: Body) -> Submission:
        """Store the body and return the submission that it describes. Raises Problem and SendingError."""
        gateway, pools = self._gateway, pools_of(self._request)
        with pools.uploading():
            form = await receive(self._request, body, gateway.settings.limits.upload_bytes, gateway.room)
            try:
                described = await run_in(pools.uploads, partial(self.reader.result, form))
            except BaseException:
                await self._discard()
                raise
        self._caller.trail.details["destination"] = described.message.destination
        return Submission(
            self._delivery_id,
            described.message,
            described.parts,
            self._key,
            described.fingerprint,
            self.reader.upload_ids,
            continued(self._request, gateway.traces) or self._uploads.trace_parent,
        )

    async def queue(self, submission: Submission) -> Response:
        """Queue the message and answer with its delivery. Data sets are converted in a conversion slot."""
        if has_data_sets(submission.message):
            return await self._converted(submission, self._queue)
        return await run_in(pools_of(self._request).uploads, partial(self._queue, submission, run_here))

    async def rehearse(self, submission: Submission) -> Response:
        """Answer with a description of the message that would be sent."""

        def answer(submission: Submission, run: Runner) -> JSONResponse:
            view = Rehearsal.of(self._gateway.deliveries.dry_run(submission, run))
            return JSONResponse(view.model_dump(mode="json", exclude_none=True))

        return await self._converted(submission, answer)

    async def _converted(self, submission: Submission, answer: Callable[[Submission, Runner], Response]) -> Response:
        """Return the answer, made in a conversion slot while the client is connected."""
        begun = False

        def work(slot: Slot) -> Response:
            nonlocal begun
            begun = True
            return answer(submission, slot.run)

        try:
            return await convert(self._request, SlotUse.UPLOAD, work)
        finally:
            if not begun:
                await uncancelled(asyncio.ensure_future(self._discard()))

    def _queue(self, submission: Submission, run: Runner) -> JSONResponse:
        deliveries = self._gateway.deliveries
        delivery, warnings, is_replayed = deliveries.submit(submission, run)
        self._gateway.uploads.sent(submission.uploads)
        self._caller.trail.details["delivery"] = delivery.id
        repeats = deliveries.repeats(delivery.destination)
        view = DeliveryView.of(delivery, self._caller.base, repeats).model_dump(mode="json")
        if warnings:
            view["warnings"] = [located(fault) for fault in warnings]
        headers = {"Location": view["links"]["self"]} | ({"Idempotency-Replayed": "true"} if is_replayed else {})
        return JSONResponse(view, 202, headers)

    async def _discard(self) -> None:
        """Remove what was stored."""
        await run_in(pools_of(self._request).uploads, partial(self._gateway.deliveries.discard, self._delivery_id))


@singledispatch
def problem_of(error: SendingError) -> Problem:
    """Return the problem for an error of sending."""
    return Problem("unsuitable", str(error))


@problem_of.register
def _(error: UnknownDestination) -> Problem:
    known = ", ".join(error.known)
    detail = f"choose one of: {known}" if known else "add one to the configuration: there is none"
    errors = [{"pointer": pointer_to(["destination"]), "detail": detail}]
    return Problem("unknown-destination", str(error), known=error.known, errors=errors)


@problem_of.register
def _(error: DestinationRefuses) -> Problem:
    errors = [{"pointer": pointer_to(refusal.where), "detail": refusal.why} for refusal in error.refusals]
    return Problem("invalid", str(error), errors=errors)


@problem_of.register
def _(error: UnsuitableDataSets) -> Problem:
    errors = [located(fault) for fault in error.faults]
    shown = "; ".join(str(each["detail"]) for each in errors[:SHOWN_ERRORS])
    more = len(errors) - SHOWN_ERRORS
    return Problem("unsuitable", f"{shown}; and {more} more" if more > 0 else shown, errors=errors[:MOST_ERRORS])


@problem_of.register
def _(error: KeyReused) -> Problem:
    return Problem("key-reused", str(error))


def located(fault: MessageFault) -> dict[str, Any]:
    """Return the members of a FieldError for a fault, with a pointer to its place."""
    return {"pointer": pointer_to(fault.where), **fault_members(fault.fault)}
