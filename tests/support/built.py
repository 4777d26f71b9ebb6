"""Tables built by the pipeline's functions, in one process."""

import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from app.pipeline.commit.tables import (
    QUALITY,
    DataSet,
    Increment,
    append,
    commit,
    hour_of,
    plan,
    quality_rows,
    tasks,
    write,
)
from app.service.tables.table_reader import application
from tests.support.tables import field, parquet

APPLICATION = application("0" * 32)
RECEIVED = 1_795_248_000_000_000
"""2026-11-21 08:00 UTC, in microseconds."""
DAY = 86_400_000_000


def without_deltalake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process behave as if the library were not installed."""
    for name in [name for name in sys.modules if name.startswith("adapters.delta_tables")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deltalake", None)


class Built:
    """Tables in a folder, and methods to append data sets to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tables"
        self.tables = DeltaTables(self.folder)
        self._content = ObjectStore(folder / "built")
        self._count = 0

    def append(self, *data_sets: pa.Table, library: str = "", member: str = "") -> None:
        """Append data sets in one transaction, each a day after the one before."""
        stored = [self._stored(each, library, member) for each in data_sets]
        plans = plan(self.tables, stored, APPLICATION, self._count)
        written = [write(task, self.tables, self._content) for some in tasks(plans, stored) for task in some]
        commit(plans, written, self.tables, APPLICATION, self._count)

    def quality(self, increments: Sequence[Increment]) -> None:
        self._count += 1
        rows = quality_rows(increments)
        append(self.tables, QUALITY, rows.schema, rows.to_batches(), APPLICATION, self._count)

    def _stored(self, table: pa.Table, library: str, member: str) -> DataSet:
        said = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        name = f"attachments/{self._count:032x}"
        with self._content.create(name) as target:
            target.write(parquet(table, 20_000))
        self._count += 1
        return DataSet(
            attachment=f"{self._count:032x}",
            message=f"{self._count // 2:032x}",
            source="orders",
            received_at=RECEIVED + self._count * DAY,
            library=library or said.get("sas.library", ""),
            member=member or said.get("sas.member", ""),
            object_name=name,
            size=self._content.size(name),
            schema=table.schema,
        )


def shop(folder: Path) -> Built:
    """Build the example of docs/tables.md: two data sets of one name with different variables, and `quality`."""
    label = {"sas.library": "WORK", "sas.member": "CUSTOMERS", "sas.label": "Customers of the shop"}
    since = {"label": "Customer since", "kind": "date"}
    credit = field("CREDIT", pa.float64(), label="Credit limit", format="COMMA10.2")
    first = pa.schema(
        [
            field("NAME", pa.string(), length="12", format="$12.", label="Name"),
            field("SINCE", pa.date32(), format="DATE9.", **since),
            credit,
            pa.field("CREDIT__missing", pa.string(), metadata={"sas.missing_of": "CREDIT"}),
            field("POSTCODE", pa.float64(), label="Postcode"),
        ],
        label,
    )
    second = pa.schema(
        [
            field("Name", pa.string(), length="20", format="$20.", label="Name"),
            field("SINCE", pa.date32(), format="YYMMDD10.", **since),
            credit,
            field("POSTCODE", pa.string(), length="8", format="$8.", label="Postcode"),
            field("EMAIL", pa.string(), length="40", format="$40.", label="Address for invoices"),
        ],
        label,
    )
    dates = [date(2012, 2, 29), date(2019, 7, 1), None]
    names = ["Åsa", "Bo", "Cleo"]
    built = Built(folder)
    built.append(
        pa.table([names, dates, [1500.0, None, 250.5], [None, ".A", None], [21119.0, 75236.0, 11122.0]], schema=first)
    )
    dates, names = [date(2026, 1, 3), date(2025, 12, 24)], ["Dee", "Ed the Elder"]
    postcodes, addresses = ["SW1A 1AA", "114 35"], ["dee@example.com", ""]
    built.append(pa.table([names, dates, [0.0, 900.0], postcodes, addresses], schema=second))
    hour = hour_of(RECEIVED)
    begun = Increment("orders", hour, messages=120, duplicates=2, attachments_completed=2, missing_ranges=1)
    built.quality([begun._replace(longest_seconds=2.25)])
    built.quality([Increment("orders", hour, 8, attachments_completed=1, missing_ranges=-1, longest_seconds=61.0)])
    return built
