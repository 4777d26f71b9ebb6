"""Expectations of the table `quality`, checked after a run.

They are checked after the commit, because what was received cannot be received again: a run that violates one has
committed its data, and only reports it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.ports import TableStore
from app.settings import Expectation
from app.tables.quality import QUALITY, SCHEMA, Increment, quality_rows, summed

_DERIVED: dict[str, Callable[[Increment], float]] = {
    "mean_seconds": lambda sums: _share(sums.seconds_to_complete, sums.attachments_completed),
    "duplicate_share": lambda sums: _share(sums.duplicates, sums.messages),
    "conflict_share": lambda sums: _share(sums.conflicts, sums.messages),
    "quarantined_share": lambda sums: _share(sums.attachments_quarantined, sums.attachments_begun),
}


class Violation(NamedTuple):
    """A quantity of one source that is beyond its limit."""

    source: str
    quantity: str
    value: float
    limit: str
    is_failure: bool

    def __str__(self) -> str:
        return f"{self.source}: {self.quantity} is {self.value:g}, expected {self.limit}"


def violations(
    expectations: Sequence[Expectation], added: Sequence[Increment], store: TableStore | None
) -> list[Violation]:
    """Return the violated expectations, by source, in the hours to which these increments were added.

    Without a table store, the increments alone count. Raises GatewayError if the table cannot be read.
    """
    if not expectations or not added:
        return []
    sums = _sums(added, store)
    found = []
    for each in expectations:
        for row in sums:
            if each.source not in (None, row.source):
                continue
            derived = _DERIVED.get(each.quantity)
            value = derived(row) if derived else getattr(row, each.quantity)
            is_failure = each.action == "fail"
            if each.at_most is not None and value > each.at_most:
                found.append(Violation(row.source, each.quantity, value, f"at most {each.at_most:g}", is_failure))
            if each.at_least is not None and value < each.at_least:
                found.append(Violation(row.source, each.quantity, value, f"at least {each.at_least:g}", is_failure))
    return found


def _sums(added: Sequence[Increment], store: TableStore | None) -> list[Increment]:
    """Return the sums of the hours of these increments in the table, one for each of their sources."""
    if store is None or QUALITY not in store.names():
        rows = quality_rows(added)
    else:
        hours = pa.array({each.hour for each in added}, SCHEMA.field("hour").type)
        sources = pa.array({each.source for each in added}, pa.string())
        wanted = pc.field("hour").isin(hours) & pc.field("source").isin(sources)
        found = store.open(QUALITY).dataset.to_table(columns=SCHEMA.names, filter=wanted)
        rows = summed(found.cast(SCHEMA).to_batches())
    together = rows.set_column(1, "hour", pa.repeat(pa.scalar(0, SCHEMA.field("hour").type), rows.num_rows))
    return [Increment(**(row | {"hour": 0})) for row in summed(together.to_batches()).to_pylist()]


def _share(some: float, all_: float) -> float:
    return some / all_ if all_ else 0.0
