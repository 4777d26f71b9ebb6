import errno
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any, ClassVar

import pytest

from adapters.arrow_journal.archive import ArrowArchive
from adapters.delta_tables import DeltaTables
from adapters.disk import sync_folder
from adapters.object_store import ObjectStore, bucket_objects, local_objects
from app.model.errors import DamagedError, GatewayError, StoreFull
from tests.contracts.store import StoreContract, content, put
from tests.support.disk import bad_blocks, small_disk
from tests.support.http_server import Handler, serving
from tests.support.object_server import Bucket

__all__ = ["small_disk"]


class TestLocalFolder(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return ObjectStore(tmp_path / "content")

    def test_names_the_file_of_an_object(self, store: ObjectStore) -> None:
        put(store, "a/b", b"in a file")
        path = store.local_path("a/b")
        assert path is not None
        assert Path(path).read_bytes() == b"in a file"

    def test_keeps_objects_over_a_restart(self, store: ObjectStore, tmp_path: Path) -> None:
        put(store, "a/b", b"kept")
        for url in (str(tmp_path / "content"), (tmp_path / "content").as_uri()):
            assert content(ObjectStore(url), "a/b") == b"kept"

    def test_goes_on_reading_what_is_replaced_or_deleted_meanwhile(self, store: ObjectStore) -> None:
        data = os.urandom(3 << 20)
        put(store, "a", data)
        reading = store.read("a")
        first = bytes(next(reading))
        put(store, "a", b"new")
        store.delete("a")
        assert first + b"".join(reading) == data

    def test_an_object_that_becomes_shorter_while_it_is_read_is_an_error(self, store: ObjectStore) -> None:
        put(store, "a", os.urandom(5 << 20))
        path = store.local_path("a")
        assert path is not None
        reading = store.read("a")
        next(reading)
        os.truncate(path, 3 << 20)
        assert len(next(reading)) + len(next(reading)) == 2 << 20
        with pytest.raises(DamagedError, match="the object a cannot be read: the file ends at byte 3145728") as raised:
            next(reading)
        assert raised.value.name == "a"

    def test_a_block_that_cannot_be_read_is_an_error(self, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        data = os.urandom(3 << 20)
        put(store, "a", data)
        bad_blocks(monkeypatch, 2 << 20)
        assert content(store, "a", 0, 2 << 20) == data[: 2 << 20]
        with pytest.raises(DamagedError, match=r"the object a cannot be read: .* cannot be read: Input/output error"):
            content(store, "a")

    def test_names_nothing_of_a_block_that_raises(self, store: ObjectStore, tmp_path: Path) -> None:
        def fail() -> None:
            with store.batch() as writing:
                put(writing, "a", b"x")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert list(store.names()) == []
        assert list((tmp_path / "content/.partial").iterdir()) == []

    @pytest.mark.parametrize("count", [3, 40])
    def test_objects_are_on_disk_before_they_have_names(
        self, store: ObjectStore, count: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[str] = []
        for module, name in ((local_objects, "sync_file_system"), (os, "fsync"), (os, "rename")):
            real = getattr(module, name)
            monkeypatch.setattr(module, name, partial(_noting, calls, name, real))
        with store.batch() as writing:
            for n in range(count):
                put(writing, f"{n}", b"x")
            assert "rename" not in calls
        named = calls.index("rename")
        assert calls[:named] == (["fsync"] * count if count == 3 else ["sync_file_system"])
        assert calls[named:] == ["rename"] * count + ["fsync"]

    def test_empty_folders_are_removed(self, store: ObjectStore, tmp_path: Path) -> None:
        for n in range(100):
            put(store, f"outgoing/{n}/0", b"x")
        put(store, "outgoing/0/kept", b"x")
        for n in range(100):
            store.delete(f"outgoing/{n}/0")
        with store.batch() as writing:
            put(writing, "outgoing/a/b/c", b"x")
        store.delete_all(["outgoing/a/b/c", "outgoing/a/b/none"])
        assert [path.name for path in (tmp_path / "content/outgoing").iterdir()] == ["0"]
        assert list(store.names()) == ["outgoing/0/kept"]

    @pytest.mark.parametrize("writing", [nullcontext, lambda store: store.batch()])
    def test_a_folder_that_is_removed_while_an_object_is_named_is_made_again(
        self,
        store: ObjectStore,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        writing: Callable[[ObjectStore], AbstractContextManager[ObjectStore]],
    ) -> None:
        rename, folder, left = os.rename, tmp_path / "content/outgoing/1", [1, 2, 3]

        def removing(*paths: Any) -> None:
            if left and folder.exists():
                left.pop()
                folder.rmdir()
            rename(*paths)

        monkeypatch.setattr(os, "rename", removing)
        with writing(store) as target:
            put(target, "outgoing/1/0", b"there")
        assert content(store, "outgoing/1/0") == b"there"
        assert left == []

    def test_threads_that_write_and_delete_in_one_folder_never_fail(self, store: ObjectStore) -> None:
        def write(name: str) -> None:
            for _ in range(150):
                put(store, f"outgoing/1/{name}", b"x")
                assert content(store, f"outgoing/1/{name}") == b"x"
                store.delete(f"outgoing/1/{name}")

        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(write, name) for name in "abc"]:
                done.result()
        assert list(store.names()) == []

    def test_names_of_folders_are_on_disk_with_those_of_objects(
        self, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flushed: list[str] = []
        top = tmp_path / "content"

        def flush(folder: Path) -> None:
            flushed.append(str(folder.relative_to(top)))
            sync_folder(folder)

        monkeypatch.setattr(local_objects, "sync_folder", flush)
        (top / "a/b").mkdir(parents=True)  # by a writer that may not have flushed it yet
        put(store, "a/b/1", b"x")
        assert flushed == ["a/b", "a", "."]
        with store.batch() as writing:
            put(writing, "a/b/2", b"x")
        assert flushed[3:] == ["a/b", "a"], "folders directly in the store are never removed"


def _noting(calls: list[str], name: str, real: Callable[..., object], *given: object) -> object:
    calls.append(name)
    return real(*given)


class TestBucket(StoreContract):
    @pytest.fixture
    def store(self, bucket: Bucket) -> ObjectStore:
        return ObjectStore(bucket.url)

    def test_uploads_small_objects_at_the_same_time(self, store: ObjectStore, bucket: Bucket) -> None:
        bucket.delay(0.2)
        try:
            with store.batch() as writing:
                for n in range(32):
                    put(writing, f"{n}", b"x")
            assert bucket.at_once() > 8
        finally:
            bucket.delay(0)

    def test_an_upload_that_fails_fails_the_block(self, bucket: Bucket) -> None:
        missing = ObjectStore(f"{bucket.url}-missing")
        with pytest.raises(GatewayError, match="failed for object a"), missing.batch() as writing:
            put(writing, "a", b"x")


def test_a_small_object_that_is_late_does_not_replace_the_large_one_that_replaced_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upload = bucket_objects._Uploads._put

    def late(uploads: Any, name: str, data: bytes) -> None:
        sleep(0.2)
        upload(uploads, name, data)

    monkeypatch.setattr(bucket_objects._Uploads, "_put", late)
    store = ObjectStore("memory://")
    with store.batch() as together:
        put(together, "a", b"small")
        put(together, "a", bytes(3 << 20))
    assert store.size("a") == 3 << 20


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return ObjectStore("memory://")

    def test_has_no_files(self, store: ObjectStore) -> None:
        put(store, "a", b"x")
        assert store.local_path("a") is None


WRITES_FOR_EVER = """
import sys
from adapters.object_store import ObjectStore
with ObjectStore(sys.argv[1]).create("a") as writer:
    writer.write(bytes(3 << 20))
    print("written", flush=True)
    sys.stdin.read()
"""
WRITES_TOGETHER_FOR_EVER = """
import sys
from adapters.object_store import ObjectStore
with ObjectStore(sys.argv[1]).batch() as store:
    for name in "abc":
        with store.create(name) as writer:
            writer.write(b"x")
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
@pytest.mark.parametrize(("program", "left"), [(WRITES_FOR_EVER, 1), (WRITES_TOGETHER_FOR_EVER, 5)])
def test_sweeps_away_what_a_killed_process_was_writing_and_nothing_else(
    tmp_path: Path, program: str, left: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"written\n"
        partials = tmp_path / ".partial"
        ObjectStore(tmp_path)
        assert len(list(partials.rglob("*"))) == left
        other.kill()
        other.wait()
        store = ObjectStore(tmp_path)
        assert list(partials.iterdir()) == []
        assert list(store.names()) == []


def test_a_full_disk_is_said_and_leaves_nothing_behind(small_disk: Path) -> None:
    store = ObjectStore(small_disk)
    put(store, "kept", b"k" * 10_000)
    with pytest.raises(StoreFull, match="no space"):
        put(store, "big", bytes(64 << 20))
    assert sorted(store.names()) == ["kept"]
    assert list((small_disk / ".partial").iterdir()) == []
    put(store, "next", b"n" * 10_000)
    assert content(store, "kept") + content(store, "next") == b"k" * 10_000 + b"n" * 10_000


def test_a_batch_whose_folder_cannot_be_made_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, mkdir = ObjectStore(tmp_path), Path.mkdir

    def full(path: Path, *given: Any, **named: Any) -> None:
        if path.parent.name == ".partial":  # a folder needs a block, an empty file needs none
            raise OSError(errno.ENOSPC, "No space left on device")
        mkdir(path, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", full)
        with pytest.raises(StoreFull, match="no space"), store.batch():
            pass
    assert list((tmp_path / ".partial").iterdir()) == []
    with store.batch() as batch:
        put(batch, "next", b"n")
    assert content(store, "next") == b"n"


def test_an_object_where_a_folder_is_needed_is_said(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    put(store, "a", b"x")
    with pytest.raises(GatewayError, match="cannot be written"):
        put(store, "a/b", b"y")
    assert list(store.names()) == ["a"]


@pytest.mark.parametrize("url", ["http://host/x", "ftp://host/x", "file://host/x", "nonsense://x"])
def test_refuses_other_urls(url: str) -> None:
    with pytest.raises(ValueError, match="give a path, or a URL with"):
        ObjectStore(url)


class Metadata(Handler):
    """The metadata address of a cloud's machine, as far as one asks whether it is there."""

    asked: ClassVar[list[str]] = []

    def do_PUT(self) -> None:
        self.asked.append(self.path)
        self.answer(404)


@pytest.mark.parametrize("open_", [ObjectStore, DeltaTables, ArrowArchive])
@pytest.mark.parametrize(
    ("url", "last"),
    [
        ("s3://bucket/x", "AWS_METADATA_ENDPOINT"),
        ("gs://bucket/x", "GCE_METADATA_HOST"),
        ("abfss://container@account.dfs.core.windows.net/x", "AZURE_IDENTITY_ENDPOINT"),
    ],
)
def test_without_credentials_no_metadata_address_is_asked(
    monkeypatch: pytest.MonkeyPatch, open_: Callable[[str], object], url: str, last: str
) -> None:
    without_credentials(monkeypatch)
    with pytest.raises(ValueError, match=f"no credentials for .*{last}. The metadata address .* only if the last one"):
        open_(url)


def test_a_metadata_address_that_is_configured_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    without_credentials(monkeypatch)
    with serving(Metadata) as port:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        with pytest.raises(GatewayError, match="api/token"):
            ObjectStore("s3://bucket/x").size("a")
    assert Metadata.asked == ["/latest/api/token"]


def without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_")):
            monkeypatch.delenv(name)


def test_a_file_that_another_library_is_still_writing_is_no_object(tmp_path: Path) -> None:
    """Tables are written into the folder by object_store, which names a file so until it is whole."""
    store = ObjectStore(str(tmp_path))
    put(store, "T/_delta_log/_last_checkpoint", b"{}")
    (tmp_path / "T" / "_delta_log" / "_last_checkpoint#1").write_bytes(b"{")
    assert list(store.names()) == ["T/_delta_log/_last_checkpoint"]
