"""Tables as the pipeline builds them, in one process."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from app.pipeline.tables import QUALITY, DataSet, Increment, append, commit, plan, quality_rows, write
from tests.support.tables import parquet

RECEIVED = 1_795_248_000_000_000
"""2026-11-21 08:00 UTC, in microseconds."""
DAY = 86_400_000_000
APPLICATION = "pipeline"


def without_deltalake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process one where the library was never installed."""
    for name in [name for name in sys.modules if name.startswith("adapters.delta_tables")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deltalake", None)


class Built:
    """Tables in a folder, and means to append data sets to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tables"
        self.tables = DeltaTables(self.folder)
        self._content = ObjectStore(folder / "built")
        self._count = 0

    def append(self, *data_sets: pa.Table, library: str = "", member: str = "") -> None:
        """Data sets, each a day after the one before, in one transaction."""
        plans = plan(self.tables, [self._stored(each, library, member) for each in data_sets], APPLICATION, self._count)
        written = [write(task, self.tables, self._content) for each in plans for task in each.tasks]
        commit(plans, written, self.tables, APPLICATION, self._count)

    def quality(self, increments: Sequence[Increment]) -> None:
        self._count += 1
        append(self.tables, QUALITY, quality_rows(increments), APPLICATION, self._count)

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
