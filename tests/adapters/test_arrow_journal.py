import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c

from adapters.arrow_journal import ArrowJournal, arrow_ipc
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.arrow_ipc import END_OF_STREAM
from adapters.arrow_journal.batch_columns import NO_LAYOUT
from adapters.arrow_journal.position_reader import LAYOUTS, OPEN_SEGMENTS, Recent
from adapters.arrow_journal.segment_files import SegmentState, segment_path
from adapters.arrow_journal.segment_header import header_of, seed_of
from adapters.arrow_journal.segment_repair import END_BYTES
from adapters.arrow_journal.segment_scan import find_batches
from adapters.arrow_journal.segment_writer import seal_file
from adapters.disk import ReadFile
from app.model.errors import GatewayError, JournalFull
from app.model.message import PhysicalMessage, Position
from app.model.records import Damage
from app.ports import Journal
from tests.contracts.journal import JournalContract, Opener, everything, messages_of
from tests.support.disk import small_disk

__all__ = ["small_disk"]


class ManualClock:
    def __init__(self) -> None:
        self.time = 1_700_000_000_000_000
        self.ahead = 0

    def now(self) -> int:
        return self.time + self.ahead

    def monotonic(self) -> float:
        return self.time / 1e6


class Watched(SegmentState):
    """What others may see of a segment's size, once they see that it is sealed."""

    def __init__(self, number: int, size: int, created_at: int) -> None:
        self.seen: list[int] = []
        super().__init__(number, size, created_at)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if getattr(self, "sealed_at", None) is not None:
            self.seen.append(self.size)


def segment_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.arrows"))


def left_by_a_killed_process(folder: Path, *batches: list[PhysicalMessage]) -> bytes:
    """Writes a journal whose last segment is not sealed; returns that segment's bytes."""
    journal = ArrowJournal(folder)
    number = [journal.append(batch)[0].segment for batch in batches][-1]
    unsealed = segment_path(folder, number, sealed=False).read_bytes()
    journal.close()
    segment_path(folder, number, sealed=True).unlink()
    segment_path(folder, number, sealed=False).write_bytes(unsealed)
    return unsealed


def found_in(path: Path) -> SegmentState:
    """What is known of an unsealed segment 1."""
    file, size = ReadFile(path), path.stat().st_size
    state = SegmentState(1, size, 0, seed=seed_of(header_of(file, size, path).journal.id, 1))
    assert state.seed is not None
    find_batches(file, state, state.seed)
    return state


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Flips a bit of the byte at a place of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1 << bit]))


def batch_starts(path: Path) -> list[int]:
    return list(found_in(path).batches or ())


def stream(folder: Path) -> list[pa.RecordBatch]:
    """The batches of a folder's sealed segments, as any Arrow reader has them."""
    batches = []
    for path in sorted(folder.glob("??????????.arrows")):
        with pa.ipc.open_stream(path.read_bytes()) as reader:
            for batch in reader:
                batch.validate(full=True)
                batches.append(batch)
    return batches


class TestArrowJournal(JournalContract):
    @pytest.fixture
    def open_journal(self, tmp_path: Path) -> Iterator[Opener]:
        opened: list[Journal] = []

        def open_one() -> Journal:
            opened.append(ArrowJournal(tmp_path / "journal", segment_bytes=1 << 20))
            return opened[-1]

        yield open_one
        for journal in opened:
            journal.close()


