"""What IBM MQ documents of the MQI, asked of a queue manager through the real pymqi and the real ibmmq.

The queue manager is the test double, unless MQ_QUEUE_MANAGER names a real one (docs/conformance-ibm-mq.md).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from adapters.ibm_mq.client import import_library
from tests.conformance.calls import Session
from tests.conformance.target import MODEL, Defined, Dynamic, Lent, Queues, Target, libraries
from tests.support import mqi
from tests.support.mqi import Library
from tests.support.queue_manager import QueueManager

REAL = "MQ_QUEUE_MANAGER" in os.environ


@pytest.fixture(scope="session", params=libraries())
def library(request: pytest.FixtureRequest) -> Library:
    name: Library = request.param
    return name


@pytest.fixture(scope="session")
def mq(library: Library) -> ModuleType:
    """pymqi or ibmmq."""
    if REAL:
        loaded: ModuleType = import_library(library)
        return loaded
    return mqi.load(library)


@pytest.fixture
def c(mq: ModuleType) -> ModuleType:
    """The constants of the MQI."""
    constants: ModuleType = mq.CMQC
    return constants


@pytest.fixture(scope="session")
def shared_double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueManager | None]:
    if REAL:
        yield None
        return
    with QueueManager(tmp_path_factory.mktemp("queue_manager")) as double:
        yield double


@pytest.fixture(scope="session")
def target(library: Library, mq: ModuleType, shared_double: QueueManager | None) -> Target:
    if shared_double is not None:
        return of_double(library, mq, shared_double)
    return Target(
        library,
        mq,
        os.environ["MQ_QUEUE_MANAGER"],
        os.environ.get("MQ_CHANNEL", "DEV.APP.SVRCONN"),
        os.environ.get("MQ_CONNECTION", "localhost(1414)"),
        os.environ.get("MQ_USER"),
        os.environ.get("MQ_PASSWORD", ""),
        environment=dict(os.environ),
    )


def of_double(library: Library, mq: ModuleType, double: QueueManager) -> Target:
    return Target(
        library,
        mq,
        double.name,
        double.channel,
        double.connection_name,
        double=double,
        environment=mqi.environment(library),
    )


@pytest.fixture(scope="session")
def queues(shared_double: QueueManager | None) -> Queues:
    if shared_double is not None:
        return Defined(shared_double)
    if names := os.environ.get("MQ_QUEUES"):
        return Lent(names.split(","))
    return Dynamic(os.environ.get("MQ_MODEL_QUEUE", MODEL))


@pytest.fixture
def double(shared_double: QueueManager | None) -> QueueManager:
    """The double, for tests that define, disturb or look closely."""
    if shared_double is None:
        pytest.skip("needs to define objects on the queue manager, to disturb it or to see who waits")
    return shared_double


@pytest.fixture
def own(library: Library, mq: ModuleType, tmp_path: Path) -> Iterator[Callable[..., Target]]:
    """Starts a double for one test alone, with its options: one that may be killed, restarted or quiesced."""
    if REAL:
        pytest.skip("needs a queue manager of its own, to stop or to configure")
    with ExitStack() as running:

        def start(**options: Any) -> Target:
            return of_double(library, mq, running.enter_context(QueueManager(tmp_path, **options)))

        yield start


@pytest.fixture
def connect(target: Target) -> Iterator[Callable[..., Session]]:
    """Makes sessions, which end with the test."""
    made: list[Session] = []

    def start(options: int | None = None, to: Target = target, **changes: Any) -> Session:
        made.append(Session(to.mq, to.connect(options, **changes)))
        return made[-1]

    yield start
    for session in made:
        with suppress(session.mq.MQMIError, session.mq.PYIFError):
            session.connection.disconnect()


@pytest.fixture
def session(connect: Callable[..., Session]) -> Session:
    return connect()


@pytest.fixture
def new_queue(target: Target, queues: Queues) -> Iterator[Callable[..., str]]:
    """Gives names of empty local queues; with attributes only on the double."""
    connection = target.connect()

    def new(**attributes: Any) -> str:
        return queues.new(target.mq, connection, attributes)

    yield new
    if isinstance(queues, Dynamic):
        queues.drop(target.mq)
    connection.disconnect()


@pytest.fixture
def queue(new_queue: Callable[..., str]) -> str:
    """The name of an empty local queue."""
    return new_queue()


@pytest.fixture
def permanent_queue(queue: str, session: Session, c: ModuleType) -> str:
    """The name of an empty local queue that takes persistent messages."""
    if session.open(queue, c.MQOO_INQUIRE).inquire(c.MQIA_DEFINITION_TYPE) == c.MQQDT_TEMPORARY_DYNAMIC:
        pytest.skip("needs a queue that takes persistent messages, and has a temporary one")
    return queue
