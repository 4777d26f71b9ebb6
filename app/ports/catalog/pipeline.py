"""What a pipeline writes to the catalog that it shares with the gateway: rows in bulk, and its own runs."""

from collections.abc import Collection, Sequence
from typing import Protocol

from app.model.pipeline_run import PipelineRun
from app.model.records import Checkpoint
from app.ports.catalog.listing import Page

Packed = tuple[bytes, ...]
"""The rows of a checkpoint, as `CatalogPlugin.pack` makes them."""

PACKED_AT_ONCE = 2
"""The most checkpoints that one call takes."""


class PipelineCatalog(Protocol):
    """Packed rows of finished attachments and their messages, and the newest runs of the pipeline.

    Packed rows are only added: an attachment that the catalog has is changed by `AssemblyCatalog.checkpoint`.
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

    def add_messages(self, packed: Sequence[Packed], now: int) -> None:
        """Add the messages of checkpoints, which lack only attachments, at the time `now` (µs).

        Those whose attachments the catalog has as finished are complete now, with their events. The others get no
        event, nor do messages that were complete before. A message that the catalog has is updated as by a checkpoint.
        """

    def begin_run(self, run: PipelineRun, keep: int) -> None:
        """Add a run. Other runs of its kind that have not ended become `interrupted`; of all runs the newest `keep`
        stay."""

    def end_run(self, run: PipelineRun) -> None:
        """Replace a run, if it is still there."""

    def pipeline_runs(self, cursor: str | None, limit: int) -> Page[PipelineRun]:
        """Return runs, newest first. Raises BadCursor."""
