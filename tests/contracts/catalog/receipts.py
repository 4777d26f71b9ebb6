"""The log of receipts: what statements are made of, and that it only grows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import CatalogError
from app.model.evidence import Choice, Ground, Question
from app.model.receipt_records import KeptHead, KeptStatement, NewReceipt, ReceiptLog, ReceiptRetry
from app.model.records import Checkpoint, NewEvent, PartRun
from app.ports import Catalog
from tests.contracts.catalog.records import HAPPENED, State, attachment, delivery, finished, keep, message

HEAD = KeptHead(2, b"\xa1\0", b"\1" * 32, b"\2" * 64)


class Receipts:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_what_statements_are_made_of(self, catalog: Catalog) -> None:
        choice = Choice(Question.DIALECT, "big", Ground.ONLY_READING, ("little",))
        complete = [
            attachment(number, State.COMPLETE, kind=AttachmentKind.TEXT_FILE, message_id="m1", parts_received=2)
            for number in (1, 2)
        ]
        done = [finished(number, warnings=("an \ud800",), evidence=(choice,)) for number in (1, 2)]
        events = [NewEvent("attachment.finished", f"a{number}", 50, {"sha256": "5e"}) for number in (1, 2, 7)]
        catalog.checkpoint(
            Checkpoint(
                progress=9,
                attachments=complete,
                part_runs={f"a{number}": [PartRun(1, 2, 3)] for number in (1, 2)},
                messages=[message(1, "a1", "a2")],
                events=[HAPPENED._replace(type="message.complete"), *events],
                finished=done,
            )
        )
        sent = replace(delivery(3), state=DeliveryState.SENT, updated_at=60)
        catalog.add_delivery(sent, [NewEvent("delivery.sent", sent.id, 60, {"destination": sent.destination})])

        causes, reached = catalog.receipt_causes(0, 10)
        newest = catalog.last_event()
        assert [each.subject for each in causes] == ["a1", "a2", "a7", sent.id]
        assert reached == newest == causes[-1].number
        first, _, gone, of_delivery = causes
        assert json.loads(first.data) == {"sha256": "5e"}
        assert (gone.finished, gone.sent) == (None, None)
        assert of_delivery.sent == catalog.delivery(sent.id)
        facts, known = first.finished, catalog.message("m1")
        assert facts is not None
        assert known is not None
        assert facts.kind is AttachmentKind.TEXT_FILE
        assert json.loads(facts.evidence) == [["dialect", "big", "only-reading", ["little"]]]
        assert json.loads(facts.warnings) == ["an \ud800"]
        assert (facts.header_position, facts.header_correl_id) == (known.header_position, known.header_correl_id)

        assert catalog.receipt_causes(causes[0].number, 1) == (causes[1:2], causes[1].number)
        assert catalog.receipt_causes(newest, 5) == ([], newest)

    def test_facts_of_a_later_time_are_no_facts_of_the_event(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1, State.COMPLETE))
        event = NewEvent("attachment.finished", "a1", 49, {})
        catalog.finish([finished(1)], [event, event._replace(time=50)])
        (before, now), _ = catalog.receipt_causes(0, 10)
        assert before.finished is None
        assert now.finished is not None

    def test_the_tables_of_a_batch_are_known_until_the_log_has_a_later_one(self, catalog: Catalog) -> None:
        """Also where the clock was set back between two batches."""
        keep(catalog, *(attachment(number, State.COMPLETE) for number in (1, 2, 3, 4)))
        batches: Sequence[tuple[int, int, Mapping[str, int]]] = (
            (1, 70, {"WORK.A": 5, "files": 0}),
            (2, 60, {"WORK.\ud800": 1 << 40}),
            (3, 80, {}),
        )
        for number, time, versions in batches:
            catalog.save_receipt_tables(time, versions)
            catalog.finish(
                [finished(number, finished_at=time)], [NewEvent("attachment.finished", f"a{number}", time, {})]
            )
        catalog.finish([finished(4, finished_at=90)], [NewEvent("attachment.finished", "a4", 90, {})])
        log = catalog.begin_receipt_log("urn:one")

        def known() -> list[tuple[int, Mapping[str, int]] | None]:
            return [each.tables for each in catalog.receipt_causes(0, 9)[0]]

        assert known() == [(1, batches[0][2]), (2, batches[1][2]), (3, {}), None]
        log = catalog.append_receipts(log, [], {}, 1, None, tables=1)
        assert known()[:2] == [(1, batches[0][2]), (2, batches[1][2])]
        catalog.append_receipts(log, [], {}, 2, None, tables=2)
        assert known() == [None, (2, batches[1][2]), (3, {}), None]

    def test_the_tables_of_a_batch_are_forgotten_with_its_events(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, State.COMPLETE) for number in (1, 2, 3)))
        for number, time in ((1, 70), (2, 80)):
            catalog.save_receipt_tables(time, {"files": number})
            catalog.finish(
                [finished(number, finished_at=time)], [NewEvent("attachment.finished", f"a{number}", time, {})]
            )
        assert catalog.prune_events(75) == 1
        catalog.finish([finished(3, finished_at=70)], [NewEvent("attachment.finished", "a3", 70, {})])
        assert [each.tables for each in catalog.receipt_causes(0, 9)[0]] == [(2, {"files": 2}), None]

    def test_the_log_grows_from_what_was_read(self, catalog: Catalog) -> None:
        assert (catalog.receipt_log(), catalog.receipt_head()) == (None, None)
        begun = catalog.begin_receipt_log("urn:one")
        assert begun == ReceiptLog("urn:one", 0, 0) == catalog.begin_receipt_log("urn:two") == catalog.receipt_log()
        new = [NewReceipt("a1", b"{1}"), NewReceipt("a2", b"{2}")]
        grown = catalog.append_receipts(begun, new, {(0, 0): b"t" * 64}, 7, HEAD)
        assert grown == ReceiptLog("urn:one", 2, 7) == catalog.receipt_log()
        assert catalog.receipt_head() == HEAD
        with pytest.raises(CatalogError, match="has changed since it had 0 statements"):
            catalog.append_receipts(begun, new, {(0, 0): b"x" * 64}, 7, HEAD, [HAPPENED])
        assert catalog.last_event() == 0
        assert (catalog.receipt_tile(0, 0), catalog.receipt_tile(1, 0)) == (b"t" * 64, b"")

        later = catalog.append_receipts(grown, [NewReceipt("a1", b"{3}")], {(0, 0): b"u" * 96}, 8, None, [HAPPENED])
        assert catalog.events_after(0, 9)[-1].type == HAPPENED.type
        last = HEAD._replace(size=3, root=b"\3" * 32)
        assert catalog.append_receipts(later, [], {}, 9, last) == ReceiptLog("urn:one", 3, 9)
        assert catalog.receipt_statement("a1") == (2, b"{3}")
        assert catalog.receipt_statement("a2") == (1, b"{2}")
        assert catalog.receipt_statement("a3") is None
        assert (catalog.receipt_tile(0, 0), catalog.receipt_head()) == (b"u" * 96, last)

        assert catalog.receipt_statements(1, 1) == [KeptStatement(1, "a2", b"{2}")]
        assert [each.place for each in catalog.receipt_statements(1, 5)] == [1, 2]
        assert catalog.receipts_sent_back() is None
        catalog.save_receipts_sent_back(3)
        assert catalog.receipts_sent_back() == 3
        for place in (2, 3):
            catalog.save_receipts_replied("orders", place)
        assert (catalog.receipts_replied("orders"), catalog.receipts_replied("other")) == (3, None)

        catalog.save_receipts_replied(
            "orders", 3, {0: ReceiptRetry(1, 50), 1: ReceiptRetry(1, 40), 2: ReceiptRetry(1, 60)}
        )
        first, second = KeptStatement(1, "a2", b"{2}"), KeptStatement(0, "a1", b"{1}")
        assert catalog.receipts_to_retry("orders", 50, 9) == [(first, 1), (second, 1)]
        assert catalog.receipts_to_retry("orders", 50, 1) == [(first, 1)]
        assert catalog.receipts_to_retry("other", 50, 9) == []
        assert catalog.receipts_to_retry("orders", 10, 9, 49) == [(second, 1), (KeptStatement(2, "a1", b"{3}"), 1)]
        catalog.save_receipts_replied("orders", 3, {0: None, 1: ReceiptRetry(2, 90)})
        assert [refusals for _, refusals in catalog.receipts_to_retry("orders", 90, 9)] == [1, 2]
