"""`trace`: files, standard input, lines of hexadecimal, JSON."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.codecs.sas.dialect import Dialect
from tests.cli.conftest import Run
from tests.test_trace import COUNT as COUNT_MESSAGE
from tests.test_trace import WRITTEN, image, published

HEADER = WRITTEN["sas-attachment-header"](Dialect())
COUNT = WRITTEN["sas-count"](Dialect())
SAPDB = Path("tests/vectors/sapdb/sapdb_kernel_packets.json").absolute()
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


def test_mqtt_packets_in_a_row_are_explained_with_their_payloads(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "capture.bin"
    capture.write_bytes(published(COUNT_MESSAGE, "5") + published(COUNT_MESSAGE, "3.1.1"))
    result = run("trace", capture)
    assert result.code == 0
    assert [line.split(" at ")[0] for line in result.out.splitlines() if " at byte " in line] == [
        "mqtt",
        "sas-count",
        "mqtt",
        "mqmd",
        "sas-count",
    ]
    assert "PUBLISH.topic " in result.out


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
    assert "line 1: not a hexadecimal digit" in result.err
    assert "line 2: not recognised; tried were:" in result.err


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
    assert "the input is empty" in result.err


def test_rendezvous_messages_are_printed_with_their_fields(run: Run, in_folder: Path) -> None:
    vector = json.loads(RENDEZVOUS.read_text())
    Path("messages.hex").write_text("\n".join([vector["hex"], vector["hex"] * 2]))
    traced = run("trace", "--as", "tibrvmsg", "--hex", "--json", "messages.hex")
    assert traced.code == 0
    printed = [json.loads(line) for line in traced.out.splitlines()]
    assert [frame["fields"] for frame in printed] == [vector["fields"]] * 3
    assert [(frame["line"], frame["offset"]) for frame in printed] == [(1, 0), (2, 0), (2, vector["size"])]
    shown = run("trace", "--hex", "messages.hex").out
    assert "tibrvmsg at line 1, byte 0  (15 fields: attachment header)" in shown
    assert "'HDR' id 15" in shown


@pytest.fixture
def packets() -> dict[str, Any]:
    return {vector["name"]: vector for vector in json.loads(SAPDB.read_text())["vectors"]}


EXAMPLES = [f"seed_ex{number}_{way}" for number in (1, 21, 22) for way in ("request", "reply")]
DOCUMENTED = """\
REQUEST: ascii, full_swap, 70205-XCI     (1 segment, len: 104)
   execute SEGMENT 1   (2 parts, len: 104)
         session_sqlmode, user_cmd
         with_info
   parsid PART   (1 argument, size: 28136)
         mess_type: select
         buf(12):
         00000019 00000601 3C000000
   data PART   (1 argument, size: 28104)
         buf(9): ' keyval1 '

RECEIVE: ascii, full_swap, 70205-XCI     (1 segment, len: 104)
   ok / RETURN SEGMENT 1   (2 parts, len: 104)
         select_into, sqlstate: '00000'
         external WARNING   0: warning_exists
         external WARNING   8: table_scan
   resultcount PART   (1 argument, size: 32096)
         result_count: 1
   data PART   (1 argument, size: 32072)
         buf(17):
         00C44711 00000000 20303031 34333934 34 '..G..... 00143944'
"""


# The document has runs of blanks as one, three stars more and "errops", which no kernel prints.
FIRST_DOCUMENTED = """\
REQUEST: ascii, full_swap, 70205-XCI (1 segment, len: 120)
dbs SEGMENT 1 (1 part, len: 120)
session_sqlmode, user_cmd
with_info
command PART (1 argument, size: 28136)
buf(57):
'SELECT EMPNAME, EMPNO FROM EMP WHRE FIRST_NAME = 'Martin''

RECEIVE: ascii, full_swap, 70205-XCI (1 segment, len: 88)
*** -3014 / RETURN SEGMENT 1 (1 part, len: 88)
select_fc, errpos: 37, sqlstate: '42000'
errortext PART (1 argument, size: 32080)
buf(28): 'Invalid end of SQL statement'
"""


def test_the_first_example_is_printed_as_documented(run: Run, in_folder: Path, packets: dict[str, Any]) -> None:
    found = [packets[name] for name in EXAMPLES[:2]]
    Path("packets.hex").write_text("\n".join(f"{each['direction']} {each['hex']}" for each in found))
    printed = run("trace", "--as", "order-packet", "--hex", "packets.hex").out
    assert [" ".join(line.split()) for line in printed.splitlines()[1:]] == FIRST_DOCUMENTED.splitlines()


@pytest.mark.parametrize("words", [True, False], ids=["said", "unsaid"])
def test_order_packets_are_printed_as_their_vtrace(
    run: Run, monkeypatch: pytest.MonkeyPatch, packets: dict[str, Any], words: bool
) -> None:
    found = [packets[name] for name in EXAMPLES]
    lines = [(f"{each['direction']} " if words else "") + each["hex"] for each in found]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("\n".join(lines).encode())))
    result = run("trace", "--as", "order-packet", "--hex", "-")
    assert result.code == 0
    assert result.out == "\n\n".join("\n".join(each["trace"]) for each in found) + "\n"
    assert result.out.endswith(f"\n \n{DOCUMENTED}")


def test_the_word_in_front_of_an_order_packet_says_where_it_goes(
    run: Run, in_folder: Path, packets: dict[str, Any]
) -> None:
    sent = packets["seed_ex1_request"]["hex"]
    Path("packets.hex").write_text(f"RECEIVE {sent}\n REQUEST\t{sent}\nREJECT {sent}\n")
    result = run("trace", "--as", "order-packet", "--hex", "packets.hex")
    assert [line.partition(":")[0] for line in result.out.splitlines() if "full_swap" in line] == ["RECEIVE", "REQUEST"]
    assert result.code == 1
    assert "line 3: not a hexadecimal digit: 'R' (byte 0)" in result.err


def test_order_packets_have_their_fields_as_json(run: Run, in_folder: Path, packets: dict[str, Any]) -> None:
    found = [packets[name] for name in EXAMPLES]
    Path("packets.hex").write_text("\n".join(f"{each['direction']} {each['hex']}" for each in found))
    printed = run("trace", "--as", "order-packet", "--hex", "--json", "packets.hex").out.splitlines()
    assert [json.loads(line)["decoded"] for line in printed] == [each["decoded"] for each in found]
    assert [json.loads(line)["trace"] for line in printed] == [each["trace"] for each in found]


def test_a_damaged_order_packet_is_refused_at_its_byte(run: Run, in_folder: Path, packets: dict[str, Any]) -> None:
    sent = packets["seed_ex1_request"]["hex"]
    Path("packets.hex").write_text(f"REQUEST {sent[:-2]}\n{sent}\n")
    result = run("trace", "--as", "order-packet", "--hex", "packets.hex")
    assert result.code == 1
    assert "order-packet: to byte 16: PacketHeader.varpart_len: 120 bytes, but 119 are left" in result.err
    assert "dbs SEGMENT 1" in result.out
