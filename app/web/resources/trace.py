"""Trace: decoding of captured bytes, field by field."""

from collections.abc import Callable, Generator
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.model.message import PhysicalMessage
from app.service.conversion import Busy, SlotUse
from app.service.conversion.conversion_jobs import explained, explained_message
from app.trace import FORMATS, NotRecognised, TooManyFrames
from app.web.dependencies.caller import resource_router
from app.web.problems import Problem, invalid_content, invalid_parameter, responses
from app.web.responses.disconnection import convert


class CellView(BaseModel):
    """One decoded field: its first byte, its size in bytes, its name and its value (bytes in hexadecimal)."""

    offset: int = Field(examples=[0])
    size: int = Field(examples=[4])
    name: str = Field(examples=["struc_id"])
    value: Any = Field(examples=["MD"])


class FrameView(BaseModel):
    """One structure and its cells, in order and without gaps."""

    format: str = Field(examples=["mqmd"])
    offset: int = Field(examples=[0])
    note: str
    cells: list[CellView]
    fields: list[dict[str, Any]] | None = Field(default=None, description="of a Rendezvous message")
    decoded: dict[str, Any] | None = Field(default=None, description="of an order packet: all fields of its records")
    trace: list[str] | None = Field(default=None, description="of an order packet: the lines of a kernel's vtrace")


LONGEST = 4 << 20
"""Maximum bytes of a capture: the largest physical message of a queue."""

MOST_CAPTURES = 8
"""Maximum number of captures that are received from clients at the same time."""

router = resource_router(tags=["operations"])

_IGNORED_IN_HEX = str.maketrans("", "", " \t\r\n:-")

_REQUEST_BODY = {
    "required": True,
    "content": {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
}


@router.post(
    "/trace",
    operation_id="trace",
    openapi_extra={"requestBody": _REQUEST_BODY},
    response_model=list[FrameView],
    responses=responses("not-recognised", "too-large", "conversion-limit", "busy"),
)
async def trace(
    request: Request,
    as_hex: Annotated[bool, Query(alias="hex", description="the body is hexadecimal digits")] = False,
    as_format: Annotated[
        str | None,
        Query(
            alias="as",
            description="format of the bytes; without it, the format is detected",
            json_schema_extra={"enum": list(FORMATS)},
        ),
    ] = None,
) -> Response:
    """Decode captured bytes: MQ descriptors and headers, SAS messages, MQTT packets, Rendezvous messages, order
    packets of SAP DB.
    """
    if as_format is not None and as_format not in FORMATS:
        why = f"unknown format {as_format!r}; choose one of: {', '.join(FORMATS)}"
        raise invalid_parameter("as", why)
    data = await _capture(request, as_hex=as_hex)
    try:
        return await _decoded(request, explained, data, as_format)
    except NotRecognised as error:
        raise Problem("not-recognised", str(error), tried=[one._asdict() for one in error.tried]) from None


async def decoded_message(request: Request, message: PhysicalMessage) -> Response:
    """Return the fields of a physical message's body as JSON. Raises Problem."""
    copied = message._replace(body=bytes(message.body), properties=dict(message.properties))
    return await _decoded(request, explained_message, copied)


async def _decoded(request: Request, function: Callable[..., Generator[bytes, None, None]], *given: Any) -> Response:
    """Return the JSON that a function of conversions makes of bytes. Raises Problem for too many frames."""
    try:
        answer = await convert(request, SlotUse.UPLOAD, lambda slot: b"".join(slot.run(function, *given)))
    except TooManyFrames as error:
        raise Problem("too-large", str(error)) from None
    return Response(answer, media_type="application/json")


async def _capture(request: Request, *, as_hex: bool) -> bytes:
    """Read the bytes to decode. The number of concurrent requests is limited, since each is held in memory."""
    state = request.app.state
    if state.captures >= MOST_CAPTURES:
        raise Busy(f"{MOST_CAPTURES} captures are being read")
    state.captures += 1
    try:
        body, limit = bytearray(), LONGEST * 3 if as_hex else LONGEST
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise Problem("too-large", f"a capture may have {limit} bytes", limit=limit)
        if not as_hex:
            return bytes(body)
        try:
            return await run_in_threadpool(lambda: bytes.fromhex(body.decode("ascii").translate(_IGNORED_IN_HEX)))
        except ValueError:
            raise invalid_content("#", "the body is not hexadecimal") from None
    finally:
        state.captures -= 1
