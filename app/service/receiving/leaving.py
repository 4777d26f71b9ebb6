"""Leaving: a receiver that goes for good takes what brokers keep for it alone, and ends its sessions there.

A broker chooses a member of a group of subscribers for each message. What it has chosen for a member is in that
member's session, and gone with it. So a session must be emptied before it ends. A client asks for that, at any process;
the catalog has the request.

- A receiver that is asked to leave stops to receive and ends its own sessions.
- For one that has not been seen for a minute another one does so, which has the same sources. What it takes is in its
  own journal before it is acknowledged. A lease saves useless work of several. It is not needed for safety: a broker
  has one connection for each session, and gives what was not acknowledged to the next one.
- A receiver that comes back joins, and the request is over. If both use its session for a moment, some messages come
  twice, as after any broken connection, and assembly recognises them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import Final

from app.model.errors import GatewayError
from app.observe import logger
from app.ports import HeldLease, Intake, Receiver, Session
from app.ports.catalog.shared_journal import ReceivingJournal
from app.service.context import ServiceContext
from app.service.threads import Worker, together

LEAVING: Final = "leaving"
"""The lease of the receiver that ends the sessions of others."""
LEASE_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0

log = logger(__name__)


class _Ending:
    """Ends the sessions of a receiver in a thread of its own, until `stop` is set."""

    def __init__(self, of: ReceivingJournal, sessions: Sequence[tuple[Session, Intake]]) -> None:
        self.of, self.stop, self.is_done = of, Event(), False
        self._sessions = sessions
        self._worker = Worker("end sessions", self._run)
        self._worker.start()

    @property
    def is_running(self) -> bool:
        return self._worker.alive

    def join(self) -> None:
        self._worker.join(STOP_SECONDS)

    def _run(self) -> None:
        self.is_done = all(together(lambda each: each[0].end(each[1], self.stop), self._sessions))


class Leaving:
    """Does what clients have asked of the receiver with the journal `own`, and of others that are away.

    `receives` tells whether one of the receivers still runs, and `ending` ends them. `intake` returns the intake of a
    source.
    """

    def __init__(
        self,
        context: ServiceContext,
        own: str,
        receivers: Mapping[str, Receiver],
        intake: Callable[[str], Intake],
        receives: Callable[[], bool],
        ending: Event,
    ) -> None:
        self._context, self._catalog, self._own = context, context.catalog, own
        self._receivers, self._intake, self._receives = receivers, intake, receives
        self._receiving_ends = ending
        self._ending: _Ending | None = None
        self._lease: HeldLease | None = None
        self.is_asked = self.is_empty = False
        """Whether this receiver is to leave, and whether no broker has anything for it any more."""

    def step(self) -> None:
        """Look who is asked to leave, and go on with it. Call it often."""
        if self.is_empty:
            return
        asked = {each.id: each for each in self._catalog.receiving_journals() if each.is_leaving}
        if self._own in asked or self.is_asked:
            self._leave(asked.get(self._own))
        else:
            # What such a receiver has in the place of the archive is published first (`Publisher`).
            away = [each for each in asked.values() if each.is_away and (each.has_left or not each.in_archive)]
            self._replace([each for each in away if each.sessions.keys() <= self._receivers.keys()])

    def stop(self) -> None:
        """Stop the work. A session that has not ended stays as it is."""
        if (ending := self._ending) is not None:
            ending.stop.set()
            ending.join()
        with suppress(GatewayError):  # it ends by itself
            self._release()

    def _leave(self, own: ReceivingJournal | None) -> None:
        """Empty and end the own sessions, once the receivers have ended."""
        if not self.is_asked:
            self.is_asked = True
            log.info("leaving_begun", journal=self._own)
            self._receiving_ends.set()
        ending = self._ending
        if ending is not None and ending.of.id != self._own:  # another receiver goes on with it
            ending.stop.set()
        if self._receives() or (ending is not None and ending.is_running):
            return
        self._release()
        self.is_empty = ending is not None and ending.of.id == self._own and ending.is_done
        if own is None:  # it has joined again, as it was forgotten meanwhile
            self._catalog.ask_to_leave(self._own)
        elif not self.is_empty:
            self._ending = self._begin(own)

    def _replace(self, away: Sequence[ReceivingJournal]) -> None:
        """End the sessions of a receiver that is away, and forget it."""
        if (ending := self._ending) is None:
            if away and (lease := self._catalog.take_lease(LEAVING, self._context.instance, LEASE_SECONDS)) is not None:
                self._lease, self._ending = lease, self._begin(away[0])
            return
        is_mine = self._lease is not None and self._catalog.renew_lease(self._lease, LEASE_SECONDS)
        if not is_mine or ending.of.id not in {each.id for each in away}:
            ending.stop.set()
        if ending.is_running:
            return
        if ending.is_done and self._catalog.leave(ending.of.id, if_asked=True):
            log.info("receiver_left", journal=ending.of.id, receiver=ending.of.receiver)
        self._ending = None
        self._release()

    def _begin(self, found: ReceivingJournal) -> _Ending:
        """Begin to end the sessions of a receiver."""
        sessions = []
        for source, name in found.sessions.items():
            if (session := self._receivers[source].session(name)) is not None:
                sessions.append((session, self._intake(source)))
                log.info("session_end_begun", source=source, session=name, receiver=found.receiver)
        return _Ending(found, sessions)

    def _release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._catalog.release_lease(lease)
