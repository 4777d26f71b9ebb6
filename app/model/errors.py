"""Whose fault it is. Theirs is quarantined and never stops the stream; ours is loud."""

import re
from typing import Final

from app.model.masking import masked
from app.model.records import Damage

LONGEST_KIND: Final = 300
_NUMBERS: Final = re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b|[0-9][0-9,.]*(?<=[0-9])")


class InvalidInputError(Exception):
    """Bytes or values from outside that break their specification.

    `code` is a short stable word for programs, `row` names the field, `at` the byte (-1 where no byte applies),
    `why` says what is wrong.
    """

    def __init__(self, code: str, row: str, at: int, why: str) -> None:
        super().__init__(f"{row} at byte {at}: {why}" if at >= 0 else f"{row}: {why}" if row else why)
        self.code, self.row, self.at, self.why = code, row, at, why


def kind_of_reason(why: str) -> str:
    """Return what reasons of one kind have in common: the text with … for each number and hexadecimal identifier."""
    return _NUMBERS.sub("…", why.encode("utf-8", "replace").decode())[:LONGEST_KIND]


def with_type(error: BaseException) -> str:
    """Return the type of an error and its text, as people are told of errors that are not this program's own."""
    return masked(f"{type(error).__name__}: {error}".removesuffix(": "))


class GatewayError(Exception):
    """A fault of this program or of the machine under it. Its text shows no secret that a library's error quotes."""

    def __init__(self, why: str = "") -> None:
        super().__init__(masked(why))


class JournalTaken(GatewayError):
    """Another gateway has opened the journal since: this process may write nothing more, and acknowledge nothing."""


class JournalFull(GatewayError):
    """The journal can take nothing at present (no space left, or a limit of ours); what it has is safe."""


class StoreFull(GatewayError):
    """The content store can take nothing at present for want of space; the objects it has are safe."""


class DamagedError(GatewayError):
    """Bytes on disk are not as they were written, or cannot be read: `damage` says which of the journal, or `name`
    which object of the content store."""

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
    """The catalog cannot be read or written at present."""


class CatalogTaken(CatalogError):
    """Another gateway has the catalog."""
