"""The JSON of a map: an application message of typed values, as SAS sends it over TIB/Rendezvous."""

from math import isfinite
from typing import Literal, get_args

from pydantic import BaseModel, Field

from app.codecs.sas.rendezvous_messages import CHAR, MAP_TYPE_NAMES, MapItem, is_map, read_map
from app.wire import WireError

MapType = Literal["short", "long", "double", "char"]
MOST_MAP_VALUES = 32_767
"""A message has at most 65,535 fields: their number, and two for each value."""

_BITS = {"short": 16, "long": 32}

assert get_args(MapType) == tuple(MAP_TYPE_NAMES.values())


class MapValue(BaseModel):
    """One value of a map. It is null for a number that JSON lacks, and for a text that its CCSID lacks."""

    type: MapType = Field(examples=["long"])
    value: int | float | str | None = Field(examples=[9999])

    @classmethod
    def of(cls, item: MapItem, codec: str | None) -> "MapValue":
        return cls.model_construct(type=MAP_TYPE_NAMES[item.type], value=_shown(item, codec))


def _shown(item: MapItem, codec: str | None) -> int | float | str | None:
    if isinstance(item.value, bytes):
        return text_of(item.value, codec)
    return item.value if isfinite(item.value) else None


def text_of(data: bytes, codec: str | None) -> str | None:
    """Return bytes as text; None where they are none in the codec, or where there is no codec."""
    if codec is None:
        return None
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return None


def map_items(body: bytes) -> tuple[MapItem, ...] | None:
    """Return the values of an application message that is a map; None for any other one."""
    if not is_map(body):
        return None
    try:
        return read_map(body)
    except WireError:
        return None


def text_in(body: bytes, items: tuple[MapItem, ...] | None, codec: str | None) -> str | None:
    """Return the text that an application message is, or that is the only value of its map; None without one."""
    if items is None:
        return text_of(body, codec)
    if len(items) == 1 and items[0].type == CHAR and isinstance(items[0].value, bytes):
        return text_of(items[0].value, codec)
    return None


def _is_double(value: float | str) -> bool:
    try:
        return isfinite(float(value))
    except OverflowError:  # of an integer
        return False


def check_map_value(type_: MapType, value: float | str) -> None:
    """Raise ValueError for a value that its type does not have."""
    if isinstance(value, str) != (type_ == "char"):
        raise ValueError(f"a {type_} has {'a text' if type_ == 'char' else 'a number'}")
    if type_ in _BITS and not (isinstance(value, int) and -(1 << _BITS[type_] - 1) <= value < 1 << _BITS[type_] - 1):
        raise ValueError(f"a {type_} is an integer of {_BITS[type_]} bits, not {value!r}")
    if type_ == "double" and not _is_double(value):
        raise ValueError(f"a {type_} is a finite number of 64 bits")
