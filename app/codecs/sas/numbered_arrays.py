"""The fields of a message that all have one name, found and read all at once.

`app.codecs.sas.numbered` reads any message field by field; here are those that have many fields of the usual types.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.codecs.rendezvous.constants import HEADER_SIZE, LONG_SIZE, MEDIUM_SIZE, SHORT_SIZE_LIMIT

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


class FoundFields(NamedTuple):
    """The fields of a message in the order of their identifiers."""

    type: Bytes
    data_at: Integers
    size: Integers


def find_fields(buffer: Bytes, prefix: bytes) -> FoundFields | None:
    """Find the fields of a message that all begin with `prefix`: the length of the name area, the name and its NUL.

    All that begins so may be a field; those are, at which the one before ends. None stands for any other message.
    """
    type_at = len(prefix) + 2
    last = len(buffer) - type_at - 2
    if last < HEADER_SIZE:
        return None
    begins = buffer[: last + 1] == prefix[0]
    for offset in range(1, len(prefix)):
        begins &= buffer[offset : last + 1 + offset] == prefix[offset]
    begins[:HEADER_SIZE] = False
    at = np.flatnonzero(begins)
    if not at.size or at[0] != HEADER_SIZE:
        return None
    sizes = _sizes(buffer, at + type_at + 1)
    if sizes is None:
        return None
    data_at, size = sizes
    end = data_at + size
    if end[-1] != len(buffer) or (end[:-1] != at[1:]).any():
        chain = _chain(at, end, len(buffer))
        if chain is None:
            return None
        at, data_at, size = at[chain], data_at[chain], size[chain]
    ids = (buffer[at + len(prefix)].astype(np.int64) << 8) | buffer[at + len(prefix) + 1]
    expected = np.arange(1, len(ids) + 1)
    kinds = buffer[at + type_at]
    if (ids != expected).any():
        order = np.argsort(ids, kind="stable")
        if (ids[order] != expected).any():
            return None
        kinds, data_at, size = kinds[order], data_at[order], size[order]
    return FoundFields(kinds, data_at, size)


def _sizes(buffer: Bytes, at: Integers) -> tuple[Integers, Integers] | None:
    """Return where the data of fields begin and how many bytes they have, by the sizes that stand at these places."""
    marks = buffer[at]
    size = marks.astype(np.int64)
    data_at = at + 1
    for mark, width in ((MEDIUM_SIZE, 2), (LONG_SIZE, 4)):
        chosen = np.flatnonzero(marks == mark)
        if not chosen.size:
            continue
        places = data_at[chosen][:, None] + np.arange(width)
        number = np.zeros(len(chosen), np.int64)
        for column in buffer[np.minimum(places, len(buffer) - 1)].T:
            number = (number << 8) | column
        size[chosen] = number - width
        data_at[chosen] += width
    is_short = data_at == at + 1
    return None if (is_short & (marks >= SHORT_SIZE_LIMIT)).any() else (data_at, size)


def _chain(at: Integers, end: Integers, size: int) -> list[int] | None:
    """Return the places that are fields: the first, and each that the one before ends at, to the end of the message."""
    following = np.searchsorted(at, end)
    followers = np.where(at[np.minimum(following, len(at) - 1)] == end, following, -1).tolist()
    chain, index = [0], 0
    while end[index] != size:
        index = followers[index]
        if index <= chain[-1]:
            return None
        chain.append(index)
    return chain


def integers_at(buffer: Bytes, at: Integers) -> Integers:
    """Return the numbers of 4 bytes at these places."""
    raw = np.ascontiguousarray(buffer[at[:, None] + np.arange(4)])
    return raw.view(">i4").reshape(-1).astype(np.int64)
