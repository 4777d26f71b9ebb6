"""Any name of a sender: two names have one table only if SAS takes them for one, and every reader finds each table."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.rest import RestCatalog

from adapters.delta_tables import DeltaTables
from app.model.names import table_name
from app.service.tables.sql_queries import confined
from app.service.tables.table_reader import open_table
from app.web.app import create_app
from app.web.resources.iceberg_catalog import identifier
from tests.support.length import examples
from tests.web.stock import Stock, serving

ODD = (
    *("..", ".", "/", "", "...", "a.b", "a/../b", "../..", "..\\..", "\\", "?", "#", "%", "%2E%2E", "a%2Fb", "a+b"),
    *(
        "straße",
        "STRASSE",
        "É",
        "é",
        "\u017f",
        "S",
        "K",
        "\u212a",
        "i",
        "İ",
        "\u0131",
        "\uff21",
        "\uff41",
        "ß",
        "ü" * 200,
        "x" * 300,
    ),
    *(
        "\x01",
        "\x1f",
        "x\x1fy",
        "a\nb",
        "\t",
        "x\0y",
        "\x7f",
        "'",
        "''",
        "'.'",
        "'..'",
        '"',
        "=",
        "==A",
        ";",
        "\U0001f600",
    ),
)
NAMES = st.lists(
    st.tuples(
        st.sampled_from(("", "lib", "..", "a.b", "é")),
        st.sampled_from(ODD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    )
)


def one_for_sas(library: str, member: str) -> tuple[str, str]:
    """Return what SAS compares: no blanks at the end, and ASCII letters without case."""

    def compared(name: str) -> str:
        return "".join(chr(ord(c) - 32) if "a" <= c <= "z" else c for c in name.rstrip(" \0"))

    return compared(library) or "WORK", compared(member) or "_UNNAMED_"


class Shop:
    """A gateway that offers tables, to which a test adds one row for each name."""

    def __init__(self, address: str, store: DeltaTables) -> None:
        self.address, self.store = address, store
        self.iceberg = RestCatalog("test", uri=f"{address}/iceberg")
        self.marks: dict[tuple[str, str], int] = {}

    def add(self, library: str, member: str) -> str:
        """Return the name of the table of these names, which gets a row if it is new to SAS."""
        name, key = table_name(library, member), one_for_sas(library, member)
        if key not in self.marks:
            self.marks[key] = len(self.marks)
            rows = pa.table({"mark": [self.marks[key]]})
            files = [self.store.write(name, rows.schema, rows.to_batches())]
            version = self.store.commit(name, rows.schema, files, "test", 1)
            assert version == 0, f"{name!r} is another's table, too"
        return name


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    stock = Stock(tmp_path_factory.mktemp("names"), tables={"iceberg": True})
    with closing(stock), serving(create_app(stock.gateway)) as address:
        yield Shop(address, DeltaTables(stock.gateway.settings.tables_url))


def check(shop: Shop, library: str, member: str) -> None:
    name = shop.add(library, member)
    expected = [shop.marks[one_for_sas(library, member)]]
    place = shop.store.location(name)
    assert DeltaTable(place).to_pyarrow_table()["mark"].to_pylist() == expected
    assert shop.iceberg.load_table(identifier(name)).scan().to_arrow()["mark"].to_pylist() == expected
    answer = httpx.get(f"{shop.address}/v1/tables/{quote(name, safe='')}", timeout=60)
    assert (answer.status_code, answer.json()["name"]) == (200, name)
    assert open_table(shop.store, name.swapcase() if name.isascii() else name).version.name == name, (
        "as the CLI finds it"
    )
    quoted = name.replace('"', '""')
    with confined(shop.store, [name], f'SELECT mark FROM "{quoted}"', {}) as found:
        assert [row for batch in found.batches for row in batch["mark"].to_pylist()] == expected


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(NAMES)
def test_every_reader_finds_the_table_of_any_name(shop: Shop, names: list[tuple[str, str]]) -> None:
    for library, member in names:
        check(shop, library, member)


def test_every_reader_finds_the_tables_of_odd_names(shop: Shop) -> None:
    for member in ODD:
        check(shop, "lib", member)
    for library in ODD[::3]:
        check(shop, library, "m")
    names = shop.store.names()
    assert len(names) == len(shop.marks)
    folders = [Path(shop.store.location(name)).name for name in names]
    assert len({folder.casefold() for folder in folders}) == len(folders), "a file system may ignore case"
    assert all(folder.isascii() and folder.isprintable() for folder in folders)
    listed = [each for within in shop.iceberg.list_namespaces() for each in shop.iceberg.list_tables(within)]
    assert sorted(listed) == sorted(map(identifier, names))