class TestFiles:
    def test_any_arrow_reader_opens_a_segment_sealed_or_not(self, tmp_path: Path) -> None:
        messages = [
            *messages_of([0, 1, 9, 40_000]),
            PhysicalMessage(
                *("orders", "mq_group", 1, b"c", b"body", b"m", b"g", 2, 3, 4, 5, 546, 1208, "MQSTR"),
                put_time=1_500_000,
                received_at=2_500_000,
                properties={"a": "b"},
            ),
        ]
        with closing(ArrowJournal(tmp_path)) as journal:
            journal.append(messages)
            journal.append(messages_of([1] * 513))
            active = self.table(tmp_path / "0000000001.open.arrows")
            journal.seal()
            sealed = self.table(tmp_path / "0000000001.arrows")
        assert sealed.equals(active)
        assert [batch.num_rows for batch in sealed.to_batches()] == [5, 512, 1]
        assert sealed.schema.names[-1] == "body"
        assert sealed["body"].to_pylist()[:5] == [message.body for message in messages]
        assert sealed["body_crc32"].to_pylist()[:5] == [crc32c(message.body) for message in messages]
        assert sealed["put_time"].null_count == sealed.num_rows - 1
        packed = [position.pack() for position, _ in self.read_back(tmp_path)]
        assert sealed["position"].to_pylist() == packed
        assert sealed.drop_columns(["body_crc32", "position", "batch_crc32"]).slice(4, 1).to_pylist() == [
            messages[4]._asdict()
            | {
                "put_time": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
                "received_at": datetime(1970, 1, 1, 0, 0, 2, 500_000, UTC),
                "properties": [("a", "b")],
            }
        ]

    @staticmethod
    def read_back(folder: Path) -> list[tuple[Position, PhysicalMessage]]:
        with closing(ArrowJournal(folder)) as journal:
            return everything(journal)

    @staticmethod
    def table(path: Path) -> pa.Table:
        with pa.ipc.open_stream(pa.memory_map(str(path))) as reader:
            table = reader.read_all()
        table.validate(full=True)
        return table

    def test_rolls_at_a_size_and_at_an_age(self, tmp_path: Path) -> None:
        clock = ManualClock()
        begun = clock.time
        with closing(ArrowJournal(tmp_path, segment_bytes=100_000, segment_age=60, clock=clock)) as journal:
            assert [journal.append(messages_of([40_000]))[0].segment for _ in range(4)] == [1, 1, 1, 2]
            clock.time += 59_999_999
            assert journal.append(messages_of([1]))[0].segment == 2
            clock.time += 1
            assert journal.append(messages_of([1]))[0].segment == 3
            expected = [(1, begun, begun), (2, begun, clock.time), (3, clock.time, None)]
            assert [(each.number, each.created_at, each.sealed_at) for each in journal.segments()] == expected
            assert segment_names(tmp_path) == ["0000000001.arrows", "0000000002.arrows", "0000000003.open.arrows"]
        with closing(ArrowJournal(tmp_path)) as journal:
            again = journal.segments()
            assert [(each.number, each.created_at, each.sealed_at) for each in again[:2]] == expected[:2]
            assert [each.size for each in again] == [path.stat().st_size for path in sorted(tmp_path.glob("*.arrows"))]

    @pytest.mark.parametrize("is_sealed_by", ["append", "upkeep"])
    def test_the_age_of_a_segment_does_not_depend_on_a_clock_that_was_wrong(
        self, tmp_path: Path, is_sealed_by: str
    ) -> None:
        clock = ManualClock()
        with closing(ArrowJournal(tmp_path, segment_age=60, clock=clock)) as journal:
            for days in (365, -365):
                clock.ahead = days * 86_400_000_000
                (begun,) = journal.append(messages_of([1]))
                clock.ahead = 0
                clock.time += 59_000_000
                assert journal.append(messages_of([1]))[0].segment == begun.segment
                journal.seal(age=60)
                assert journal.segments()[-1].sealed_at is None
                clock.time += 1_000_000
                if is_sealed_by == "append":
                    assert journal.append(messages_of([1]))[0].segment == begun.segment + 1
                    journal.seal()
                else:
                    journal.seal(age=60)
                assert begun.segment in {each.number for each in journal.segments() if each.sealed_at is not None}

    def test_one_writer_at_a_time(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)), pytest.raises(GatewayError, match="in use: another process"):
            ArrowJournal(tmp_path)
        ArrowJournal(tmp_path).close()

    def test_a_closed_journal_takes_nothing(self, tmp_path: Path) -> None:
        journal = ArrowJournal(tmp_path)
        journal.close()
        journal.close()
        with pytest.raises(GatewayError, match="closed"):
            journal.append(messages_of([1]))

    def test_few_files_stay_mapped_and_none_stays_open(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            for _ in range(2 * OPEN_SEGMENTS):
                journal.append(messages_of([100]))
                journal.seal()
            assert sum(len(messages) for _, messages in journal.replay(None)) == 2 * OPEN_SEGMENTS
            assert 1 <= self.held(tmp_path) <= OPEN_SEGMENTS + 1
        assert self.held(tmp_path) == 0

    @staticmethod
    def held(folder: Path) -> int:
        """How many files of a folder this process has mapped or open."""
        links = [*Path("/proc/self/map_files").iterdir(), *Path("/proc/self/fd").iterdir()]
        return len({link.readlink() for link in links if link.is_symlink() and folder in link.readlink().parents})

    def test_finds_bodies_that_rotted(self, tmp_path: Path) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            journal.append(messages_of([100, 0]))
            position = journal.append(messages_of([100, 100, 100]))[1]
            place = next(journal.extents([position])).offset
            journal.seal()
            assert journal.verify(1) == []
            flip(tmp_path / "0000000001.arrows", place + 50)
            assert journal.verify(1) == [Damage(*position, "the body fails its checksum")]

    def test_refuses_a_folder_with_segments_of_another_format(self, tmp_path: Path) -> None:
        with pa.ipc.new_stream(str(tmp_path / "0000000001.arrows"), pa.schema([("a", pa.int8())])):
            pass
        with pytest.raises(GatewayError, match="journal format none"):
            ArrowJournal(tmp_path)


class TestRecovery:
    BATCHES = (messages_of([5, 0, 300]), messages_of([40]), messages_of([200, 30]))

    def test_of_a_file_torn_at_any_byte_what_is_whole_stays(self, tmp_path: Path) -> None:
        whole = left_by_a_killed_process(tmp_path / "journal", *self.BATCHES)
        starts = batch_starts(tmp_path / "journal" / "0000000001.open.arrows")
        messages = [message for batch in self.BATCHES for message in batch]
        heads = [arrow_ipc.frame_of(whole[start:]) for start in starts]
        ends = [
            start + head.head + sum(len(message.body) for message in batch[: row + 1])
            for start, head, batch in zip(starts, heads, self.BATCHES, strict=True)
            if head is not None
            for row in range(len(batch))
        ]
        sizes = {near + more for near in (*starts, *ends, len(whole)) for more in (-4096, -9, -1, 0, 1, 2000)}
        for size in sorted(size for size in sizes if 0 < size <= len(whole)):
            folder = tmp_path / str(size)
            folder.mkdir()
            (folder / "0000000001.open.arrows").write_bytes(whole[:size])
            with closing(ArrowJournal(folder)) as journal:
                kept = sum(end <= size for end in ends)
                assert [message for _, message in everything(journal)] == messages[:kept]
                assert all(journal.verify(segment.number) == [] for segment in journal.segments())
                assert sum(len(batch) for batch in stream(folder)) == kept

    @pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 200, 1000, 1900, 2000, -1, -8, -200])
    def test_opening_cuts_a_torn_tail_off_and_seals_the_rest(self, tmp_path: Path, cut: int) -> None:
        path = tmp_path / "0000000001.open.arrows"
        whole = left_by_a_killed_process(tmp_path, *self.BATCHES)
        start = batch_starts(path)[-1]
        kept, last = whole[:start], whole[start:]
        path.write_bytes(kept + last[: cut % len(last)])
        frame = arrow_ipc.frame_of(last)
        assert frame is not None
        stays = self.BATCHES[-1][: sum(frame.head + end <= cut % len(last) for end in (200, 230))]
        with closing(ArrowJournal(tmp_path)) as journal:
            expected = [message for batch in self.BATCHES[:-1] for message in batch] + stays
            assert [message for _, message in everything(journal)] == expected
            sealed = (tmp_path / "0000000001.arrows").read_bytes()
            assert sealed.startswith(kept)
            assert sealed.endswith(END_OF_STREAM)
            assert stays or sealed == kept + END_OF_STREAM
            assert journal.append(self.BATCHES[-1])[0] == Position(2, 0, 0)
            assert [message for _, message in everything(journal)] == [*expected, *self.BATCHES[-1]]

    @pytest.mark.parametrize("batch", [messages_of([200, 30]), messages_of([0] * 3)])
    def test_bytes_that_never_reached_the_disk_are_a_torn_tail(
        self, tmp_path: Path, batch: list[PhysicalMessage]
    ) -> None:
        whole = left_by_a_killed_process(tmp_path / "journal", *self.BATCHES, batch)
        last = batch_starts(tmp_path / "journal" / "0000000001.open.arrows")[-1]
        frame = arrow_ipc.frame_of(whole[last:])
        assert frame is not None
        before = sum(map(len, self.BATCHES))
        ends = [last + frame.head + sum(len(message.body) for message in batch[: row + 1]) for row in range(len(batch))]
        for at in {*range(last, ends[-1] - END_BYTES, 13), *ends, *(end - END_BYTES for end in ends)}:
            folder = tmp_path / str(at)
            folder.mkdir()
            torn = whole[:at] + bytes(len(whole) - at)
            (folder / "0000000001.open.arrows").write_bytes(torn)
            with closing(ArrowJournal(folder)) as journal:
                assert len(everything(journal)) == before + sum(torn[:end] == whole[:end] for end in ends)
                assert journal.verify(1) == []

    @pytest.mark.parametrize("size", [0, 4, 1000])
    def test_a_segment_without_a_batch_is_begun_again(self, tmp_path: Path, size: int) -> None:
        whole = left_by_a_killed_process(tmp_path, messages_of([1]))
        (tmp_path / "0000000001.open.arrows").unlink()
        (tmp_path / "0000000007.open.arrows").write_bytes(whole[:size])
        (tmp_path / "0000000006.open.arrows").write_bytes(whole[:size])
        with closing(ArrowJournal(tmp_path)) as journal:
            assert journal.segments() == []
            assert segment_names(tmp_path) == []
            assert journal.append(messages_of([1])) == [Position(7, 0, 0)]

    @pytest.mark.process
    def test_a_killed_process_loses_nothing_it_had_taken(self, tmp_path: Path) -> None:
        taken = 0
        for _ in range(5):
            with subprocess.Popen(
                [sys.executable, "-c", APPENDS_FOR_EVER, str(tmp_path), str(taken)], stdout=subprocess.PIPE, text=True
            ) as writer:
                assert writer.stdout is not None
                for _ in range(20):
                    taken = int(writer.stdout.readline())
                writer.send_signal(signal.SIGKILL)
                taken = max([taken, *map(int, writer.stdout.read().split("\n")[:-1])])
            with closing(ArrowJournal(tmp_path)) as journal:
                numbers = [message.msg_seq_number for _, message in everything(journal)]
                assert numbers == list(range(len(numbers)))
                assert len(numbers) >= taken
                assert all(journal.verify(segment.number) == [] for segment in journal.segments())
                taken = len(numbers)


