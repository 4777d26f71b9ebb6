"""A catalog that is lost, damaged or another journal's: rebuilt, and served right afterwards."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from app.model.attachment import AttachmentState, DeliveryState
from app.model.identity import attachment_id
from app.model.principals import ApiKey, Scope
from app.model.records import CONTENT_LOST, NewEvent
from app.service.context import at_once
from app.service.quarantine.quarantine_records import copy_quarantined, quarantined_message
from app.service.repair.recorder import Recorder
from app.service.retention.deletion import Deletion
from app.service.retention.removal import Remover, RetentionClock
from app.testing.outgoing_files import FILES, delivery
from tests.cli.repairing.conftest import Fsck, lose, receive_one_by_one
from tests.support.kept import SOURCE, Kept, assemble, flip
from tests.support.loads import messages
from tests.support.sas_client import binary_file


def overwrite(kept: Kept) -> None:
    lose(kept)
    (kept.folder / "catalog.sqlite").write_bytes(Random(1).randbytes(200_000))


def spoil_pages(kept: Kept) -> None:
    path = kept.folder / "catalog.sqlite"
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 8192):
        data[at : at + 64] = Random(at).randbytes(64)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [lose, overwrite, spoil_pages])
@pytest.mark.parametrize("retired", [True, False])
def test_a_catalog_is_rebuilt_from_nothing(
    kept: Kept, fsck: Fsck, damage: Callable[[Kept], None], retired: bool
) -> None:
    old = kept.receive(9, settled=True, retired=retired)
    ids = kept.receive(9)
    with kept.context() as context:
        context.catalog.set_state(
            [old[1], ids[1]],
            AttachmentState.DELETED,
            events=[NewEvent("attachment.deleted", each, 1, {}) for each in (old[1], ids[1])],
        )
        context.store.delete(f"attachments/{old[1]}")
        Recorder(context.catalog, context.store).record()
    before = {each: kept.record(each) for each in (*old, *ids)}
    damage(kept)
    assert fsck.check().keys() & {"catalog-missing", "catalog-damaged"}
    assert fsck.repair().code == 0
    kept.assert_served(but=[old[1], ids[1]])
    for each, was in before.items():
        now = kept.record(each)
        assert (now.state, now.sha256, now.size, now.qualifier_2) == (was.state, was.sha256, was.size, was.qualifier_2)
    assert not fsck.check()


def test_what_a_client_deleted_does_not_come_back_with_a_rebuilt_catalog(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(6)
    with kept.context() as context:
        deletion = Deletion(context, at_once)
        goes, *stay = context.catalog.messages(None, None, 10).items
        assert all(deletion.attachment(each) for each in goes.attachments)
        assert deletion.message(goes.id)
        Recorder(context.catalog, context.store).record()
    lose(kept)
    assert fsck.rebuild().code == 0
    with kept.context() as context:
        found = context.catalog.messages(None, None, 10).items
        assert {each.id for each in found} == {each.id for each in stay}
    kept.assert_served(but=goes.attachments)
    assert {kept.record(each).state for each in ids} == {AttachmentState.FINISHED, AttachmentState.DELETED}
    assert not fsck.check()


@pytest.mark.parametrize("is_assembled", [True, False])
def test_what_was_an_application_message_keeps_its_old_identifier(kept: Kept, fsck: Fsck, is_assembled: bool) -> None:
    """It was shown as waiting. The old catalog may not have its header, which the journal has."""
    header, application, *rest = messages(kept.program, [binary_file(kept.program, "a.bin", b"x" * 5000)])
    identifier = attachment_id(SOURCE, application.correl_id[:16])
    for some, is_taken in (([application], True), ([header, *rest], is_assembled)):
        with kept.context() as context:
            context.journal.append([each._replace(source=SOURCE, received_at=kept.clock.now()) for each in some])
            if is_taken:
                assemble(context)
            assert (context.catalog.attachment(identifier) is None) == (is_assembled and some[0] is header)
    result = fsck.rebuild()
    assert (result.code, "0 lost" in result.out) == (0, True)
    with kept.context() as context:
        assert context.catalog.attachment(identifier) is None
        (message,) = context.catalog.messages_that_waited([identifier])
        assert message.application_body == application.body


def test_rebuild_says_what_it_made_and_keeps_the_keys_of_clients(kept: Kept, fsck: Fsck) -> None:
    kept.receive(9, settled=True, retired=True)
    kept.receive(6)
    keys = [ApiKey(f"k{n}", "billing", b"digest", frozenset({Scope.READ}), n, revoked_at=n or None) for n in (1, 0)]
    with kept.context() as context:
        for key in keys:
            context.catalog.add_key(key)
    result = fsck.rebuild()
    assert result.code == 0, result
    assert "0 lost" in result.out
    assert list(kept.folder.glob("catalog.sqlite.aside-1"))
    with kept.context() as context:
        assert context.catalog.api_keys() == keys[::-1]
    kept.assert_served()
    assert not fsck.check()


def test_what_a_rebuilt_catalog_cannot_bring_back_is_listed_as_lost(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(9, settled=True, retired=True)
    kept.receive(3)
    kept.object(ids[2]).unlink()
    lose(kept)
    result = fsck.rebuild()
    assert result.code == 1
    assert "1 lost" in result.out
    assert kept.record(ids[2]).reason_code == CONTENT_LOST
    kept.assert_served(but=[ids[2]])


def test_a_catalog_of_another_journal_is_rebuilt(tmp_path: Path, fsck: Fsck, kept: Kept) -> None:
    other = Kept(tmp_path / "other")
    other.program.random.seed(99)
    theirs = other.receive(6)
    kept.receive(9, settled=True)
    shutil.rmtree(kept.folder / "journal")
    shutil.copytree(other.folder / "journal", kept.folder / "journal")
    assert fsck.repair().code == 0
    kept.sent = {each: other.sent[each] for each in theirs} | kept.sent
    kept.assert_served()
    assert not fsck.check()


def test_numbers_of_lost_segments_are_not_used_again(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(12)
    lost = kept.segments()[-2:]
    numbers = [int(path.name[:10]) for path in lost]
    for path in lost:
        path.unlink()
    (kept.folder / "journal" / "identity").unlink()
    result = fsck.repair()
    assert "journal-behind" in result.out
    gone = [each for each in ids if kept.record(each).state is AttachmentState.QUARANTINED]
    assert gone
    kept.assert_served(but=gone)
    assert not fsck.check()
    with kept.context() as context:
        attached = binary_file(kept.program, "later.bin", b"later" * 100)
        kept.journal(context, [attached])
        assert max(segment.number for segment in context.journal.segments()) > max(numbers)
        assemble(context)
    kept.remember(attached)
    kept.assert_served(but=gone)


def test_unfinished_attachments_whose_parts_are_gone_expire_and_finish_when_sent_again(kept: Kept, fsck: Fsck) -> None:
    attached = binary_file(kept.program, "late.bin", kept.program.random.randbytes(100_000))
    sent = [m._replace(source=SOURCE, received_at=1) for m in messages(kept.program, [attached])]
    with kept.context() as context:
        context.journal.append(sent[:4])
        context.journal.seal()
        context.journal.append(sent[4:5])
        context.journal.seal()
        assemble(context)
    kept.segments()[0].unlink()
    assert fsck.check() == {"parts-missing": 1}
    assert fsck.repair().code == 0
    each = kept.remember(attached)
    assert kept.record(each).state is AttachmentState.EXPIRED


def test_an_unfinished_attachment_goes_on_when_its_header_and_the_catalog_are_gone(kept: Kept, fsck: Fsck) -> None:
    """Its segments but those with its parts may be retired: the header is in the records by then."""
    attached = binary_file(kept.program, "late.bin", kept.program.random.randbytes(100_000))
    header, application, *rest = [
        m._replace(source=SOURCE, received_at=kept.clock.now()) for m in messages(kept.program, [attached])
    ]
    with kept.context() as context:
        for some in ([header, application], rest[:2]):
            context.journal.append(some)
            context.journal.seal()
        assemble(context)
        Recorder(context.catalog, context.store).record_before_retiring()
        context.journal.retire(min(segment.number for segment in context.journal.segments()))
    lose(kept)
    assert fsck.rebuild().code == 0
    each = kept.remember(attached)
    assert kept.record(each).state is AttachmentState.RECEIVING
    with kept.context() as context:
        context.journal.append(rest[2:])
        assemble(context)
    kept.assert_served()
    with kept.context() as context:
        (message,) = context.catalog.messages(None, None, 10).items
        assert message.application_body == bytes(application.body)
        assert message.complete_at is not None
    assert not fsck.check()


def test_rebuilding_counts_objects_that_nothing_knows(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 3, settled=3)
    shutil.rmtree(kept.folder / "content" / "catalog")
    shutil.rmtree(kept.folder / "journal")
    lose(kept)
    assert "3 objects belong to no known attachment" in fsck.rebuild().out


def test_what_retention_dropped_is_dropped_again_when_a_rebuilt_catalog_brings_it_back(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 2, settled=2)
    with kept.context() as context:
        (header, *_) = messages(kept.program, [binary_file(kept.program, "x", b"x")])
        context.journal.append([header._replace(source=SOURCE, msg_type=200_000, received_at=kept.clock.now())])
        assemble(context)
        made = replace(delivery(context, FILES[-1:]), state=DeliveryState.SENT)
        context.catalog.add_delivery(made, [NewEvent("delivery.sent", made.id, kept.clock.now(), {})])
        Recorder(context.catalog, context.store).record()
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
    kept.clock.advance(400 * 86_400)
    for _ in range(2):
        with kept.context() as context:
            Remover(context, RetentionClock(context.clock)).retain()
            assert context.catalog.quarantine_entry(entry.id) is None
            assert context.catalog.delivery(made.id) is None
        lose(kept)
        fsck.rebuild()


def test_a_flipped_bit_of_a_value_is_told_and_repaired(kept: Kept, fsck: Fsck) -> None:
    attached = binary_file(kept.program, "quarter-3.bin", kept.program.random.randbytes(9_000))
    header, application, *parts = messages(kept.program, [attached])
    odd = header._replace(msg_type=200_000, body=b"what nobody can read")
    sent = [header, application._replace(body=b"to whom it may concern"), *parts, odd]
    with kept.context() as context:
        context.journal.append([each._replace(source=SOURCE, received_at=kept.clock.now()) for each in sent])
        assemble(context)
        key = ApiKey("k", "billing", b"digest of its key", frozenset({Scope.READ}), 1)
        context.catalog.add_key(key)
    each, path = kept.remember(attached), kept.folder / "catalog.sqlite"
    for value in (b"quarter-3.bin", b"what nobody can read", b"to whom it may concern"):
        assert not fsck.check()
        flip(path, path.read_bytes().index(value) + 3)
        assert fsck.check() == {"catalog-damaged": 1}
        assert fsck.repair().code == 0
        kept.assert_served()
        with kept.context() as context:
            (entry,) = context.catalog.quarantined(None, None, None, 9).items
            (message,) = context.catalog.messages(None, None, 9).items
            assert quarantined_message(entry, context).body == b"what nobody can read"
            assert message.application_body == b"to whom it may concern"
            assert context.catalog.api_keys() == [key]
        assert kept.record(each).qualifier_2 == "quarter-3.bin"
    flip(path, path.read_bytes().index(key.digest) + 3)
    assert fsck.repair().code == 0
    with kept.context() as context:
        assert context.catalog.api_keys() == [], "a damaged key may be that of another client"


@pytest.mark.parametrize("is_damaged", [True, False])
def test_quarantined_messages_of_the_old_catalog_are_kept(kept: Kept, fsck: Fsck, is_damaged: bool) -> None:
    later, *_ = messages(kept.program, [binary_file(kept.program, "x", b"x")])
    bodies = [b"what is gone", b"what nobody can read", bytes(9_000)]
    with kept.context() as context:
        odd = later._replace(source=SOURCE, msg_type=200_000, received_at=kept.clock.now())
        *_, position = context.journal.append([odd._replace(body=body) for body in bodies])
        context.journal.seal()
        assemble(context)
        copy_quarantined(context, position.segment + 1)
        Recorder(context.catalog, context.store).record()
        context.journal.append([later._replace(source=SOURCE)])
        context.journal.retire(position.segment)
    path = kept.folder / "catalog.sqlite"
    if is_damaged:
        flip(path, path.read_bytes().index(bodies[0]) + 3)
        assert fsck.check() == {"catalog-damaged": 1}
    assert fsck.rebuild().code == 0
    with kept.context() as context:
        found = []
        for entry in context.catalog.quarantined(None, None, None, 9).items:
            with suppress(KeyError):
                found.append(bytes(quarantined_message(entry, context).body))
    assert sorted(found) == sorted(bodies[is_damaged:])


def test_a_flipped_bit_of_a_quarantined_message_in_the_content_store_is_told(kept: Kept, fsck: Fsck) -> None:
    header = messages(kept.program, [binary_file(kept.program, "x", b"x")])[0]
    odd = header._replace(msg_type=200_000, body=bytes(9_000))
    with kept.context() as context:
        (position,) = context.journal.append([odd._replace(source=SOURCE, received_at=kept.clock.now())])
        context.journal.seal()
        assemble(context)
        copy_quarantined(context, position.segment + 1)
        (entry,) = context.catalog.quarantined(None, None, None, 9).items
        assert quarantined_message(entry, context).body == odd.body
    assert not fsck.check()
    assert entry.object_name is not None
    flip(kept.folder / "content" / entry.object_name)
    assert fsck.check() == {"quarantine-damaged": 1}
