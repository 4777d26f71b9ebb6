"""Manners of writing values, and buffers of the vectors."""

from typing import Any

import pytest

from app.codecs.sapdb.constants import Undef
from app.codecs.sapdb.packet_records import LongDescriptor, ParameterInfo
from app.codecs.sapdb.parameter_values import Manner, code_of
from app.wire import Context
from tests.codecs.sapdb.vectors import ALL

BIG = Manner(code_of(0, ">"), Context(">"))
LITTLE = Manner(code_of(0, "<"), Context("<"))
UNICODE = Manner(code_of(20, ">"), Context(">"))
UNICODE_SWAP = Manner(code_of(19, "<"), Context("<"))
MANNERS = pytest.mark.parametrize("manner", [BIG, LITTLE, UNICODE, UNICODE_SWAP], ids=["big", "little", "u20", "u19"])


def buffer_of(name: str, kind: str) -> bytes:
    for segment in ALL[name]["decoded"]["segments"]:
        for part in segment["parts"]:
            if part["part_kind"] == kind:
                return bytes.fromhex(part["buf"])
    raise AssertionError(f"{name} has no {kind}")


def shown(value: Any) -> Any:
    if isinstance(value, Undef):
        return value.name
    if isinstance(value, LongDescriptor):
        rows = ("maxlen", "intern_pos", "infoset", "state", "valmode", "valind", "valpos", "vallen")
        return {row: int(getattr(value, row)) for row in rows}
    return str(value)


def info(kind: int, length: int, size: int, bufpos: int = 1) -> ParameterInfo:
    return ParameterInfo(2, 0, kind, 0, length, size, bufpos)
