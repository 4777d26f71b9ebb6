"""The checksum of one request (`Upload-Checksum` of tus 1.0, extension checksum), and the digests of a whole upload."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import replace
from hashlib import md5, sha1, sha256, sha512
from typing import Any, Final

from app.service.uploads import Upload, Uploads
from app.web.http.digests import Digests
from app.web.problems import Problem

# tus asks every server for SHA-1. Checksums tell transmission errors, not attacks.
ALGORITHMS: Final[Mapping[str, Any]] = {"sha1": sha1, "sha256": sha256, "sha512": sha512, "md5": md5}


class Checksum:
    """The checksum that a client gives with a request. Raises Problem for one that cannot be read."""

    def __init__(self, text: str) -> None:
        algorithm, _, encoded = text.strip().partition(" ")
        if algorithm not in ALGORITHMS:
            raise Problem("malformed", f"unknown checksum {algorithm[:40]!r}; use {', '.join(ALGORITHMS)}")
        try:
            self._given = b64decode(encoded, validate=True)
        except (NotBase64, ValueError):
            raise Problem("malformed", "Upload-Checksum is not an algorithm and base64") from None
        self._algorithm, self._hash = algorithm, ALGORITHMS[algorithm](usedforsecurity=False)

    def update(self, piece: bytes | memoryview) -> None:
        """Include the next bytes."""
        self._hash.update(piece)

    def check(self) -> None:
        """Raise Problem if the bytes differ from the client's checksum."""
        if self._hash.digest() != self._given:
            raise Problem("checksum-mismatch", f"the {self._algorithm} of the body is not the one in Upload-Checksum")


def note_digest(uploads: Uploads, upload: Upload, given: str) -> None:
    """Note digests of the whole content, before any byte of the request that brings them is kept. Blocks.

    Raises Problem for digests that cannot be read.
    """
    known = upload.record.repr_digest
    if known is None or given not in known:
        together = given if known is None else f"{known}, {given}"
        Digests({"repr-digest": together})
        uploads.note(upload, replace(upload.record, repr_digest=together))


def check_whole(uploads: Uploads, upload: Upload) -> None:
    """Compare a complete upload with the digests that the client gave of it, unless that was done. Delete it if they
    differ. Blocks.

    Raises Problem, UnknownUpload and UploadSuperseded.
    """
    if upload.record.repr_digest is None or upload.record.is_checked:
        return
    digests = Digests({"repr-digest": upload.record.repr_digest})
    for piece in uploads.read(upload):
        digests.update(piece)
    try:
        digests.check("the content")
    except Problem:
        uploads.delete(upload)
        raise
    uploads.note(upload, replace(upload.record, is_checked=True))
