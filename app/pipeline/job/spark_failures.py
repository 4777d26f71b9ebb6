"""Failures of Spark as sentences: the cause, and what to do. The whole traceback goes to a file.

Spark reports a failure as a text of many lines from Java and from Python workers. The cause is recognised by words in
it, and by the end of the Java process.
"""

import re
import shutil
import signal
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from app.model.errors import GatewayError
from app.pipeline.job.jvm import JavaExit

LOG = "pipeline-error.log"
"""The file with the traceback of the last failure."""

FULL_BELOW = 1 << 20
"""A disk with less free space (bytes) is reported as full."""

_AGAIN = "then run the command again; it continues, and commits nothing twice"
_FREE_SPACE = f"Free space there, {_AGAIN}."


class Explained(NamedTuple):
    """A failure for people: one sentence with the cause, and one that says what to do."""

    why: str
    hint: str


class _Cause(NamedTuple):
    words: re.Pattern[str]
    why: str
    hint: str


def _cause(words: str, why: str, hint: str) -> _Cause:
    return _Cause(re.compile(words), why, hint)


_CAUSED_BY = re.compile(r"^Caused by: (.+)", re.MULTILINE)
_LATE_WORKER = "Python worker failed to connect back"
_NO_SPACE = re.compile(r"[Nn]o space (?:is )?left|disk is full|Disk quota exceeded")
_CAUSES = (
    _cause(
        r"is bigger than spark\.driver\.maxResultSize",
        "the results of this batch are larger than spark.driver.maxResultSize",
        f"Set --conf spark.driver.maxResultSize=4g and more heap (--memory), {_AGAIN}.",
    ),
    _cause(
        r"java\.lang\.OutOfMemoryError",
        "Java has too little memory",
        f"Give it more, such as --memory 4g (on a cluster also spark.executor.memory), {_AGAIN}.",
    ),
    _cause(
        r"\bMemoryError\b|std::bad_alloc|ArrowMemoryError|Cannot allocate memory|[Cc]an't allocate memory"
        r"|failed to map segment from shared object|can't start new thread",
        "a Python worker has too little memory",
        "Use fewer cores (--master 'local[2]'), or raise spark.executor.memoryOverhead and "
        f"spark.executor.pyspark.memory, {_AGAIN}.",
    ),
    _cause(
        _LATE_WORKER,
        "a Python worker of Spark did not start in time",
        f"Leave the machine more processor time, or use fewer cores (--master 'local[2]'), {_AGAIN}.",
    ),
    _cause(
        r"Python worker exited unexpectedly|EOFException.*PythonRunner",
        "a Python worker of Spark was killed or crashed",
        "The system kills it when memory runs out: use fewer cores (--master 'local[2]'), or raise "
        f"spark.executor.memoryOverhead, {_AGAIN}.",
    ),
    _cause(
        r"ExecutorLostFailure|exit code 137|OOMKilled",
        "Spark lost an executor",
        "A container is killed when it takes more than its memory: raise spark.executor.memoryOverhead (512 MiB per "
        f"core), {_AGAIN}.",
    ),
)


def explain(error: BaseException, ended: JavaExit | None, places: Mapping[str, str]) -> Explained:
    """Return the cause of a failed run, and what to do.

    `ended` is how the Java process ended, None if it still runs. `places` are the folders that Spark itself writes
    to, by what is in them; those on a full disk are named.
    """
    text = _whole_text(error)
    ours = str(error) if isinstance(error, GatewayError) else _of_the_gateway(text)
    if ours is not None:
        return Explained(ours, _FREE_SPACE if _NO_SPACE.search(ours) else "")
    if ended is not None:
        return _of_java(ended)
    if _NO_SPACE.search(text):
        full = [f"{what} ({place})" for what, place in places.items() if _is_full(place)]
        return Explained(f"no space is left for {' and '.join(full) or 'files of Spark'}", _FREE_SPACE)
    for words, why, hint in _CAUSES:
        if words.search(text):
            return Explained(why, hint)

    # Java's reason comes after a line that only names the call.
    _, of_java, raised = text.partition("\n: ")
    first = (raised if of_java else text).partition("\n")[0].strip()
    cause = _CAUSED_BY.search(text)
    return Explained(cause[1] if first.endswith(":") and cause else first, "")


def is_late_worker(error: BaseException) -> bool:
    """Tell whether Spark failed because a Python worker did not start in time. Nothing is wrong but that the machine is
    busy: Spark waits 10 seconds for the worker of a stream's source, whatever its settings say."""
    return _LATE_WORKER in _whole_text(error)


def _whole_text(error: BaseException) -> str:
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        texts += [str(seen), str(getattr(seen, "_stackTrace", None) or "")]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(texts).strip()


def keep_traceback(error: BaseException, ended: JavaExit | None, folder: Path) -> Path | None:
    """Write the traceback of a failure, and the last output of Java, to a file in a folder. Return its path.

    The file replaces that of an earlier failure. If the folder cannot be written, the file is in the system's temporary
    folder; None if that is full as well.
    """
    lines = [f"{datetime.now(UTC).isoformat(timespec='seconds')}\n", *traceback.format_exception(error)]
    if stack := getattr(error, "_stackTrace", None):
        lines += ["\nJava's stack trace:\n", str(stack), "\n"]
    if ended is not None:
        lines += [f"\nThe Java process {ended.how}. Its last output:\n", ended.last]
    for place in (folder, Path(tempfile.gettempdir())):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            path = place / LOG
            path.write_text("".join(lines), encoding="utf-8", errors="backslashreplace")
            return path.absolute()
    return None


def _of_the_gateway(text: str) -> str | None:
    """Return the message of this program's own error that a task or a micro-batch raised."""
    kinds = [GatewayError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    found = re.search(rf"\b(?:{'|'.join(kind.__name__ for kind in kinds)}): (.+)", text)
    return found[1].strip() if found else None


def _of_java(ended: JavaExit) -> Explained:
    why = f"Spark's Java process {ended.how}"
    if "OutOfMemoryError" in ended.last or "insufficient memory" in ended.last:
        return Explained(f"{why}: it had too little memory", f"Give it more, such as --memory 4g, {_AGAIN}.")
    if ended.status == -signal.SIGKILL:
        hint = "The system kills it when memory runs out: allow this machine or container more, or use fewer cores"
        return Explained(why, f"{hint} (--master 'local[2]') and less heap (--memory 1g), {_AGAIN}.")
    return Explained(why, f"Read its last output in the log, {_AGAIN}.")


def _is_full(place: str) -> bool:
    path = Path(place.removeprefix("file://"))
    while not path.exists() and path != path.parent:
        path = path.parent
    with suppress(OSError):
        return shutil.disk_usage(path).free < FULL_BELOW
    return False
