"""The pipeline's passes one after the other, in this process and without Spark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np

from app import plugins
from app.model.message import PhysicalMessage, Position
from app.pipeline.references.header_pass import HeaderPass, Remembered
from app.pipeline.references.lazy_bodies import JournalBatch
from app.pipeline.references.message_references import Header, Reference, from_batch, references
from app.ports import JournalArchive
from app.service.finishing.stored_parts import messages_at

LIMIT = 10_000


def journalled(folder: Path, messages: Sequence[PhysicalMessage], batch: int = 50) -> JournalArchive:
    """Return an archive of these messages, some in a batch."""
    journal = plugins.journal()(folder, segment_bytes=1 << 20)
    for start in range(0, len(messages), batch):
        journal.append(messages[start : start + batch])
    journal.close()
    return plugins.archive()(folder)


def batches(archive: JournalArchive) -> Iterator[JournalBatch]:
    """Yield every record batch."""
    for segment in archive.segments():
        for number in range(len(archive.batch_sizes(segment.number))):
            yield JournalBatch.at(archive, [Position(segment.number, number, 0)])


def positioned(archive: JournalArchive) -> Iterator[tuple[int, PhysicalMessage]]:
    """Yield every message and its packed position."""
    for batch in batches(archive):
        yield from zip(batch.positions.tolist(), batch.messages(np.arange(len(batch.sizes))), strict=True)


class Announcing:
    """The header pass of every source, with its state between calls."""

    def __init__(
        self, archive: JournalArchive, described: Callable[[PhysicalMessage], PhysicalMessage] = lambda message: message
    ) -> None:
        self._archive, self._described = archive, described
        self._memories: dict[str, Remembered] = {}

    def references(self, found: Iterable[Reference]) -> list[Reference]:
        """Return the references after headers are replaced by the parts that they announce."""
        made: list[Reference] = []
        for reference in sorted(found, key=attrgetter("position")):
            if not isinstance(reference, Header):
                made.append(reference)
                continue
            memory = self._memories.setdefault(reference.source, Remembered())
            (message,) = messages_at(self._archive, [reference.position]).values()
            made += HeaderPass(memory, self._described, LIMIT).read(reference.position, message)
        return made


def all_references(archive: JournalArchive) -> list[Reference]:
    return [found for batch in batches(archive) for found in from_batch(references(batch))]
