"""A Java that works for some seconds only, without its second compiler.

`python -m tests.support.brief_java` makes a Spark configuration with its options, which all tests use. One of them is
an archive of the classes that Spark loads (class data sharing): with it, Spark starts in about half the time.
"""

import os
import sys
from pathlib import Path

from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, session

FOLDER = Path(sys.prefix) / "spark"
"""The configuration: Spark reads it if SPARK_CONF_DIR names it (tests/conftest.py)."""
_CLASSES = "classes.jsa"
"""The archive. Java ignores it if another Java has made it, or if Spark's files have changed."""
_OPTIONS = f"{BRIEF_JAVA} -Xlog:disable"


def main() -> None:
    """Make the configuration and the archive of the classes that a short job loads, unless they exist."""
    if (FOLDER / "spark-defaults.conf").exists():
        return
    FOLDER.mkdir(exist_ok=True)
    dumping = f"{_OPTIONS} -XX:ArchiveClassesAtExit={FOLDER / _CLASSES}"
    spark = session("classes", SparkSettings("local[2]", "1g", 2, java_options=dumping))
    spark.range(10).mapInArrow(lambda batches: batches, "id long").groupBy("id").count().toArrow()
    gateway = spark.sparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # Java ends with it, and writes the archive then
    gateway.proc.wait(120)
    options = f"{_OPTIONS} -XX:SharedArchiveFile={FOLDER / _CLASSES}"
    making = FOLDER / f"{os.getpid()}.new"
    making.write_text(f"spark.driver.defaultJavaOptions {options}\n")
    making.rename(FOLDER / "spark-defaults.conf")


if __name__ == "__main__":
    main()
