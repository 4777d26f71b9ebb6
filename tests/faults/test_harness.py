"""The campaign's own tools: an encoder that follows the specification, a shim that breaks what it is told to break, and
a judge that finds errors.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from errno import EIO, ENOSPC
from pathlib import Path
from random import Random

import httpx
import pytest
import scitt_cose

from tests.faults import packets, traffic
from tests.faults.judging import Answer, fetched
from tests.faults.receipt_audit import Notes, ReceiptAudit
from tests.faults.shim import SHORT, Call, Shim
from tests.faults.traffic import Attachment, Message
from tests.faults.world import Setting, World
from tests.support.forked_gateway import ForkedGateway

pytestmark = pytest.mark.broker

VECTORS = Path(__file__).parents[1] / "vectors" / "sas"


class Scripted(Random):
    """A source of known "random" bytes."""

    def __init__(self, *keys: int) -> None:
        super().__init__(0)
        self._keys = list(keys)

    def randbytes(self, n: int) -> bytes:
        return bytes([self._keys.pop(0)]) * n


def test_the_encoder_writes_the_example_of_the_specification() -> None:
    vector = json.loads((VECTORS / "text_file_big_excluded.json").read_text())["messages"]
    parts = tuple(
        Message(each["msg_type"], bytes.fromhex(each["correl_id"]), bytes.fromhex(each["hex"])) for each in vector[2:]
    )
    attachment = Attachment(b"\x33" * 16, traffic.BINARY_FILE, "d:\\mytext.txt", b"", parts)
    header = traffic.letter(Scripted(0x11, 0x22), [attachment]).messages[0]
    written = header.body.replace(b"\0\0\0\x1asent by the fault campaign\0", b"\0\0\0\x0cText file...\0")
    written = written[:24] + (1).to_bytes(4, "big") + written[28:]
    assert (header.msg_type, header.correl_id.hex().upper()) == (vector[0]["msg_type"], vector[0]["correl_id"])
    assert written.hex().upper() == vector[0]["hex"]


def test_the_encoder_cuts_files_as_the_specification_says() -> None:
    file = traffic.binary_file(Random(1), "name", 2_500, part=1_000)
    first, *parts, count = file.parts
    assert first.body == (996).to_bytes(4, "big") + (2_500).to_bytes(4, "big")
    assert b"".join(part.body[4:] for part in parts) == file.content
    assert [part.correl_id[16:20] for part in (first, *parts)] == [n.to_bytes(4, "big") for n in (1, 2, 3, 4)]
    assert (count.correl_id, count.body) == (file.key + bytes(8), (4).to_bytes(4, "big"))


def test_packets_are_found_wherever_the_stream_is_cut() -> None:
    message = Message(1, b"k" * 24, b"body " * 40)
    sent = packets.publish("topic", 7, message.correl_id, [("name", "value")], message.body)
    for cut in range(len(sent)):
        stream = packets.Stream()
        (found,) = [*stream.feed(sent[:cut]), *stream.feed(sent[cut:])]
        assert packets.published(found) == (7, message.identity)
        assert found.encoded == sent


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    made = Shim(tmp_path)
    yield made
    made.close()


def _run(shim: Shim, program: str) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, env=shim.environment, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode >= 0 else f"signal {-done.returncode}"


def test_the_shim_breaks_the_calls_that_it_is_told_to_break(tmp_path: Path, shim: Shim) -> None:
    path = tmp_path / "file"
    writes = f"""
import os
file = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)
for _ in range(4):
    try:
        print(os.write(file, bytes(10)), end=" ")
    except OSError as error:
        print(error.errno, end=" ")
