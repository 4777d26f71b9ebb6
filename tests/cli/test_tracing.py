"""`trace`: files, standard input, lines of hexadecimal, JSON."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.codecs.sas.dialect import Dialect
from tests.cli.conftest import Run
from tests.test_trace import WRITTEN, image

HEADER = WRITTEN["sas-attachment-header"](Dialect())
COUNT = WRITTEN["sas-count"](Dialect())
RENDEZVOUS = Path("tests/vectors/rendezvous/rv_hdr.json").absolute()


def test_a_file_is_explained_field_by_field(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "capture.bin"
    capture.write_bytes(image("sas-attachment-header", Dialect(), HEADER))
    result = run("trace", capture)
    assert result.code == 0
    assert "mqmd at byte 0  (big-endian, ASCII)" in result.out
    assert "sas-attachment-header at byte 324" in result.out
    assert "'Text file...'" in result.out
    assert "3 BINARY_FILE" in result.out


def test_json_has_one_object_a_frame(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "capture.bin"
    capture.write_bytes(image("sas-attachment-header", Dialect(), HEADER))
    frames = [json.loads(line) for line in run("trace", capture, "--json").out.splitlines()]
    assert [frame["format"] for frame in frames] == ["mqmd", "sas-attachment-header"]
    cells = {cell["name"]: cell for cell in frames[1]["cells"]}
    assert cells["AttachmentHeader.header_correlid"] == {
        "offset": 324,
        "size": 24,
        "name": "AttachmentHeader.header_correlid",
        "value": "11" * 16 + "00" * 8,
    }
    assert cells["AttachmentHeader.attachments[0].type"]["value"] == 3


def test_standard_input_in_lines_of_hexadecimal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = f"# a header, a count\n{HEADER.hex()}\n\n{COUNT.hex(' ')}\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(lines.encode())))
    frames = [json.loads(line) for line in run("trace", "-", "--hex", "--json").out.splitlines()]
    assert [(frame["line"], frame["format"]) for frame in frames] == [(2, "sas-attachment-header"), (4, "sas-count")]


def test_a_bad_line_does_not_stop_the_others(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "capture.hex"
    capture.write_text(f"zz\nffffff\n{COUNT.hex()}\n")
    result = run("trace", capture, "--hex")
    assert result.code == 1
    assert "sas-count at line 3" in result.out
    assert "line 1: this is not hexadecimal" in result.err
    assert "line 2: this is none of:" in result.err


def test_being_told_what_bytes_are(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "capture.bin"
    capture.write_bytes(COUNT)
    assert "sas-count" in run("trace", capture, "--as", "sas-count").out
    refused = run("trace", capture, "--as", "mqmd")
    assert refused.code == 1
    assert "mqmd: to byte 0" in refused.err
    unknown = run("trace", capture, "--as", "telex")
    assert unknown.code == 1
    assert "sas-attachment-header" in unknown.err


def test_a_file_that_is_not_there(run: Run) -> None:
    result = run("trace", "/no/such/file")
    assert (result.code, result.out) == (1, "")
    assert "cannot read /no/such/file: No such file or directory" in result.err


def test_no_bytes_are_told_as_such(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "empty.bin"
    capture.touch()
    result = run("trace", capture)
    assert result.code == 1
    assert "no bytes came" in result.err


def test_rendezvous_messages_are_printed_with_their_fields(run: Run, in_folder: Path) -> None:
    vector = json.loads(RENDEZVOUS.read_text())
    Path("messages.hex").write_text("\n".join([vector["hex"], vector["hex"] * 2]))
    traced = run("trace", "--as", "tibrvmsg", "--hex", "--json", "messages.hex")
    assert traced.code == 0
    printed = [json.loads(line) for line in traced.out.splitlines()]
    assert [frame["fields"] for frame in printed] == [vector["fields"]] * 3
    assert [(frame["line"], frame["offset"]) for frame in printed] == [(1, 0), (2, 0), (2, vector["size"])]
    shown = run("trace", "--hex", "messages.hex").out
    assert "tibrvmsg at line 1, byte 0  (15 fields)" in shown
    assert "'HDR' id 15" in shown
