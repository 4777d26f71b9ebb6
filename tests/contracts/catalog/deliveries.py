"""Deliveries, events, and readers beside a writer."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event

import pytest

from app.model.attachment import DeliveryState
from app.model.records import Checkpoint, DeliveryRecord, EventRecord, NewEvent
from app.ports import AttachmentFilter, Catalog, IdempotencyConflict, Sending
from tests.contracts.catalog.records import HAPPENED, all_of, attachment, delivery


def _claimed(catalog: Catalog, sending: Sending, now: int = 10, latest: int | None = None) -> DeliveryRecord | None:
    def begin(found: DeliveryRecord) -> tuple[DeliveryRecord, list[NewEvent]]:
        return replace(found, state=DeliveryState.SENDING, attempts=found.attempts + 1), [HAPPENED]

    return catalog.claim_delivery(sending, 60, begin, now, latest)


def _number(claimed: DeliveryRecord | None) -> int | None:
    return None if claimed is None else claimed.claim


class Deliveries:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    # --- deliveries -----------------------------------------------------------------------------------------------

    def test_deliveries(self, catalog: Catalog) -> None:
        kept = [
            delivery(number, destination=("pier", "dock")[number % 2], created_at=number // 4) for number in range(9)
        ]
        for record in kept:
            catalog.add_delivery(record, [HAPPENED])
        assert catalog.open_deliveries() == {"pier": 5, "dock": 4}
        assert len(catalog.events_after(0, 99)) == 9
        kept[3] = replace(kept[3], state=DeliveryState.SENT, messages_sent=4, messages_total=4, attempts=1, reason="r")
        kept[3] = replace(kept[3], first_claim=7)
        catalog.update_delivery(kept[3], [HAPPENED])
        assert catalog.open_deliveries() == {"pier": 5, "dock": 3}
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

    def test_the_oldest_delivery_that_is_due_is_claimed_first(self, catalog: Catalog) -> None:
        for record in (
            delivery(1, created_at=5, next_attempt_at=10),
            delivery(2, created_at=4, state=DeliveryState.SENDING),
            delivery(3, created_at=6),
            delivery(4, next_attempt_at=11),
            delivery(5, state=DeliveryState.SENT),
            delivery(6, state=DeliveryState.FAILED),
            delivery(7, destination="dock"),
        ):
            catalog.add_delivery(record, [])
        claimed = []
        while (one := _claimed(catalog, Sending("pier", "a", is_alone=False), 10)) is not None:
            claimed.append(one.id)
            catalog.update_delivery(replace(one, state=DeliveryState.SENT))
        assert claimed == ["d2", "d1", "d3"]
        bay = Sending("bay", "a", is_alone=False)
        put_off = delivery(70, destination="bay", next_attempt_at=1 << 60)
        catalog.add_delivery(put_off, [])
        assert _claimed(catalog, bay, 10) is None
        assert _claimed(catalog, bay, 10, 1 << 60) is None
        found = _claimed(catalog, bay, 10, 1000)
        assert found is not None
        assert found.id == put_off.id

    def test_a_claim_is_of_one_process_until_it_ends(self, catalog: Catalog) -> None:
        first, other = (Sending("pier", process, is_alone=False) for process in "ab")
        catalog.add_delivery(delivery(1), [])
        held = _claimed(catalog, first)
        assert held is not None
        assert (held.claim, held.state, held.attempts) == (1, DeliveryState.SENDING, 1)
        assert catalog.delivery("d1") == held
        assert [event.subject for event in catalog.events_after(0, 9)] == [HAPPENED.subject]
        assert _claimed(catalog, other) is None
        assert not catalog.renew_claim(held, 60)
        assert not catalog.update_delivery(replace(held, messages_sent=3))
        assert _claimed(catalog, other) is None, "progress keeps the claim"
        catalog.renew_claim(held, -1)
        taken = _claimed(catalog, other)
        assert taken is not None
        assert (taken.claim, taken.messages_sent, taken.attempts) == (2, 3, 2)
        with pytest.raises(KeyError):
            catalog.renew_claim(held, 60)
        for late in (replace(held, messages_sent=9), replace(held, state=DeliveryState.SENT)):
            with pytest.raises(KeyError):
                catalog.update_delivery(late, [HAPPENED])
        assert catalog.delivery("d1") == taken
        catalog.update_delivery(replace(taken, state=DeliveryState.QUEUED))
        again = _claimed(catalog, first)
        assert again is not None, "a delivery that is queued again is free at once"
        assert again.claim == 3

    def test_a_process_takes_back_what_it_has_claimed_itself(self, catalog: Catalog) -> None:
        catalog.add_delivery(delivery(1), [])
        sending = Sending("pier", "a", is_alone=False)
        assert [_number(_claimed(catalog, sending)) for _ in range(3)] == [1, 2, 3]
        assert _claimed(catalog, Sending("pier", "b", is_alone=False)) is None
        assert _number(_claimed(catalog, Sending("pier", "b", is_alone=True))) == 4

    def test_the_holder_learns_that_a_client_cancels(self, catalog: Catalog) -> None:
        catalog.add_delivery(delivery(1), [])
        held = _claimed(catalog, Sending("pier", "a"))
        assert held is not None
        assert (held.cancel_requested, catalog.renew_claim(held, 9), catalog.update_delivery(held)) == (False,) * 3
        catalog.request_cancel("d1")
        assert (catalog.renew_claim(held, 9), catalog.update_delivery(held)) == (True, True)
        again = _claimed(catalog, Sending("pier", "a"))
        assert again is not None
        assert again.cancel_requested
        assert not catalog.update_delivery(replace(again, state=DeliveryState.CANCELLED))
        with pytest.raises(KeyError):
            catalog.renew_claim(again, 9)

    def test_ordered_deliveries_wait_for_the_one_before(self, catalog: Catalog) -> None:
        a, b = (Sending("pier", process, is_alone=False, ordered=True) for process in "ab")
        for number in (1, 2):
            catalog.add_delivery(delivery(number, created_at=number), [])
        first = _claimed(catalog, a)
        assert first is not None
        assert (first.id, _claimed(catalog, b)) == ("d1", None)
        catalog.update_delivery(replace(first, state=DeliveryState.QUEUED, next_attempt_at=50))
        assert (_claimed(catalog, a, 49), _claimed(catalog, b, 49)) == (None, None), "it waits for its next attempt"
        first = _claimed(catalog, b, 50)
        assert first is not None
        catalog.update_delivery(replace(first, state=DeliveryState.FAILED))
        second = _claimed(catalog, a)
        assert second is not None
        assert second.id == "d2"

    def test_many_processes_claim_each_delivery_once(self, catalog: Catalog) -> None:
        for number in range(40):
            catalog.add_delivery(delivery(number), [])

        def claim(process: int) -> list[str]:
            sending, found = Sending("pier", f"process {process}", is_alone=False), []
            while (one := _claimed(catalog, sending)) is not None:
                found.append(one.id)
                catalog.update_delivery(replace(one, state=DeliveryState.SENT))
            return found

        with ThreadPoolExecutor(4) as pool:
            found = [each for some in pool.map(claim, range(4)) for each in some]
        assert sorted(found) == sorted(f"d{number}" for number in range(40))

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
