"""Pages of lists, also while rows come and go."""

from random import Random
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.attachment import AttachmentKind
from app.ports import AttachmentFilter, Catalog, Sort
from tests.contracts.catalog.records import State, all_of, attachment, finished, keep
from tests.contracts.catalog.round_trips import ON_PURPOSE
from tests.support.length import examples
from tests.support.walking import Walked

LASTING = 3_000
SOURCES = ("quay", "crane", "dock")
NAMES = ("alpha", "Beta", "beta-2", "GAMMA", "rare")
TIMES, SIZES = range(200), range(0, 400, 4)


class Listed(NamedTuple):
    """What filters and orders look at."""

    id: str
    state: State
    kind: AttachmentKind | None
    source: str
    name: str
    message: str
    at: int
    size: int | None
    warned: bool

    def key(self, sort: Sort) -> tuple[Any, str]:
        keys: dict[str, object] = {
            "received": self.at,
            "size": -1 if self.size is None else self.size,
            "name": self.name.casefold(),
        }
        return keys[sort.removeprefix("-")], self.id

    def matches(self, which: AttachmentFilter) -> bool:
        is_sized = which.min_size is None and which.max_size is None
        if self.size is not None:
            is_sized = (which.min_size or 0) <= self.size <= (SIZES.stop if which.max_size is None else which.max_size)
        return (
            is_sized
            and which.state in (None, self.state)
            and which.kind in (None, self.kind)
            and which.source in (None, self.source)
            and which.message in (None, self.message)
            and (which.name or "").casefold() in self.name.casefold()
            and (which.received_after is None or self.at > which.received_after)
            and (which.received_before is None or self.at < which.received_before)
            and (which.within is None or self.source in which.within)
            and which.announced in (None, self.kind is not None)
            and which.warned in (None, self.warned)
        )


def listed() -> list[Listed]:
    """Return attachments of which most are finished and of one source, and few are of each other kind."""
    pick = Random(5)

    def one(number: int) -> Listed:
        state = State.FINISHED if pick.random() < 0.8 else pick.choice(list(State))
        is_finished = state is State.FINISHED
        return Listed(
            f"a{number}",
            state,
            None if not is_finished and pick.random() < 0.3 else pick.choice(list(AttachmentKind)),
            SOURCES[int(3 * pick.random() ** 4)],
            NAMES[int(5 * pick.random() ** 2)],
            f"m{number // 2}",
            pick.choice(TIMES),
            pick.choice(SIZES) if is_finished else None,
            is_finished and pick.random() < 0.05,
        )

    return [one(number) for number in range(900)]


def write(catalog: Catalog, rows: list[Listed]) -> None:
    keep(
        catalog,
        *(
            attachment(
                number,
                State.COMPLETE if row.state is State.FINISHED else row.state,
                source=row.source,
                kind=row.kind,
                qualifier_2=row.name,
                message_id=row.message,
                first_received_at=row.at,
            )
            for number, row in enumerate(rows)
        ),
    )
    sized = [
        finished(number, size=row.size, warnings=("two",) if row.warned else ())
        for number, row in enumerate(rows)
        if row.state is State.FINISHED
    ]
    assert len(catalog.finish(sized, [])) == len(sized)


def rarely(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), st.none(), strategy)


filters = st.builds(
    AttachmentFilter,
    state=rarely(st.sampled_from(State)),
    kind=rarely(st.sampled_from(AttachmentKind)),
    source=rarely(st.sampled_from([*SOURCES, "nowhere"])),
    name=rarely(st.sampled_from(["BET", "a", "rare", "no such"])),
    message=rarely(st.sampled_from(["m7", "m10"])),
    received_after=rarely(st.sampled_from(TIMES)),
    received_before=rarely(st.sampled_from(TIMES)),
    within=rarely(st.frozensets(st.sampled_from([*SOURCES, "nowhere"]))),
    min_size=rarely(st.sampled_from(SIZES)),
    max_size=rarely(st.sampled_from(SIZES)),
    announced=rarely(st.booleans()),
    warned=rarely(st.booleans()),
)


class Walking:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    @pytest.fixture
    def bounded_pages(self) -> None:
        """Nothing; inheritors make pages and counts read so few rows that they end early here."""

    @pytest.mark.usefixtures("bounded_pages")
    def test_pages_are_complete_and_without_repeats_while_rows_come_and_go(self, catalog: Catalog) -> None:
        walked = Walked(catalog, LASTING)
        assert all(walked.lasting.values())
        with walked.changing():
            faults = [fault for name in walked.lasting for fault in walked.faults(name, 200)]
        assert faults == []
        assert walked.came

    @pytest.mark.usefixtures("bounded_pages")
    @settings(suppress_health_check=ON_PURPOSE, max_examples=examples(40), deadline=None)
    @given(which=filters, sort=st.sampled_from(get_args(Sort)), limit=st.sampled_from([7, 50, 500]))
    def test_pages_and_counts_of_every_filter_and_order(
        self, catalog: Catalog, which: AttachmentFilter, sort: Sort, limit: int
    ) -> None:
        rows = listed()
        if not catalog.attachments(AttachmentFilter(), None, 1).items:
            write(catalog, rows)
        wanted = sorted((row for row in rows if row.matches(which)), key=lambda row: row.key(sort))
        expected = [row.id for row in (reversed(wanted) if sort.startswith("-") else wanted)]
        found = all_of(lambda cursor: catalog.attachments(which, cursor, limit, sort))
        assert [record.id for record in found] == expected
        number, is_all = catalog.count_attachments(which)
        assert number == len(expected) if is_all else number <= len(expected)
