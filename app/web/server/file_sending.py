"""Parts of files that the system sends itself (`sendfile`), without a copy in this process.

An application gives them by ASGI's extension "zero copy send", whose message is not the last of a response here. It is
not offered over TLS, which has to encrypt.
"""

import asyncio
import os
from collections.abc import Callable

from starlette.types import Message
from uvicorn.protocols.http.flow_control import FlowControl

from app.model.errors import DamagedError

ZERO_COPY_SEND = "http.response.zerocopysend"
"""The name of the extension, and the type of its message."""


class FileSending:
    """The file that one connection sends. `left` is the number of its bytes that the system has not taken.

    `on_wait` is called when the client has to read before the system takes more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        flow: FlowControl,
        on_wait: Callable[[], None],
    ) -> None:
        self._loop, self._transport, self._flow, self._on_wait = loop, transport, flow, on_wait
        self._socket = self._file = -1
        self._offset = self.left = 0
        self._over: asyncio.Future[None] = loop.create_future()

    async def send(self, message: Message) -> None:
        """Let the system send part of a file after all that was written before. Return if the connection is lost.

        Raises DamagedError if the file is shorter.
        """
        transport = self._transport
        await asyncio.sleep(0)  # a client that reads fast must not keep the event loop from others
        if transport.is_closing():
            return
        transport.set_write_buffer_limits(0)
        await self._flow.drain()
        transport.set_write_buffer_limits()
        if transport.is_closing():
            return
        self._file, self._offset, self.left = message["file"].fileno(), message["offset"], message["count"]
        self._over = self._loop.create_future()
        # The event loop waits for no descriptor that is a transport's.
        self._socket = os.dup(transport.get_extra_info("socket").fileno())
        try:
            self._push()
            if not self._over.done():
                self._loop.add_writer(self._socket, self._push)
                self._on_wait()
            await self._over
        finally:
            self._loop.remove_writer(self._socket)
            os.close(self._socket)
            self.left = 0

    def stop(self) -> None:
        """Send no more, since the connection is lost."""
        if not self._over.done():
            self._over.set_result(None)

    def _push(self) -> None:
        """Send as much as the system takes now."""
        try:
            while self.left and not self._over.done():
                sent = os.sendfile(self._socket, self._file, self._offset, self.left)
                if not sent:
                    self._over.set_exception(DamagedError(f"the file that is sent ends at byte {self._offset}"))
                self._offset, self.left = self._offset + sent, self.left - sent
        except BlockingIOError:
            return
        except OSError:  # the client has closed the connection, or the disk has failed
            self._transport.abort()
        self.stop()
