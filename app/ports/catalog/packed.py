"""Rows that a catalog takes as a whole: other processes have made them of records, in the form that its database
reads."""

from collections.abc import Collection, Sequence
from typing import Protocol

from app.model.records import Checkpoint

Packed = tuple[bytes, ...]
"""The rows of a checkpoint, as `CatalogPlugin.pack` makes them."""

PACKED_AT_ONCE = 8
"""The most checkpoints that one call takes."""


class PackedCatalog(Protocol):
    """What finished attachments and their messages need, very many at a time.

    Nothing here changes what the catalog has of an attachment. Where it has any of them, `AssemblyCatalog.checkpoint`
    is the way.
    """

    def packing(self) -> str | None:
        """Return the form of packed rows that this catalog takes, for `CatalogPlugin.pack`; None if it takes none."""

    def add_finished(self, packed: Sequence[Packed], now: int, without: Collection[str] = ()) -> bool:
        """Add the finished attachments of checkpoints, all but those `without`, with `now` (µs) as the time at which
        they are finished, and as the time of their events.

        Return False, and change nothing, if the catalog has any of them.
        """

    def unpacked(self, packed: Packed) -> Checkpoint:
        """Return the attachments, the finished and the messages in these rows, without events.

        `finished_at` is not set.
        """

    def add_messages(self, packed: Sequence[Packed], incomplete: Sequence[str], now: int) -> None:
        """Add the messages of checkpoints, and their events, at the time `now` (µs).

        All but those `incomplete` are complete now; these get no event. A message that the catalog has is updated as by
        a checkpoint.
        """
