"""A Spark session with settings that follow from measurements (docs/spark-operating.md gives the reasons).

The user's settings take precedence: an existing session is used unchanged, and settings of spark-submit,
spark-defaults.conf or `--conf` are kept. This module only chooses settings that nobody has set.
"""

import atexit
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from app.model.errors import GatewayError
from app.pipeline.job import jvm
from app.plugins import how_to_install

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

ARROW_ROWS = 1024
"""Rows of an Arrow batch between Java and Python. References take half the time of batches of 128 rows, and three
quarters of the time of Spark's own 10,000."""

BRIEF_JAVA = "-XX:TieredStopAtLevel=1"
"""Options of a Java that runs one batch: it goes without the second compiler, which would take more time than it
saves."""

DESCRIPTION = "spark.job.description"

_COLLECTOR = "-XX:+UseParallelGC"
"""The garbage collector of Java on this machine. Java's own choice, G1, works while the program does, and so takes time
from the Python workers, which do the work."""
_END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""Java ends when its heap is full. A thread of Spark that fails alone may leave the run waiting for ever."""
_ANY_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""The environment variables from which Java takes options: it does not start with two collectors."""

_LOCAL_CORES = re.compile(r"local(?:\[(\d+|\*)\])?")
"""A master on this machine that does not say how often a task may fail. Spark's own number is once."""
_CONNECT_PARTITIONS = 16
"""Tasks of a shuffle on a server whose cores are not known."""
_LOOPBACK = "127.0.0.1"
_JAVA_TEMPORARY = "java.io.tmpdir"
_MOST_PARTITIONS = 256
_PARTITIONS_PER_CORE = 2
_HEAP_SHARE, _LEAST_HEAP, _MOST_HEAP = 4, 1 << 30, 4 << 30
_CONTROL_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_STATE_STORE = "spark.sql.streaming.stateStore"

_CHOSEN = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",  # the shuffles are of known sizes, and each stage would be planned anew
    "spark.python.daemon.module": "app.pipeline.run.worker_daemon",
    # Workers of sources and of steps would have daemons of their own, because of this variable in their environment.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.python.authenticate.socketTimeout": "60s",  # Spark's 15 s are too short for a worker on a busy machine
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
_CHOSEN_LOCALLY = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The Spark settings of a run. The others come from spark-submit, or are chosen here.

    `memory` is the heap of Java on this process's machine ("2g"). `partitions` is the number of tasks of a shuffle.
    `conf` has any of Spark's own settings, which take precedence over all others.
    """

    master: str | None = None
    memory: str | None = None
    partitions: int | None = None
    arrow_rows: int = ARROW_ROWS
    ui: bool = False
    java_options: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def connect(self) -> str | None:
        """Return the address of a Spark Connect server, None if Spark runs with this process."""
        master = self.conf.get("spark.master") or self.master or ""
        return master if master.startswith("sc://") else None

    @property
    def local(self) -> bool:
        """Return whether the executors are on this machine, in processes that Spark starts."""
        master = self.conf.get("spark.master") or self.master or "local"
        return not jvm.started_by_submit() and master.startswith("local")


def session(name: str, settings: SparkSettings | None = None) -> "SparkSession":
    """Return the active session, or else a new one with this name.

    Raises GatewayError, which says what to install, if PySpark or a suitable Java is missing.
    """
    found = active()
    if found is not None:
        return found

    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an extra, and slow to import
    from pyspark.sql import SparkSession  # noqa: PLC0415

    settings = settings or SparkSettings()
    if settings.connect is not None:
        return _connected(settings.connect, settings)
    if settings.local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    gateway = jvm.start(_for_java(settings, name))
    _quieten()
    conf = SparkConf(_jvm=gateway.jvm)
    _settle(conf, settings, name)
    context = SparkContext(conf=conf, gateway=gateway)
    # The server of accumulators would print a traceback when Java has gone.
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    if settings.local:
        threading.Thread(target=_start_workers, args=[context], name="spark-workers", daemon=True).start()
    spark = SparkSession.builder.getOrCreate()
    if not conf.contains(_SHUFFLE_PARTITIONS):
        cores = spark.sparkContext.defaultParallelism
        spark.conf.set(_SHUFFLE_PARTITIONS, min(_PARTITIONS_PER_CORE * cores, _MOST_PARTITIONS))
    return spark


def _start_workers(context: "SparkContext") -> None:
    """Run a task that does nothing, so that Spark's Python workers start while the first real work is planned."""
    with suppress(Exception):  # the session may end meanwhile; if workers cannot start, the first real task says why
        context.parallelize([0], 1).foreach(lambda _: None)


