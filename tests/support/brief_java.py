"""A Java that works for some seconds only, without its second compiler.

`python -m tests.support.brief_java` makes an archive of the classes that Spark loads (class data sharing), which all
tests use: with it, Spark starts in about half the time.
"""

import os
import sys
from pathlib import Path

from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, session

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
"""Java ignores it if another Java has made it, if Spark's files have changed, or if there is a SPARK_CONF_DIR: a folder
where Java looks for classes must have no files."""
_BRIEF = f"{BRIEF_JAVA} -Xlog:disable"
OPTIONS = f"{_BRIEF} -XX:SharedArchiveFile={ARCHIVE}"
"""The value of SPARK_SUBMIT_OPTS with which Spark starts such a Java (tests/conftest.py)."""


def main() -> None:
    """Make the archive of the classes that a short job and a short stream load, unless it exists."""
    if ARCHIVE.exists():
        return
    making = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_BRIEF} -XX:ArchiveClassesAtExit={making}"
    spark = session("classes", SparkSettings("local[2]", "1g", 2))
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).mapInArrow(lambda batches: batches, "id long").groupBy("id").count().toArrow()
    rates = spark.readStream.format("rate").load().groupBy("value").count()
    query = rates.writeStream.format("noop").outputMode("update").trigger(availableNow=True).start()
    query.awaitTermination()
    gateway = spark.sparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # Java ends with it, and writes the archive then
    gateway.proc.wait(600)
    making.rename(ARCHIVE)


if __name__ == "__main__":
    main()
