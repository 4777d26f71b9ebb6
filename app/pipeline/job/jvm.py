"""The Java process of a Spark session: how it is started, and which of its output is passed on."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from app.model.errors import GatewayError
from app.pipeline.job.java import java_home

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

_LOGGING = Path(__file__).with_name("spark-log4j2.properties")
_LINES_KEPT = 1000
_LAST_SECONDS = 2.0
"""How long the last output of a process that has ended may take: its workers may still have the pipe."""
_CHATTER = re.compile(
    r"\s*$"
    r"|Streaming TransformWithState\w* Python worker "
    r"|Starting Streaming TransformWithState"
    r"|Current mem limits: |Setting mem limits to "
    r"|WARNING: Using incubator modules: "
    r"|WARNING: package \S+ not in java\.base"
    r"|\S+Z \[warn ?\] Block \S+ already exists on this machine; not re-adding it"
    r"|Traceback \(most recent call last\):\n(?:  File \"\S*pyspark/daemon\.py\".*\n(?:    .*\n)*)+BrokenPipeError: "
)
"""Output without information. When two tasks make a cached block at the same time, Spark keeps one, and logs it. The
last pattern is how idle Python workers end with their session; from Python 3.13 on, with lines of their source."""
_RECORD = re.compile(r"\d{4}-\d\d-\d\dT\S+Z \[")
_OUTSIDE = re.compile(r"[{#]|Traceback ")
"""Lines that begin a record of Java's log, and lines of others that may follow: of a worker's log, of a crash of Java,
of a worker's traceback. All other lines after a record belong to it: they are a stack trace."""
_ADVICE = re.compile(r" Consider setting 'spark\.\S+' or ?'spark\.\S+' configuration to \S+ for the better.*")


def started_by_submit() -> bool:
    """Tell whether spark-submit has started this process, so that there is a Java process already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def logging_option() -> str:
    """Return the option by which Java logs as the gateway does: warnings, to standard error."""
    return f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"


class JavaExit(NamedTuple):
    """The end of a Java process: its exit status, negative for the number of a signal, and its last output."""

    status: int
    last: str

    @property
    def how(self) -> str:
        """Return how it ended, as the predicate of a sentence."""
        if self.status < 0:
            return f"was killed ({signal.Signals(-self.status).name})"
        return f"ended with status {self.status}"


def ended(seconds: float = 0) -> JavaExit | None:
    """Return how the Java process of this process's session ended, after waiting for its end for some seconds.

    Return None if it still runs, or if spark-submit has started it.
    """
    from pyspark import SparkContext  # noqa: PLC0415

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    return JavaExit(status, "" if _started is None else _started.last())


def start(conf: Mapping[str, str]) -> "JavaGateway":
    """Return the connection to the Java process: spark-submit's, an earlier session's, or a new one's.

    A new process gets these settings and ends with this process. Its output goes to standard error, without lines that
    contain no information. Raises GatewayError if it does not start.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:
        return SparkContext._gateway
    if started_by_submit():
        return launch_gateway()
    os.environ["JAVA_HOME"] = str(java_home())
    global _started  # noqa: PLW0603 - a process has one Java, as PySpark does
    output = _started = _Output()
    given = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    try:
        return launch_gateway(given, {"stdout": output.write_end, "stderr": output.write_end})
    except PySparkRuntimeError as failed:
        output.close()
        raise GatewayError(f"Spark's Java process did not start. Its last output:\n{output.last()}") from failed
    finally:
        output.close()


class _Output:
    """The output of the Java process, which a thread reads line by line."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._open = True
        self._thread = threading.Thread(target=self._pass_on, name="spark-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the write end, when the Java process has its own copy or has not started."""
        if self._open:
            self._open = False
            os.close(self.write_end)

    def last(self) -> str:
        """Return the last lines of a process that has ended."""
        self._thread.join(_LAST_SECONDS)
        return "".join(self._lines.copy())

    def _pass_on(self) -> None:
        with os.fdopen(self._read_end, encoding="utf-8", errors="replace") as lines:
            is_of_record = False
            for line in sentences(lines):
                self._lines.append(line)
                is_of_record = bool(_RECORD.match(line)) or (is_of_record and not _OUTSIDE.match(line))
                if not _CHATTER.match(line) and (_RECORD.match(line) or not is_of_record):
                    sys.stderr.write(_ADVICE.sub("", line))


_started: _Output | None = None


def sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, with the lines of a Python traceback joined."""
    held = ""
    for line in lines:
        if not held and not line.startswith("Traceback "):
            yield line
            continue
        held += line
        if held != line and not line.startswith(" "):
            yield held
            held = ""
    if held:
        yield held
