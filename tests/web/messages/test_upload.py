from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.object_store import ObjectStore
from app.service.sending.upload_parts import StoredPart
from app.web.problems import Problem
from app.web.resources.messages.multipart_upload import PartHead, UploadWriter

BOUNDARY = "--a-boundary"
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"%\\'), min_size=1, max_size=20)
CONTENTS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"-", b"--", BOUNDARY.encode(), b"x"]), max_size=20).map(b"".join),
).filter(lambda data: b"\r\n--" + BOUNDARY.encode() not in b"\r\n" + data)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    folder: Path = tmp_path_factory.mktemp("content")
    return ObjectStore(folder)


def upload_to(store: ObjectStore) -> UploadWriter:
    return UploadWriter(
        f'multipart/form-data; boundary="{BOUNDARY}"',
        store,
        "outgoing/x",
        is_field=lambda head: head.file_name is None,
        on_field=lambda name, text: None,
        max_parts=20,
    )


def body(parts: list[tuple[str, bytes]]) -> bytes:
    heads = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\n\r\n'.encode()
        for name, _ in parts
    ]
    pieces = [head + data + b"\r\n" for head, (_, data) in zip(heads, parts, strict=True)]
    return b"".join(pieces) + f"--{BOUNDARY}--\r\n".encode()


def cut(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(at % (len(data) + 1) for at in cuts), len(data)]
    return (data[start:end] for start, end in pairwise(edges))


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, CONTENTS), min_size=1, max_size=4), st.lists(st.integers(0, 5000), max_size=12))
def test_any_parts_cut_anywhere_are_stored_as_they_are(
    store: ObjectStore, parts: list[tuple[str, bytes]], cuts: list[int]
) -> None:
    upload = upload_to(store)
    for chunk in cut(body(parts), cuts):
        upload.feed([chunk])
    form = upload.finish()
    assert [(part.file_name, part.size, part.sha256) for part in form.parts] == [
        (name, len(data), sha256(data).hexdigest()) for name, data in parts
    ]
    assert [b"".join(store.read(part.object_name)) for part in form.parts] == [data for _, data in parts]
    upload.discard()
    assert list(store.names()) == []


@settings(deadline=None)
@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_other_body_is_the_clients_fault_and_leaves_nothing(store: ObjectStore, noise: bytes, at: int) -> None:
    good = body([("a", b"content"), ("b", b"more")])
    for data in (noise, good[:at] + noise, good[: at % len(good)]):
        upload = upload_to(store)
        with suppress(Problem):
            upload.feed([data])
            upload.finish()
        upload.discard()
        assert list(store.names()) == []


def test_a_part_needs_a_name(store: ObjectStore) -> None:
    upload = upload_to(store)
    with pytest.raises(Problem, match="Content-Disposition"):
        upload.feed([f"--{BOUNDARY}\r\nContent-Type: text/plain\r\n\r\nx\r\n--{BOUNDARY}--\r\n".encode()])


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "multipart/form-data", 'multipart/form-data; boundary=""', "multipart/mixed; boundary=b"],
)
def test_a_boundary_is_needed(store: ObjectStore, content_type: str) -> None:
    with pytest.raises(Problem):
        UploadWriter(content_type, store, "x", is_field=lambda head: True, on_field=lambda n, t: None, max_parts=1)


def test_what_a_part_tells(store: ObjectStore) -> None:
    heads: list[PartHead] = []

    def is_field(head: PartHead) -> bool:
        heads.append(head)
        return False

    upload = UploadWriter(
        "multipart/form-data; boundary=b", store, "x", is_field=is_field, on_field=lambda n, t: None, max_parts=1
    )
    headers = 'Content-Type: Text/Plain\r\ncontent-disposition: form-data; name="ä"; filename="ö"'
    upload.feed([f"--b\r\n{headers}\r\n\r\n1\r\n--b--".encode()])
    assert heads == [PartHead("ä", "ö", "text/plain")]
    assert upload.finish().parts == [StoredPart(*heads[0], "x/0", 1, sha256(b"1").hexdigest())]
    upload.discard()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("preamble", [b"", b"\r\n", b"This is MIME.\r\n", b"--\r\n\r\n", b"--a-boundary\r\n"])
def test_a_preamble_is_ignored(store: ObjectStore, preamble: bytes, size: int) -> None:
    upload = UploadWriter(
        "multipart/form-data; boundary=bound",
        store,
        "x",
        is_field=lambda head: True,
        on_field=lambda name, text: None,
        max_parts=2,
    )
    body = preamble + b'--bound\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--bound--\r\n'
    for at in range(0, len(body), size):
        upload.feed([body[at : at + size]])
    assert upload.finish().fields == {"a": "1"}
