"""What a data set has beside its variables and observations: indexes, and integrity constraints, whose layout is not
published. Both are metadata of its table: `sas.indexes` (JSON) and `sas.constraints` (base64 of the bytes as they
came)."""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from app.codecs.sas.indexes import Index

INDEXES, CONSTRAINTS = "sas.indexes", "sas.constraints"
MOST_BYTES = 1 << 20
"""Bytes of a data set's indexes, and of its integrity constraints, that are kept; they are metadata of every file."""

_INT_32 = range(-(1 << 31), 1 << 31)


def written_indexes(indexes: Iterable[Index]) -> str:
    """Indexes as metadata."""
    listed = [
        {"name": each.name, "variables": each.variables, "flags": each.flags, "upercmx": each.upercmx}
        for each in indexes
    ]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def read_indexes(said: Mapping[str, str]) -> tuple[Index, ...]:
    """The indexes that metadata tell. Raises ValueError, which says what is wrong."""
    text = said.get(INDEXES, "")
    if not text:
        return ()
    _check_size(text)
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(listed, list):
        raise ValueError("not an array of indexes")  # noqa: TRY004 - what is wrong is what the text says
    return tuple(_index(number, each) for number, each in enumerate(listed, 1))


def written_constraints(data: bytes) -> str:
    """Integrity constraints as metadata."""
    return b64encode(data).decode()


def read_constraints(said: Mapping[str, str]) -> bytes:
    """The integrity constraints that metadata hold. Raises ValueError, which says what is wrong."""
    text = said.get(CONSTRAINTS, "")
    _check_size(text)
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def _index(number: int, said: Any) -> Index:
    given = said if isinstance(said, dict) else {}
    name, variables = given.get("name"), given.get("variables")
    if not isinstance(name, str) or not name or not isinstance(variables, list) or not variables:
        raise ValueError(f"index {number} has no name, or no variables")
    if not all(isinstance(variable, str) and variable for variable in variables):
        raise ValueError(f"index {number}: a variable's name is text")
    flags, upercmx = given.get("flags", 0), given.get("upercmx", 0)
    for key, value in (("flags", flags), ("upercmx", upercmx)):
        if type(value) is not int or value not in _INT_32:
            raise ValueError(f"index {number}: {key} {value!r} is no integer of four bytes")
    return Index(upercmx=upercmx, name=name, flags=flags, variable_count=len(variables), variables=variables)


def _check_size(text: str) -> None:
    if len(text) > 2 * MOST_BYTES:
        raise ValueError(f"{len(text):,} characters, at most {2 * MOST_BYTES:,} are read")
