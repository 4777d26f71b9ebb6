"""The authorities that the documentation asks the administrator for: they are enough, and none is too much."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from types import ModuleType

import pytest

from adapters.ibm_mq.client import MqiError
from adapters.ibm_mq.connect_options import log_in
from adapters.ibm_mq.sender import MqSender
from adapters.ibm_mq.settings import SourceSettings
from adapters.ibm_mq.source_session import SourceSession, UnitLimit
from adapters.ibm_mq.unit_of_work import InDoubt
from app.framing.registry import traits
from app.ports import DeliveryProgress, SendFailed
from app.testing.collecting_intake import Collector
from app.testing.transport_contract import message
from tests.adapters.ibm_mq.conftest import Place
from tests.support.mqi import load
from tests.support.queue_manager import QueueManager

pytestmark = pytest.mark.broker

PAGE = Path("docs/ibm-mq.md")
COMMAND = re.compile(r"^setmqaut -m QM1 -t (qmgr|queue)(?: -n (\S+))? +-g gateway ((?:\+[a-z]+ ?)+)$", re.MULTILINE)
LIMIT = 2 << 20
THRESHOLD = 2
DEAD_LETTERS = "SYSTEM.DEAD.LETTER.QUEUE"
QUEUES = ("SAS.ATTACHMENTS", "SAS.BACKOUT", "SAS.REQUESTS", "GATEWAY.STATE", DEAD_LETTERS)
ALL = {"receiving", "a_backout_queue", "dead_letters", "depth", "age", "sending", "limits", "sending_once"}

Granted = dict[str, list[str]]


GRANTED: Granted = {name: words.replace("+", "").split() for _, name, words in COMMAND.findall(PAGE.read_text())}
"""The authorities of the commands on the page, by object; the queue manager's own name is empty."""
EACH = [(name, word) for name, words in GRANTED.items() for word in words]


def user_without(name: str, word: str) -> str:
    return f"without {word} {name}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueManager]:
    """A queue manager with a user that may do all that the page says, and one for each authority that lacks it."""
    allowed: dict[str, Granted] = {"gateway": GRANTED}
    for name, word in EACH:
        fewer = [each for each in GRANTED[name] if each != word]
        allowed[user_without(name, word)] = GRANTED | {name: fewer}
    users = dict.fromkeys([*allowed, "admin"], "secret")
    folder = tmp_path_factory.mktemp("queue-manager")
    with QueueManager(folder, users=users, authorities=allowed, max_uncommitted=30) as manager:
        manager.define("SAS.ATTACHMENTS", bothresh=THRESHOLD, boqname="SAS.BACKOUT")
        for queue in ("SAS.BACKOUT", "GATEWAY.STATE"):
            manager.define(queue)
        manager.define("SAS.REQUESTS", maxmsgl=LIMIT)
        yield manager


class Works:
    """What works for a user. Each function tries one thing, and returns whether it did."""

    def __init__(self, library: ModuleType, manager: QueueManager, user: str) -> None:
        self._library, self._manager, self._user = library, manager, user
        self._source = Place(library, manager, "SAS.ATTACHMENTS")
        self._destination = Place(library, manager, "SAS.REQUESTS")
        manager.alter("SAS.BACKOUT", put_enabled=True)

    def all_of_it(self) -> set[str]:
        """The names of the functions below that succeed."""
        return {each for each in sorted(ALL) if self._succeeds(getattr(self, each))}

    def _succeeds(self, tried: Callable[[], bool]) -> bool:
        for queue in QUEUES:
            self._manager.clear(queue)
        with suppress(MqiError, SendFailed):
            return tried()
        return False

    def receiving(self) -> bool:
        self._put()
        return self._receive().bodies() == [message(1).body]

    def a_backout_queue(self) -> bool:
        return self._aside("SAS.BACKOUT")

    def dead_letters(self) -> bool:
        self._manager.alter("SAS.BACKOUT", put_enabled=False)
        return self._aside(DEAD_LETTERS)

    def depth(self) -> bool:
        with closing(self._session()) as session:
            return None not in (session.depth(), session.max_depth())

    def age(self) -> bool:
        self._put()
        with closing(self._session()) as session:
            return session.first_put_time() > 0

    def sending(self) -> bool:
        self._sender().send([message(1)])
        return self._manager.depth("SAS.REQUESTS") > 0

    def limits(self) -> bool:
        sender = self._sender()
        return (sender.max_body(), sender.max_batch()) == (LIMIT, 30)

    def sending_once(self) -> bool:
        sender = self._sender(state_queue="GATEWAY.STATE")
        assert sender.resume("a", None) == 0
        sender.send([message(1), message(2)], DeliveryProgress("a", 0, 1))
        resumed = sender.resume("a", 2)
        sender.forget("a")
        return resumed == 2 and self._manager.depth("GATEWAY.STATE") == 0

    def _put(self) -> None:
        self._source.sender(user="admin", password="secret").send([message(1)])

    def _session(self, intake: Collector | None = None, user: str | None = None) -> SourceSession:
        login = {"user": user or self._user, "password": "secret"}
        settings = SourceSettings.model_validate(self._source.settings(wait=0.01, **login))
        return SourceSession(
            self._library,
            "here",
            traits("sas_queue"),
            settings,
            InDoubt(),
            UnitLimit(10),
            intake or Collector(),
            Event(),
            log_in(settings),
            lambda: None,
        )

    def _receive(self) -> Collector:
        collector = Collector()
        with closing(self._session(collector)) as session:
            while (found := session.wait()) is not None:
                session.run_unit(found)
        return collector

    def _aside(self, queue: str) -> bool:
        self._put()
        for _ in range(THRESHOLD):
            with closing(self._session(user="admin")) as session:
                session.wait()
        self._receive()
        return self._manager.depth(queue) > 0

    def _sender(self, **more: str) -> MqSender:
        return self._destination.sender(user=self._user, password="secret", state_timeout=0, **more)


def test_what_the_page_grants_is_enough(guarded: QueueManager, library: ModuleType) -> None:
    assert {word for _, word in EACH} == {"connect", "inq", "get", "browse", "put", "passall"}
    assert Works(library, guarded, "gateway").all_of_it() == ALL


@pytest.mark.parametrize(("name", "word"), EACH)
def test_nothing_that_the_page_grants_is_too_much(guarded: QueueManager, name: str, word: str) -> None:
    assert Works(load("pymqi"), guarded, user_without(name, word)).all_of_it() < ALL
