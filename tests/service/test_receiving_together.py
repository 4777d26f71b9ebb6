"""One of several receivers: how it begins, and what it does with its own journal."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from threading import Event

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Checkpoint, JournalIdentity
from app.ports import Receiver
from app.service.context import ArchiveContext, ServiceContext
from app.service.roles.receiving_together import ReceivingTogether
from app.testing.gateway_stages import service_context
from tests.support.service_context import Asking

SOURCE = "orders"


NONE: Mapping[str, Receiver] = {}


class Shared:
    """A catalog and an archive that receivers share, without sources: nothing comes but what a test journals."""

    def __init__(self, folder: Path, context: ServiceContext) -> None:
        self.folder = folder
        (folder / "archive").mkdir()
        others = {field.name: getattr(context, field.name) for field in fields(ServiceContext)}
        self.archive = ArrowArchive(folder / "archive", is_growing=True)
        self._context = ArchiveContext(**others | {"journal": self.archive})
        self.catalog = context.catalog
        self._receiving = context
        self.taken: list[str] = []

    def begin(self, name: str, receivers: Mapping[str, Receiver] = NONE) -> ReceivingTogether:
        """Begin a process with the journal of this name."""
        journal = ArrowJournal(self.folder / name)
        own = replace(self._receiving, journal=journal, instance=f"{name} {journal.identity().epoch}")
        found = ReceivingTogether(
            replace(self._context, instance=own.instance),
            own,  # type: ignore[arg-type]
            receivers,
            Event(),
            self.taken.append,
        )
        found.recover()
        return found

    def receive(self, receiving: ReceivingTogether, body: bytes) -> Position:
        """Journal a message, and end its segment."""
        (position,) = receiving._own.journal.begin_append([PhysicalMessage(SOURCE, "sas_queue", body=body)])()
        receiving._own.journal.seal()
        return position

    def ask(self, *asking: ReceivingTogether, counted: int) -> None:
        """Have each of them ask, after its source could receive for so many seconds."""
        for each in asking:
            journal = each._own.journal.identity().id
            self.catalog.save_receiving_time({SOURCE: counted * 1_000_000}, [], {}, journal)
        for each in asking:
            each._ask()

    def archived(self) -> list[bytes]:
        return [bytes(message.body) for _, messages in self.archive.replay(None) for message in messages]


def publish(receiving: ReceivingTogether) -> None:
    receiving._publish()
    receiving._segments.retire()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with service_context(tmp_path) as context:
        yield Shared(tmp_path, context)


def test_an_older_copy_of_a_journal_loses_no_new_message(shared: Shared) -> None:
    """As after a backup was put back, or a disk has lost what it said was written."""
    one = shared.begin("one")
    shared.receive(one, b"1")
    publish(one)
    one.close()
    shutil.copytree(shared.folder / "one", shared.folder / "copy")
    one = shared.begin("one")
    for number in (2, 3, 4):
        shared.receive(one, b"%d" % number)
        publish(one)
    one.close()
    copy = shared.begin("copy")
    shared.receive(copy, b"5")
    publish(copy)
    assert shared.archived() == [b"1", b"2", b"3", b"4", b"5"]
    assert copy._own.journal.segments() == []
    copy.close()


def test_a_journal_that_another_receiver_has_opened_a_copy_of_is_not_published(shared: Shared) -> None:
    one = shared.begin("one")
    shared.receive(one, b"1")
    shutil.copytree(shared.folder / "one", shared.folder / "copy")
    copy = shared.begin("copy")
    publish(one)
    assert "has opened the journal" in str(one.checks()["publishing"]["error"])
    assert len(one._own.journal.segments()) == 1, "nothing is removed"
    publish(copy)
    assert shared.archived() == [b"1"]
    for each in (one, copy):
        each.close()


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_receiver_whose_journal_was_opened_by_another_acknowledges_nothing_more(
    shared: Shared, is_idle: bool
) -> None:
    one, acknowledged = shared.begin("one"), list[str]()
    one.stream.start()
    publish(one)
    shutil.copytree(shared.folder / "one", shared.folder / "copy")
    copy = shared.begin("copy")
    if is_idle:
        one._publisher._looked_at = 0.0
    else:
        shared.receive(one, b"1")
    publish(one)
    (why,) = shared.taken
    assert "copy 2 has opened the journal" in why
    message = PhysicalMessage(SOURCE, "sas_queue", body=b"2")
    one.stream.intake.submit([message], lambda: acknowledged.append("2"))
    one._stop.set()
    one.stream.stop()
    assert acknowledged == []
    for each in (one, copy):
        each.close()


def test_what_a_receiver_has_beside_a_copy_of_its_journal_is_published_at_its_next_start(shared: Shared) -> None:
    """The copy has published other messages under the same numbers; the first ones of both are the same."""
    one = shared.begin("one")
    shared.receive(one, b"1")
    publish(one)
    shared.receive(one, b"2")
    shutil.copytree(shared.folder / "one", shared.folder / "copy")
    copy = shared.begin("copy")
    for body in (b"3", b"4", b"5"):
        shared.receive(one, b"%s of one" % body)
        shared.receive(copy, b"%s of copy" % body)
    publish(one)
    publish(copy)
    for each in (one, copy):
        each.close()
    one = shared.begin("one")
    one._leaving.is_empty = True
    one._publish()
    assert not one._publisher.has_left, "its disk is still needed"
    one.stream.start()
    for _ in range(3):
        publish(one)
    assert one._publisher.has_left
    expected = [b"1", b"2", *(b"%d of %s" % (number, of) for number in (3, 4, 5) for of in (b"copy", b"one"))]
    assert sorted(shared.archived()) == expected
    assert one._own.journal.segments() == []
    assert one.checks()["publishing"]["ok"]
    one._stop.set()
    one.stop()
    one.close()


def test_a_process_that_is_killed_before_it_removes_what_it_has_published_compares_it(shared: Shared) -> None:
    """Nothing comes twice, also if some of the segments that became one were removed. While the archive cannot be
    read, nothing is removed."""
    one = shared.begin("one")
    for body in (b"1", b"2", b"3"):
        shared.receive(one, body)
    one._publish()
    one._own.journal.retire(1)
    one.close()
    one = shared.begin("one")
    archived = shared.folder / "archive" / "0000000001.arrows"
    archived.rename(shared.folder / "away")
    publish(one)
    check = one.checks()["publishing"]
    assert (check["ok"], check["uncompared"], len(one._own.journal.segments())) == (False, [2, 3], 2)
    (shared.folder / "away").rename(archived)
    publish(one)
    check = one.checks()["publishing"]
    assert (check["ok"], check["uncompared"], one._own.journal.segments()) == (True, [], [])
    assert shared.archived() == [b"1", b"2", b"3"]
    one.close()


def test_what_the_archive_has_damaged_is_published_again(shared: Shared) -> None:
    one = shared.begin("one")
    for body in (b"1" * 5000, b"2" * 5000):
        shared.receive(one, body)
    one._publish()
    one.close()
    archived = shared.folder / "archive" / "0000000001.arrows"
    archived.chmod(0o600)
    archived.write_bytes(archived.read_bytes().replace(b"2" * 5000, b"2" * 4999 + b"3"))
    one = shared.begin("one")
    one.stream.start()
    publish(one)
    publish(one)
    assert [body[:1] for body in shared.archived()] == [b"1", b"", b"2"]
    one._stop.set()
    one.stop()
    one.close()


def test_what_was_received_before_the_end_is_published_by_the_next_process(shared: Shared) -> None:
    one = shared.begin("one")
    one._own.journal.begin_append([PhysicalMessage(SOURCE, "sas_queue", body=b"1")])()
    one.close()
    one = shared.begin("one")
    publish(one)
    one.close()
    assert shared.archived() == [b"1"]


def test_an_archive_of_another_journal_is_refused(shared: Shared) -> None:
    shared.catalog.bind(JournalIdentity("d" * 32, 1))
    other = ArrowJournal(shared.folder / "other")
    other.append([PhysicalMessage(SOURCE, "sas_queue", body=b"x")])
    other.close()
    shared.archive.add(1, [(shared.folder / "other" / "0000000001.arrows").read_bytes()])
    with pytest.raises(GatewayError, match=r"set journal\.archive_url to the archive of the former"):
        shared.begin("one")


@pytest.mark.parametrize("first", ["alone", "another"])
def test_a_journal_of_one_receiver_goes_on_as_the_one_of_several(shared: Shared, first: str) -> None:
    """Whoever joins first, nothing of the one that was alone is lost or comes twice."""
    alone = ArrowJournal(shared.folder / "alone")
    shared.catalog.bind(alone.identity())
    for body in (b"1", b"2", b"3"):
        (position,) = alone.append([PhysicalMessage(SOURCE, "sas_queue", body=body)])
        alone.seal()
        if body != b"3":  # it ended before this was archived, and before it was assembled
            shared.archive.add(position.segment, alone.segment_bytes(position.segment))
            shared.catalog.checkpoint(Checkpoint(progress=position.pack()))
    alone.close()
    begun = {}
    for name in (first, {"alone": "another", "another": "alone"}[first]):
        begun[name] = shared.begin(name)
        if name == "another":
            for body in (b"4", b"5"):
                shared.receive(begun[name], body)
                publish(begun[name])
    for each in begun.values():
        publish(each)
        publish(each)
    assert sorted(shared.archived()) == [b"1", b"2", b"3", b"4", b"5"]
    for each in begun.values():
        assert each._own.journal.segments() == [], "also what the one that was alone has archived under its own numbers"
        each.close()


def test_a_segment_that_is_not_assembled_yet_ends_where_it_ends(shared: Shared) -> None:
    """Assembly must reach what the catalog says is published."""
    alone = ArrowJournal(shared.folder / "alone")
    shared.catalog.bind(alone.identity())
    (position,) = alone.append([PhysicalMessage(SOURCE, "sas_queue", body=b"1")])
    alone.seal()
    shared.archive.add(position.segment, alone.segment_bytes(position.segment))
    alone.close()
    shared.begin("one").close()
    assert shared.catalog.published() == position.pack()


def test_one_of_them_asks_for_missing_parts_by_the_time_of_the_slowest(tmp_path: Path) -> None:
    source = {"transport": "memory", "queue": "one", "request_missing_after": 20}
    with service_context(tmp_path, sources={SOURCE: source}) as context:
        shared, receivers = Shared(tmp_path, context), [Asking("replies"), Asking("replies")]
        one, other = (shared.begin(f"{number}", {SOURCE: each}) for number, each in enumerate(receivers))
        part = PhysicalMessage(SOURCE, "sas_queue", body=b"x", properties={"response-topic": "replies"})
        one._own.journal.begin_append([part])()
        one._own.journal.seal()
        publish(one)
        ((positions, _),) = shared.archive.replay(None)
        place = positions[0].pack()
        record = AttachmentRecord("a", SOURCE, bytes(16), first_position=place, last_position=place)
        shared.catalog.checkpoint(Checkpoint(progress=place, attachments=[record]))
        shared.ask(one, other, counted=1)
        shared.ask(one, counted=30)  # the other one may have what is missing
        assert [each.sent for each in receivers] == [[], []]
        shared.ask(one, other, counted=40)
        shared.ask(one, other, counted=50)
        assert sorted(len(each.sent) for each in receivers) == [0, 1]
        one.close()
        other.close()
