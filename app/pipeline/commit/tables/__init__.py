"""Tables of all data sets, of all files, and of the quality of reception. They do not depend on Spark.

The driver plans, any process writes, and the driver commits. `application` names the pipeline. `transaction` is the
number of the batch; it grows, and a table takes each transaction only once:

    append(tables, QUALITY, quality.schema, quality.to_batches(), application, transaction, marks=True)
    plans = plan(tables, data_sets, application, transaction)
    written = [write(task, tables, content) for some in tasks(plans, data_sets) for task in some]
    for table, rows, warnings in commit(plans, written, tables, application, transaction): ...
    append(tables, FILES, files.schema, files.to_batches(), application, transaction)

The table of quality is the first to take a transaction. So it alone shows whether any table has one.

Tasks are plain data that can be pickled. `file_rows` takes pairs of an `AttachmentRecord` and its `Finished`;
`summed(tables.rows(QUALITY))` reads the quality.
"""

from app.model.names import FILES, table_name
from app.pipeline.commit.tables.files_table import SCHEMA as FILES_SCHEMA
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
    read_schema,
    tasks,
    write,
)
from app.tables.quality import QUALITY, Increment, hour_of, quality_rows, summed

__all__ = [
    "FILES",
    "FILES_SCHEMA",
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
    "read_schema",
    "summed",
    "table_name",
    "tasks",
    "with_finished_at",
    "write",
]
