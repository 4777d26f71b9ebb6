"""Conversion of the body of `POST /messages` to a submission, and the response, made in a thread or in a conversion
slot.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from secrets import token_hex

from fastapi import Request, Response

from app.service.conversion import Slot, SlotUse
from app.service.gateway import Gateway
from app.service.sending.delivery_creation import Submission, folder_of
from app.service.sending.preparation import has_data_sets
from app.service.sending.sending_errors import SendingError, UnknownDestination
from app.service.sending.upload_conversion import Runner, run_here
from app.settings import Destination
from app.web.dependencies.caller import Caller
from app.web.http.digests import Digests
from app.web.http.traceparent import continued
from app.web.resources.messages.multipart_form import MESSAGE, DescriptionReader
from app.web.resources.messages.multipart_upload import Body, DescriptionUpload, UploadWriter, receive
from app.web.resources.messages.sending_problems import problem_of
from app.web.resources.uploads.owned_uploads import CallersUploads
from app.web.responses.disconnection import converting
from app.web.server.thread_pools import pools_of, run_in

Open = Callable[[DescriptionReader, str], Body]
"""A function that begins to store a request's body in a folder, for a reader of its parts. It may block."""
Answer = Callable[[Submission, Runner], Response]
"""A function that makes the response to a submission, using a function that runs its conversions. It blocks."""


async def respond(
    request: Request,
    gateway: Gateway,
    caller: Caller,
    key: str | None,
    answer: Answer,
    *,
    in_slot: bool,
    opening: Open | None = None,
) -> Response:
    """Return the response to a request. It is made in a slot if `in_slot` or if there are data sets. Raises Problem.

    Without `opening`, the body is multipart/form-data, or the JSON of a message whose parts are uploads.
    """
    try:
        with pools_of(request).uploading():
            submission = await _received(
                request, gateway, caller, key, opening or partial(_described, request, gateway)
            )
        if not in_slot and not has_data_sets(submission.message):
            return await run_in(pools_of(request).uploads, partial(answer, submission, run_here))
        return await _converted(request, gateway, submission, answer)
    except SendingError as error:
        if isinstance(error, UnknownDestination) and error.name in gateway.deliveries.destinations:
            caller.knows_destination(error.name)
        raise problem_of(error) from error


def _described(request: Request, gateway: Gateway, reader: DescriptionReader, folder: str) -> Body:
    media_type = request.headers.get("content-type", "")
    if media_type.partition(";")[0].strip().lower() == "application/json":
        return DescriptionUpload(partial(reader.on_field, MESSAGE), Digests(request.headers))
    return UploadWriter(
        media_type,
        gateway.store,
        folder,
        is_field=reader.is_field,
        on_field=reader.on_field,
        max_parts=gateway.settings.limits.attachments_a_message,
        digests=Digests(request.headers),
    )


def known_destinations(gateway: Gateway, caller: Caller) -> dict[str, Destination]:
    """Return the destinations that a caller knows, by name."""
    every = gateway.deliveries.destinations.items()
    return {name: destination for name, destination in every if caller.principal.knows_destination(name)}


async def _received(request: Request, gateway: Gateway, caller: Caller, key: str | None, opening: Open) -> Submission:
    """Store the parts of a request's body and return the submission that it describes, to a destination that the
    caller knows."""
    delivery_id = token_hex(16)
    limits = gateway.settings.limits
    uploads = CallersUploads(gateway, caller, folder_of(delivery_id))
    reader = DescriptionReader(known_destinations(gateway, caller), gateway.store, uploads)
    threads = pools_of(request).uploads
    upload = await run_in(threads, partial(opening, reader, folder_of(delivery_id)))
    form = await receive(request, upload, limits.upload_bytes, gateway.room)
    try:
        described = await run_in(threads, partial(reader.result, form))
    except BaseException:
        await run_in(threads, partial(gateway.deliveries.discard, delivery_id))
        raise
    caller.trail.details["destination"] = described.message.destination
    submission = Submission(delivery_id, described.message, described.parts, key, described.fingerprint)
    trace_parent = continued(request, gateway.traces) or gateway.uploads.trace_parent(reader.upload_ids)
    return submission._replace(uploads=reader.upload_ids, trace_parent=trace_parent)


async def _converted(request: Request, gateway: Gateway, submission: Submission, answer: Answer) -> Response:
    """Return the response, made in a conversion slot while the client is connected."""
    begun = False

    def work(slot: Slot) -> Response:
        nonlocal begun
        begun = True
        return answer(submission, slot.run)

    try:
        async with converting(request, request.receive, SlotUse.UPLOAD) as slot:
            return await slot.within_time(lambda: work(slot))
    finally:
        if not begun:
            discard = partial(gateway.deliveries.discard, submission.delivery_id)
            await asyncio.shield(run_in(pools_of(request).uploads, discard))