APPENDS_FOR_EVER = """
import os, sys
from pathlib import Path
from adapters.arrow_journal import ArrowJournal
from app.model.message import PhysicalMessage
journal = ArrowJournal(Path(sys.argv[1]), segment_bytes=1 << 20)
number = int(sys.argv[2])
while True:
    rows = range(number, number + 1 + number % 7)
    journal.append([PhysicalMessage("s", "f", body=os.urandom(9000), msg_seq_number=row) for row in rows])
    number = rows.stop
    print(number, flush=True)
"""


class TestTrouble:
    def test_a_full_disk_takes_nothing_and_loses_nothing(self, small_disk: Path) -> None:
        filler = small_disk / "filler"
        filler.write_bytes(bytes(8 << 20))
        messages = messages_of([30_000] * 20)
        wanted: list[tuple[Position, PhysicalMessage]] = []
        with closing(ArrowJournal(small_disk / "journal")) as journal:
            with suppress(JournalFull):
                while True:
                    wanted += zip(journal.append(messages), messages, strict=True)
            assert wanted
            assert everything(journal) == wanted
            prepared = journal.prepare(messages)
            for _ in range(3):
                with pytest.raises(JournalFull, match="no space"):
                    journal.append(messages, prepared)
            others = messages_of([20_000] * 20)
            ahead = journal.prepare(others)
            filler.unlink()
            wanted += zip(journal.append(messages, prepared), messages, strict=True)
            wanted += zip(journal.append(others, ahead), others, strict=True)
            assert everything(journal) == wanted
        with closing(ArrowJournal(small_disk / "journal")) as journal:
            assert everything(journal) == wanted

    def test_opens_and_makes_room_on_a_full_disk(self, small_disk: Path) -> None:
        messages = messages_of([30_000] * 20)
        folder = small_disk / "journal"
        with closing(ArrowJournal(folder)) as journal:
            journal.append(messages)
            journal.seal()
        left_by_a_killed_process(folder, messages)
        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        with closing(ArrowJournal(folder)) as journal:
            assert [message for _, message in everything(journal)] == messages * 2
            with pytest.raises(JournalFull):
                journal.append(messages)
            journal.retire(1)
            assert [message for _, message in everything(journal)] == messages
            assert journal.append(messages[:10])[0].segment > 2

    def test_who_sees_that_a_segment_is_sealed_sees_its_whole_size(self, tmp_path: Path) -> None:
        left_by_a_killed_process(tmp_path, messages_of([30_000] * 3))
        path = tmp_path / "0000000001.open.arrows"
        found = found_in(path)
        state = Watched(1, found.size, found.created_at)
        seal_file(tmp_path, state, 5)
        assert state.seen == [(tmp_path / "0000000001.arrows").stat().st_size]

    def test_what_a_full_disk_kept_from_being_sealed_is_sealed_later(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        messages = messages_of([30_000] * 3)
        left_by_a_killed_process(tmp_path, messages)

        def full(*_: object) -> None:
            raise OSError(ENOSPC, "no space left")

        with monkeypatch.context() as disk:
            disk.setattr("adapters.arrow_journal.journal_recovery.seal_file", full)
            journal = ArrowJournal(tmp_path)
        with closing(journal):
            wanted = [*everything(journal), *zip(journal.append(messages), messages, strict=True)]
            assert ArrowArchive(tmp_path).segments() == []
            journal.seal()
            assert [segment.number for segment in ArrowArchive(tmp_path).segments()] == [1, 2]
            assert everything(journal) == wanted

    def test_a_segment_that_cannot_be_sealed_leaves_the_one_being_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = ManualClock()

        def broken_first(folder: Path, state: SegmentState, *rest: Any, **more: Any) -> None:
            if state.number == 1:
                raise OSError(EIO, "the disk fails")
            seal_file(folder, state, *rest, **more)

        with closing(ArrowJournal(tmp_path, clock=clock)) as journal:
            journal.append(messages_of([10]))
            clock.time += 10
            with monkeypatch.context() as disk:
                for module in ("arrow_journal", "segment_writer"):
                    disk.setattr(f"adapters.arrow_journal.{module}.seal_file", broken_first)
                with pytest.raises(GatewayError, match="the disk fails"):
                    journal.seal()
                for _ in range(5):
                    journal.append(messages_of([10]))
                    with pytest.raises(GatewayError, match="the disk fails"):
                        journal.seal(age=60)
                assert [segment.number for segment in journal.segments()] == [1, 2]
                with pytest.raises(GatewayError, match="the disk fails"):
                    journal.seal()
                assert [segment.sealed_at for segment in journal.segments()] == [None, clock.time]
            journal.seal()
            assert [segment.sealed_at for segment in journal.segments()] == [clock.time, clock.time]

    @pytest.mark.parametrize("remove", ["retire", "set_aside"])
    def test_a_removal_that_could_not_be_made_durable_is_repeated(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: str
    ) -> None:
        with closing(ArrowJournal(tmp_path)) as journal:
            journal.append(messages_of([10]))
            journal.seal()
            (last,) = journal.append(messages_of([10]))

            def broken(_: Path) -> None:
                raise OSError(EIO, "the disk fails")

            with monkeypatch.context() as disk:
                disk.setattr("adapters.arrow_journal.arrow_journal.sync_folder", broken)
                with pytest.raises(GatewayError, match="the disk fails"):
                    getattr(journal, remove)(1)
            getattr(journal, remove)(1)
            assert [segment.number for segment in journal.segments()] == [last.segment]
            assert segment_names(tmp_path) == ["0000000002.open.arrows"]

    def test_another_failure_to_write_is_ours_and_a_new_segment_is_begun(self, tmp_path: Path) -> None:
        messages = messages_of([30_000] * 10)
        with closing(ArrowJournal(tmp_path)) as journal:
            wanted = list(zip(journal.append(messages), messages, strict=True))
            with files_of_at_most(400_000), pytest.raises(GatewayError, match="cannot be written"):
                journal.append(messages)
            assert everything(journal) == wanted
            wanted += zip(journal.append(messages), messages, strict=True)
            assert {position.segment for position, _ in wanted} == {1, 2}
            assert everything(journal) == wanted
        with closing(ArrowJournal(tmp_path)) as journal:
            assert everything(journal) == wanted


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing behind this byte of any file fails, as it does on a disk that breaks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_nothing_of_a_segment_that_is_no_more_stays_in_memory() -> None:
    recent = Recent()
    layout = NO_LAYOUT
    batches = [(segment, batch) for segment in (1, 2) for batch in range(LAYOUTS)]
    for batch in batches:
        recent.add(batch, layout, [b""])
    recent.forget(1)
    assert [batch for batch in batches if recent.body(batch, 0) is not None] == batches[LAYOUTS:]
