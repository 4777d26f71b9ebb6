"""The indexes and the integrity constraints of a data set.

The layout of integrity constraints in messages of a queue is not published. Both are metadata of the data set's table:
`sas.indexes` (JSON) and `sas.constraints` (base64 of the bytes as received), or `sas.rendezvous_constraints` (base64 of
the messages ATC that came over TIB/Rendezvous).
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from app.codecs.sas.data_set_messages import Index

INDEXES, CONSTRAINTS, RENDEZVOUS_CONSTRAINTS = "sas.indexes", "sas.constraints", "sas.rendezvous_constraints"
MOST_BYTES = 1 << 20
"""The maximum size in bytes of a data set's indexes, and of its integrity constraints; every file has them as metadata.
"""

_INT_32 = range(-(1 << 31), 1 << 31)


def written_indexes(indexes: Iterable[Index]) -> str:
    """Return indexes as metadata."""
    listed = [
        {"name": each.name, "variables": each.variables, "flags": each.flags, "upercmx": each.upercmx}
        for each in indexes
    ]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def read_indexes(entries: Mapping[str, str]) -> tuple[Index, ...]:
    """Return the indexes in metadata. Raises ValueError that states the fault."""
    text = entries.get(INDEXES, "")
    if not text:
        return ()
    _check_size(text)
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(listed, list):
        raise ValueError("not an array of indexes")  # noqa: TRY004 - the fault is in the text, not in a type
    return tuple(_index(number, each) for number, each in enumerate(listed, 1))


def written_constraints(data: bytes) -> str:
    """Return integrity constraints as metadata."""
    return b64encode(data).decode()


def read_constraints(entries: Mapping[str, str], key: str = CONSTRAINTS) -> bytes:
    """Return the integrity constraints in metadata. Raises ValueError that states the fault."""
    text = entries.get(key, "")
    _check_size(text)
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def _index(number: int, entries: Any) -> Index:
    given = entries if isinstance(entries, dict) else {}
    name, variables = given.get("name"), given.get("variables")
    if not isinstance(name, str) or not name or not isinstance(variables, list) or not variables:
        raise ValueError(f"index {number} needs a name and variables")
    if not all(isinstance(variable, str) and variable for variable in variables):
        raise ValueError(f"index {number}: a variable's name must be text")
    flags, upercmx = given.get("flags", 0), given.get("upercmx", 0)
    for key, value in (("flags", flags), ("upercmx", upercmx)):
        if type(value) is not int or value not in _INT_32:
            raise ValueError(f"index {number}: {key} {value!r} is not a four-byte integer")
    return Index(upercmx=upercmx, name=name, flags=flags, variable_count=len(variables), variables=variables)


def _check_size(text: str) -> None:
    if len(text) > 2 * MOST_BYTES:
        raise ValueError(f"{len(text):,} characters, at most {2 * MOST_BYTES:,} are read")
