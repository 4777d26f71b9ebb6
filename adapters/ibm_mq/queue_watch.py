"""The state of a queue from which messages are received: how many wait and how long, and warnings about other programs
that get from it and about messages that cannot be got."""

import time
from typing import Any, Final

from adapters.connections import now
from adapters.ibm_mq.client import MqiError
from adapters.ibm_mq.reason_codes import MQRC_NOT_AUTHORIZED
from adapters.ibm_mq.settings import SourceSettings
from adapters.ibm_mq.source_session import SourceSession

INQUIRY_SECONDS: Final = 10.0
"""Seconds between two inquiries."""


class QueueWatch:
    """Checks the queue for one connection. Without authority to inquire there are neither warnings nor a depth, without
    authority to browse the age of the first message is unknown.

    `depth` is the number of messages on the queue, and `filled` its part of MAXDEPTH; both are None while unknown.
    Other programs at the queue are warned of unless it `may_have_others`.
    """

    def __init__(self, settings: SourceSettings, log: Any) -> None:
        self._settings, self._log = settings, log
        self._next_inquiry = 0.0
        self._others = self._left = self._stuck = 0
        self._too_long: dict[bytes, int] = {}
        self._may_inquire = self._may_browse = True
        self._first_put: int | None = None
        self.may_have_others = settings.is_exclusive
        self.depth: int | None = None
        self.filled: float | None = None

    @property
    def oldest_message_seconds(self) -> float | None:
        """Return how long ago the first message on the queue was put; 0 if there is none, None while it is unknown."""
        if not self._first_put:
            return self._first_put
        return max(0.0, (now() - self._first_put) / 1e6)

    @property
    def warning(self) -> str | None:
        if self._too_long:
            msg_id, length = next(iter(self._too_long.items()))
            first = f"the first has {length:,} bytes and the MsgId {msg_id.hex()}"
            return f"messages longer than the channel's MAXMSGL stay on the queue: {len(self._too_long)}; {first}"
        if self._others:
            return (
                f"other programs have the queue open to get from: {self._others}. The messages that they get are "
                "missing here, so attachments stay incomplete; let only one source get from a queue, or let receivers "
                "have one journal (journal.shared)"
            )
        if self._stuck:
            return (
                f"messages on the queue that cannot be got: {self._stuck}. They are segments of messages that are not "
                "complete, or belong to units of work that are not committed"
            )
        return None

    def inquire(self, session: SourceSession, *, idle: bool) -> None:
        """Inquire, if it is time. `idle` means that the queue was just empty.

        Raises MqiError when the connection has failed.
        """
        self._too_long = dict(session.too_long)
        at = time.monotonic()
        if at < self._next_inquiry:
            return
        self._next_inquiry = at + INQUIRY_SECONDS
        if self._may_browse:
            try:
                self._first_put = session.first_put_time()
            except MqiError as error:
                if error.is_broken:
                    raise
                self._first_put = None
                self._may_browse = error.reason != MQRC_NOT_AUTHORIZED
        depth = self.depth = session.depth() if self._may_inquire else None
        if depth is None:
            self._may_inquire = False
            return
        self.filled = depth / most if (most := session.max_depth()) else None
        if not self.may_have_others:
            open_inputs = session.open_inputs() or 0
            others = max(0, open_inputs - self._settings.connections)
            if others and others != self._others:
                self._log.warning("queue_shared", open_inputs=open_inputs, own=self._settings.connections)
            elif self._others and not others:
                self._log.info("queue_sharing_ended", open_inputs=open_inputs)
            self._others = others
        left = depth - len(self._too_long) if idle else 0
        # A message that is just being put is no longer there at the next inquiry.
        self._stuck, self._left = (max(0, left) if self._left > 0 else 0), left

    def inquire_while_paused(self, session: SourceSession) -> None:
        """Inquire, if it is time, while no messages are got. Of a connection that has failed nothing is known; the next
        MQGET reports it."""
        try:
            self.inquire(session, idle=False)
        except MqiError:
            self._first_put = self.depth = self.filled = None
