"""The process that converts: it takes jobs from a connection, one after the other, until the connection is closed.

For each job it sends any number of pieces of bytes, then the result or the exception. Memory is limited to the initial
memory of the process and a configured amount more. Processor time is limited for each job.
"""

import ctypes
import resource
import signal
import traceback
from collections.abc import Callable, Generator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from app.model.errors import GatewayError

M_ARENA_MAX = -8
FIRST_VICTIM = b"800"
"""The OOM score adjustment: a machine without memory kills a conversion before the gateway."""
PIECE_BYTES = 64 << 10
"""Pieces are gathered until they have this many bytes."""
_PAGE = resource.getpagesize()
_DATA_FIELD = 5


class ConversionTask(NamedTuple):
    """A module's generator function, its arguments, and its limit of processor time in seconds."""

    function: Callable[..., Generator[bytes | memoryview, None, Any]]
    arguments: tuple[Any, ...]
    seconds: int


class ConversionPiece(NamedTuple):
    """Bytes follow as a message of their own."""


class Done(NamedTuple):
    """The job's result. `is_last`: the process takes no other job."""

    result: Any
    is_last: bool


class Failed(NamedTuple):
    """The exception of a job as its parts, since many exceptions cannot be made from their arguments again."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]
    out_of_memory: bool

    @classmethod
    def of(cls, error: BaseException) -> "Failed":
        attributes = {key: value for key, value in vars(error).items() if key != "__notes__"}
        return cls(type(error), error.args, attributes, _is_for_memory(error))

    def error(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.arguments)
        vars(error).update(self.attributes)
        return error


def work(connection: Connection, memory: int) -> None:
    """Do jobs until the other end is closed, or until this process holds much unused memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(FIRST_VICTIM)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

    most = _data_bytes() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(EOFError, OSError), connection:
        while True:
            job: ConversionTask = connection.recv()
            used = resource.getrusage(resource.RUSAGE_SELF)
            seconds = int(used.ru_utime + used.ru_stime) + 1 + job.seconds
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
            outcome = _outcome(job, connection)
            is_last = isinstance(outcome, Failed) and outcome.out_of_memory
            if isinstance(outcome, Done):
                with suppress(AttributeError, OSError):  # another C library
                    ctypes.CDLL(None).malloc_trim(0)
                is_last = _data_bytes() > most - memory // 2
                outcome = outcome._replace(is_last=is_last)
            try:
                connection.send(outcome)
            except (TypeError, AttributeError, ValueError) as error:  # pickle has no better errors
                why = f"the result of a conversion cannot be pickled: {error}: {outcome!r:.500}"
                connection.send(Failed.of(GatewayError(why)))
            if is_last:
                return


def _outcome(job: ConversionTask, connection: Connection) -> Done | Failed:
    try:
        running = job.function(*job.arguments)
        held: list[bytes | memoryview] = []
        size = 0
        while True:
            try:
                piece = next(running)
            except StopIteration as end:
                _send_pieces(connection, held)
                return Done(end.value, is_last=False)
            held.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                _send_pieces(connection, held)
                held, size = [], 0
    except ConnectionError:
        raise
    except BaseException as error:  # noqa: BLE001 - the caller gets every error
        if not isinstance(error, Exception):
            error.add_note(traceback.format_exc())
        return Failed.of(error)


def _send_pieces(connection: Connection, held: list[bytes | memoryview]) -> None:
    data = held[0] if len(held) == 1 else b"".join(held)
    if len(data):
        connection.send(ConversionPiece())
        connection.send_bytes(data)


def _is_for_memory(error: BaseException | None) -> bool:
    """Tell whether a lack of memory caused an error. Libraries and readers raise errors of their own for it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _data_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[_DATA_FIELD]) * _PAGE
    except OSError:  # another system than Linux
        return 0
