"""Assembly: checkpoints of what is known of unfinished attachments, and where their parts lie in the journal."""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from app.model.records import AttachmentRecord, Checkpoint, Extent, MessageRecord, PartRun


class AssemblyCatalog(Protocol):
    """The state of assembly, written in checkpoints."""

    def progress(self) -> int | None:
        """Return the packed position that the last checkpoint included; None before the first."""

    def restarts(self) -> int:
        """Return how many attachments were begun anew by `restart`, in any process."""

    def source_dialects(self) -> dict[str, int]:
        """Return the detected dialect of each source."""

    def attachments_by_key(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, AttachmentRecord]:
        """Return the attachments of a source with these correlids that are known, including deleted ones."""

    def messages_by_correl_id(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, MessageRecord]:
        """Return the messages of a source by the 20 compared bytes (`app.codecs.sas.correlid`) of the correlid of their
        application message (`app.model.identity.addressed`)."""

    def messages_by_key(self, source: str, keys: Sequence[bytes]) -> list[MessageRecord]:
        """Return all messages of a source whose application message's correlid begins with one of these keys of 16
        bytes, in the order of their headers."""

    def checkpoint(self, checkpoint: Checkpoint) -> set[str]:
        """Write a whole checkpoint or nothing.

        Raises CatalogChanged if more attachments were begun anew than its `restarts`, if another log of events than its
        `log` has begun, or if a row that was `saved_before` was deleted meanwhile. Returns the identifiers of those
        `finished` and `refused` attachments that were no longer complete (deleted meanwhile). Events about them are not
        logged, nor events about the expiry of an attachment that was no longer being received.

        Assembly may still report receiving or complete for an attachment that was finished, quarantined or deleted
        meanwhile: such a row keeps its state. Every row keeps what finishing wrote (size, sha256, content type,
        storage, object name, finished_at, observations, variables). Only an expired attachment is revived. `progress`
        never goes back. A quarantine entry that exists already takes the new reason and is kept again.
        """

    def checkpoints(self, checkpoints: Iterable[Checkpoint]) -> set[str]:
        """Write checkpoints one after the other, all of them or nothing, as `checkpoint` does.

        They are taken one at a time, while nobody else can write.
        """


class JournalReferences(Protocol):
    """Where the bytes of attachments lie in the journal."""

    def part_runs(self, attachment_id: str) -> list[PartRun]:
        """Return the runs of parts that checkpoints recorded for an attachment, in the recorded order."""

    def part_runs_of(self, attachment_ids: Sequence[str]) -> dict[str, list[PartRun]]:
        """Return the same of many attachments. Those that have no runs may be missing."""

    def packed_part_runs(self, attachment_id: str) -> bytes:
        """Return the same as triplets (first, length, position) of little-endian 64-bit integers."""

    def extents(self, attachment_id: str) -> tuple[Extent, ...]:
        """Return where the content of a finished attachment lies; () once it is settled."""

    def extents_of(self, attachment_ids: Sequence[str]) -> dict[str, tuple[Extent, ...]]:
        """Return the same of many attachments. Those that have no extents may be missing."""

    def needed_segments(self, among: Collection[int] | None = None) -> set[int]:
        """Return the segments, of all or `among` some, whose bytes are still needed.

        They hold a part of an attachment that is unfinished, unsettled, refused or expired and not yet released, a
        message that waits for its header, or the only copy of a quarantined message.
        """
