import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import obstore
import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.arrow_journal.segment_cache import PART, FileCache, own_folder
from adapters.arrow_journal.segment_files import SegmentState, segment_path
from adapters.arrow_journal.segment_storage import FolderSegments
from adapters.disk import ReadFile
from adapters.storage_places import bucket
from app import plugins
from app.model.errors import DamagedError, GatewayError, StoreFull
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.ports import JournalArchive
from tests.contracts.archive import ArchiveContract, Archived
from tests.contracts.journal import messages_of
from tests.support.disk import small_disk
from tests.support.kept import flip

__all__ = ["small_disk"]


def segment_bytes(folder: Path, *batches: list[PhysicalMessage]) -> bytes:
    """A sealed segment of these batches."""
    with closing(ArrowJournal(folder)) as journal:
        for batch in batches:
            journal.append(batch)
    return (folder / "0000000001.arrows").read_bytes()


class TestFolder(ArchiveContract):
    @pytest.fixture
    def archived(self, tmp_path: Path) -> Iterator[Archived]:
        folder = tmp_path / "journal"
        journal = ArrowJournal(folder)

        def put(number: int, data: bytes) -> None:
            segment_path(folder, number, sealed=True).write_bytes(data)

        shared = tmp_path / "shared"
        shared.mkdir()
        yield Archived(
            journal,
            open=lambda: ArrowArchive(folder),
            publish=lambda: None,
            put=put,
            remove=lambda number: segment_path(folder, number, sealed=True).unlink(),
            shared=lambda: ArrowArchive(shared),
        )
        journal.close()

    def test_by_path_or_url_in_a_folder_that_nobody_may_write(self, archived: Archived, tmp_path: Path) -> None:
        messages = messages_of([10])
        position = archived.append(messages)[0]
        archived.journal.close()
        folder = tmp_path / "journal"
        (folder / "lock").unlink()
        before = sorted(folder.iterdir())
        folder.chmod(0o500)
        for place in (folder, str(folder), folder.as_uri()):
            archive = ArrowArchive(place)
            assert archive.read(position) == messages[0]
            assert len(archive.segments()) == 1
        folder.chmod(0o700)
        assert sorted(folder.iterdir()) == before

    def test_a_segment_cut_off_in_copying_is_named(self, archived: Archived, tmp_path: Path) -> None:
        data = segment_bytes(tmp_path / "other", messages_of([5000]), messages_of([10]))
        archive = ArrowArchive(tmp_path / "journal")
        for number, size in enumerate((len(data) - 1, len(data) - 8, len(data) - 4096, 4096), 1):
            archived.put(number, data[:size])
            with pytest.raises(GatewayError, match=rf"000000000{number}\.arrows is incomplete"):
                archive.batch_sizes(number)

    def test_one_that_was_listed_and_has_become_shorter_is_named(self, archived: Archived, tmp_path: Path) -> None:
        archived.append(messages_of([5000]))
        archive = archived.open()
        archive.segments()
        os.truncate(tmp_path / "journal" / "0000000001.arrows", 100)
        with pytest.raises(GatewayError, match=r"0000000001\.arrows cannot be read"):
            archive.batch_sizes(1)

    def test_a_damaged_end_of_stream_costs_nothing(self, archived: Archived, tmp_path: Path) -> None:
        messages = messages_of([5000, 10])
        positions = archived.append(messages)
        archived.append(messages_of([1]))
        flip(tmp_path / "journal" / "0000000001.arrows", -1)
        assert [archived.open().read(position) for position in positions] == messages

    @pytest.mark.parametrize("lost", [0, 1, 2])
    def test_a_lost_batch_is_one_that_cannot_be_read(self, archived: Archived, tmp_path: Path, lost: int) -> None:
        """Also the last batch of a segment, and the only one."""
        for batch in range(1 + min(lost, 1)):
            archived.journal.append(messages_of([5000 + batch]))
        archived.append(messages_of([7000]))
        sizes = archived.open().batch_sizes(1)
        wanted = {0: 0, 1: 1, 2: 2}[lost]
        flip(tmp_path / "journal" / "0000000001.arrows", 4096 + sum(sizes[:wanted]) + 300)
        archive = archived.open()
        assert len(archive.batch_sizes(1)) == len(sizes)
        for batch in range(len(sizes)):
            if batch != wanted:
                assert len(archive.record_batch(1, batch)) == 1
        with pytest.raises(DamagedError, match=f"segment 1, batch {wanted}: the batch is lost"):
            archive.record_batch(1, wanted)

    def test_another_format_is_named(self, archived: Archived, tmp_path: Path) -> None:
        with pa.ipc.new_stream(str(tmp_path / "journal" / "0000000001.arrows"), pa.schema([("a", pa.int8())])):
            pass
        with pytest.raises(GatewayError, match=r"0000000001\.arrows is not a journal segment: journal format none"):
            archived.open().batch_sizes(1)

    def test_what_lies_behind_an_unsealed_segment_waits_for_it(self, archived: Archived, tmp_path: Path) -> None:
        positions = [archived.append(messages_of([1]))[0] for _ in range(3)]
        sealed = tmp_path / "journal" / "0000000002.arrows"
        unsealed = sealed.with_name("0000000002.open.arrows")
        sealed.rename(unsealed)
        archive = archived.open()
        assert [segment.number for segment in archive.segments()] == [1]
        assert archive.read(positions[2])
        unsealed.rename(sealed)
        assert [segment.number for segment in archive.segments()] == [1, 2, 3]

    def test_other_files_are_no_segments(self, archived: Archived, tmp_path: Path) -> None:
        archived.append(messages_of([1]))
        for name in ("000000002.arrows", "0000000003.arrows.part", "x0000000004.arrows", "0000000005.arrow"):
            (tmp_path / "journal" / name).write_bytes(b"")
        assert [segment.number for segment in archived.open().segments()] == [1]

    def test_beside_the_writing_journal_every_segment_comes_once_and_in_order(self, tmp_path: Path) -> None:
        batches = [messages_of([index % 7 * 500] * (index % 3 + 1)) for index in range(150)]
        seen: list[PhysicalMessage] = []
        with closing(ArrowJournal(tmp_path)) as journal:

            def read() -> None:
                archive, reached = ArrowArchive(tmp_path), 0
                while reached < len(batches):
                    for number, *_ in archive.segments():
                        if number > reached:
                            reached = number
                            rows = len(archive.record_batch(number, 0))
                            seen.extend(archive.read(Position(number, 0, row)) for row in range(rows))

            reader = Thread(target=read, daemon=True)
            reader.start()
            for batch in batches:
                journal.append(batch)
                journal.seal()
            reader.join(60)
        assert seen == [message for batch in batches for message in batch]

    def test_what_killed_writers_left_is_removed(self, tmp_path: Path) -> None:
        old, new = (tmp_path / f"000000000{number}.arrows.0123456789abcdef.partial" for number in (1, 2))
        for path in (old, new):
            path.write_bytes(b"not complete")
        os.utime(old, (1, 1))
        archive = ArrowArchive(tmp_path)
        assert archive.segments() == []
        data = segment_bytes(tmp_path / "own", messages_of([1]))
        assert archive.add(1, [data])
        assert {path.name for path in tmp_path.iterdir()} == {"0000000001.arrows", new.name, "own"}

    def test_a_listing_that_is_late_passes_over_nothing(
        self, archived: Archived, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(4):
            archived.append(messages_of([1]))
        archive, listing = archived.open(), FolderSegments.listing

        def late(self: FolderSegments) -> dict[int, SegmentState]:
            return {number: state for number, state in listing(self).items() if number != 3}

        monkeypatch.setattr(FolderSegments, "listing", late)
        for after, found in ((None, [1, 2, 3, 4]), (Position(2, 0, 0), [3, 4])):
            assert [places[0].segment for places, _ in archive.replay(after)] == found

    def test_a_long_gap_that_retention_left_is_not_searched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with closing(ArrowJournal(tmp_path / "journal")) as journal:
            journal.append(messages_of([1]))
            journal.reserve(5_000_000)
            journal.append(messages_of([2]))
        archive, sought, find = ArrowArchive(tmp_path / "journal"), list[int](), FolderSegments.find

        def counted(self: FolderSegments, number: int) -> SegmentState:
            sought.append(number)
            return find(self, number)

        monkeypatch.setattr(FolderSegments, "find", counted)
        assert [places[0].segment for places, _ in archive.replay(None)] == [1, 5_000_001]
        assert len(sought) < 10

    def test_a_failed_write_adds_nothing(self, small_disk: Path) -> None:
        archive = ArrowArchive(small_disk)
        with pytest.raises(GatewayError, match=r"0000000001\.arrows cannot be written"):
            archive.add(1, [bytes(1 << 20)] * 4096)
        assert (archive.segments(), [*small_disk.glob("*.partial")]) == ([], [])

    def test_a_folder_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(GatewayError, match="no such folder"):
            ArrowArchive(tmp_path / "missing")

    def test_is_found_by_its_entry_point(self) -> None:
        assert plugins.archive() is ArrowArchive


class TestBucket(ArchiveContract):
    @pytest.fixture
    def archived(self, tmp_path: Path) -> Iterator[Archived]:
        url, cache, folder = f"memory://{tmp_path.name}", tmp_path / "cache", tmp_path / "journal"
        store = bucket(url)
        journal = ArrowJournal(folder)
        published: set[str] = set()

        def publish() -> None:
            for path in folder.glob("*.arrows"):
                if ".open." not in path.name and path.name not in published:
                    published.add(path.name)
                    obstore.put(store, path.name, path)

        def put(number: int, data: bytes) -> None:
            obstore.put(store, f"{number:010}.arrows", data)

        def remove(number: int) -> None:
            obstore.delete(store, f"{number:010}.arrows")
            for copy in cache.glob(f"{number:010}-*.arrows"):
                copy.unlink()

        def shared() -> JournalArchive:
            return ArrowArchive(f"{url}-shared", tmp_path / "shared-cache")

        yield Archived(journal, lambda: ArrowArchive(url, cache), publish, put, remove, shared)
        journal.close()

    def test_what_was_fetched_is_not_fetched_again(self, archived: Archived, tmp_path: Path) -> None:
        messages = messages_of([10])
        position = archived.append(messages)[0]
        assert archived.open().read(position) == messages[0]
        (copy,) = (tmp_path / "cache").iterdir()
        fetched = copy.stat().st_ino
        assert archived.open().read(position) == messages[0]
        assert copy.stat().st_ino == fetched

    def test_a_cache_never_returns_the_segment_of_another_archive(self, tmp_path: Path) -> None:
        """Three archives in turn: two URLs with one cache folder, then other objects of equal size at one URL."""
        sizes = set()
        for turn, name in enumerate(("first", "second", "second")):
            url, message = (
                f"memory://{tmp_path.name}-{name}",
                PhysicalMessage("s", "sas_queue", body=b"%d" % turn * 999),
            )
            data = segment_bytes(tmp_path / str(turn), [message])
            sizes.add(len(data))
            obstore.put(bucket(url), "0000000001.arrows", data)
            assert ArrowArchive(url, tmp_path / "cache").read(Position(1, 0, 0)).body == message.body
        assert len(sizes) == 1

    def test_an_archive_that_is_open_notices_that_an_object_was_replaced(
        self, archived: Archived, tmp_path: Path
    ) -> None:
        position = archived.append(messages_of([1000]))[0]
        archive = archived.open()
        archive.segments()
        archive.read(position)
        other = PhysicalMessage("other", "sas_queue", body=b"x" * 1000)
        with closing(ArrowJournal(tmp_path / "journal 2")) as journal:
            journal.append([other])
        # the same journal's identity, so that only the object is another one
        archived.put(1, (tmp_path / "journal 2" / "0000000001.arrows").read_bytes())
        archive.segments()
        with pytest.raises(GatewayError, match="belongs to the journal"):
            archive.read(position)
        assert archived.open().read(position).body == other.body

    @pytest.mark.parametrize("place", ["body", "head", "end"])
    def test_a_copy_with_damage_is_fetched_again(self, archived: Archived, tmp_path: Path, place: str) -> None:
        messages = messages_of([20_000, 5000])
        number = archived.append(messages)[0].segment
        archived.open().read(Position(number, 0, 0))
        (copy,) = (tmp_path / "cache").iterdir()
        data = copy.read_bytes()
        at = {"body": data.index(bytes(messages[0].body)) + 10_000, "head": 4096 + 300, "end": len(data) - 1}[place]
        flip(copy, at)
        archive = archived.open()
        assert len(archive.batch_sizes(number)) == 1
        assert archive.record_batch(number, 0)["body"].to_pylist() == [message.body for message in messages]
        assert [path.read_bytes() for path in (tmp_path / "cache").iterdir()] == [data]

    def test_an_object_with_damage_is_fetched_only_once_more(self, archived: Archived, tmp_path: Path) -> None:
        messages = messages_of([20_000])
        data = bytearray(segment_bytes(tmp_path / "other", messages))
        data[data.index(bytes(messages[0].body)) + 10_000] ^= 1
        archived.put(1, bytes(data))
        archive = archived.open()
        copies: set[int] = set()
        for _ in range(3):
            assert archive.record_batch(1, 0)["framing"].to_pylist() == [UNREADABLE]
            copies.update(path.stat().st_ctime_ns for path in (tmp_path / "cache").iterdir())
        with pytest.raises(DamagedError, match="segment 1, batch 0, row 0: the body fails its checksum"):
            archive.read(Position(1, 0, 0))
        assert len(copies) == 1

    def test_a_segment_cut_off_in_copying_is_named(self, archived: Archived, tmp_path: Path) -> None:
        data = segment_bytes(tmp_path / "other", messages_of([5000]))
        archived.put(1, data[:-8])
        with pytest.raises(GatewayError, match=r"memory://.*/0000000001\.arrows is incomplete"):
            archived.open().batch_sizes(1)

    def test_other_objects_are_no_segments(self, archived: Archived, tmp_path: Path) -> None:
        archived.append(messages_of([1]))
        for name in ("readme.txt", "2025/0000000002.arrows", "0000000000.arrows", "0000000003.open.arrows"):
            obstore.put(bucket(f"memory://{tmp_path.name}"), name, b"")
        assert [segment.number for segment in archived.open().segments()] == [1]

    def test_has_a_cache_of_its_own_by_default(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        ArrowArchive("memory://one"), ArrowArchive("memory://two"), ArrowArchive("memory://two")
        [folder] = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(list(folder.iterdir())) == 2
        folder.rename(tmp_path / "another's")
        folder.symlink_to(tmp_path / "another's")
        with pytest.raises(GatewayError, match="not a folder of this user"):
            own_folder("x")

    def test_refuses_other_urls(self) -> None:
        with pytest.raises(ValueError, match="give a path, or a URL with"):
            ArrowArchive("ftp://host/x")


class Remote:
    """Objects that count how often they are fetched."""

    def __init__(self, *sizes: int) -> None:
        self.objects = [os.urandom(size) for size in sizes]
        self.fetched: list[int] = []

    def read(self, cache: FileCache, number: int) -> bytes:
        return self.open(cache, number).read(0, len(self.objects[number]))

    def open(self, cache: FileCache, number: int) -> ReadFile:
        def fetch(start: int, end: int) -> bytes:
            self.fetched.append(number)
            return self.objects[number][start:end]

        return cache.open(f"object{number}", len(self.objects[number]), fetch)


class TestCache:
    def test_what_was_used_least_recently_goes_and_stays_readable(self, tmp_path: Path) -> None:
        remote = Remote(1000, 1000, 1000, 1000, 9000)
        cache = FileCache(tmp_path, 3000)
        files = [remote.open(cache, number) for number in range(3)]
        remote.read(cache, 0)
        remote.read(cache, 3)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["object0", "object2", "object3"]
        remote.read(cache, 4)
        assert [path.name for path in tmp_path.iterdir()] == ["object4"]
        assert [file.read(0, 1000) for file in files] == remote.objects[:3]
        assert remote.fetched == [0, 1, 2, 3, 4]
        assert remote.read(cache, 1) == remote.objects[1]

    def test_large_ones_come_in_parts(self, tmp_path: Path) -> None:
        remote = Remote(2 * PART + 1)
        assert remote.read(FileCache(tmp_path, 1 << 30), 0) == remote.objects[0]
        assert remote.fetched == [0, 0, 0]

    def test_one_of_another_size_is_fetched_again(self, tmp_path: Path) -> None:
        remote = Remote(1000)
        (tmp_path / "object0").write_bytes(b"torn")
        assert remote.read(FileCache(tmp_path, 3000), 0) == remote.objects[0]

    def test_what_fails_leaves_nothing_behind(self, tmp_path: Path) -> None:
        cache = FileCache(tmp_path, 3000)
        with pytest.raises(GatewayError, match="3 bytes were received, 1000 were expected"):
            cache.open("object", 1000, lambda start, end: b"abc")
        assert list(tmp_path.iterdir()) == []

    def test_a_full_disk_is_said(self, small_disk: Path) -> None:
        with pytest.raises(StoreFull, match="No space left"):
            Remote(32 << 20).read(FileCache(small_disk, 1 << 30), 0)
        assert list(small_disk.iterdir()) == []

    def test_no_folder_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(GatewayError, match="cannot be created"):
            FileCache(tmp_path / "file", 1)


FETCHES = """
import sys
from pathlib import Path
from adapters.arrow_journal.segment_cache import FileCache
def fetch(start, end):
    print("fetching", flush=True)
    assert sys.stdin.readline()
    return b"x" * (end - start)
view = FileCache(Path(sys.argv[1]), 1 << 20).open("object", 1000, fetch).read(0, 1000)
print(view == b"x" * 1000, flush=True)
"""


class TestProcesses:
    @pytest.fixture
    def processes(self, tmp_path: Path) -> Iterator[list["subprocess.Popen[str]"]]:
        command = [sys.executable, "-c", FETCHES, str(tmp_path / "cache")]
        started = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        yield started
        for process in started:
            process.kill()
            process.communicate()

    @pytest.mark.process
    def test_of_two_that_want_the_same_one_fetches_it(
        self, processes: list["subprocess.Popen[str]"], tmp_path: Path
    ) -> None:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate()[0] for process in processes]
        assert sorted(said) == ["True\n", "fetching\nTrue\n"]
        assert [path.name for path in (tmp_path / "cache").iterdir()] == ["object"]

    @pytest.mark.process
    def test_what_a_killed_one_leaves_the_other_fetches(
        self, processes: list["subprocess.Popen[str]"], tmp_path: Path
    ) -> None:
        first, second = processes
        fetching = self.first_to_speak(processes)
        fetching.send_signal(signal.SIGKILL)
        other = second if fetching is first else first
        assert other.communicate("go\n")[0] == "fetching\nTrue\n"
        assert [path.name for path in (tmp_path / "cache").iterdir()] == ["object"]

    @staticmethod
    def first_to_speak(processes: list["subprocess.Popen[str]"]) -> "subprocess.Popen[str]":
        with selectors.DefaultSelector() as selector:
            for process in processes:
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, process)
            spoke: subprocess.Popen[str] = selector.select(30)[0][0].data
        assert spoke.stdout is not None
        assert spoke.stdout.readline() == "fetching\n"
        return spoke

    @pytest.mark.process
    def test_room_is_made_of_what_a_killed_one_left_and_not_of_what_another_is_fetching(self, tmp_path: Path) -> None:
        cache = FileCache(tmp_path / "cache", 10_000)
        left = tmp_path / "cache" / "left.partial"
        left.write_bytes(bytes(9000))
        command = [sys.executable, "-c", FETCHES, str(tmp_path / "cache")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "fetching\n"
            Remote(10_000).read(cache, 0)
            assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["object.partial", "object0"]
            assert other.communicate("go\n")[0] == "True\n"
