"""Files to send."""

import hashlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

Progress = Callable[[str, int], None]
"""A function that gets the name of a part and the number of its bytes sent so far. It may be called in another
thread."""

PIECE = 1 << 20
_OCTETS = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class File:
    """One file: a path, or bytes with a name.

    `kind` is `data-set`, `text-file` or `binary-file`; None for the gateway to recognise it. `attachment` has further
    members of its entry in the message, such as `data_set`.
    """

    source: Path | bytes
    file_name: str
    kind: str | None = None
    name: str | None = None
    description: str | None = None
    content_type: str = _OCTETS
    attachment: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, given: "File | Path | str", **more: Any) -> "File":
        """Return a file of its path. Raises OSError for a path that is not a regular file."""
        if isinstance(given, File):
            return given
        path = Path(given)
        if not S_ISREG(path.stat().st_mode):
            raise OSError(None, "not a regular file", str(path))
        return cls(path, path.name, **more)

    @property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def entry(self, part: str) -> dict[str, Any]:
        """Return its entry in the description of a message."""
        named = {"kind": self.kind, "name": self.name, "description": self.description}
        return {"part": part, **{key: value for key, value in named.items() if value}, **(self.attachment or {})}

    def read(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    def pieces(self, offset: int = 0, tell: Callable[[int], None] = lambda _at: None) -> Iterator[bytes]:
        """Yield the bytes from `offset` on; `tell` gets the number of bytes read so far, from the beginning."""
        if isinstance(self.source, bytes):
            for at in range(offset, len(self.source), PIECE):
                yield self.source[at : at + PIECE]
                tell(min(at + PIECE, len(self.source)))
            return
        with self.source.open("rb") as file:
            file.seek(offset)
            while piece := file.read(PIECE):
                yield piece
                offset += len(piece)
                tell(offset)

    def digest(self) -> str:
        """Return the digest of the whole content, as the header `Repr-Digest` has it."""
        whole = hashlib.sha256()
        for piece in self.pieces():
            whole.update(piece)
        return f"sha-256=:{b64encode(whole.digest()).decode()}:"

    def metadata(self) -> str:
        """Return the header `Upload-Metadata` of tus, with the file's name and media type."""
        pairs = {"filename": os.fsencode(self.file_name), "filetype": self.content_type.encode()}
        return ",".join(f"{key} {b64encode(value).decode()}" for key, value in pairs.items())
