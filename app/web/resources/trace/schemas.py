"""The JSON of decoded bytes."""

from typing import Any

from pydantic import BaseModel, Field


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
