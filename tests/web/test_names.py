import re
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord
from app.web.http.disposition import content_disposition, file_name

ANY_TEXT = st.text(st.characters(), max_size=300)
HEADER = re.compile(r"attachment; filename=\"([ !#$&-\[\]-~]*)\"; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]*)")


def called(name: str, kind: AttachmentKind = AttachmentKind.BINARY_FILE) -> str:
    return file_name(AttachmentRecord("id", "source", bytes(16), kind=kind, qualifier_2=name))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("d:\\data\\mytext.txt", AttachmentKind.TEXT_FILE, "mytext.txt"),
        ("/home/sas/übung.txt", AttachmentKind.TEXT_FILE, "übung.txt"),
        ("a/b\\c.bin", AttachmentKind.BINARY_FILE, "c.bin"),
        ("CLASS", AttachmentKind.DATA_SET, "CLASS.parquet"),
        ("", AttachmentKind.DATA_SET, "data-set.parquet"),
        ("", AttachmentKind.TEXT_FILE, "attachment.txt"),
        ("..", AttachmentKind.BINARY_FILE, "attachment.bin"),
        ("folder/", AttachmentKind.BINARY_FILE, "folder"),
        ("a\r\nX-Evil: 1", AttachmentKind.BINARY_FILE, "a__X-Evil_ 1"),
        ("invoice\u202efdp.exe", AttachmentKind.BINARY_FILE, "invoice_fdp.exe"),
        ("中文 報告.pdf", AttachmentKind.BINARY_FILE, "中文 報告.pdf"),
        ("n" * 400 + ".tar", AttachmentKind.BINARY_FILE, "n" * 156 + ".tar"),
    ],
)
def test_examples(name: str, kind: AttachmentKind, expected: str) -> None:
    assert called(name, kind) == expected


def test_both_forms_of_a_name() -> None:
    assert content_disposition("Übung (1) 50%.txt") == (
        "attachment; filename=\"Ubung (1) 50_.txt\"; filename*=UTF-8''%C3%9Cbung%20%281%29%2050%25.txt"
    )


@given(ANY_TEXT, st.sampled_from(AttachmentKind))
@example('x"; filename="evil.exe', AttachmentKind.BINARY_FILE)
@example("\ud800", AttachmentKind.BINARY_FILE)
@example("a\0b", AttachmentKind.BINARY_FILE)
def test_any_name_is_one_safe_component_and_one_safe_header(name: str, kind: AttachmentKind) -> None:
    safe = called(name, kind)
    assert safe.strip(". ")
    assert not re.search(r'[/\\\x00-\x1f\x7f-\x9f\u202a-\u202e<>:"|?*]', safe)
    match = HEADER.fullmatch(content_disposition(safe))
    assert match is not None
    assert unquote(match[2]) == safe


@given(ANY_TEXT)
def test_a_header_takes_any_name_at_all(name: str) -> None:
    assert HEADER.fullmatch(content_disposition(name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("Aux .tar.gz", "_Aux .tar.gz"),
        ("com1.log", "_com1.log"),
        ("LPT\u00b9", "_LPT\u00b9"),
        ("conin$", "_conin$"),
        ("console.txt", "console.txt"),
        ("com10.txt", "com10.txt"),
    ],
)
def test_names_that_windows_reserves(name: str, expected: str) -> None:
    assert called(name) == expected


@pytest.mark.parametrize("character", ["a", "\u00fc", "\u4e2d", "\U0001f600"])
def test_a_name_is_short_enough_in_bytes(character: str) -> None:
    shown = called(character * 300 + ".txt")
    assert 100 < len(shown.encode()) <= 160
    assert shown.endswith(character + ".txt")
