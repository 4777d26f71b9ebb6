"""One connection to a Rendezvous daemon, with an inbox of its own.

It belongs to one thread at a time; only `close` may be called by another. What a client sends is kept in order by the
daemon, and a client that listens to its own inbox hears itself: so a message to the inbox that comes back says that the
daemon has taken all that was sent before it (`confirm`).
"""

import itertools
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from adapters.rendezvous.settings import DaemonSettings
from app.codecs.rendezvous import daemon
from app.codecs.rendezvous.constants import HEADER_SIZE, MAGIC
from app.codecs.rendezvous.daemon import DaemonFrame
from app.wire import WireError
from app.wire.kinds import Buffer

_RECEIVE_BYTES: Final = 1 << 18
_MOST_ROUNDS: Final = 8
"""How often the daemon may request other parameters."""
_KEPT_BYTES: Final = 4096
"""The bytes that are kept of a frame that is too long."""
_numbers = itertools.count(1)
"""The numbers of the sessions of this process."""


class DaemonError(Exception):
    """The daemon cannot be reached, refuses the connection, or has ended it; the text says which."""


class Oversized(NamedTuple):
    """A frame that is longer than allowed: its length, and its first bytes."""

    length: int
    head: bytes


Take = Callable[[bytes | Oversized], None]
"""A function that gets each frame that is not the awaited one."""


