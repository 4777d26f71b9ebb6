"""Whose fault it is. Theirs is quarantined and never stops the stream; ours is loud."""


class TheirError(Exception):
    """Bytes or values from outside that break their specification.

    `code` is a short stable word for programs, `row` names the field, `at` the byte (-1 where no byte applies),
    `why` says what is wrong.
    """

    def __init__(self, code: str, row: str, at: int, why: str) -> None:
        super().__init__(f"{row} at byte {at}: {why}" if at >= 0 else f"{row}: {why}" if row else why)
        self.code, self.row, self.at, self.why = code, row, at, why


class OurError(Exception):
    """A fault of this program or of the machine under it."""


class JournalFull(OurError):
    """The journal can take nothing at present (no space left, or a limit of ours); what it has is safe."""


class StoreFull(OurError):
    """The content store can take nothing at present for want of space; the objects it has are safe."""


class CatalogError(OurError):
    """The catalog cannot be read or written at present."""


class CatalogTaken(CatalogError):
    """Another gateway has the catalog."""
