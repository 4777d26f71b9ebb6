"""The fixture of Spark, as a plugin of pytest: `pytest_plugins = ["app.testing.fixtures"]` in a conftest.py."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.pipeline.job.spark_session import SparkSettings, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Start Spark in this process, with two cores; skip the test where Spark is not installed."""
    pytest.importorskip("pyspark")
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    started = session("tests", SparkSettings(master="local[2]", memory="1g", partitions=2, conf=conf))
    yield started
    started.stop()
