"""Observations -> table, as the gateway does it."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset.decode import Unforeseen, batches, first_plan
from app.dataset.observation_layout import Representation


def read(
    definition: DataSetDefinition,
    variables: Sequence[Variable],
    blocks: Sequence[bytes | memoryview],
    *,
    rows_a_batch: int = 16_384,
    **how: Any,
) -> pa.Table:
    """The table in these observations; every array of it is valid."""
    plan = first_plan(definition, variables, Representation(**how), lambda: blocks)
    try:
        read = list(batches(plan, blocks, rows_a_batch))
    except Unforeseen as unforeseen:
        plan = unforeseen.plan
        read = list(batches(plan, blocks, rows_a_batch))
    for batch in read:
        batch.validate(full=True)
    return pa.Table.from_batches(read, plan.schema)