"""
    shim.fail(Call.WRITE, "/file", ENOSPC, skip=1, times=1)
    shim.fail(Call.WRITE, "/file", SHORT, skip=2, times=1)
    assert _run(shim, writes) == f"10 {ENOSPC} 10 5"
    assert shim.fired() == 2
    shim.clear()
    assert _run(shim, writes) == "10 10 10 10"


def test_the_shim_makes_blocks_bad(tmp_path: Path, shim: Shim) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * 4096))
    block = (4096, 8192)
    shim.fail(Call.READ, "/file", EIO, block=block)
    shim.fail(Call.MAP, "/file", EIO, block=block)
    begin = f"import os, mmap\nfile = os.open({str(path)!r}, os.O_RDONLY)\n"
    assert _run(shim, f"{begin}print(len(os.pread(file, 4096, 0)), len(os.pread(file, 4096, 8192)))") == "4096 4096"
    assert _run(shim, f"{begin}try: os.pread(file, 10, 5000)\nexcept OSError as error: print(error.errno)") == str(EIO)
    mapped = f"{begin}mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)\n"
    assert _run(shim, f"{mapped}print(mapped[10], mapped[9000])") == "0 0"
    assert _run(shim, f"{mapped}print(mapped[5000])") == "signal 7"


def test_the_shim_moves_the_clock_and_not_the_time_that_passes(shim: Shim) -> None:
    program = "import time; print(time.time(), time.monotonic())"
    before = [float(word) for word in _run(shim, program).split()]
    shim.clock = -86_400
    after = [float(word) for word in _run(shim, program).split()]
    assert -86_401 < after[0] - before[0] < -86_300
    assert 0 < after[1] - before[1] < 60


@pytest.mark.parametrize(
    ("log", "code", "is_told"),
    [("", "damaged-message", True), ("", "unknown-type", False), ("message_damaged", "unknown-type", True)],
)
def test_a_gateway_that_was_killed_before_it_logged_damage_tells_it_in_quarantine(
    tmp_path: Path, log: str, code: str, is_told: bool
) -> None:
    def listed(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"items": [{"code": code}], "next": None})

    world = World(tmp_path, Setting(), Random(1))
    world.gateway = ForkedGateway(tmp_path, "")
    (tmp_path / "gateway.log").write_text(log)
    with httpx.Client(transport=httpx.MockTransport(listed), base_url="http://gateway") as client:
        world.gateway.client = client
        assert world.speaks_of_damage() == is_told


def test_objects_of_other_attachments_do_not_count_as_settled_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, Setting(), Random(1))
    world.place = tmp_path
    objects = world.content / "attachments"
    objects.mkdir(parents=True)
    (objects / "of-an-attachment-not-listed-yet").touch()
    monkeypatch.setattr(world, "listing", lambda state: [{"id": "finished", "correl_id": "aa"}])
    monkeypatch.setattr(world, "revive", (objects / "finished").touch)
    assert world.await_settled() == {b"\xaa"}
    assert (objects / "finished").exists()


@pytest.mark.parametrize(
    ("status", "served", "answer"),
    [
        (200, b"all of it", "right"),
        (200, b"all of if", "wrong"),
        (200, b"all of", "wrong"),
        (503, b"all of it", "refused"),
        (410, b"", "refused"),
    ],
)
def test_the_judge_compares_what_is_served_with_what_was_sent(status: int, served: bytes, answer: Answer) -> None:
    def serve(request: httpx.Request) -> httpx.Response:
        if asked := request.headers.get("range"):
            first, last = map(int, asked.removeprefix("bytes=").split("-"))
            return httpx.Response(206 if status == 200 else status, content=served[first : last + 1])
        return httpx.Response(status, content=served)

    attachment = Attachment(bytes(16), traffic.BINARY_FILE, "name", b"all of it", ())
    with httpx.Client(transport=httpx.MockTransport(serve), base_url="http://gateway") as client:
        assert fetched(client, {"id": "1"}, attachment, Random(1)) == answer


@pytest.mark.parametrize(
    ("change", "notes"),
    [
        ("", (0, 0, 0)),
        ("no receipt", (1, 0, 0)),
        ("a statement more", (0, 1, 0)),
        ("another file", (0, 0, 1)),
        ("another proof", (0, 0, 1)),
        ("another head before", (0, 0, 1)),
    ],
)
def test_the_judge_verifies_receipts_and_their_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, notes: tuple[int, int, int]
) -> None:
    monkeypatch.setattr("tests.faults.receipt_audit.WAITED", 0)
    audit = ReceiptAudit(tmp_path)
    private = (tmp_path / "receipts.pem").read_bytes()
    files = {f"id-{n}": Attachment(bytes([n]) * 16, traffic.BINARY_FILE, f"{n}", bytes(n), ()) for n in range(3)}
    said = [
        {
            "type": "attachment.finished",
            "subject": name,
            "name": file.name,
            "correl_id": file.key.hex(),
            "size": len(file.content) + (change == "another file" and name == "id-1"),
            "sha256": file.sha256,
        }
        for name, file in files.items()
    ]
    statements = [json.dumps(each).encode() for each in (*said, *said[: change == "a statement more"])]
    entries = [each.hex() for each in statements]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/receipt-log":
            of = entries[1:2] if change == "another head before" and not audit._heads else entries
            return httpx.Response(200, json={"log": "x", "size": len(of), "root": scitt_cose.merkle_root(of)})
        index = [*files].index(request.url.path.split("/")[3])
        if index == 1 and change == "no receipt":
            return httpx.Response(404)
        signed = scitt_cose.build_signed_statement(
            statements[index], alg="EdDSA", private_key_pem=private, issuer="i", subject="s", content_type="c"
        )
        proven = [*range(3)][index - (change == "another proof" and index == 1)]
        receipt = scitt_cose.build_receipt(
            leaf_entry_hex=entries[proven],
            leaf_index=proven,
            tree_entries_hex=entries,
            alg="EdDSA",
            log_private_key_pem=private,
        )
        return httpx.Response(200, content=scitt_cose.attach_receipts(signed, [receipt]))

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://gateway") as client:
        audit.keep_head(client)
        found: Notes = audit.judge(client, files, is_damaged=False)
    lost, twice, wrong = map(len, found)
    assert (lost, twice, min(wrong, 1)) == notes, found
