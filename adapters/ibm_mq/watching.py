"""Warnings about a queue from which messages are received: other programs that get from it, and messages that cannot be
got."""

import time
from math import inf
from typing import Any, Final

from adapters.ibm_mq.session import Session
from adapters.ibm_mq.settings import SourceSettings

LOOK_EVERY: Final = 10.0
"""Seconds between two inquiries."""


class Watch:
    """Checks the queue for one connection. Without authority to inquire there are no warnings."""

    def __init__(self, settings: SourceSettings, log: Any) -> None:
        self._settings, self._log = settings, log
        self._next_look = 0.0
        self._others = self._left = self._stuck = 0
        self._too_long: dict[bytes, int] = {}

    @property
    def warning(self) -> str | None:
        if self._too_long:
            msg_id, length = next(iter(self._too_long.items()))
            first = f"the first has {length:,} bytes and the MsgId {msg_id.hex()}"
            return f"messages longer than the channel's MAXMSGL stay on the queue: {len(self._too_long)}; {first}"
        if self._others:
            return (
                f"other programs have the queue open to get from: {self._others}. The messages that they get are "
                "missing here, so attachments stay incomplete; let only one source get from a queue"
            )
        if self._stuck:
            return (
                f"messages on the queue that cannot be got: {self._stuck}. They are segments of messages that are not "
                "complete, or belong to units of work that are not committed"
            )
        return None

    def look(self, session: Session, *, idle: bool) -> None:
        """Inquire, if it is time. `idle` means that the queue was just empty.

        Raises MqiError when the connection has failed.
        """
        self._too_long = dict(session.too_long)
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY
        depth = session.depth()
        if depth is None:
            self._next_look = inf
            return
        if not self._settings.is_exclusive:
            self._look_for_others(session.open_inputs() or 0)
        left = depth - len(self._too_long) if idle else 0
        # A message that is just being put is no longer there at the next inquiry.
        self._stuck, self._left = (max(0, left) if self._left > 0 else 0), left

    def _look_for_others(self, open_inputs: int) -> None:
        others = max(0, open_inputs - self._settings.connections)
        if others and others != self._others:
            self._log.warning("queue_shared", open_inputs=open_inputs, own=self._settings.connections)
        elif self._others and not others:
            self._log.info("queue_sharing_ended", open_inputs=open_inputs)
        self._others = others
