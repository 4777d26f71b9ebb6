"""The answer to a request for the fields of a physical message."""

from fastapi import Request, Response

from app.model.message import PhysicalMessage
from app.service.conversion import SlotUse
from app.service.conversion.conversion_jobs import explained_message
from app.trace import TooManyFrames
from app.web.problems import Problem
from app.web.responses.disconnection import converting


async def traced(request: Request, message: PhysicalMessage) -> Response:
    """Decode the body of a physical message in a process for conversions. Raises Problem."""
    copied = message._replace(body=bytes(message.body), properties=dict(message.properties))
    try:
        async with converting(request, request.receive, SlotUse.UPLOAD) as slot:
            answer = await slot.within_time(lambda: b"".join(slot.run(explained_message, copied)))
    except TooManyFrames as error:
        raise Problem("too-large", str(error)) from None
    return Response(answer, media_type="application/json")
