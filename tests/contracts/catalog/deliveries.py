"""Deliveries, events, and readers beside a writer."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event

import pytest

from app.model.attachment import DeliveryState
from app.model.records import (
    Checkpoint,
    EventRecord,
)
from app.ports import AttachmentFilter, Catalog, IdempotencyConflict
from tests.contracts.catalog.records import HAPPENED, all_of, attachment, delivery


class Deliveries:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    # --- deliveries -----------------------------------------------------------------------------------------------

    def test_deliveries(self, catalog: Catalog) -> None:
        kept = [
            delivery(number, destination=("pier", "dock")[number % 2], created_at=number // 4) for number in range(9)
        ]
        for record in kept:
            catalog.add_delivery(record, [HAPPENED])
        assert len(catalog.events_after(0, 99)) == 9
        kept[3] = replace(kept[3], state=DeliveryState.SENT, messages_sent=4, messages_total=4, attempts=1, reason="r")
        catalog.update_delivery(kept[3], [HAPPENED])
        assert len(catalog.events_after(0, 99)) == 10
        assert catalog.delivery("d3") == kept[3]
        newest_first = sorted(kept, key=lambda record: (record.created_at, record.id), reverse=True)
        assert all_of(lambda cursor: catalog.deliveries(None, None, cursor, 2)) == newest_first
        queued_for_dock = [
            record for record in newest_first if record.destination == "dock" and record.state is DeliveryState.QUEUED
        ]
        assert all_of(lambda cursor: catalog.deliveries(DeliveryState.QUEUED, "dock", cursor, 2)) == queued_for_dock
        with pytest.raises(KeyError):
            catalog.update_delivery(delivery(99), [HAPPENED])
        assert len(catalog.events_after(0, 99)) == 10

    def test_due_deliveries_come_oldest_first(self, catalog: Catalog) -> None:
        due = [
            delivery(1, created_at=5, next_attempt_at=10),
            delivery(2, created_at=4, state=DeliveryState.SENDING),
            delivery(3, created_at=6),
        ]
        for record in (
            *due,
            delivery(4, next_attempt_at=11),
            delivery(5, state=DeliveryState.SENT),
            delivery(6, state=DeliveryState.FAILED),
            delivery(7, destination="dock"),
        ):
            catalog.add_delivery(record, [])
        assert [record.id for record in catalog.due_deliveries("pier", 10, 9)] == ["d2", "d1", "d3"]
        assert [record.id for record in catalog.due_deliveries("pier", 10, 2)] == ["d2", "d1"]
        assert catalog.due_deliveries("bay", 10, 9) == []
        put_off = delivery(70, destination="bay", next_attempt_at=1 << 60)
        catalog.add_delivery(put_off, [])
        assert catalog.due_deliveries("bay", 10, 9) == []
        assert catalog.due_deliveries("bay", 10, 9, 1 << 60) == []
        assert catalog.due_deliveries("bay", 10, 9, 1000) == [put_off]

    def test_ended_deliveries_come_oldest_first(self, catalog: Catalog) -> None:
        sent = delivery(1, state=DeliveryState.SENT, updated_at=5)
        failed = delivery(2, state=DeliveryState.FAILED, updated_at=4)
        for record in (sent, failed, delivery(3, updated_at=1), delivery(4, state=DeliveryState.SENT, updated_at=9)):
            catalog.add_delivery(record, [])
        assert catalog.ended_deliveries(9, 9) == [failed, sent]
        assert catalog.ended_deliveries(9, 1) == [failed]

    def test_an_idempotency_key_stands_for_one_delivery(self, catalog: Catalog) -> None:
        first = delivery(1, idempotency_key="k", fingerprint="f")
        catalog.add_delivery(first, [HAPPENED])
        for fingerprint, same in (("f", True), ("g", False)):
            with pytest.raises(IdempotencyConflict) as conflict:
                catalog.add_delivery(delivery(2, idempotency_key="k", fingerprint=fingerprint), [HAPPENED])
            assert (conflict.value.delivery, conflict.value.same_request) == (first, same)
        assert catalog.delivery("d2") is None
        assert catalog.delivery("d1") == first
        assert len(catalog.events_after(0, 9)) == 1
        catalog.add_delivery(delivery(3), [])
        catalog.add_delivery(delivery(4), [])

    def test_many_clients_with_one_key_make_one_delivery(self, catalog: Catalog) -> None:
        together = Barrier(8)

        def add(number: int) -> str:
            together.wait()
            try:
                catalog.add_delivery(delivery(number, idempotency_key="k", fingerprint="f"), [HAPPENED])
            except IdempotencyConflict as conflict:
                return conflict.delivery.id
            return f"d{number}"

        with ThreadPoolExecutor(8) as pool:
            (told,) = set(pool.map(add, range(8)))
        assert [record.id for record in catalog.deliveries(None, None, None, 99).items] == [told]
        assert len(catalog.events_after(0, 99)) == 1

    def test_a_delivery_is_changed_in_an_expected_state_only(self, catalog: Catalog) -> None:
        queued, sent = delivery(1), delivery(1, state=DeliveryState.SENT)
        catalog.add_delivery(queued, [])
        for expected in ([], [DeliveryState.SENDING, DeliveryState.FAILED]):
            with pytest.raises(KeyError):
                catalog.update_delivery(sent, [HAPPENED], expected)
        assert (catalog.delivery("d1"), catalog.last_event()) == (queued, 0)
        catalog.update_delivery(sent, [HAPPENED], [DeliveryState.QUEUED])
        assert (catalog.delivery("d1"), catalog.last_event()) == (sent, 1)

    # --- events ---------------------------------------------------------------------------------------------------

    def test_events_are_numbered_for_good(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(events=[HAPPENED._replace(time=time) for time in (1, 2, 3)]))
        catalog.checkpoint(Checkpoint())
        assert catalog.events_after(1, 1) == [EventRecord(2, HAPPENED.type, HAPPENED.subject, 2, HAPPENED.data)]
        assert [event.number for event in catalog.events_after(0, 9)] == [1, 2, 3]
        assert catalog.last_event() == 3
        catalog.prune_events(3)
        assert [event.number for event in catalog.events_after(0, 9)] == [3]
        catalog.prune_events(4)
        assert [event.number for event in catalog.events_after(0, 9)] == [3], "the log stays at its number"
        catalog.checkpoint(Checkpoint(events=[HAPPENED]))
        assert catalog.last_event() == 4

    # --- threads --------------------------------------------------------------------------------------------------

    def test_readers_see_whole_checkpoints_while_others_write(self, catalog: Catalog) -> None:
        stop = Event()

        def read() -> int:
            seen = 0
            while not stop.is_set():
                listed = catalog.attachments(AttachmentFilter(), None, 99).items
                (progress,) = {record.parts_received for record in listed} or {0}
                assert progress >= seen
                seen = progress
                assert (catalog.progress() or 0) >= seen
            return seen

        def deliver(first: int) -> None:
            for number in range(first, first + 20):
                catalog.add_delivery(delivery(number), [HAPPENED])

        with ThreadPoolExecutor(6) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            writers = [pool.submit(deliver, first) for first in (0, 100)]
            try:
                for step in range(1, 61):
                    rows = [attachment(number, parts_received=step) for number in range(20)]
                    catalog.checkpoint(Checkpoint(progress=step, attachments=rows))
                for writer in writers:
                    writer.result()
            finally:
                stop.set()
            assert max(reader.result() for reader in readers) <= 60
        assert catalog.counts()["deliveries"][DeliveryState.QUEUED] == 40
