"""The markers of tests and their order, the one Spark session of all tests, and logging as it was before each."""

import gc
import logging
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any

import httpx
import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from app.pipeline.job.spark_session import SparkSettings, session
from tests.support import azurite, brief_java, length, object_server
from tests.support.mosquitto import free_port
from tests.support.postgresql import Cluster, binaries, running_cluster, running_postgresql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # which takes half a second to load, and most tests go without

ROOT = Path(__file__).parents[1]

# A client reads the certificates of all authorities when it is made, which takes longer than most tests do.
pytest.MonkeyPatch().setattr("httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context))

os.environ["SPARK_SUBMIT_OPTS"] = brief_java.OPTIONS
os.environ.pop("COLUMNS", None)  # a worker process has one, and commands then print no wider


# How long an example takes says more about the machine than about the program. Each run draws other examples.
for name, examples in (("short", 30), ("long", 1000)):
    hypothesis.settings.register_profile(
        name, deadline=None, max_examples=examples, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )

STARTED_BY = {
    "broker": {"broker", "lasting", "library", "mq", "troubled"},
    "browser": {"browser"},
    "database": {"postgresql"},
    "process": {"azure", "gateway", "object_store", "small_disk", "storage_of_all"},
    "spark": {"spark"},
}
"""The fixtures that start programs, by the marker of the tests that use them."""

_OF_SPARK = re.compile("SparkSession|FramingContract")
"""What is in each file whose tests use the fixture `spark`."""

TOOK = "tests/took"
"""Where pytest's cache has the seconds that each file took."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--real-files",
        metavar="FOLDER",
        help="compare what we and others read in the .xpt and .sas7bdat files of this folder, and print a table",
    )
    parser.addoption("--seconds", type=float, help="run tests in the order given, and skip those after so many seconds")
    parser.addoption(
        "--long",
        action="store_true",
        help="kill, damage and draw hundreds of times where a few times are the rule, which takes hours for all tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until everything is collected: nothing of it is garbage
    length.IS_LONG = config.getoption("long")
    hypothesis.settings.load_profile("long" if length.IS_LONG else "short")


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of all further searches for garbage."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by what it starts, and begin with the longest files, so that no worker is left alone with one."""
    for item in items:
        if length.IS_LONG:
            item.add_marker(pytest.mark.timeout(0), append=False)
        fixtures = set(getattr(item, "fixturenames", ()))
        for marker in [marker for marker, starting in STARTED_BY.items() if fixtures & starting]:
            item.add_marker(marker)
        if not any(map(item.get_closest_marker, STARTED_BY)):
            item.add_marker("unit")
        if item.get_closest_marker("spark") and not _is_of_spark(_file(item.nodeid)):
            raise pytest.UsageError(f"{item.nodeid} uses Spark, and its file does not say so (tests/conftest.py)")
    if config.getoption("seconds"):
        return
    cache = getattr(config, "cache", None)
    took = cache.get(TOOK, {}) if cache else {}
    dear = {_file(item.nodeid) for item in items if not item.get_closest_marker("unit")}

    def place(item: pytest.Item) -> tuple[bool, bool, float, str]:
        file = _file(item.nodeid)
        return not item.get_closest_marker("spark"), file not in dear, -took.get(file, 0), file

    items.sort(key=place)


_took: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _took[_file(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    cache = getattr(session.config, "cache", None)
    if cache and not hasattr(session.config, "workerinput"):
        cache.set(TOOK, cache.get(TOOK, {}) | {file: round(seconds, 1) for file, seconds in _took.items()})


@cache
def _end(seconds: float) -> float:
    """Return when so many seconds are over, counted from the first test."""
    return monotonic() + seconds


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("seconds")
    if seconds and monotonic() > _end(seconds):
        pytest.skip(f"{seconds:g} seconds are over")


_running: list[pytest.Item] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running[:] = [item]
    return (yield)


def _watch(event: str, _arguments: object) -> None:
    """Refuse to start a program for a test that says it starts none."""
    if event in {"subprocess.Popen", "os.fork", "os.posix_spawn"} and _running:
        item = _running[0]
        if item.get_closest_marker("unit"):
            raise RuntimeError(f"{item.nodeid} starts a program: give it another marker (tests/conftest.py)")


sys.addaudithook(_watch)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each file to one worker process, and all files of Spark to the same one: starting Java takes long."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if _is_of_spark(_file(nodeid)) else _file(nodeid)


@cache
def _is_of_spark(file: str) -> bool:
    """Tell whether tests of a file use the fixture `spark`, as far as its text shows. Groups of xdist would do, but the
    process that divides the tests among the others gets their names alone."""
    return _OF_SPARK.search((ROOT / file).read_text()) is not None


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
    port = free_port()
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
    port = free_port()
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
def postgresql() -> Iterator[Path]:
    """The folder of a PostgreSQL server."""
    if (programs := binaries()) is None:
        pytest.skip("PostgreSQL's programs (initdb, postgres) are not installed")
    with running_postgresql(programs) as folder:
        yield folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server that the tests of a module may stop."""
    if (programs := binaries()) is None:
        pytest.skip("PostgreSQL's programs (initdb, postgres) are not installed")
    with running_cluster(programs) as running:
        yield running


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
        conf={
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        },
    )
    session_ = session("tests", settings)
    yield session_
    session_.stop()
