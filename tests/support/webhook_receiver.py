"""A program that receives webhooks, checks their signatures, and answers as a test says."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple

from standardwebhooks import Webhook, WebhookVerificationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


class Answered(NamedTuple):
    """What the receiver answers to a request."""

    status: int = 204
    headers: Mapping[str, str] = {}


class Received(NamedTuple):
    """A request whose signature is valid: its `webhook-id`, and the CloudEvent."""

    id: str
    event: dict[str, Any]
    headers: Mapping[str, str]


class WebhookReceiver:
    """Listens on a port of 127.0.0.1 while it is open.

    `answer` decides about each event; only those with an answer below 300 are in `taken`. A request with an invalid
    signature is in `forged`.
    """

    def __init__(self, secret: str = SECRET, port: int = 0) -> None:
        self.taken: list[Received] = []
        self.asked: list[Received] = []
        self.forged: list[str] = []
        self.answer: Callable[[dict[str, Any]], Answered] = lambda _event: Answered()
        self._verifier = Webhook(secret)
        self._connections: list[socket] = []
        self._lock = Lock()
        self._is_away = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    answered = receiver._receive(dict(self.headers.items()), body)
                except ConnectionAbortedError:
                    self.close_connection = True
                    return
                self.send_response(answered.status)
                for name, value in {"Content-Length": "0", **answered.headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def setup(self) -> None:
                super().setup()
                receiver._connections.append(self.connection)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def _receive(self, headers: Mapping[str, str], body: bytes) -> Answered:
        with self._lock:
            if self._is_away:
                raise ConnectionAbortedError
            return self._answered(headers, body)

    def _answered(self, headers: Mapping[str, str], body: bytes) -> Answered:
        given = {name.lower(): value for name, value in headers.items()}
        try:
            self._verifier.verify(body, given)
        except WebhookVerificationError as error:
            self.forged.append(str(error))
            return Answered(401)
        received = Received(given["webhook-id"], json.loads(body), given)
        self.asked.append(received)
        answered = self.answer(received.event)
        if answered.status < 300:
            self.taken.append(received)
        return answered

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def numbers(self) -> list[int]:
        """Return the numbers of the events that were taken, in their order."""
        return [int(received.event["id"].partition("-")[0]) for received in self.taken]

    def __enter__(self) -> "WebhookReceiver":
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_away = True
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)
