"""What was asked of senders, and which deliveries receivers may ask for."""

from typing import Any

from app.model.attachment import DeliveryState
from app.model.records import NewEvent
from app.ports import Catalog, MissingRequest
from app.ports.catalog.missing_parts import ReceivedAfterRequest
from tests.contracts.catalog.records import State, attachment, deleted, delivery, keep


def request(number: int, **changes: Any) -> MissingRequest:
    asked = MissingRequest(f"a{number}", "quay", 1, 100, 200, "replies/Grüße", b"{}", 0)
    return asked._replace(**changes)


def to_ask(catalog: Catalog, now: int, limit: int = 9, position: int = 50) -> list[tuple[str, int]]:
    found = catalog.attachments_to_ask("quay", position, now, limit)
    return [(record.id, requests) for record, requests in found]


class MissingParts:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_the_silent_are_asked_for_those_with_the_fewest_requests_first(self, catalog: Catalog) -> None:
        keep(
            catalog,
            *(attachment(number, last_position=60 - number) for number in range(1, 14)),
            attachment(20, State.FINISHED),
            attachment(21, State.EXPIRED),
            attachment(22, source="dock"),
        )
        assert to_ask(catalog, 100) == [(f"a{number}", 0) for number in range(13, 9, -1)]
        catalog.record_requests([request(13), request(12, next_at=None)], [])
        assert to_ask(catalog, 199) == [("a11", 0), ("a10", 0)]
        assert to_ask(catalog, 200) == [("a11", 0), ("a10", 0), ("a13", 1)]
        assert to_ask(catalog, 200, limit=1) == [("a11", 0)]
        catalog.record_requests([request(13, requests=2, next_at=400)], [])
        assert to_ask(catalog, 399) == [("a11", 0), ("a10", 0)]
        assert to_ask(catalog, 400, position=47) == [("a13", 2)]
        assert [each.id for each, _ in catalog.attachments_to_ask("quay", 47, 150, 9, 399)] == ["a13"]
        assert catalog.attachments_to_ask("quay", 47, 150, 9, 400) == []

    def test_a_request_is_recorded_with_its_event_and_goes_with_its_attachment(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2, State.DELETED))
        event = NewEvent("attachment.missing", "a1", 100, {"parts": [[1, None]]})
        catalog.record_requests([request(1), request(2, address=None, asked_at=99)], [event])
        assert catalog.missing_request("a1") == request(1)
        assert [each[1:] for each in catalog.events_after(0, 9)] == [event]
        assert [catalog.requests_between("quay", at, 100) for at in (99, 100, 101)] == [2, 1, 0]
        assert [catalog.requests_between("quay", 0, at) for at in (98, 99)] == [0, 1]
        assert catalog.requests_between("dock", 0, 100) == 0
        catalog.end_requests("quay", [(attachment(1).correl_id, "deleted"), (b"\0" * 16, "nothing of it is known")])
        assert catalog.missing_request("a1") == request(1, next_at=None, ended="deleted")
        assert to_ask(catalog, 1 << 40) == []
        catalog.drop_attachments([State.DELETED], 1 << 40, 9, deleted)
        assert catalog.missing_request("a2") is None

    def test_parts_that_come_after_a_request_are_counted_once(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, parts_received=5) for number in range(1, 5)))
        catalog.record_requests([request(number, parts_received=5) for number in range(1, 4)], [])
        assert catalog.count_received_after_requests() == []
        keep(catalog, attachment(1, parts_received=7), attachment(2, State.COMPLETE, parts_received=6))
        keep(catalog, attachment(4, parts_received=9))
        assert catalog.count_received_after_requests() == [ReceivedAfterRequest("quay", 3)]
        assert catalog.count_received_after_requests() == []
        keep(catalog, attachment(1, State.FINISHED, parts_received=8), attachment(2, State.RECEIVING, parts_received=9))
        assert catalog.count_received_after_requests() == [ReceivedAfterRequest("quay", 1)]

    def test_a_delivery_is_found_by_its_keys_at_its_destination(self, catalog: Catalog) -> None:
        sent = delivery(1, message_correl_id=b"m" * 24, state=DeliveryState.SENT)
        for record in (sent, delivery(2), delivery(3)):
            catalog.add_delivery(record, [])
        keys = sent.attachments[0].correl_id, b"m" * 16
        assert [catalog.delivery_of(key, "pier") for key in keys] == [sent, sent]
        assert catalog.delivery_of(keys[0], "dock") is None
        assert catalog.delivery_of(bytes(16), "pier") is None
        assert catalog.drop_deliveries(["d1"]) == {"d1"}
        assert catalog.delivery_of(keys[0], "pier") is None
