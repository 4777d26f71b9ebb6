"""What every table store promises."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from app.model.errors import GatewayError
from app.ports import TableFile, TableStore
from tests.support.tables import visits

APP = "pipeline"
HOSTILE = [
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "",
    ".",
    "..",
    "_delta_log",
    "_x",
    "x" * 5_000,
    "x" * 4_999 + "y",
    "nul\0",
    "new\nline",
    "WORK.X",
    "work.x",
    "Work.x",
    "files",
    "FILES",
    "%2e%2e",
    "=",
    "==",
    "a b",
    "a*b?.[c]",
    "emoji 😀",
    "ÅÄÖ.åäö",
    "åäö.ÅÄÖ",
]


def received(table: pa.Table, day: int = 1) -> pa.Table:
    """The rows, the first of them received on a day of January, and each a day after the one before."""
    times = [datetime(2026, 1, day + n, tzinfo=UTC) for n in range(table.num_rows)]
    column = pa.field("received_at", pa.timestamp("us", "UTC"))
    return table.add_column(0, column, pa.array(times, column.type))


def numbered(*numbers: int, day: int = 1) -> pa.Table:
    return received(pa.table({"n": pa.array(numbers, pa.int64())}), day)


def put(store: TableStore, name: str, table: pa.Table, transaction: int) -> bool:
    return store.commit(name, table.schema, [written(store, name, table)], APP, transaction) is not None


def written(store: TableStore, name: str, table: pa.Table) -> TableFile:
    return store.write(name, table.schema, table.to_batches())


def content(store: TableStore, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    schema = None if columns else store.schema(name)
    return pa.Table.from_batches(store.rows(name, columns), schema)


def numbers(store: TableStore, name: str) -> list[int]:
    return sorted(content(store, name)["n"].to_pylist())


def micros(day: int) -> int:
    return int(datetime(2026, 1, day, tzinfo=UTC).timestamp()) * 1_000_000


class TableContract:
    """Inherited by an adapter's tests, which give the fixture `tables`, an empty store."""

    def test_gives_back_rows_types_and_metadata(self, tables: TableStore) -> None:
        table = received(visits())
        assert put(tables, "T", table, 1)
        found = content(tables, "T")
        assert found.to_pylist() == table.to_pylist()
        assert found.schema.types == table.schema.types
        for schema in (tables.schema("T"), found.schema):
            assert schema.metadata == table.schema.metadata
            assert {each.name: each.metadata for each in schema} == {each.name: each.metadata for each in table.schema}

    def test_gives_the_columns_asked_for_in_their_order(self, tables: TableStore) -> None:
        table = received(visits())
        put(tables, "T", table, 1)
        assert content(tables, "T", ["Stay", "Name"]).to_pylist() == table.select(["Stay", "Name"]).to_pylist()
        with pytest.raises(KeyError):
            tables.rows("T", ["none"])

    def test_gives_a_version_as_a_dataset(self, tables: TableStore) -> None:
        put(tables, "T", numbered(3, 1), 1)
        put(tables, "T", numbered(2), 2)
        dataset = tables.open("T").dataset
        put(tables, "T", numbered(4), 3)
        assert dataset.to_table(columns=["n"]).to_pydict() == {"n": [3, 1, 2]}
        assert dataset.to_table(filter=pc.field("n") > 2)["n"].to_pylist() == [3]

    def test_knows_no_other_table(self, tables: TableStore) -> None:
        put(tables, "T", numbered(1), 1)
        asked = (tables.schema, tables.describe, tables.rows, tables.open, tables.location, tables.compact)
        for ask in (*asked, lambda name: tables.retain(name, 0), lambda name: tables.vacuum(name, 0)):
            with pytest.raises(KeyError):
                ask("t")
        assert tables.reached("t", APP) is None
        assert tables.names() == ["T"]

    def test_shows_nothing_before_it_is_committed(self, tables: TableStore) -> None:
        first = written(tables, "T", numbered(1, 2))
        assert tables.names() == []
        with pytest.raises(KeyError):
            tables.schema("T")
        assert tables.commit("T", numbered(1).schema, [first], APP, 1) == 0
        written(tables, "T", numbered(3))
        assert numbers(tables, "T") == [1, 2]
        assert tables.describe("T")[1:4] == (0, 2, 1)

    def test_takes_a_transaction_once(self, tables: TableStore) -> None:
        assert put(tables, "T", numbered(1), 5)
        assert not put(tables, "T", numbered(2), 5)
        assert not put(tables, "T", numbered(3), 4)
        assert tables.reached("T", APP) == 5
        assert tables.reached("T", "another") is None
        assert (tables.applications("T"), tables.applications("nobody's")) == ([APP], [])
        file = written(tables, "T", numbered(4))
        assert tables.commit("T", numbered().schema, [file], "another", 1) == 1
        assert put(tables, "T", numbered(5), 1 << 62)
        assert (tables.reached("T", APP), tables.reached("T", "another")) == (1 << 62, 1)
        assert numbers(tables, "T") == [1, 4, 5]

    def test_knows_which_version_a_transaction_has_made(self, tables: TableStore) -> None:
        made = {}
        for transaction in (3, 7, 8, 40):
            made[transaction] = tables.commit(
                "T", numbered(1).schema, [written(tables, "T", numbered(1))], APP, transaction
            )
            if transaction == 7:
                tables.compact("T")
                tables.commit("T", numbered(1).schema, [], "another", 8)
        assert made == {3: 0, 7: 1, 8: 4, 40: 5}
        assert {each: tables.version_with("T", APP, each) for each in made} == made
        assert tables.version_with("T", "another", 8) == 3
        assert tables.version_with("T", APP, 9) is None
        assert tables.version_with("T", "another", 7) is None
        assert tables.version_with("none", APP, 3) is None

    def test_takes_several_files_or_none(self, tables: TableStore) -> None:
        schema = numbered().schema
        assert tables.commit("T", schema, [], APP, 1) == 0
        assert numbers(tables, "T") == []
        assert tables.commit("T", schema, [written(tables, "T", numbered(n)) for n in range(5)], APP, 2) == 1
        assert content(tables, "T")["n"].to_pylist() == [0, 1, 2, 3, 4]
        assert tables.open("T").dataset.to_table()["n"].to_pylist() == [0, 1, 2, 3, 4]
        described = tables.describe("T")
        assert (described.name, described.version, described.rows, described.files) == ("T", 1, 5, 5)
        assert described.size > 0
        assert described.modified_at > 1_700_000_000_000_000

    def test_widens_with_the_rows_that_need_it(self, tables: TableStore) -> None:
        put(tables, "T", numbered(1), 1)
        labelled = pa.field("text", pa.string(), metadata={"sas.label": "A text", "sas.length": "8"})
        wider = numbered(2).append_column(labelled, pa.array(["x"]))
        assert put(tables, "T", wider, 2)
        assert sorted(row["text"] or "" for row in content(tables, "T").to_pylist()) == ["", "x"]
        assert tables.describe("T").version == 1
        longer = wider.schema.set(2, labelled.with_metadata({"sas.label": "A text", "sas.length": "20"}))
        assert tables.commit("T", longer.with_metadata({"sas.label": "new"}), [], APP, 3) == 2
        assert tables.schema("T").field("text").metadata[b"sas.length"] == b"20"
        assert tables.schema("T").metadata == {b"sas.label": b"new"}

    def test_keeps_the_columns_it_has(self, tables: TableStore) -> None:
        put(tables, "T", numbered(1), 1)
        without = numbered(1).select(["received_at"])
        other = without.append_column("n", pa.array(["text"]))
        for table in (without, other):
            with pytest.raises(GatewayError, match="column 'n'"):
                put(tables, "T", table, 2)
        assert (numbers(tables, "T"), tables.reached("T", APP)) == ([1], 1)

    def test_times_of_a_day_may_become_durations(self, tables: TableStore) -> None:
        table = received(pa.table({"t": pa.array([5, None], pa.time64("us"))}))
        put(tables, "T", table, 1)
        put(tables, "T", received(pa.table({"t": pa.array([-(10**12)], pa.duration("us"))})), 2)
        found = content(tables, "T")["t"]
        assert found.type == pa.duration("us")
        assert sorted(found.cast(pa.int64()).drop_null().to_pylist()) == [-(10**12), 5]

    def test_refuses_types_that_no_data_set_has(self, tables: TableStore) -> None:
        table = pa.table({"n": pa.array([[1]])})
        with pytest.raises(GatewayError, match="list"):
            put(tables, "T", table, 1)

    def test_takes_any_name(self, tables: TableStore) -> None:
        for number, name in enumerate(HOSTILE):
            assert put(tables, name, numbered(number), number)
        assert tables.names() == sorted(HOSTILE)
        for number, name in enumerate(HOSTILE):
            assert numbers(tables, name) == [number]
            assert tables.describe(name).name == name

    def test_compacts_small_files(self, tables: TableStore) -> None:
        table = received(visits())
        for transaction in range(6):
            put(tables, "T", table, transaction)
        wider = table.append_column("more", pa.array(["m"] * table.num_rows))
        put(tables, "T", wider, 6)
        before = content(tables, "T").to_pylist()
        assert tables.compact("T") == 7
        assert tables.compact("T") == 0
        described = tables.describe("T")
        assert (described.rows, described.files) == (len(before), 1)
        assert sorted(map(repr, content(tables, "T").to_pylist())) == sorted(map(repr, before))
        assert (tables.reached("T", APP), tables.schema("T").names) == (6, wider.column_names)
        assert put(tables, "T", wider, 7)

    def test_replaces_rows_in_one_version(self, tables: TableStore) -> None:
        gone = pc.field("n").isin(pa.array([2, 3, 9], pa.int64()))
        assert tables.replace("T", numbered(9).schema, [written(tables, "T", numbered(9))], gone) == 0
        assert (numbers(tables, "T"), tables.reached("T", APP)) == ([9], None)
        put(tables, "T", numbered(1, 2, 3), 7)
        put(tables, "T", numbered(4, 5), 8)
        version = tables.describe("T").version
        wider = numbered(2, 9).append_column("more", pa.array(["a", "b"]))
        for at in (1, 2):
            file = written(tables, "T", wider)
            assert tables.replace("T", wider.schema, [file], gone) == version + at
            assert numbers(tables, "T") == [1, 2, 4, 5, 9]
            more = content(tables, "T", ["n", "more"]).to_pylist()
            assert sorted(row["more"] for row in more if row["n"] in (2, 9)) == ["a", "b"]
        assert (tables.describe("T").version, tables.reached("T", APP)) == (version + 2, 8)
        assert put(tables, "T", wider, 9)

    def test_keeps_rows_of_which_nothing_is_known(self, tables: TableStore) -> None:
        rows = pa.table({"n": pa.array([1, None, 3], pa.int64())})
        put(tables, "T", rows, 1)
        assert tables.replace("T", rows.schema, [], pc.field("n") >= 2) == 1
        assert tables.describe("T").version == 1
        assert content(tables, "T")["n"].to_pylist() == [1, None]

    def test_retains_what_was_received_since(self, tables: TableStore) -> None:
        put(tables, "T", numbered(1, 2, 3), 1)
        put(tables, "T", numbered(4, 5, 6, day=4), 2)
        assert tables.retain("T", micros(1)) == 0
        assert tables.describe("T").version == 1
        assert tables.retained_from("T") is None
        assert tables.retain("T", micros(5)) == 4
        assert numbers(tables, "T") == [5, 6]
        assert tables.retained_from("T") == micros(5)
        assert tables.retain("T", micros(5)) == 0
        assert tables.retain("T", micros(20)) == 2
        assert numbers(tables, "T") == []
        assert tables.reached("T", APP) == 2
        assert tables.retain("T", micros(3)) == 0
        put(tables, "T", numbered(7, day=21), 3)
        assert tables.retained_from("T") == micros(20)

    def test_retains_all_of_a_table_that_does_not_say_when(self, tables: TableStore) -> None:
        put(tables, "T", pa.table({"n": [1]}), 1)
        assert tables.retain("T", micros(30)) == 0
        assert numbers(tables, "T") == [1]

    def test_vacuums_what_no_version_needs(self, tables: TableStore) -> None:
        for transaction in range(3):
            put(tables, "T", numbered(transaction), transaction)
        tables.compact("T")
        orphan = written(tables, "T", numbered(9))
        assert tables.vacuum("T", 3600) == 0
        assert tables.vacuum("T", 0) == 4
        assert tables.vacuum("T", 0) == 0
        assert numbers(tables, "T") == [0, 1, 2]
        assert orphan.rows == 1

    def test_joins_few_files_at_a_time(self, tables: TableStore) -> None:
        for transaction in range(3):
            put(tables, "T", numbered(transaction), transaction)
        assert tables.compact("T", most=0) == 0
        assert tables.compact("T", most=1) == 3
        assert tables.compact("T", most=1) == 0

    def test_a_shorter_log_says_the_same(self, tables: TableStore) -> None:
        for transaction in range(3):
            put(tables, "T", numbered(transaction, day=transaction + 1), transaction)
        tables.retain("T", micros(2))
        for _ in range(2):
            tables.shorten_log("T")
            assert numbers(tables, "T") == [1, 2]
            assert tables.reached("T", APP) == 2
            assert tables.applications("T") == [APP]
            assert tables.retained_from("T") == micros(2)
        assert not put(tables, "T", numbered(9), 2)
        assert put(tables, "T", numbered(3, day=4), 3)
        assert numbers(tables, "T") == [1, 2, 3]
        with pytest.raises(KeyError):
            tables.shorten_log("U")

    def test_reads_a_version_while_others_follow(self, tables: TableStore) -> None:
        put(tables, "T", numbered(1), 1)
        put(tables, "T", numbered(2), 2)
        reading = tables.rows("T")
        first = next(reading)
        put(tables, "T", numbered(3), 3)
        tables.compact("T")
        assert pa.Table.from_batches([first, *reading])["n"].to_pylist() == [1, 2]

    def test_remembers_over_many_versions(self, tables: TableStore) -> None:
        for transaction in range(45):
            put(tables, "T", numbered(transaction), transaction)
        assert numbers(tables, "T") == list(range(45))
        assert tables.describe("T").version >= 44  # joining small files makes versions, too
        assert not put(tables, "T", numbered(99), 44)
