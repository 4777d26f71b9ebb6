"""Errors: of input, which is quarantined and never stops the stream, and of this program or its machine."""

import re
from typing import Final

from app.model.masking import masked
from app.model.records import Damage

LONGEST_KIND: Final = 300
_NUMBERS: Final = re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b|[0-9][0-9,.]*(?<=[0-9])")


class InvalidInputError(Exception):
    """Bytes or values from outside that break their specification.

    `code` is a short stable word for programs, `row` names the field, `at` the byte (-1 where no byte applies),
    `why` says what is wrong. `part` is the number of the part of an attachment that `at` is a byte of; 0 is the first,
    and None stands for it, too.
    """

    def __init__(self, code: str, row: str, at: int, why: str, part: int | None = None) -> None:
        super().__init__(f"{row} at byte {at}: {why}" if at >= 0 else f"{row}: {why}" if row else why)
        self.code, self.row, self.at, self.why, self.part = code, row, at, why, part


def kind_of_reason(why: str) -> str:
    """Return the common text of reasons of one kind, with … for each number and hexadecimal identifier."""
    return _NUMBERS.sub("…", why.encode("utf-8", "replace").decode())[:LONGEST_KIND]


def with_type(error: BaseException) -> str:
    """Return the type and the text of an error of another program or library, for people."""
    return masked(f"{type(error).__name__}: {error}".removesuffix(": "))


class GatewayError(Exception):
    """An error of this program or its machine. Secrets that a library's error quotes are masked in its text."""

    def __init__(self, why: str = "") -> None:
        super().__init__(masked(why))


class JournalTaken(GatewayError):
    """Another gateway has opened the journal, or may have: this process must neither write nor acknowledge anything."""


class JournalFull(GatewayError):
    """The journal is full: no space is left, or a configured limit is reached. Its messages are safe."""


class StoreFull(GatewayError):
    """The content store has no space left. Its objects are safe."""


class NotArchived(GatewayError):
    """Bytes are in a segment of the journal that only the process which receives can read yet."""


class DamagedError(GatewayError):
    """Bytes on disk are damaged or cannot be read: the places `damage` of the journal, or the object `name` of the
    content store."""

    def __init__(self, why: str, *, damage: tuple[Damage, ...] = (), name: str | None = None) -> None:
        super().__init__(why)
        self.damage, self.name = damage, name

    @classmethod
    def of(cls, *damage: Damage) -> "DamagedError":
        """Return the error for damage in the journal."""
        return cls("; ".join(map(str, damage)), damage=damage)


class LimitExceeded(Exception):
    """A conversion took more than the limit of this name allows."""

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(why)
        self.limit = limit


class CatalogError(GatewayError):
    """The catalog cannot be read or written."""


class CatalogDamaged(CatalogError):
    """The catalog is not as it was written: its database says so, or what it returns is no row of ours."""


class LeaseLost(CatalogError):
    """Another process holds the lease under which this one writes: it must stop what the lease allows."""


class CatalogChanged(CatalogError):
    """Another process has changed attachments that this one holds in memory, or the database was started or put back.
    Nothing was written."""


class CatalogTaken(CatalogError):
    """Another gateway has the catalog."""
