"""`journal import` and `journal ls`: captures in every format become a journal that the service finishes."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import time_ns

import pytest

from adapters.arrow_journal import ArrowJournal
from app.capture.mq_files import LONGEST_DESCRIPTOR
from app.codecs.ibm_mq.image import write_image
from app.codecs.rendezvous.daemon import listen, publish, publish_head
from app.model.attachment import AttachmentState
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter
from app.service.gateway import Gateway
from app.testing.gateway_stages import service_context
from app.testing.waiting import until
from tests.cli.conftest import Run
from tests.support import rendezvous_program
from tests.support.captures import in_hexadecimal, packet, unloaded
from tests.support.sas_client import Attached, Program, binary_file, disordered, message, text_file

SOURCE = "archive"


@pytest.fixture(scope="module")
def sent() -> tuple[list[Attached], list[PhysicalMessage]]:
    """What a SAS program sends, in any order and some of it twice."""
    program = Program(Random(7))
    attached = [
        binary_file(program, "orders.bin", Random(8).randbytes(100_000)),
        text_file(program, "notes.txt", b'a "quoted" ~ line\n\nthe end\n'),
        binary_file(program, "empty.bin", b""),
    ]
    return attached, disordered(message(program, attached), Random(9))


def qload(messages: Sequence[PhysicalMessage], folder: Path) -> Path:
    path = folder / "orders.qload"
    path.write_bytes(unloaded(messages, "ascii"))
    return path


def raw(messages: Sequence[PhysicalMessage], folder: Path) -> Path:
    """Images, and every other one as a body with its descriptor beside it."""
    path = folder / "messages"
    path.mkdir()
    for number, each in enumerate(messages):
        file = path / f"{number:05}.bin"
        if number % 2:
            file.write_bytes(write_image(each))
            continue
        file.write_bytes(each.body)
        fields = {"msg_type": each.msg_type, "correl_id": each.correl_id.hex()}
        fields |= {"encoding": each.encoding, "ccsid": each.ccsid}
        file.with_name(file.name + ".json").write_text(json.dumps(fields))
    return path


def mqtt(messages: Sequence[PhysicalMessage], folder: Path) -> Path:
    """Every other message in MQTT 3.1.1, two packets a line."""
    path = folder / "orders.mqtt"
    packets = [packet(each, "5" if number % 2 else "3.1.1") for number, each in enumerate(messages)]
    path.write_bytes(
        b"# captured\n" + in_hexadecimal([b"".join(packets[at : at + 2]) for at in range(0, len(packets), 2)])
    )
    return path


Write = Callable[[Sequence[PhysicalMessage], Path], Path]


def journalled(folder: Path) -> list[PhysicalMessage]:
    journal = ArrowJournal(folder)
    try:
        assert all(segment.sealed_at for segment in journal.segments())
        found = [each for _, messages in journal.replay(None) for each in messages]
        return [each._replace(body=bytes(each.body), properties=dict(each.properties)) for each in found]
    finally:
        journal.close()


@pytest.mark.parametrize("write", [qload, raw, mqtt])
def test_a_capture_becomes_a_journal_that_the_gateway_finishes(
    run: Run, tmp_path: Path, sent: tuple[list[Attached], list[PhysicalMessage]], write: Write
) -> None:
    attached, messages = sent
    capture, folder = write(messages, tmp_path), tmp_path / "journal"
    before = time_ns() // 1000
    result = run("journal", "import", capture, "--to", folder, "--source", SOURCE)
    assert (result.code, result.err.split()[:3]) == (0, ["1", "new", "segment,"])
    assert [str(capture), write.__name__, "sas_queue", str(len(messages))] == result.out.splitlines()[1].split()[:4]
    found = journalled(folder)
    assert all(before <= each.received_at <= time_ns() // 1000 for each in found)
    assert [each._replace(received_at=0) for each in found] == [
        each._replace(source=SOURCE, properties={}) for each in messages
    ]
    with service_context(tmp_path, limits={"free_bytes": 0}) as context:
        gateway = Gateway(context, {}, {})
        gateway.start()
        try:
            for each in attached:
                record = until(lambda each=each: _finished(gateway, each))  # type: ignore[misc]
                assert isinstance(record, AttachmentRecord)
                content = gateway.contents.open(record)
                assert b"".join(content.read(0, content.size)) == each.content
            assert not context.catalog.quarantined(None, None, None, 10).items
        finally:
            gateway.stop()


def _finished(gateway: Gateway, each: Attached) -> AttachmentRecord | None:
    record = gateway.catalog.attachment(attachment_id(SOURCE, each.definition.correl_id))
    return record if record is not None and record.state is AttachmentState.FINISHED else None


def test_what_cannot_be_read_stops_or_goes_to_quarantine(run: Run, tmp_path: Path) -> None:
    capture, folder = tmp_path / "orders.qload", tmp_path / "journal"
    capture.write_text("N\nX 41\nA MST 100000\nX 4142zz\nN\nX 43\n")
    stopped = run("journal", "import", capture, "--to", folder)
    assert stopped.code == 1
    assert f"{capture}, line 4, byte 6: not a hexadecimal digit: 'z'" in stopped.err
    assert "everything before it is in the journal; --keep-going" in stopped.err
    assert [each.body for each in journalled(folder)] == [b"A"]

    result = run("journal", "import", capture, "--to", folder, "--keep-going")
    assert result.code == 0
    assert f"{capture}, line 4, byte 6: not a hexadecimal digit: 'z'" in result.err
    _, first, refused, last = journalled(folder)
    assert (first.body, last.body) == (b"A", b"C")
    assert (refused.framing, refused.body) == ("unreadable", b"A MST 100000\nX 4142zz\n")
    assert refused.properties == {
        "refused-code": "bad-unload",
        "refused-why": f"{capture}, line 4, byte 6: not a hexadecimal digit: 'z'",
    }
    with service_context(tmp_path, limits={"free_bytes": 0}) as context:
        gateway = Gateway(context, {}, {})
        gateway.start()
        try:
            items = context.catalog.quarantined(None, None, None, 10).items
            assert "bad-unload" in {each.code for each in items}
        finally:
            gateway.stop()


def test_so_many_unreadable_pieces_are_told_and_the_rest_counted(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "noise.hex"
    capture.write_text("c000\n" + "zz\n" * 30)
    result = run("journal", "import", capture, "--to", tmp_path / "journal", "--keep-going")
    assert result.code == 0
    assert result.err.count("not a hexadecimal digit") == 20
    assert "further unreadable pieces are only counted" in result.err
    assert result.out.splitlines()[1].split()[1:] == ["mqtt", "sas_queue", "0", "60", "B", "30", "1", "PINGREQ"]


def test_options_say_what_a_capture_does_not(run: Run, tmp_path: Path) -> None:
    body, folder = tmp_path / "body.bin", tmp_path / "journal"
    body.write_bytes(b"a body")
    options = ("--msg-type", 100001, "--encoding", 546, "--ccsid", 819, "--mq-format", "MQSTR")
    refused = run("journal", "import", body, "--format", "raw", "--to", folder)
    assert "not an MQ image; give it a descriptor, or a message type for all bodies" in refused.err
    assert run("journal", "import", body, "--format", "raw", "--to", folder, *options).code == 0
    (found,) = journalled(folder)
    assert (found.msg_type, found.encoding, found.ccsid, found.format) == (100001, 546, 819, "MQSTR")


def test_order_packets_in_rendezvous_messages_are_taken_as_they_are(run: Run, tmp_path: Path) -> None:
    capture, folder = tmp_path / "orders.rv", tmp_path / "journal"
    capture.write_text("2026-11-21T07:30:00Z 00000008 9955EEAA\n")
    assert run("journal", "import", capture, "--to", folder, "--framing", "order_packet").code == 0
    (found,) = journalled(folder)
    assert (found.framing, found.body, found.received_at) == (
        "order_packet",
        bytes.fromhex("000000089955EEAA"),
        1_795_246_200_000_000,
    )


@pytest.mark.parametrize("frames", [True, False], ids=["frames", "messages"])
def test_attachments_in_a_capture_of_rendezvous_are_finished(run: Run, tmp_path: Path, frames: bool) -> None:
    """Two programs on two subjects, whose frames alternate; or the messages of one after the other."""
    program, folder = Program(Random(3)), tmp_path / "journal"
    attached = [
        binary_file(program, "orders.bin", Random(8).randbytes(100_000)),
        text_file(program, "notes.txt", b"a line\n\nthe end\n"),
    ]
    streams = [rendezvous_program.messages([each]) for each in attached]
    bodies = [body for stream in streams for body in stream]
    if frames:
        numbered = [(at, n, body) for n, stream in enumerate(streams) for at, body in enumerate(stream)]
        heads = [publish_head(f"SAS.{n}") for n in range(2)]
        bodies = [b"".join(map(bytes, publish(heads[n], body, is_message=True))) for _, n, body in sorted(numbered)]
        bodies.insert(3, listen("SAS.>"))
    capture = tmp_path / "orders.rv"
    capture.write_bytes(in_hexadecimal(bodies))
    for _ in range(2):  # imported again, all of it is a duplicate
        result = run("journal", "import", capture, "--to", folder, "--source", SOURCE)
        assert result.code == 0
        assert result.out.splitlines()[1].split()[1:4] == ["rendezvous", "sas_rendezvous", str(len(bodies) - frames)]
    with service_context(tmp_path, limits={"free_bytes": 0}) as context:
        gateway = Gateway(context, {}, {})
        gateway.start()
        try:
            found = until(lambda: _all_finished(gateway, len(attached)))
            for each in attached:
                content = gateway.contents.open(found[each.definition.qualifier_2])
                assert b"".join(content.read(0, content.size)) == each.content
            last = max(position.pack() for positions, _ in context.journal.replay(None) for position in positions)
            until(lambda: (context.catalog.progress() or 0) >= last)
            assert len(gateway.catalog.attachments(AttachmentFilter(), None, 100).items) == len(attached)
            assert not context.catalog.quarantined(None, None, None, 10).items
        finally:
            gateway.stop()


def _all_finished(gateway: Gateway, count: int) -> dict[str, AttachmentRecord]:
    found = gateway.catalog.attachments(AttachmentFilter(), None, 100).items
    finished = {each.qualifier_2: each for each in found if each.state is AttachmentState.FINISHED}
    return finished if len(finished) == count else {}


def test_several_captures_and_runs_are_one_journal(
    run: Run, tmp_path: Path, sent: tuple[list[Attached], list[PhysicalMessage]]
) -> None:
    _, messages = sent
    folder = tmp_path / "journal"
    result = run("journal", "import", qload(messages, tmp_path), mqtt(messages, tmp_path), "--to", folder)
    assert result.code == 0
    assert run("journal", "import", raw(messages, tmp_path), "--to", folder, "--source", "other").code == 0
    assert [each.source for each in journalled(folder)] == ["imported"] * 2 * len(messages) + ["other"] * len(messages)
    first, second = map(json.loads, run("journal", "ls", folder, "--json").out.splitlines())
    assert (first["messages"], second["messages"]) == (2 * len(messages), len(messages))
    assert first["bytes"] == 2 * second["bytes"] == 2 * sum(len(each.body) for each in messages)
    assert first["received_from"] <= first["received_to"] <= second["received_from"]
    assert second["sources"] == {"other": len(messages)}
    listed = run("journal", "ls", folder).out.splitlines()
    assert listed[0].split()[:3] == ["Segment", "Messages", "Bytes"]
    assert listed[1].endswith(f"imported {2 * len(messages)}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.txt"], "cannot read missing.txt: No such file or directory"),
        (["empty"], "empty is empty"),
        (["nested"], "nested/folder is not a file"),
        (["text.txt"], "text.txt: unknown format; known are: qload, raw, mqtt, rendezvous"),
        (["browsed.txt"], "browsed.txt: this is the output of amqsbcg, which is not read"),
        (["nested", "--format", "qload"], "nested is a folder; only message files can be a folder"),
        (
            ["unloaded.txt", "--framing", "order_packet"],
            "unloaded.txt: format qload does not carry framing order_packet",
        ),
        (
            ["unloaded.txt", "--format", "rendezvous", "--framing", "sas_queue"],
            "format rendezvous does not carry framing",
        ),
        (
            ["packets.hex", "--framing", "sas_rendezvous"],
            "the MQTT version of a sas_rendezvous publish cannot be detected",
        ),
        (
            ["packets.hex", "--framing", "order_packet"],
            "the MQTT version of a order_packet publish cannot be detected",
        ),
        (["unloaded.txt", "--source", "a b"], "'a b' is not a valid name of a source"),
        (["unloaded.txt", "--framing", "smoke"], "unknown framing 'smoke': use 'sas_queue'"),
    ],
)
def test_what_cannot_be_imported_says_why(run: Run, in_folder: Path, arguments: list[str], said: str) -> None:
    (in_folder / "empty").mkdir()
    (in_folder / "nested").mkdir()
    (in_folder / "nested" / "folder").mkdir()
    (in_folder / "text.txt").write_text("some text\n")
    (in_folder / "browsed.txt").write_text("AMQSBCG0 - starts here\n")
    (in_folder / "unloaded.txt").write_text("N\nX\n")
    (in_folder / "packets.hex").write_text("c000\n")
    if arguments[0] == "nested" and len(arguments) > 1:
        (in_folder / "nested" / "folder").rmdir()
        (in_folder / "nested" / "a").touch()
    result = run("journal", "import", *arguments, "--to", "journal")
    assert result.code == 1
    assert said in result.err
    assert not (in_folder / "journal").exists()


def test_files_that_are_too_large_are_not_read(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "messages"
    folder.mkdir()
    with (folder / "1").open("wb") as file:
        file.truncate((100 << 20) + 1)
    (folder / "2").write_bytes(b"body")
    with (folder / "2.json").open("wb") as file:
        file.truncate(LONGEST_DESCRIPTOR + 1)
    result = run("journal", "import", folder, "--to", tmp_path / "journal", "--keep-going")
    assert result.code == 0
    assert [(each.body, each.properties["refused-code"]) for each in journalled(tmp_path / "journal")] == [
        (b"", "message-too-long"),
        (b"body", "bad-descriptor"),
    ]


def test_names_that_are_no_text_are_told_as_they_can_be(run: Run, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.txt")
    path.write_text("N\nX zz\n")
    result = run("journal", "import", path, "--to", tmp_path / "journal", "--keep-going")
    assert result.code == 0
    assert "caf?.txt, line 2, byte 2" in result.err
    (found,) = journalled(tmp_path / "journal")
    assert "caf?.txt, line 2" in found.properties["refused-why"]


def test_a_descriptor_without_its_file_is_no_message(run: Run, tmp_path: Path) -> None:
    alone = tmp_path / "1.mq.json"
    alone.write_text('{"msg_type": 100001}')
    result = run("journal", "import", alone, "--format", "raw", "--to", tmp_path / "journal")
    assert result.code == 1
    assert "not an MQ image; give it a descriptor" in result.err


def test_a_journal_in_use_and_a_place_without_one_say_so(run: Run, tmp_path: Path) -> None:
    capture, folder = tmp_path / "unloaded.txt", tmp_path / "journal"
    capture.write_text("N\nX\n")
    journal = ArrowJournal(folder)
    try:
        result = run("journal", "import", capture, "--to", folder)
        assert result.code == 1
        assert "is in use: another process writes this journal" in result.err
        result = run("journal", "ls", folder)
        assert result.code == 1
        assert "no sealed segment in" in result.err
    finally:
        journal.close()
    assert run("journal", "ls", tmp_path / "nowhere").code == 1
    (folder / "0000000001.arrows").write_bytes(b"no segment")
    result = run("journal", "ls", folder)
    assert result.code == 1
    assert "0000000001.arrows" in result.err
