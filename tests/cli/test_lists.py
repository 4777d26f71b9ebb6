"""Lists for people: one line a row, in any width."""

from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from app.cli import list_commands
from app.cli.line_tables import ListTable, first_digits, without_zeros

ALIKE = "9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19", "9f2c4b1e0d6a4c3b8e7f6a5d4c3b2a19"
NAMES = "report.txt", "Bericht über die Wetterstationen der nördlichen Hemisphäre, zweite Fassung.docx"


def printed(grid: ListTable, width: int) -> list[str]:
    file = StringIO()
    Console(file=file, width=width).print(grid)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def attachment(identifier: str, name: str, **changes: object) -> dict[str, object]:
    item: dict[str, object] = {
        "id": identifier,
        "state": "finished",
        "kind": "binary-file",
        "name": name,
        "size": 143_974,
        "source": "the-source-of-all-orders",
        "first_received_at": "2026-11-22T08:00:00+00:00",
        "reason": None,
        "observations": None,
        "description": "sent on Sunday",
        "warnings_count": 0,
        "progress": {"bytes_received": 143_974, "parts_received": 6, "parts_expected": 6},
    }
    return item | changes


def attachments() -> ListTable:
    reason = {"text": "AttachmentHeader.attachments[0].description at byte 143: the text has\nno end"}
    return list_commands.attachment_list(
        [attachment(ALIKE[0], NAMES[0]), attachment(ALIKE[1], NAMES[1], state="quarantined", reason=reason)]
    )


@pytest.mark.parametrize("width", [60, 72, 80, 100, 132, 200])
def test_a_row_is_a_line_within_the_width(width: int) -> None:
    lines = printed(attachments(), width)
    assert len(lines) == 3
    assert max(map(cell_len, lines)) <= width
    first, second = first_digits(ALIKE)
    assert lines[1].startswith(first)
    assert "report.txt" in lines[1]
    assert lines[2].startswith(second)
    assert "quarantined" in lines[2]
    assert "…" in lines[2]


def test_warnings_are_counted() -> None:
    lines = printed(
        list_commands.attachment_list([attachment(ALIKE[0], "a", warnings_count=count) for count in range(3)]), 300
    )
    assert ["warning" in line for line in lines] == [False, False, True, True]
    assert "1 warning; sent on Sunday" in lines[2]
    assert "2 warnings; sent on Sunday" in lines[3]


def test_a_wide_terminal_shows_everything() -> None:
    heading, *lines = printed(attachments(), 400)
    assert heading.split() == ["ID", "State", "Kind", "Name", "Size", "Source", "Received"]
    for line, identifier, name in zip(lines, ALIKE, NAMES, strict=True):
        assert line.startswith(identifier)
        assert name in line
    assert "byte 143: the text has no end" in lines[1]
    assert not any("…" in line for line in lines)


def test_the_least_important_columns_are_left_out_first() -> None:
    headings = {width: printed(attachments(), width)[0].split() for width in (60, 90, 130)}
    assert headings[60] == ["ID", "State", "Name", "Size"]
    assert headings[90] == ["ID", "State", "Name", "Size", "Received"]
    assert headings[130] == ["ID", "State", "Kind", "Name", "Size", "Source", "Received"]


def test_what_a_sender_writes_cannot_break_a_line() -> None:
    (_, line) = printed(list_commands.attachment_list([attachment(ALIKE[0], "a\nb\x1b[31m\u2028c[bold]")]), 300)
    assert "a b\ufffd[31m c[bold]" in line


def test_short_identifiers_differ() -> None:
    assert first_digits(ALIKE) == ["9f2c4b1e0d5", "9f2c4b1e0d6"]
    assert first_digits([ALIKE[0], ALIKE[0]]) == ["9f2c4b1e", "9f2c4b1e"]
    assert first_digits([]) == []
    assert without_zeros(["0000000100002000", "0000000000000000"]) == ["100002000", "0"]
