"""The distribution of table tasks among Spark's tasks."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from app.pipeline.commit.tables import TableTask, plan, tasks
from app.pipeline.job.job import Job, open_job
from app.pipeline.run.spark_steps import TABLE_TASK_COST, SparkSteps, in_shares
from app.settings import Settings
from tests.pipeline.tables.test_building import APP, stored
from tests.support.tables import pupils


@given(st.lists(st.integers(0, 1 << 27), min_size=1), st.integers(1, 10))
def test_shares_are_even_and_hold_each_task_once(sizes: list[int], shares: int) -> None:
    made = in_shares([TableTask("T", b"", (), (), size) for size in sizes], shares)
    assert len(made) == min(shares, len(sizes))
    assert sorted(at for share in made for at in share) == list(range(len(sizes)))
    loads = [sum(sizes[at] + TABLE_TASK_COST for at in share) for share in made]
    assert max(loads) - min(loads) <= max(sizes) + TABLE_TASK_COST


def test_files_come_in_the_order_of_their_tasks(tmp_path: Path, spark: SparkSession) -> None:
    opened = open_job(Job.of(Settings.model_validate({"data": tmp_path}), str(tmp_path), in_place=False))
    assert opened.tables is not None
    data_sets = [
        stored(opened.stores.store, f"a{n}", pupils().slice(0, n % 3 + 1), member=f"T{n}")._replace(size=n << 19)
        for n in range(9)
    ]
    (made,) = tasks(plan(opened.tables, data_sets, APP, 1), data_sets)
    written = list(SparkSteps(spark).write_tables(opened, made))
    assert [each.table for each in written] == [task.table for task in made] == [f"WORK.T{n}" for n in range(9)]
    assert [each.file.rows for each in written] == [n % 3 + 1 for n in range(9)]
