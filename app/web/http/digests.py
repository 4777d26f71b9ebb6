"""Digests that clients give with what they send (RFC 9530), and their check against the received bytes."""

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hashlib import sha256, sha512
from typing import Any, Final, NamedTuple

from app.web.problems import Problem

FIELDS: Final = ("Content-Digest", "Repr-Digest")
"""Both mean the same bytes here, as no content coding of requests is supported."""
_ALGORITHMS: Final[Mapping[str, Any]] = {"sha-256": sha256, "sha-512": sha512}
_MEMBER: Final = re.compile(r"\s*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):\s*(;[^,]*)?")
_LONGEST: Final = 1000


class _Given(NamedTuple):
    field: str
    algorithm: str
    digest: bytes


class Digests:
    """The digests of one body or one part. Unknown algorithms are ignored, as the RFC says."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        """Read the digests of header fields, by names in lower case. Raises Problem for a field that cannot be read."""
        self._given: list[_Given] = []
        for field in FIELDS:
            if (text := headers.get(field.lower())) is not None:
                members = text[:_LONGEST].split(",")
                found = [match for member in members if (match := _MEMBER.fullmatch(member))]
                if len(text) > _LONGEST or len(found) < len(members):
                    raise Problem("malformed", f"{field} cannot be read; write for example {field}: sha-256=:base64:")
                try:
                    self._given += [
                        _Given(field, match[1], b64decode(match[2], validate=True))
                        for match in found
                        if match[1] in _ALGORITHMS
                    ]
                except NotBase64:
                    raise Problem("malformed", f"{field} has a digest that is not base64") from None
        self._hashes = {given.algorithm: _ALGORITHMS[given.algorithm]() for given in self._given}

    def update(self, piece: bytes | memoryview) -> None:
        """Include the next bytes."""
        for each in self._hashes.values():
            each.update(piece)

    def check(self, what: str) -> None:
        """Raise Problem if the bytes of `what` differ from a given digest."""
        for given in self._given:
            found = self._hashes[given.algorithm].digest()
            if found != given.digest:
                raise Problem(
                    "digest-mismatch",
                    f"the {given.algorithm} of {what} is not the one in {given.field}",
                    digest=f"{given.algorithm}=:{b64encode(found).decode()}:",
                )
