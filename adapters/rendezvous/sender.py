"""A destination's connection to its daemon.

A daemon acknowledges nothing, but it reads what a client sends in order. So after each batch the sender publishes to
its own inbox: when that comes back, the daemon has taken the batch. Whether there was a subscriber is unknown.

Receivers tell the messages of an attachment by their order, so none may come twice: after a broken connection a
delivery begins again with its first message. Every message names the sender's inbox as the subject to reply to.
Receivers distinguish the second beginning, and other senders, by it. So a delivery that follows an interrupted one gets
a connection, and thereby an inbox, of its own.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import structlog

from adapters.connections import ConnectionState
from adapters.rendezvous.client import DaemonClient, DaemonError
from adapters.rendezvous.settings import DestinationSettings
from app.codecs.rendezvous import rendezvous_envelope
from app.codecs.rendezvous.daemon import inbox
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import Subscribers
from app.ports import DeliveryProgress, SendFailed
from app.wire.kinds import Buffer

_MAX_FRAME_BYTES = 1 << 20
"""The longest frame that the daemon may send to a client that listens to nothing but its inbox."""
_BATCH = 64
_SENDER = "1"
"""The name of the inbox that messages name as their sender."""

_log = structlog.get_logger(__name__)


class RendezvousSender:
    """`app.ports.Sender` for TIB/Rendezvous."""

    def __init__(self, name: str, settings: DestinationSettings) -> None:
        self._settings = settings
        self._address = f"{settings.host}:{settings.port}"
        self._state = ConnectionState(_log.bind(destination=name, daemon=self._address))
        self._client: DaemonClient | None = None
        self._current: str | None = None
        """The delivery of which some messages, but not all, were sent on the open connection."""

    def status(self) -> dict[str, Any]:
        return {**self._state.status, "broker": self._address}

    def repeats(self) -> str | None:
        return (
            "after a crash of the gateway or a broken connection a delivery begins again with its first message, from "
            "another inbox"
        )

    def max_body(self, wanted: int | None = None) -> int:
        del wanted
        self._open()
        return self._settings.max_message - rendezvous_envelope.HEAD_BYTES

    def max_batch(self) -> int:
        return _BATCH

    def resume(self, delivery: str, known: int | None) -> int:
        """Begin again, unless the delivery was begun on the open connection."""
        self._open()
        if self._current == delivery:
            return known or 0
        if self._current is not None:
            self.close()
        return 0

    def forget(self, delivery: str) -> None:
        if self._current == delivery:
            self._current = None

    def tidy(self, may_continue: Callable[[str], bool]) -> None:
        pass

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> Subscribers:
        client = self._open()
        if progress is not None:
            if progress.messages_sent and self._current != progress.delivery:
                raise SendFailed("the connection to the daemon was broken: the delivery begins again on another one")
            self._current = progress.delivery
        pieces: list[Buffer] = []
        for message in messages:
            if len(message.body) > self._settings.max_message:
                why = f"a body of {len(message.body):,} bytes; max_message allows {self._settings.max_message:,}"
                raise SendFailed(why, permanent=True)
            try:
                sender = inbox(client.session, _SENDER)
                pieces += rendezvous_envelope.write(message, self._settings.subject, sender)
            except InvalidInputError as error:
                raise SendFailed(str(error), permanent=True) from error
        try:
            client.publish(pieces, self._settings.send_timeout)
            client.confirm(self._settings.send_timeout)
        except DaemonError as error:
            self._failed(str(error))
            raise SendFailed(str(error)) from error
        return "unknown"

    def close(self) -> None:
        if self._client is not None:
            with suppress(OSError):
                self._client.close()
        self._client = self._current = None
        self._state.closed()

    def _open(self) -> DaemonClient:
        """Return the open connection, or open a new one. Raises SendFailed."""
        if self._client is not None:
            try:
                self._client.frames(0)
            except DaemonError as error:
                self._failed(str(error))
            else:
                return self._client
        try:
            self._client = DaemonClient(self._settings, _MAX_FRAME_BYTES)
        except DaemonError as error:
            self._failed(str(error))
            raise SendFailed(str(error)) from error
        self._state.opened()
        self._state.recovered()
        return self._client

    def _failed(self, why: str) -> None:
        self.close()
        self._state.failed(why)
