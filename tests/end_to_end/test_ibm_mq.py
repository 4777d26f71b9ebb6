"""Attachments through IBM MQ and a gateway of its own: every kind of sender, and every kind of end."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Literal

import pytest

from adapters.arrow_journal import ArrowJournal
from app.codecs.sas.dialect import Dialect
from app.model.message import PhysicalMessage
from app.testing.waiting import until
from tests.support import mq
from tests.support.forked_gateway import ForkedGateway, shared
from tests.support.gateway import GatewayProcess
from tests.support.group_loads import assert_groups, files, upload
from tests.support.loads import assert_received, messages, mixed
from tests.support.mq import mq_destination, mq_source
from tests.support.mqi import load
from tests.support.queue_manager import QueueManager
from tests.support.sas_client import Program, binary_file, disordered

pytestmark = pytest.mark.broker

QUEUE = "SAS.ATTACHMENTS"
ATTACHMENTS = 100
IN_DOUBT: tuple[Literal["before", "after"], ...] = ("before", "after", "before", "after")
PROGRAMS = (
    Program(Random(1), Dialect.parse("big-4-excluded-packed"), ccsid=500, encoding=785),
    Program(Random(2), Dialect.parse("big-8-excluded-aligned"), ccsid=819, encoding=273),
    Program(Random(3), Dialect.parse("little-8-absent-packed"), ccsid=1208, encoding=546),
    Program(Random(4), Dialect.parse("little-4-included-aligned"), ccsid=1208, encoding=546),
)
"""A program on z/OS, one on AIX and two on x86."""


@pytest.fixture(scope="module")
def pymqi() -> ModuleType:
    return load("pymqi")


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[QueueManager]:
    with QueueManager(tmp_path / "queue-manager") as running:
        running.define(QUEUE, maxdepth=100_000)
        yield running


def dressed(message: PhysicalMessage, random: Random) -> PhysicalMessage:
    """The message as it may come from elsewhere: with nothing more, in a group, or with properties."""
    match random.randrange(3):
        case 0:
            return message
        case 1:
            return message._replace(group_id=random.randbytes(24), msg_seq_number=random.randrange(1, 99), msg_flags=8)
        case _:
            return mq.with_properties(message, b"<usr><colour>blue</colour></usr>")


@pytest.mark.parametrize(("library", "version"), [("pymqi", 2), ("ibmmq", 1)])
def test_attachments_of_several_machines_come_out_once_and_whole(
    manager: QueueManager, pymqi: ModuleType, tmp_path: Path, library: Any, version: Literal[1, 2]
) -> None:
    sent = [mixed(program, ATTACHMENTS // len(PROGRAMS)) for program in PROGRAMS]
    sent[0][0] = binary_file(PROGRAMS[0], "10 MiB", PROGRAMS[0].random.randbytes(10 << 20))
    streams = [
        [dressed(each, program.random) for each in disordered(messages(program, attached), program.random)]
        for program, attached in zip(PROGRAMS, sent, strict=True)
    ]
    settings = mq_source("sas", manager, QUEUE, f"mqmd_version = {version}\nconnections = 2\n")
    with ForkedGateway(tmp_path, settings, shared(library)) as process:
        process.await_source("sas")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda stream: mq.put(pymqi, manager, QUEUE, stream, version=version), streams))
        assert_received(process, chain(*sent))
        assert process.samples().total("duplicates_total") > 0
        until(lambda: manager.depth(QUEUE) == 0)


def test_what_waits_for_transmission_and_dead_letters_are_read_as_what_they_were(
    manager: QueueManager, pymqi: ModuleType, tmp_path: Path
) -> None:
    programs = [Program(Random(5)), Program(Random(6), ccsid=500, encoding=785)]
    waiting, dead = (mixed(program, 12) for program in programs)
    manager.define("TO.OTHER", usage="XMITQ", maxdepth=100_000)
    manager.define("ELSEWHERE", rname="THERE", rqmname="OTHER", xmitq="TO.OTHER")
    manager.alter("SYSTEM.DEAD.LETTER.QUEUE", maxdepth=100_000)
    settings = mq_source("waiting", manager, "TO.OTHER") + mq_source("dead", manager, "SYSTEM.DEAD.LETTER.QUEUE")
    with ForkedGateway(tmp_path, settings) as process:
        sent = [dressed(each, programs[0].random) for each in messages(programs[0], waiting)]
        mq.put(pymqi, manager, "ELSEWHERE", disordered(sent, programs[0].random))
        letters = [mq.as_dead_letter(each, 2053, "FULL") for each in messages(programs[1], dead)]
        mq.put(pymqi, manager, "SYSTEM.DEAD.LETTER.QUEUE", disordered(letters, programs[1].random))
        assert_received(process, chain(waiting, dead))


@pytest.mark.parametrize(("put_version", "get_version"), [(1, 2), (2, 1)])
def test_groups_and_segments_of_any_program_come_out_as_files(
    manager: QueueManager,
    pymqi: ModuleType,
    tmp_path: Path,
    put_version: Literal[1, 2],
    get_version: Literal[1, 2],
) -> None:
    random = Random(11)
    sent = files(random)
    stream = disordered([message for each in sent for message in each.messages], random, 0.2)
    options = f'framing = "mq_group"\nmqmd_version = {get_version}\n'
    with ForkedGateway(tmp_path, mq_source("groups", manager, QUEUE, options)) as process:
        mq.put(pymqi, manager, QUEUE, stream, version=put_version)
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == len(sent))
        assert process.listing("/v1/quarantine") == []
        assert_groups(process, sent, with_names=True)


@pytest.mark.parametrize("version", [1, 2])
def test_files_go_out_as_groups_and_come_back_those_of_messages_with_their_names(
    manager: QueueManager, tmp_path: Path, version: int
) -> None:
    options = f'framing = "mq_group"\nproperties = "mqrfh2"\nmqmd_version = {version}\n'
    settings = (
        mq_source("groups", manager, QUEUE, 'framing = "mq_group"\n')
        + mq_destination("messages", manager, QUEUE, options)
        + mq_destination("segments", manager, QUEUE, options + 'group = "segments"\n')
    )
    contents = {"a & b.txt": b"line\n", "empty.bin": b"", "é.bin": Random(12).randbytes(1 << 20)}
    with ForkedGateway(tmp_path, settings, shared("ibmmq")) as process:
        for destination in ("messages", "segments"):
            upload(process, destination, [(name, each, "application/octet-stream") for name, each in contents.items()])
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == 2 * len(contents))
        assert process.listing("/v1/quarantine") == []
        received = process.listing("/v1/attachments")
        named = [item for item in received if item["name"] in contents]
        assert sorted(item["name"] for item in named) == sorted(contents)
        whole = sorted(process.client.get(f"/v1/attachments/{item['id']}/content").content for item in received)
        assert whole == sorted([*contents.values(), *contents.values()])
        for item in named:
            assert process.client.get(f"/v1/attachments/{item['id']}/content").content == contents[item["name"]]


def distinct(stream: list[PhysicalMessage]) -> set[tuple[bytes, bytes]]:
    return {(sent.correl_id, bytes(sent.body)) for sent in stream}


def journalled(process: GatewayProcess) -> list[tuple[bytes, bytes]]:
    journal = ArrowJournal(process.folder / "var" / "journal")
    kept = [(each.correl_id, bytes(each.body)) for _, batch in journal.replay(None) for each in batch]
    journal.close()
    return kept


def test_killed_in_units_of_work_again_and_again_nothing_is_lost_and_nothing_comes_twice(
    manager: QueueManager, pymqi: ModuleType, tmp_path: Path
) -> None:
    """Every second time the queue manager is killed too, or lets go of all connections."""
    program = Program(Random(7))
    attachments = [
        *mixed(program, 60),
        *(binary_file(program, f"{n}", program.random.randbytes(2 << 20)) for n in range(6)),
    ]
    stream = disordered(messages(program, attachments), program.random)
    kills = 8
    with ExitStack() as ending:
        process = ForkedGateway(tmp_path, mq_source("sas", manager, QUEUE, "batch_messages = 40\n"))
        ending.callback(process.stop)
        for number in range(kills):
            mq.put(pymqi, manager, QUEUE, stream[number::kills])
            before = manager.depth(QUEUE)
            process.spawn()
            process.until(lambda: manager.depth(QUEUE) < before * 2 // 3, pause=0.002)  # noqa: B023 - used at once
            if number % 4 == 1:
                manager.break_connections()
            elif number % 4 == 3:
                manager.kill()
                manager.start()
            process.kill()
        process.start()
        assert_received(process, attachments)
        until(lambda: manager.depth(QUEUE) == 0)
        process.stop()
        assert set(journalled(process)) == distinct(stream)


def test_a_commit_in_doubt_is_settled_without_a_second_copy(
    manager: QueueManager, pymqi: ModuleType, tmp_path: Path
) -> None:
    program = Program(Random(8))
    attachments = mixed(program, 30)
    stream = disordered(messages(program, attachments), program.random, 0)
    mq.put(pymqi, manager, QUEUE, stream)
    for lose in IN_DOUBT:
        manager.fault("MQCMIT", lose=lose, skip=1)
    settings = mq_source("sas", manager, QUEUE, "batch_messages = 10\n")
    with ForkedGateway(tmp_path, settings, shared("ibmmq")) as process:
        assert_received(process, attachments)
        until(lambda: manager.depth(QUEUE) == 0)
        assert process.samples().total("duplicates_total") == 0
        process.stop()
        assert sorted(journalled(process)) == sorted((each.correl_id, bytes(each.body)) for each in stream)


def test_a_poison_message_is_set_aside_and_the_stream_goes_on(
    manager: QueueManager, pymqi: ModuleType, tmp_path: Path
) -> None:
    program = Program(Random(9))
    attachments = mixed(program, 12)
    manager.define("SAS.BACKOUT")
    manager.alter(QUEUE, bothresh=2, boqname="SAS.BACKOUT")
    poison = PhysicalMessage("", "", 100_001, b"C" * 24, b"poison", message_id=b"M" * 24, format="MQSTR")
    mq.put(pymqi, manager, QUEUE, [poison])
    mq.back_out(pymqi, manager, QUEUE, 2)
    mq.put(pymqi, manager, QUEUE, messages(program, attachments))
    with ForkedGateway(tmp_path, mq_source("sas", manager, QUEUE)) as process:
        assert_received(process, attachments)
    ((descriptor, body),) = mq.taken(pymqi, manager, "SAS.BACKOUT")
    assert (descriptor.MsgId, body) == (b"M" * 24, b"poison")


@pytest.mark.parametrize("version", [1, 2])
def test_a_delivery_outlives_the_queue_manager_and_arrives_once(
    manager: QueueManager, tmp_path: Path, version: int
) -> None:
    """It goes out in units of work, one of which stays in doubt, and comes back by the source."""
    content = Random(10).randbytes(12 << 20)
    settings = mq_source("sas", manager, QUEUE) + mq_destination("out", manager, QUEUE, f"mqmd_version = {version}\n")
    with ForkedGateway(tmp_path, settings) as process:
        process.await_source("sas")
        manager.fault("MQCMIT", lose="after", skip=4)
        files = {"file": ("whole.bin", content, "application/octet-stream")}
        process.client.post("/v1/messages", data={"destination": "out"}, files=files).raise_for_status()
        process.until(lambda: process.samples().total("messages_received_total") > 50)
        manager.kill()
        manager.start()
        process.until(lambda: process.listing("/v1/attachments", state="finished"))
        (item,) = process.listing("/v1/attachments")
        assert process.client.get(f"/v1/attachments/{item['id']}/content").content == content
        process.until(lambda: [each["state"] for each in process.listing("/v1/deliveries")] == ["sent"])
        assert process.listing("/v1/quarantine") == []
