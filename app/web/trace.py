"""Trace: captured bytes in, what they mean field by field out."""

from enum import Enum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.trace import FORMATS, Frame, NotRecognised, explain
from app.web.problems import Problem, responses

LONGEST = 4 << 20
"""Bytes of a capture; the largest physical message of a queue."""

router = APIRouter(tags=["operations"])

_IGNORED_IN_HEX = str.maketrans("", "", " \t\r\n:-")


class CellView(BaseModel):
    """One row as found: the byte where it starts, how many it takes, its name and its value (bytes in hexadecimal)."""

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

    @classmethod
    def of(cls, frame: Frame) -> "FrameView":
        cells = [
            CellView(offset=cell.at, size=cell.size, name=cell.name, value=_plain(cell.value)) for cell in frame.cells
        ]
        return cls(format=frame.format, offset=frame.offset, note=frame.note, cells=cells, **frame.decoded)


_REQUEST_BODY = {
    "required": True,
    "content": {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "text/plain": {"schema": {"type": "string"}, "example": "10 02 00 00"},
    },
}


@router.post(
    "/trace",
    operation_id="trace",
    openapi_extra={"requestBody": _REQUEST_BODY},
    responses=responses("invalid", "not-recognised", "too-large"),
)
async def trace(
    request: Request,
    as_hex: Annotated[bool, Query(alias="hex", description="the body is hexadecimal digits")] = False,
    as_format: Annotated[
        str | None,
        Query(
            alias="as",
            description="what the bytes are; else they are recognised",
            json_schema_extra={"enum": list(FORMATS)},
        ),
    ] = None,
) -> list[FrameView]:
    """Explains captured bytes: MQ descriptors and headers, SAS messages, MQTT packets, Rendezvous messages."""
    if as_format is not None and as_format not in FORMATS:
        why = f"not one of {', '.join(FORMATS)}"
        raise Problem("invalid", f"as: {why}", errors=[{"parameter": "as", "detail": why}])
    body = await _body(request, LONGEST * 3 if as_hex else LONGEST)
    data = _from_hex(body) if as_hex else bytes(body)
    try:
        return await run_in_threadpool(lambda: [FrameView.of(frame) for frame in explain(data, as_format)])
    except NotRecognised as error:
        raise Problem("not-recognised", str(error), tried=[one._asdict() for one in error.tried]) from None


async def _body(request: Request, limit: int) -> bytearray:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Problem("too-large", f"a capture may have {limit} bytes", limit=limit)
    return body


def _from_hex(body: bytearray) -> bytes:
    try:
        return bytes.fromhex(body.decode("ascii").translate(_IGNORED_IN_HEX))
    except ValueError:
        why = "the body is not hexadecimal"
        raise Problem("invalid", why, errors=[{"pointer": "#", "detail": why}]) from None


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return value.hex()
    return value.value if isinstance(value, Enum) else value
