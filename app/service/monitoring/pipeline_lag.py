"""How far the pipeline is behind the journal."""

from typing import NamedTuple

from app.model.message import Position
from app.ports import JournalReader


class Lag(NamedTuple):
    """The sealed part of a journal that is not in the catalog yet. `seconds` is how long its first segment has been
    sealed."""

    segments: int
    size: int
    seconds: float


def lag(journal: JournalReader, progress: int | None, now: int) -> Lag:
    """Return the lag of a catalog at this progress (packed position), at this time (µs)."""
    last = 0 if progress is None else Position.unpack(progress).segment
    waiting = [segment for segment in journal.segments() if segment.number > last and segment.sealed_at is not None]
    oldest = min((segment.sealed_at for segment in waiting if segment.sealed_at is not None), default=now)
    return Lag(len(waiting), sum(segment.size for segment in waiting), max(0.0, (now - oldest) / 1e6))
