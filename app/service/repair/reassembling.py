"""Attachments that are assembled again from journal segments, in a temporary place.

The same assembly and the same finishing are used. The caller compares the results before they replace anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from app import plugins
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Checkpoint, Extent, Finished, PartRun
from app.ports import Catalog, ContentStore, ReplayReader
from app.service.assembling.assembler import Assembler
from app.service.context import ServiceContext, Stores
from app.service.finishing.finished_contents import ContentRejected, read_content
from app.service.finishing.stored_parts import CompleteAttachment, begun
from app.settings import Settings

_TEMPORARY = ".repair-"


class ReassemblyRequest(NamedTuple):
    """An attachment to assemble from the messages of these segments (a closed range).

    `record` has its known facts, as its header may be in none of these segments any more.
    """

    id: str
    first: int
    last: int
    record: AttachmentRecord | None = None

    @classmethod
    def of(cls, record: AttachmentRecord) -> "ReassemblyRequest":
        first, last = (Position.unpack(at).segment for at in (record.first_position, record.last_position))
        return cls(record.id, first, last, record)


@dataclass(frozen=True, slots=True)
class Reassembled:
    """The results for an attachment: its row, its parts and its content in the temporary store, or why there is
    none."""

    record: AttachmentRecord | None
    runs: list[PartRun]
    finished: Finished | None
    why: str = ""


class Reassembly(NamedTuple):
    """The results for all wanted attachments, and the store of their content."""

    found: Mapping[str, Reassembled]
    store: ContentStore


def temporary_place(settings: Settings) -> TemporaryDirectory[str]:
    """Create a temporary folder on the disk of the data folder. It is removed when the block ends."""
    return TemporaryDirectory(prefix=_TEMPORARY, dir=settings.data)


def sweep_temporary_places(settings: Settings) -> None:
    """Remove the temporary folders that killed processes have left. Only the gateway of a data folder may do this."""
    for left in settings.data.glob(f"{_TEMPORARY}*"):
        rmtree(left, ignore_errors=True)


@contextmanager
def reassembled(wanted: Iterable[ReassemblyRequest], context: ServiceContext) -> Iterator[Reassembly]:
    """Assemble attachments from the rest of their segments. The temporary place is removed when the block ends."""
    requests = list(wanted)
    with temporary_place(context.settings) as folder:
        catalog = plugins.catalog()(f"sqlite:///{folder}/catalog.sqlite")
        try:
            store = plugins.content_store()(Path(folder) / "content")
            numbers = {number for each in requests for number in range(each.first, each.last + 1)}
            scratch = replace(
                context,
                journal=cast("ReplayReader", _PartialJournal(context.journal, numbers)),
                catalog=catalog,
                store=store,
            )
            known = [begun(each.record) for each in requests if each.record is not None]
            catalog.checkpoint(
                Checkpoint(
                    attachments=[record for record in known if record is not None],
                    source_dialects=context.catalog.source_dialects(),
                )
            )
            Assembler(scratch, lambda _complete: None, read_early=False).recover()
            stores = Stores(settings=context.settings, journal=context.journal, store=store, in_place=False)
            yield Reassembly({each.id: _result(each.id, catalog, stores) for each in requests}, store)
        finally:
            catalog.close()


@contextmanager
def content_of_parts(complete: CompleteAttachment, context: ServiceContext) -> Iterator[Reassembly]:
    """Read the content of an attachment. The temporary place is removed when the block ends."""
    with temporary_place(context.settings) as folder:
        store = plugins.content_store()(Path(folder) / "content")
        stores = Stores(settings=context.settings, journal=context.journal, store=store, in_place=False)
        yield Reassembly({complete.record.id: _read(complete, stores)}, store)


def _result(attachment_id: str, catalog: Catalog, stores: Stores) -> Reassembled:
    record = catalog.attachment(attachment_id)
    if record is None:
        return Reassembled(None, [], None, "the journal no longer has any message of it")
    runs = catalog.part_runs(attachment_id)
    if record.state is not AttachmentState.COMPLETE:
        expected = "an unknown number" if record.parts_expected is None else f"{record.parts_expected:,}"
        return Reassembled(record, runs, None, f"the journal has {record.parts_received:,} of {expected} parts")
    return _read(CompleteAttachment(record, runs), stores)


def _read(complete: CompleteAttachment, stores: Stores) -> Reassembled:
    record, runs = complete.record, [*(complete.runs or ())]
    try:
        return Reassembled(record, runs, read_content(complete, stores))
    except (ContentRejected, DamagedError) as error:
        return Reassembled(record, runs, None, str(error))


class _PartialJournal:
    """A journal of which only some segments are replayed, with only the methods that assembly uses."""

    def __init__(self, journal: ReplayReader, numbers: set[int]) -> None:
        self._journal, self._numbers = journal, numbers

    def replay(self, after: Position | None) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        for first, last in _ranges(self._numbers):
            start = Position.end_of(first - 1)
            for positions, messages in self._journal.replay(start if after is None else max(start, after)):
                if positions[0].segment > last:
                    break
                yield positions, messages

    def has(self, segment: int) -> bool:
        return self._journal.has(segment)

    def read(self, position: Position) -> PhysicalMessage:
        return self._journal.read(position)

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        return self._journal.bodies(positions)

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        return self._journal.extents(positions)

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        return self._journal.views(extents)


def _ranges(numbers: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the closed ranges of these numbers, in order."""
    first: int | None = None
    for number in sorted(numbers):
        first = number if first is None else first
        if number + 1 not in numbers:
            yield first, number
            first = None
