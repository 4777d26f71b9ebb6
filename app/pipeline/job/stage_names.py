"""Names for Spark's jobs, which its web interface and its event log show."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.pipeline.job.spark_session import is_connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION = "spark.job.description"


@contextmanager
def described(spark: "SparkSession", description: str) -> Iterator[None]:
    """Give the jobs that this thread starts in the block a description. The one before it returns afterwards.

    A client of Spark Connect cannot set it; the block then runs without.
    """
    if is_connected(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, description)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]