def is_connected(spark: "SparkSession") -> bool:
    """Tell whether a session is one of Spark Connect: it has no Spark context in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


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


def _connected(address: str, settings: SparkSettings) -> "SparkSession":
    """Return a session of a Spark Connect server, with the settings that a client may choose."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(settings.arrow_rows),
        _SHUFFLE_PARTITIONS: str(settings.partitions or _CONNECT_PARTITIONS),
        **settings.conf,
    }
    conf.pop("spark.master", None)
    try:
        builder = SparkSession.builder.remote(address)
        for key, value in conf.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except ImportError as missing:
        how = how_to_install("grpc")
        raise GatewayError(f"Spark Connect needs further libraries: {how} ({missing})") from missing


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """Return settings written as `key=value`. Raises ValueError for any other text."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{text!r} is not a setting; write key=value")
        found[key.strip()] = value.strip()
    return found


def active() -> "SparkSession | None":
    """Return the active session, if any. Raises GatewayError if PySpark is missing."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise GatewayError(f"Spark needs the library {missing.name!r}: {how_to_install('pyspark')}") from missing
    return SparkSession.getActiveSession()


def _quieten() -> None:
    """Disable logs of closed connections, and of errors that PySpark also raises, each with a Java stack trace."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    # py4j logs connections that Java has closed with the root logger.
    logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _for_java(settings: SparkSettings, name: str) -> dict[str, str]:
    """Return the settings that Java needs at its start."""
    conf = {"spark.ui.showConsoleProgress": "false", **_chosen_by_user(settings, name)}
    memory = settings.memory or (_heap() if settings.local else None)
    if memory:
        conf.setdefault("spark.driver.memory", memory)
    options = [settings.java_options, conf.get("spark.driver.extraJavaOptions", "")]
    if settings.local and not any(_JAVA_TEMPORARY in option for option in options):
        # A Java that is killed leaves native libraries, artifacts and blocks there.
        options.insert(0, f"-D{_JAVA_TEMPORARY}={_temporary_folder()}")
    chosen = [*options, *(os.environ.get(name, "") for name in _JAVA_VARIABLES)]
    if settings.local and not any(map(_ANY_COLLECTOR.search, chosen)):
        options.insert(0, _COLLECTOR)
    conf["spark.driver.extraJavaOptions"] = " ".join(
        filter(None, [jvm.logging_option(), _END_WITHOUT_MEMORY, *options])
    )
    return conf


def _settle(conf: "SparkConf", settings: SparkSettings, name: str) -> None:
    chosen = dict(_CHOSEN)
    chosen["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(settings.arrow_rows)
    chosen["spark.python.unix.domain.socket.enabled"] = str(hasattr(socket, "AF_UNIX")).lower()
    if settings.local:
        chosen |= _CHOSEN_LOCALLY
        chosen["spark.python.unix.domain.socket.dir"] = _temporary_folder()
        chosen["spark.ui.enabled"] = str(settings.ui).lower()
        conf.set("spark.master", _retrying(settings.master or conf.get("spark.master") or "local[*]"))
    for key, value in chosen.items():
        conf.setIfMissing(key, value)
    for key, value in _chosen_by_user(settings, name).items():
        conf.set(key, value)


def _chosen_by_user(settings: SparkSettings, name: str) -> dict[str, str]:
    """Return the user's settings, and the name unless spark-submit has given one."""
    chosen = {} if jvm.started_by_submit() else {"spark.app.name": name}
    if settings.master:
        chosen["spark.master"] = _retrying(settings.master)
    if settings.partitions:
        chosen[_SHUFFLE_PARTITIONS] = str(settings.partitions)
    return {**chosen, **settings.conf}


def _retrying(master: str) -> str:
    """Return a master of this machine with one retry for each task: a worker may have been killed."""
    found = _LOCAL_CORES.fullmatch(master)
    return f"local[{found[1] or 1},2]" if found else master


def _temporary_folder() -> str:
    """Create a folder that is deleted when this process ends. Spark leaves files in it, such as sockets of killed
    tasks."""
    folder = tempfile.mkdtemp(prefix="spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _heap() -> str:
    """Return a quarter of this process's memory within limits: Python does the work, and Java only moves references.

    The memory is the machine's, or the limit of its control group.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [Path(limit).read_text() for limit in _CONTROL_GROUP_LIMITS if Path(limit).exists()]
    memory = min([machine, *(int(limit) for limit in limits if limit.strip().isdecimal())])
    return f"{min(max(memory // _HEAP_SHARE, _LEAST_HEAP), _MOST_HEAP) >> 20}m"
