"""Emptying a session: the broker is to choose its client for no more messages, and to send what it has chosen before.

A broker sends what is in a session also after UNSUBSCRIBE, but nothing says which message is the last. So the session
counts as empty when a second UNSUBSCRIBE has been answered, nothing came since it was sent and for a quiet time after
the answer, and everything is acknowledged. A broker that is slow is slow to answer, too.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from adapters.mqtt.client import FAILURE, MqttClient

QUIET_SECONDS = 1.0


class Emptying:
    """Unsubscribes a connection from these topics. `unsubscribed` is called when the broker has done so first."""

    def __init__(self, client: MqttClient, topics: Sequence[str], unsubscribed: Callable[[], object]) -> None:
        self._client, self._topics, self._unsubscribed = client, topics, unsubscribed
        self._answers = 0
        self._is_answered = self._has_come = False
        self._quiet_since = 0.0
        client.on_unsubscribe = self._answered
        self._ask()

    def is_over(self, *, has_come: bool) -> bool:
        """Tell whether the session is empty. Call it often; `has_come` says that messages came since the last call, or
        are not acknowledged yet."""
        now = time.monotonic()
        if has_come:
            self._has_come, self._quiet_since = True, now
        if not self._is_answered or now - self._quiet_since < QUIET_SECONDS:
            return False
        if self._answers > 1 and not self._has_come:
            return True
        self._ask()
        return False

    def _ask(self) -> None:
        self._is_answered = self._has_come = False
        self._client.unsubscribe_from(self._topics)

    def _answered(self, _: object, __: object, ___: int, reasons: list[Any], ____: object) -> None:
        """Take the answer. An answer of MQTT 3.1.1 has no reasons."""
        refused = [topic for topic, reason in zip(self._topics, reasons, strict=False) if reason.value >= FAILURE]
        if refused:
            self._client.close(f"the broker refused to end the subscription to {', '.join(refused)}")
            return
        self._answers += 1
        self._is_answered, self._quiet_since = True, time.monotonic()
        if self._answers == 1:
            self._unsubscribed()
