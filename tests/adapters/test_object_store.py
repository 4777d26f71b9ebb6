import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.object_store import ObjectStore
from app.model.errors import DamagedError, GatewayError, StoreFull
from tests.contracts.store import StoreContract, content, put
from tests.support.disk import bad_blocks, small_disk

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


def test_sweeps_away_what_a_killed_process_was_writing_and_nothing_else(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITES_FOR_EVER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"written\n"
        partial = tmp_path / ".partial"
        ObjectStore(tmp_path)
        assert len(list(partial.iterdir())) == 1
        other.kill()
        other.wait()
        store = ObjectStore(tmp_path)
        assert list(partial.iterdir()) == []
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
