"""Tables of all data sets, of all files, and of the quality of reception. They do not depend on Spark.

The driver plans, any process writes, and the driver commits. `application` names the pipeline. `transaction` is the
number of the batch; it grows, and a table takes each transaction only once:

    plans = plan(tables, data_sets, application, transaction)
    written = [write(task, tables, content) for each in plans for task in each.tasks]
    for table, rows, warnings in commit(plans, written, tables, application, transaction): ...
    append(tables, FILES, file_rows(files), application, transaction)
    append(tables, QUALITY, quality_rows(increments), application, transaction)

Tasks are plain data that can be pickled. `file_rows` takes pairs of an `AttachmentRecord` and its `Finished`;
`summed(tables.rows(QUALITY))` reads the quality.
"""

from app.model.names import FILES, table_name
from app.pipeline.commit.tables.files_table import file_rows, with_finished_at
from app.pipeline.commit.tables.table_building import (
    CommittedTable,
    DataSet,
    TablePart,
    TablePlan,
    TableTask,
    Written,
    append,
    commit,
    plan,
    plan_again,
    write,
)
from app.tables.quality import QUALITY, Increment, hour_of, quality_rows, summed

__all__ = [
    "FILES",
    "QUALITY",
    "CommittedTable",
    "DataSet",
    "Increment",
    "TablePart",
    "TablePlan",
    "TableTask",
    "Written",
    "append",
    "commit",
    "file_rows",
    "hour_of",
    "plan",
    "plan_again",
    "quality_rows",
    "summed",
    "table_name",
    "with_finished_at",
    "write",
]