class DaemonClient:
    """An open connection."""

    def __init__(self, settings: DaemonSettings, most_bytes: int) -> None:
        """Connect. Raises DaemonError."""
        self.address = f"{settings.host}:{settings.port}"
        self._most_bytes = most_bytes
        self._received = bytearray()
        self._skipped: tuple[Oversized, int] | None = None
        self._inboxes = itertools.count(2)
        try:
            self._stream = socket.create_connection((settings.host, settings.port), settings.connect_timeout)
        except OSError as error:
            raise DaemonError(f"{self.address} cannot be reached: {error}") from error
        try:
            self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The protocol does not detect that the daemon's machine is gone; the system does.
            self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, option):
                    self._stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            self.session = self._negotiated(settings)
        except BaseException:
            self._stream.close()
            raise

    def fileno(self) -> int:
        return self._stream.fileno()

    def listen(self, subject: str) -> None:
        """Listen to a subject, which may have wildcards. Raises DaemonError."""
        self._send([daemon.listen(subject)])

    def cancel(self, subject: str) -> None:
        """Stop listening to a subject. Raises DaemonError."""
        self._send([daemon.cancel(subject)])

    def publish(self, pieces: Sequence[Buffer], timeout: float) -> None:
        """Send publications (`daemon.publish`). Raises DaemonError when the daemon does not take them in time."""
        self._stream.settimeout(timeout)
        self._send(pieces)

    def request(self, subject: str, data: Buffer, timeout: float) -> DaemonFrame:
        """Publish a tibrvMsg with a new inbox to reply to, and return the first reply. Other messages that arrive
        meanwhile are ignored. Raises DaemonError."""
        reply_to = daemon.inbox(self.session, str(next(self._inboxes)))
        return self._answered(subject, reply_to, data, timeout, reply_to)

    def confirm(self, timeout: float, take: Take = lambda _: None) -> None:
        """Wait until the daemon has taken all that was sent; `take` gets what else arrives meanwhile.

        Raises DaemonError.
        """
        own = daemon.inbox(self.session, str(next(self._inboxes)))
        self._answered(own, own, daemon.PING, timeout, None, take)

    def _answered(
        self, subject: str, awaited: str, data: Buffer, timeout: float, reply: str | None, take: Take = lambda _: None
    ) -> DaemonFrame:
        deadline = time.monotonic() + timeout
        self.publish(daemon.publish(daemon.publish_head(subject, reply), data, is_message=True), timeout)
        answer: DaemonFrame | None = None
        while answer is None and (left := deadline - time.monotonic()) > 0:
            for frame in self.frames(left):
                read = None if isinstance(frame, Oversized) else _readable(frame)
                if answer is None and read is not None and read.subject == awaited:
                    answer = read
                else:
                    take(frame)
        if answer is None:
            raise DaemonError(f"{self.address} gave no answer within {timeout:g} s")
        return answer

    def frames(self, timeout: float) -> list[bytes | Oversized]:
        """Return the whole frames that were received; wait up to `timeout` seconds for more bytes.

        Raises DaemonError when the connection has ended, or for bytes that are no frame.
        """
        found = list(self._whole())
        if found:
            return found
        self._stream.settimeout(max(timeout, 0.001))
        try:
            data = self._stream.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return []
        except OSError as error:
            raise DaemonError(f"{self.address} broke the connection: {error}") from error
        if not data:
            raise DaemonError(f"{self.address} closed the connection")
        self._received += data
        return list(self._whole())

    def close(self) -> None:
        """End the connection; the daemon forgets what the client listened to."""
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()

    def _send(self, pieces: Sequence[Buffer]) -> None:
        try:
            self._stream.sendall(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except TimeoutError as error:
            raise DaemonError(f"{self.address} reads nothing") from error
        except OSError as error:
            raise DaemonError(f"{self.address} broke the connection: {error}") from error

    def _whole(self) -> Iterator[bytes | Oversized]:
        at, received = 0, self._received
        try:
            while True:
                if self._skipped is not None:
                    taken = min(self._skipped[1], len(received) - at)
                    oversized, left = self._skipped[0], self._skipped[1] - taken
                    at += taken
                    self._skipped = (oversized, left) if left else None
                    if left:
                        return
                    yield oversized
                if len(received) - at < HEADER_SIZE:
                    return
                length = int.from_bytes(received[at : at + 4], "big")
                if length < HEADER_SIZE or received[at + 4 : at + HEADER_SIZE] != MAGIC:
                    raise DaemonError(f"{self.address} sent bytes that are no tibrvMsg")
                if length > self._most_bytes and len(received) - at >= min(length, _KEPT_BYTES):
                    head = bytes(received[at : at + _KEPT_BYTES])
                    self._skipped = Oversized(length, head), length
                    continue
                if len(received) - at < length:
                    return
                frame = bytes(received[at : at + length])
                at += length
                if length > HEADER_SIZE:
                    yield frame
        finally:
            del received[:at]

    # --- negotiation --------------------------------------------------------------------------------------------------

    def _negotiated(self, settings: DaemonSettings) -> str:
        """Negotiate the connection with the daemon, and return the session's name."""
        try:
            if self._exactly(len(daemon.VERSION))[:4] != daemon.VERSION[:4]:
                raise DaemonError(f"{self.address} is no Rendezvous daemon")
            self._send([daemon.VERSION])
            parameters = self._exactly(daemon.PARAMETERS_SIZE)
            for _ in range(_MOST_ROUNDS):
                if daemon.first_number(parameters) == daemon.AGREED:
                    break
                self._send([daemon.RESPONSE])
                parameters = self._exactly(daemon.PARAMETERS_SIZE)
            else:
                raise DaemonError(f"{self.address} requests unknown parameters")
            self._send([daemon.initialise(settings.user, settings.service, settings.network)])
            agreed = daemon.agreement(self._next())
            # No other session of this machine has it: the time, and a number within this process.
            unique = f"{time.time_ns() // 1000:X}{next(_numbers) % 0x1000:03X}"
            session = daemon.session_name(agreed.address, unique if unique != agreed.unique else f"{unique}0")
            self._send([daemon.initialise(settings.user, settings.service, settings.network, session)])
            _require_connected(self._next())
            self._send([daemon.listen(daemon.inbox(session, ">"))])
        except TimeoutError as error:
            raise DaemonError(f"{self.address} gave no answer within {settings.connect_timeout:g} s") from error
        except OSError as error:
            raise DaemonError(f"{self.address} broke the connection: {error}") from error
        except daemon.DaemonRefused as error:
            raise DaemonError(f"{self.address} refused the connection: {error}") from error
        except WireError as error:
            raise DaemonError(f"{self.address} sent an invalid answer: {error}") from error
        return session

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._stream.recv(size - len(data))
            if not more:
                raise DaemonError(f"{self.address} closed the connection")
            data += more
        return data

    def _next(self) -> DaemonFrame:
        head = self._exactly(HEADER_SIZE)
        length = int.from_bytes(head[:4], "big")
        if not HEADER_SIZE <= length <= self._most_bytes:
            raise DaemonError(f"{self.address} sent a frame of {length:,} bytes")
        return daemon.read_frame(head + self._exactly(length - HEADER_SIZE))


def _require_connected(frame: DaemonFrame) -> None:
    if frame.subject != daemon.CONNECTED:
        raise WireError("sub", 0, f"{frame.subject!r}, where the daemon answers {daemon.CONNECTED}")


def _readable(frame: bytes) -> DaemonFrame | None:
    try:
        return daemon.read_frame(frame)
    except WireError:
        return None
