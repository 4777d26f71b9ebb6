"""Several processes receive from the same queues and from the same groups of subscribers: the parts of each attachment
are spread over all of them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from shutil import rmtree
from time import sleep

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from app.testing.waiting import until
from tests.support.competing import Competing, Identity, identity
from tests.support.division import Division
from tests.support.forked_gateway import Forks
from tests.support.gateway import GatewayProcess
from tests.support.length import IS_LONG
from tests.support.mosquitto import Mosquitto
from tests.support.mqi import environment
from tests.support.object_server import Bucket
from tests.support.publish import connected
from tests.support.queue_manager import QueueManager
from tests.support.receipts import verified, write_key

pytestmark = pytest.mark.broker

RECEIVERS = ("receive-a", "receive-b", "receive-c")
REPLIES = "replies/sas"


Shared = tuple[Division, Competing, list[bytes]]
"""The processes, what was sent to them, and the receipts that senders got."""


# Receivers with disks: tests/end_to_end/test_joining.py and test_leaving.py have them in the short form.
@pytest.fixture(params=["disk", "archive"] if IS_LONG else ["archive"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, postgresql: Path, bucket: Bucket) -> Iterator[Shared]:
    folder = tmp_path / "broker"
    folder.mkdir()
    forks = Forks(environment("pymqi"))  # with the address of the object server
    with ExitStack() as ending:
        ending.callback(forks.close)
        broker = ending.enter_context(Mosquitto(folder))
        manager = ending.enter_context(QueueManager(tmp_path / "queue-manager"))
        competing = Competing(broker, manager, RECEIVERS, Random(34), reply_topic=REPLIES)
        ack = request.param
        write_key(tmp_path / "key.pem", tmp_path / "pub.pem", 1)
        issuing = f'[receipts]\nkey_file = "{tmp_path / "key.pem"}"\nissuer = "gateway"\n'
        more = competing.destination + issuing
        made = Division(tmp_path, postgresql, bucket, broker, forks, more, shared=competing.sources, ack=ack)
        ending.callback(made.stop)
        for name in (*RECEIVERS, "serve-a", "keep-a", "keep-b"):
            made.begin(name)
        receipts: list[bytes] = []
        listener = connected(broker.port, "5", "listener")
        ending.callback(listener.loop_stop)
        ending.callback(listener.disconnect)
        listener.on_message = lambda _client, _data, each: receipts.append(bytes(each.payload))
        listener.subscribe(REPLIES, 1)
        yield made, competing, receipts


def test_receivers_share_one_journal(shared: Shared, bucket: Bucket, tmp_path: Path) -> None:
    division, competing, receipts = shared
    random = Random(35)
    until(division.keeper)
    competing.send(6)
    competing.order(division["serve-a"])
    division.await_settled(competing.count)
    competing.assert_received(division["serve-a"])
    shares = competing.shares(division)
    assert min(shares.values()) > 0, f"each of them has received something from each source: {shares}"
    before = received_of_sas(division["serve-a"])
    checks = division["receive-a"].client.get("/health/ready").json()["checks"]
    assert checks["source sas"]["ok"], "sharing is no fault here"

    # Each process is killed while messages come, and started again; those that receive nothing acknowledge nothing.
    for name in [*division.processes] if division.ack == "disk" else RECEIVERS:
        competing.send(2)
        competing.order(division["serve-a"])
        sleep(random.random())
        division[name].kill()
        sleep(random.random())
        division[name].start()
    division.await_settled(competing.count)
    competing.assert_received(division["serve-a"])
    assert len(division.finished()) == competing.count
    _assert_receipts(division, receipts, before, (tmp_path / "pub.pem").read_bytes())
    if division.ack == "disk":
        _lose_a_receiver(division, competing, bucket, tmp_path)
    assert division.events("message.quarantined") == division.events("attachment.damaged") == []


def _assert_receipts(division: Division, receipts: Sequence[bytes], before: set[str], public: bytes) -> None:
    """Assert that the receipt of each attachment that came while receivers were killed has arrived, once or more, and
    of no attachment of another source."""
    known = received_of_sas(division["serve-a"])
    subjects: list[str] = []

    def have_all() -> bool:
        subjects.extend(verified(each, public)["subject"] for each in receipts[len(subjects) :])
        return known - before <= {*subjects}

    assert known - before
    until(have_all, 90, pause=0.5)
    assert {*subjects} <= known


def _lose_a_receiver(division: Division, competing: Competing, bucket: Bucket, folder: Path) -> None:
    """Lose one with its disk: what it has acknowledged and not published is missing, and nothing else."""
    serving, lost = division["serve-a"], division["receive-c"]
    before, received = {*competing.needed}, sum(competing.shares(division).values())
    bucket.refuse(500)
    sent = competing.send(3)
    until(lambda: sum(competing.shares(division).values()) >= received + sent)
    lost.kill()
    journal = ArrowJournal(lost.folder / "var" / "journal")
    own, kept = journal.identity().id, messages_of(journal)
    journal.close()
    rmtree(lost.folder / "var")
    bucket.refuse(0)
    new = {key: needed for key, needed in competing.needed.items() if key not in before}
    everything = set().union(*new.values())
    archive = ArrowArchive(f"{bucket.url}/archive", folder / "cache")
    until(lambda: everything - kept <= messages_of(archive), 60)
    missing = everything - messages_of(archive)
    unfinished = {key: needed for key, needed in new.items() if needed & missing}
    assert unfinished
    division.await_settled(competing.count - len(unfinished))
    known = {key for key, needed in unfinished.items() if needed - missing}
    serving.until(lambda: named(serving) & new.keys() == known)

    division.pass_over(own, 3600)
    keeper = division[str(division.keeper())]
    keeper.until(lambda: keeper.samples().total("receivers_away") == 1)
    check = keeper.client.get("/health/ready").json()["checks"]["receivers"]
    assert (check["ok"], [each["journal"] for each in check["away"]]) == (False, [own])
    assert serving.client.delete(f"/v1/receivers/{own}").status_code == 204
    keeper.until(lambda: keeper.client.get("/health/ready").json()["checks"]["receivers"]["ok"])
    assert own not in [each["id"] for each in serving.client.get("/v1/receivers").json()["items"]]


def received_of_sas(gateway: GatewayProcess) -> set[str]:
    return {item["id"] for item in gateway.listing("/v1/attachments", source="sas")}


def named(gateway: GatewayProcess) -> set[tuple[str, str]]:
    """Return the attachments that a gateway reports as unfinished, also those whose header is missing."""
    return {
        (item["source"], item["correl_id"])
        for announced in ("true", "false")
        for item in gateway.listing("/v1/attachments", state="receiving", announced=announced)
    }


def messages_of(journal: ArrowJournal | ArrowArchive) -> set[Identity]:
    return {identity(each.source, each) for _, batch in journal.replay(None) for each in batch}
