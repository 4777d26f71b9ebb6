"""The one Spark session of all tests, and their order; and logging as it was before each."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from app.pipeline.job.spark_session import SparkSettings, session
from tests.support import azurite, brief_java, object_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # which takes half a second to load, and most tests go without

ROOT = Path(__file__).parents[1]

os.environ.pop("COLUMNS", None)  # a worker process has one, and commands then print no wider


# How long an example takes says more about the machine than about the program.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

LONGEST = (
    "tests/cli/test_pages.py",
    "tests/test_example_package.py",
    "tests/faults/",
    "tests/end_to_end/",
    "tests/pipeline/",
)
"""Tests that take minutes. They begin first, so that no worker is left alone with one of them at the end."""

SPARK = (
    "tests/adapters/test_azure.py",
    "tests/pipeline/test_conformance.py",
    "tests/pipeline/test_batch.py",
    "tests/pipeline/test_belonging.py",
    "tests/pipeline/test_failures.py",
    "tests/pipeline/test_object_store.py",
    "tests/pipeline/test_session.py",
    "tests/pipeline/test_sources.py",
    "tests/pipeline/test_table_tasks.py",
    "tests/pipeline/tables/test_readers.py",
    "tests/cli/test_pipeline_monitoring.py",
    "tests/cli/test_pipelining.py",
    "tests/cli/test_tables_registered.py",
    "tests/evidence/test_content_in_spark.py",
    "tests/framing/test_contract.py",
    "tests/framing/test_order_packet.py",
    "tests/web/tables/test_iceberg.py",
)
"""Tests of the fixture `spark`. They begin first too, all in one process: starting Java and warming it up is dear.
So is Azurite, which the tests of Azure share."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--real-files",
        metavar="FOLDER",
        help="compare what we and others read in the .xpt and .sas7bdat files of this folder, and print a table",
    )
    parser.addoption(
        "--every-change",
        action="store_true",
        help="in tests/evidence, try every change of what is sent in every dialect, which takes hours",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = {_file(item.nodeid) for item in items if "spark" in getattr(item, "fixturenames", ())}
    if unknown := sorted(files.difference(SPARK)):
        raise pytest.UsageError(f"{', '.join(unknown)}: tests that use Spark belong to SPARK in tests/conftest.py")
    first = (*SPARK, *LONGEST)
    items.sort(key=lambda item: next((at for at, each in enumerate(first) if item.nodeid.startswith(each)), len(first)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one worker process, and the files of SPARK to the same one."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = lambda nodeid: "spark" if _file(nodeid) in SPARK else _file(nodeid)
    return scheduling


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    """Commands send the log to the standard error that they see, which a test has for itself alone."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def object_store_port() -> int:
    """The port at which obstore looks for S3. Spark's workers have the environment of the session's start."""
    port = object_server.free_port()
    os.environ.update(object_server.environment(port))
    return port


@pytest.fixture(scope="session")
def object_store(object_store_port: int) -> Iterator[int]:
    with object_server.serving(object_store_port):
        yield object_store_port


@pytest.fixture
def bucket(object_store: int) -> object_server.Bucket:
    """An empty bucket of a server of S3."""
    return object_server.Bucket(object_store, f"bucket-{token_hex(4)}")


@pytest.fixture(scope="session")
def azurite_port() -> int:
    """The port at which obstore looks for Azure Blob Storage, for Spark's workers, too."""
    port = object_server.free_port()
    os.environ.update(azurite.environment(port))
    return port


@pytest.fixture(scope="session")
def azure(azurite_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with azurite.running_azurite(tmp_path_factory.mktemp("azurite"), azurite_port):
        yield azurite_port


@pytest.fixture
def container(azure: int) -> azurite.Container:
    """An empty container of Azure Blob Storage."""
    return azurite.Container(azure, f"container-{token_hex(4)}")


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, object_store_port: int, azurite_port: int
) -> "Iterator[SparkSession]":
    """A session of two cores and two partitions. A test that needs a data source registers it."""
    folder = tmp_path_factory.mktemp("spark")
    settings = SparkSettings(
        master="local[2]",
        memory="1g",
        partitions=2,
        java_options=brief_java.OPTIONS,
        conf={
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        },
    )
    session_ = session("tests", settings)
    yield session_
    session_.stop()
