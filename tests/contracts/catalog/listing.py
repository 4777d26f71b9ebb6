"""Listings by page, order, filter and caller, and the quarantine."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, get_args

import pytest

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    QuarantineRecord,
)
from app.ports import AttachmentFilter, BadCursor, Catalog, Identified, Page, Sort
from tests.contracts.catalog.records import (
    State,
    all_of,
    attachment,
    delivery,
    everything,
    finished,
    keep,
    message,
    pages,
    spoilt,
)


class Listing:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_begins_empty(self, catalog: Catalog) -> None:
        assert catalog.progress() is None
        assert catalog.source_dialects() == {}
        assert catalog.attachments_by_key("quay", [bytes(16)]) == {}
        assert catalog.messages_by_correl_id("quay", []) == {}
        assert catalog.part_runs("a1") == []
        assert catalog.extents("a1") == ()
        assert catalog.complete_attachments() == []
        assert catalog.needed_segments() == set()
        assert {*everything(catalog, "a1"), *everything(catalog, "k")} == {None}
        assert catalog.attachments(AttachmentFilter(), None, 10) == ([], None)
        assert catalog.last_event() == 0
        assert {n for counted in catalog.counts().values() for n in counted.values()} == {0}

    def test_tallies_are_by_source_and_destination(self, catalog: Catalog) -> None:
        assert catalog.tallies([5]) == ({}, {}, {}, {}, {})
        states = [State.RECEIVING] * 3 + [State.FINISHED] * 2 + [State.EXPIRED]
        records = [attachment(number, state) for number, state in enumerate(states)]
        other = attachment(9, State.FINISHED, source="pier")
        apart = [attachment(20, kind=None), attachment(21, State.EXPIRED, kind=None)]
        catalog.checkpoint(Checkpoint(attachments=[*records, other, *apart, attachment(22, source="dock", kind=None)]))
        found = catalog.tallies([1, 0])
        quay = {State.RECEIVING: 3, State.FINISHED: 2, State.EXPIRED: 1}
        assert {source: {s: n for s, n in counted.items() if n} for source, counted in found.attachments.items()} == {
            "quay": quay,
            "pier": {State.FINISHED: 1},
            "dock": {},
        }
        assert found.waiting == {"quay": [1, 1, 1]}
        assert found.unannounced == {"quay": 1, "pier": 0, "dock": 1}

    def test_what_waits_for_its_header_is_apart(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2, kind=None), attachment(3, State.EXPIRED, kind=None, source="pier"))
        for announced, expected in ((True, ["a1"]), (False, ["a3", "a2"]), (None, ["a3", "a2", "a1"])):
            which = AttachmentFilter(announced=announced)
            assert [each.id for each in all_of(lambda cursor, w=which: catalog.attachments(w, cursor, 1))] == expected  # type: ignore[misc]
            assert catalog.count_attachments(which) == (len(expected), True)
        which = AttachmentFilter(announced=True, state=State.EXPIRED, within={"quay", "pier"})
        assert catalog.attachments(which, None, 9) == ([], None)
        assert catalog.count_attachments(which) == (0, True)

    def test_messages_are_found_by_what_they_waited_as(self, catalog: Catalog) -> None:
        waited = [message(3, waited_as="9f2c1"), message(1, waited_as="9f2c1", source="pier")]
        catalog.checkpoint(Checkpoint(messages=[*waited, message(2), message(4, waited_as="9f2c2")]))
        assert catalog.messages_that_waited(["9f2c1", "9f2c3"]) == waited[::-1]
        keep(catalog, attachment(1, id="9f2c2"))
        assert catalog.identifiers("attachments", "9f2c", 9) == ["9f2c1", "9f2c2"]
        assert catalog.identifiers("attachments", "9f2c", 1) == ["9f2c1"]
        assert catalog.identifiers("attachments", "9f2c", 9, {"dock"}) == []
        assert catalog.identifiers("attachments", "9f2c1", 9, {"pier"}) == ["9f2c1"]
        catalog.checkpoint(Checkpoint(messages=[message(3)]))
        assert catalog.messages_that_waited(["9f2c1"]) == waited[::-1], "another replay did not see it wait"

    def test_identifiers_are_found_by_their_first_digits(self, catalog: Catalog) -> None:
        ids = [f"9f2c{digits}{'0' * 22}" for digits in ("000000", "0abcde", "ffffff")]
        others = ["9f2b" + "f" * 28, "9f2d" + "0" * 28]
        for number, identifier in enumerate([*ids, *others], 1):
            keep(catalog, attachment(number, id=identifier))
            catalog.checkpoint(Checkpoint(messages=[message(number, id=identifier)]))
            catalog.add_delivery(delivery(number, id=identifier), [])
        for of in get_args(Identified):
            assert catalog.identifiers(of, "9f2c", 10) == ids
            assert catalog.identifiers(of, "9f2c", 2) == ids[:2]
            assert catalog.identifiers(of, "9f2cf", 10) == ids[2:]
            assert catalog.identifiers(of, ids[1], 10) == [ids[1]]
            assert catalog.identifiers(of, "0000", 10) == []

    def test_listings_are_limited_to_sources_and_destinations(self, catalog: Catalog) -> None:
        names = ["crane", "quay", "dock", "quay"]
        for number, name in enumerate(names, 1):
            keep(catalog, attachment(number, source=name))
            catalog.checkpoint(
                Checkpoint(messages=[message(number, source=name)], quarantine=[spoilt(number, source=name)])
            )
            catalog.add_delivery(delivery(number, destination=name), [])
        limits: tuple[set[str], ...] = ({"quay"}, {"crane", "dock"}, {"quay", "\0"}, set())
        for within in limits:
            expected = [number for number in (4, 3, 2, 1) if names[number - 1] in within]
            listings: list[tuple[str, Callable[[str | None], Page[Any]]]] = [
                ("a", lambda cursor, w=within: catalog.attachments(AttachmentFilter(within=w), cursor, 1)),  # type: ignore[misc]
                ("m", lambda cursor, w=within: catalog.messages(None, cursor, 1, w)),  # type: ignore[misc]
                ("q", lambda cursor, w=within: catalog.quarantined(None, None, cursor, 1, w)),  # type: ignore[misc]
                ("d", lambda cursor, w=within: catalog.deliveries(None, None, cursor, 1, w)),  # type: ignore[misc]
            ]
            for letter, listing in listings:
                assert [item.id for item in all_of(listing)] == [f"{letter}{number}" for number in expected]
            assert catalog.messages("quay", None, 9, {"crane"}).items == []
            for of, letter in zip(get_args(Identified), "amd", strict=True):
                found = catalog.identifiers(of, letter, 9, within)
                assert found == sorted(f"{letter}{number}" for number in expected)

    # --- reading --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("sort", get_args(Sort))
    def test_attachments_in_every_order_page_by_page(self, catalog: Catalog, sort: Sort) -> None:
        found = [
            attachment(
                number,
                qualifier_2=name,
                first_received_at=time,
                state=State.COMPLETE,
            )
            for number, (name, time) in enumerate([("b:1", 5), ("Ü", 5), ("a", 9), ("", 1), ("A", 3), ("b:1", 7)])
        ]
        keep(catalog, *found)
        sizes = {0: 7, 2: 1 << 40, 4: 7}
        for number, size in sizes.items():
            assert catalog.finish([replace(finished(number), size=size)], [])
        keys: dict[str, Callable[[int], object]] = {
            "received": lambda number: found[number].first_received_at,
            "size": lambda number: sizes.get(number, -1),
            "name": lambda number: found[number].qualifier_2.casefold(),
        }
        seen: list[str] = []
        cursor = None
        while True:
            page = catalog.attachments(AttachmentFilter(), cursor, 2, sort)
            seen += [record.id for record in page.items]
            if (cursor := page.next) is None:
                break
        assert sorted(seen) == sorted(record.id for record in found)
        got = [keys[sort.removeprefix("-")](int(each.removeprefix("a"))) for each in seen]
        assert got == sorted(got, reverse=sort.startswith("-"))  # type: ignore[type-var]

    def test_a_cursor_belongs_to_its_order(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2))
        cursors = {sort: catalog.attachments(AttachmentFilter(), None, 1, sort).next for sort in get_args(Sort)}
        for sort in get_args(Sort):
            for other, cursor in cursors.items():
                if other == sort:
                    catalog.attachments(AttachmentFilter(), cursor, 1, sort)
                else:
                    with pytest.raises(BadCursor):
                        catalog.attachments(AttachmentFilter(), cursor, 1, sort)

    def test_attachments_by_size_and_warnings_and_their_count(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, state=State.COMPLETE) for number in range(4)))
        for number in range(3):
            catalog.finish([finished(number, size=number * 10, warnings=("two",) if number == 2 else ())], [])
        for which, expected in (
            (AttachmentFilter(min_size=10), {"a1", "a2"}),
            (AttachmentFilter(max_size=10), {"a0", "a1"}),
            (AttachmentFilter(min_size=1, max_size=19), {"a1"}),
            (AttachmentFilter(warned=True), {"a2"}),
            (AttachmentFilter(warned=True, min_size=21), set()),
            (AttachmentFilter(warned=False), {"a0", "a1", "a3"}),
            (AttachmentFilter(), {"a0", "a1", "a2", "a3"}),
        ):
            assert {record.id for record in catalog.attachments(which, None, 9).items} == expected
            assert catalog.count_attachments(which) == (len(expected), True)

    def test_messages_and_deliveries_between_times(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(messages=[message(number, received_at=number) for number in range(1, 5)]))
        assert [each.received_at for each in catalog.messages(None, None, 9, None, 1, 4).items] == [3, 2]
        for number in range(1, 5):
            catalog.add_delivery(delivery(number, created_at=number), [])
        assert [each.created_at for each in catalog.deliveries(None, None, None, 9, None, 1, 4).items] == [3, 2]

    @pytest.mark.parametrize(
        ("which", "wanted"),
        [
            (AttachmentFilter(), lambda record: True),
            (AttachmentFilter(state=State.EXPIRED), lambda record: record.state is State.EXPIRED),
            (AttachmentFilter(kind=AttachmentKind.TEXT_FILE), lambda record: record.kind == 2),
            (AttachmentFilter(source="crane"), lambda record: record.source == "crane"),
            (AttachmentFilter(message="m2"), lambda record: record.message_id == "m2"),
            (AttachmentFilter(name="GRÜSSE"), lambda record: record.qualifier_2 == "Grüße 100%.txt"),
            (AttachmentFilter(name="%"), lambda record: "%" in record.qualifier_2),
            (AttachmentFilter(name="_"), lambda record: "_" in record.qualifier_2),
            (AttachmentFilter(name="\\"), lambda record: "\\" in record.qualifier_2),
            (AttachmentFilter(name="\0"), lambda record: "\0" in record.qualifier_2),
            (AttachmentFilter(name="x" * 60_000), lambda record: False),
            (AttachmentFilter(received_after=1, received_before=4), lambda record: 1 < record.first_received_at < 4),
            (
                AttachmentFilter(State.RECEIVING, AttachmentKind.DATA_SET, "quay", "a", "m1", 0, 9),
                lambda record: (
                    (record.state, record.kind, record.source) == (State.RECEIVING, 1, "quay")
                    and "a" in record.qualifier_2
                    and record.message_id == "m1"
                    and record.first_received_at > 0
                ),
            ),
        ],
        ids=lambda value: str(value) if isinstance(value, AttachmentFilter) else None,
    )
    def test_listing_attachments(
        self, catalog: Catalog, which: AttachmentFilter, wanted: Callable[[AttachmentRecord], bool]
    ) -> None:
        pick = random.Random(7)
        names = ["a.txt", "Grüße 100%.txt", "under_score", "C:\\temp\\a.dat", "レポート", "odd\0name"]
        kept = [
            replace(
                attachment(number, pick.choice(list(State))),
                source=pick.choice(["quay", "crane"]),
                kind=pick.choice([None, *AttachmentKind]),
                message_id=pick.choice([None, "m1", "m2"]),
                qualifier_2=pick.choice(names),
                first_received_at=pick.randrange(5),
            )
            for number in range(60)
        ]
        keep(catalog, *kept)
        newest_first = sorted(kept, key=lambda record: (record.first_received_at, record.id), reverse=True)
        for limit in (1, 7, 100):
            found = list(pages(partial(catalog.attachments, which, limit=limit)))
            assert {len(items) for items in found[:-1]} <= {limit}
            assert [record for items in found for record in items] == list(filter(wanted, newest_first))

    def test_what_comes_while_pages_are_turned_shifts_nothing(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number) for number in range(10, 20)))
        fresh = count(20)

        def turn(cursor: str | None) -> Page[AttachmentRecord]:
            page = catalog.attachments(AttachmentFilter(), cursor, 3)
            keep(catalog, attachment(next(fresh)), attachment(12, last_received_at=99))
            return page

        assert [record.id for record in all_of(turn)] == [f"a{number}" for number in range(19, 9, -1)]

    def test_listing_messages(self, catalog: Catalog) -> None:
        kept = [message(number, source=("quay", "crane")[number % 2], received_at=number // 4) for number in range(9)]
        catalog.checkpoint(Checkpoint(messages=kept))
        newest_first = sorted(kept, key=lambda record: (record.received_at, record.id), reverse=True)
        assert all_of(lambda cursor: catalog.messages(None, cursor, 2)) == newest_first
        of_crane = [record for record in newest_first if record.source == "crane"]
        assert all_of(lambda cursor: catalog.messages("crane", cursor, 2)) == of_crane

    @pytest.mark.parametrize(
        "cursor", ["", "x", "%", "MTI6", "é", "\0", "MTox\n", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA6eA", "=" * 9]
    )
    def test_foreign_cursors_are_refused(self, catalog: Catalog, cursor: str) -> None:
        if cursor == "MTI6":
            assert catalog.attachments(AttachmentFilter(), cursor, 1).items == []
            return
        for listing in (
            lambda: catalog.attachments(AttachmentFilter(), cursor, 1),
            lambda: catalog.messages(None, cursor, 1),
            lambda: catalog.quarantined(None, None, cursor, 1),
            lambda: catalog.deliveries(None, None, cursor, 1),
        ):
            with pytest.raises(BadCursor):
                listing()

    def test_a_cursor_is_a_word_in_a_url(self, catalog: Catalog) -> None:
        keep(catalog, *(replace(attachment(number), id=f"a/?&=ÿ{number}") for number in range(3)))
        cursor = catalog.attachments(AttachmentFilter(), None, 1).next
        assert cursor is not None
        assert cursor.replace("-", "").replace("_", "").isalnum()
        assert cursor.isascii()

    def test_identifiers_may_be_anything_that_a_client_asks_for(self, catalog: Catalog) -> None:
        for strange in ("", "\0", "\udcff", "' OR 1=1 --"):
            assert set(everything(catalog, strange)) == {None}
            assert not catalog.set_quarantine_state(strange, "dismissed")
            assert catalog.attachments(AttachmentFilter(source=strange, message=strange), None, 1).items == []

    def test_counts(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2), attachment(3, State.COMPLETE), attachment(4, kind=None))
        catalog.checkpoint(Checkpoint(quarantine=[spoilt(1), spoilt(2)]))
        catalog.set_quarantine_state("q2", "dismissed")
        catalog.add_delivery(delivery(1), [])
        assert catalog.counts() == {
            "attachments": dict.fromkeys(State, 0) | {State.RECEIVING: 2, State.COMPLETE: 1},
            "unannounced": dict.fromkeys(State, 0) | {State.RECEIVING: 1},
            "deliveries": dict.fromkeys(DeliveryState, 0) | {DeliveryState.QUEUED: 1},
            "quarantine": {"kept": 1, "replayed": 0, "dismissed": 1},
        }

    # --- quarantine -----------------------------------------------------------------------------------------------

    def test_quarantine(self, catalog: Catalog) -> None:
        kept = [spoilt(number, source=("quay", "crane")[number % 2], received_at=number // 4) for number in range(9)]
        catalog.checkpoint(Checkpoint(quarantine=kept))
        assert catalog.set_quarantine_state("q3", "dismissed")
        assert not catalog.set_quarantine_state("q9", "dismissed")
        kept[3] = replace(kept[3], state="dismissed")
        newest_first = sorted(kept, key=lambda record: (record.received_at, record.id), reverse=True)
        assert all_of(lambda cursor: catalog.quarantined(None, None, cursor, 2)) == newest_first
        of_crane = [record for record in newest_first if record.source == "crane" and record.state == "kept"]
        assert all_of(lambda cursor: catalog.quarantined("crane", "kept", cursor, 2)) == of_crane
        assert all_of(lambda cursor: catalog.quarantined(None, "dismissed", cursor, 2)) == [kept[3]]

    def test_quarantine_is_grouped_by_source_code_and_kind_of_reason(self, catalog: Catalog) -> None:
        why = ["part 7 is 1,203 bytes", "part 12 is 8 bytes", "\x00 or \ud800", "id 00ff00ffa0 is taken", "x" * 5000]
        entries = [
            spoilt(number, source="qc"[number % 2], code=("cut", "twice")[number % 3 // 2], why=why[number % len(why)])
            for number in range(60)
        ]
        catalog.checkpoint(Checkpoint(quarantine=entries))
        for number in range(0, 60, 7):
            catalog.set_quarantine_state(f"q{number}", "dismissed")
        kept = [entry for entry in entries if int(entry.id[1:]) % 7]
        kinds = [*["part … is … bytes"] * 2, "\x00 or ?", "id … is taken", "x" * 300]
        alike: dict[tuple[str, str, str], list[QuarantineRecord]] = {}
        for entry in kept:
            alike.setdefault((entry.source, entry.code, kinds[why.index(entry.why)]), []).append(entry)
        found = catalog.quarantine_groups(None, "kept", 100)
        assert (found.groups, found.entries) == (len(alike), len(kept))
        counts = [group.entries for group in found.items]
        assert counts == sorted(counts, reverse=True)
        for group in found.items:
            listed = all_of(
                lambda cursor, g=group: catalog.quarantined(g.source, "kept", cursor, 2, None, g.code, g.why)  # type: ignore[misc]
            )
            times = [entry.received_at for entry in listed]
            assert (len(listed), times[-1], times[0]) == (group.entries, *group[-2:])
            assert catalog.quarantine_groups(group.source, "kept", 9, None, group.code, group.why).items == [group]
            assert {entry.id for entry in listed} in [{entry.id for entry in one} for one in alike.values()]
            assert group.why in {entry.why for entry in listed} | set(kinds)
        largest = catalog.quarantine_groups(None, "kept", 2)
        assert (largest.items, largest.groups, largest.entries) == (found.items[:2], found.groups, found.entries)
        own = catalog.quarantine_groups(None, None, 100, {"q"})
        assert ({group.source for group in own.items}, own.entries) == ({"q"}, 30)
        assert catalog.quarantine_groups("c", None, 100, {"q"}) == ([], 0, 0, True)
