"""What every content store promises."""

import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ports import ContentStore
from tests.support.length import examples

NAME = "2024/a-b_c.parquet"


def content(store: ContentStore, name: str, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join(store.read(name, offset, length))


def put(store: ContentStore, name: str, *pieces: bytes) -> None:
    with store.create(name) as writer:
        for piece in pieces:
            writer.write(piece)


class StoreContract:
    """Inherited by an adapter's tests, which give the fixture `store`."""

    @pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 20_000_003])
    def test_gives_back_what_was_written(self, store: ContentStore, size: int) -> None:
        data = os.urandom(size)
        with store.create(NAME) as writer:
            for at in range(0, size, 300_007):
                writer.write(memoryview(data)[at : at + 300_007])
        assert store.size(NAME) == size
        assert content(store, NAME) == data
        assert all(len(piece) <= 1 << 20 for piece in store.read(NAME))

    def test_takes_every_kind_of_bytes_and_does_not_keep_them(self, store: ContentStore) -> None:
        reused = bytearray(b"reused")
        with store.create(NAME) as writer:
            writer.write(b"bytes ")
            writer.write(reused)
            reused[:] = b"abused"
            writer.write(memoryview(b"| a view |")[1:-1])
        assert content(store, NAME) == b"bytes reused a view "

    def test_reads_any_range_as_a_slice(self, store: ContentStore) -> None:
        data = os.urandom(3_000_000)
        put(store, NAME, data)

        @settings(max_examples=examples(15), deadline=None)
        @given(st.integers(0, len(data) + 10), st.none() | st.integers(0, len(data) + 10))
        def check(offset: int, length: int | None) -> None:
            assert content(store, NAME, offset, length) == data[offset:][:length]

        check()

    def test_shows_nothing_before_the_block_ends(self, store: ContentStore) -> None:
        with store.create(NAME) as writer:
            writer.write(b"x" * 3_000_000)
            assert list(store.names()) == []
            with pytest.raises(KeyError):
                store.size(NAME)
        assert list(store.names()) == [NAME]

    def test_forgets_an_object_whose_block_raises(self, store: ContentStore) -> None:
        put(store, NAME, b"the old one")

        def fail() -> None:
            with store.create(NAME) as writer:
                writer.write(b"x" * 3_000_000)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert content(store, NAME) == b"the old one"
        assert list(store.names()) == [NAME]

    def test_replaces_an_object_and_lets_two_be_written_at_once(self, store: ContentStore) -> None:
        put(store, NAME, b"first")
        with store.create(NAME) as one, store.create("other") as other:
            one.write(b"sec")
            other.write(b"other")
            one.write(b"ond")
        assert (content(store, NAME), content(store, "other")) == (b"second", b"other")

    def test_deletes_and_does_not_mind_when_there_is_none(self, store: ContentStore) -> None:
        put(store, NAME, b"x")
        store.delete(NAME)
        store.delete(NAME)
        store.delete(f"{NAME}/under-it")
        assert list(store.names()) == []

    def test_forgets_many_at_once(self, store: ContentStore) -> None:
        for name in ("a", "b/c", "d"):
            put(store, name, b"x")
        store.delete_all([])
        store.delete_all(["a", "none", "b/c"])
        assert list(store.names()) == ["d"]
        with pytest.raises(ValueError, match="name"):
            store.delete_all(["../d"])

    @pytest.mark.parametrize(
        "ask", [lambda s, n: s.size(n), lambda s, n: list(s.read(n)), lambda s, n: list(s.read(n, 5, 5))]
    )
    def test_knows_no_other_object(self, store: ContentStore, ask: Callable[[ContentStore, str], object]) -> None:
        put(store, NAME, b"x")
        for name in ("none", f"{NAME}x", f"{NAME}/x", "2024"):
            with pytest.raises(KeyError):
                ask(store, name)

    def test_lists_by_the_beginning_of_a_name(self, store: ContentStore) -> None:
        names = {"a", "ab/c", "ab/cd/e", "abc", "b/a"}
        for name in names:
            put(store, name, b"x")
        for prefix in ("", "a", "ab", "ab/", "ab/c", "ab/cd/", "b/a", "c", "ab/c/d"):
            assert sorted(store.names(prefix)) == sorted(name for name in names if name.startswith(prefix))

    @pytest.mark.parametrize(
        "name", ["", "/a", "a/", "a//b", "..", "a/../b", ".", "./a", "a/.b", "a b", "ä", "a\n", "a\0"]
    )
    def test_refuses_what_is_no_name(self, store: ContentStore, name: str) -> None:
        with pytest.raises(ValueError, match="name"), store.create(name):
            raise AssertionError
        for ask in (store.size, store.read, store.local_path, store.open_file, store.delete):
            with pytest.raises(ValueError, match="name"):
                ask(name)

    def test_writes_many_objects_together(self, store: ContentStore) -> None:
        put(store, "a/0", b"old")
        contents = {f"a/{n}": os.urandom(n) for n in range(100)} | {"large": os.urandom(3_000_000)}
        with store.batch() as writing:
            for name, data in contents.items():
                put(writing, name, data[: len(data) // 2], data[len(data) // 2 :])
                assert writing.size(name) == len(data)
                assert content(writing, name, 1, 5) == data[1:6]
            assert content(writing, "a/7") == contents["a/7"]
            put(writing, "a/9", b"again")
            put(writing, "gone", b"gone")
            writing.delete("gone")
        assert {name: content(store, name) for name in store.names()} == contents | {"a/9": b"again"}

    def test_forgets_an_object_whose_block_raises_among_others(self, store: ContentStore) -> None:
        def fail(writing: ContentStore, name: str, size: int) -> None:
            with writing.create(name) as writer:
                writer.write(bytes(size))
                raise ZeroDivisionError

        with store.batch() as writing:
            put(writing, "a", b"a")
            for name, size in (("small", 10), ("large", 3_000_000)):
                with pytest.raises(ZeroDivisionError):
                    fail(writing, name, size)
            put(writing, "b", b"b")
        assert sorted(store.names()) == ["a", "b"]

    def test_replaces_a_small_object_by_a_large_one_and_back(self, store: ContentStore) -> None:
        with store.batch() as writing:
            for name, sizes in (("a", (1, 3_000_000)), ("b", (3_000_000, 1))):
                for size in sizes:
                    put(writing, name, bytes(size))
                    assert writing.size(name) == size
        assert (store.size("a"), store.size("b")) == (3_000_000, 1)
