"""Kubernetes' API server, as far as Leases need it: versions, conflicts, tokens; and how it is away.

Each client has a token of its own. A client that is `cut` gets no answer until it is no longer cut.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Literal

FOLDER = "/apis/coordination.k8s.io/v1/namespaces/prod/leases"
SPEC = {
    "holderIdentity": str,
    "leaseDurationSeconds": int,
    "acquireTime": str,
    "renewTime": str,
    "leaseTransitions": int,
}
Away = Literal["silent", "failing"]


class LeaseServer:
    """The objects of one namespace. `failures` are statuses that the next requests get."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.holders: list[str] = []
        self.failures: list[int] = []
        self._version = 100
        self._away: dict[str, Away] = {}
        self._changed = Condition()
        self._ended = False
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                server.answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = _any

            def log_message(self, *_: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    @contextmanager
    def running(self) -> Iterator["LeaseServer"]:
        thread = Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
            self._http.shutdown()
            self._http.server_close()

    def settings(self, folder: Path, name: str, times: str) -> str:
        """Return the table [standby] of a gateway, whose token is its name."""
        token = folder / "token"
        token.write_text(f"{name}\n")
        return (
            f'[standby]\nlease = "gateway"\nnamespace = "prod"\napi_url = "{self.url}"\ntoken_file = "{token}"\n'
            f'retry = "100ms"\n{times}'
        )

    @property
    def holder(self) -> str:
        """The gateway that holds the Lease, if any."""
        with self._changed:
            lease = self.leases.get("gateway")
            return str(lease["spec"].get("holderIdentity", "")) if lease else ""

    def cut(self, *tokens: str, how: Away = "silent") -> None:
        with self._changed:
            self._away |= dict.fromkeys(tokens, how)

    def join(self, *tokens: str) -> None:
        with self._changed:
            for each in tokens:
                self._away.pop(each, None)
            self._changed.notify_all()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        sent = json.loads(request.rfile.read(length)) if length else None
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        with self._changed:
            away = self._away.get(token)
            if away == "silent":
                self._changed.wait_for(lambda: self._ended or token not in self._away)
                return  # the connection ends without an answer
            if away == "failing":
                status, answer = 500, _failure(500, "etcdserver: request timed out")
            elif self.failures:
                status = self.failures.pop(0)
                answer = _failure(status, "as the test wants it")
            elif not token:
                status, answer = 401, _failure(401, "Unauthorized")
            else:
                status, answer = self._act(request.command, request.path, sent)
        body = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _act(self, method: str, path: str, sent: Any) -> tuple[int, dict[str, Any]]:
        if method == "POST" and path == FOLDER:
            name = sent["metadata"]["name"]
            if name in self.leases:
                return 409, _failure(409, f'leases "{name}" already exists', "AlreadyExists")
            return 201, self._keep(name, sent)
        name = path.removeprefix(f"{FOLDER}/")
        there = self.leases.get(name)
        if there is None:
            return 404, _failure(404, f'leases "{name}" not found', "NotFound")
        if method == "GET":
            return 200, there
        if method == "PUT":
            if sent["metadata"].get("resourceVersion") != there["metadata"]["resourceVersion"]:
                return 409, _failure(409, "the object has been modified; please apply your changes", "Conflict")
            return 200, self._keep(name, sent)
        return 405, _failure(405, "not allowed")

    def _keep(self, name: str, sent: dict[str, Any]) -> dict[str, Any]:
        assert (sent["apiVersion"], sent["kind"]) == ("coordination.k8s.io/v1", "Lease")
        for key, value in sent["spec"].items():
            assert isinstance(value, SPEC[key]), key
        self._version += 1
        metadata = sent["metadata"] | {"resourceVersion": str(self._version), "namespace": "prod"}
        self.leases[name] = sent | {"metadata": metadata}
        holder = sent["spec"].get("holderIdentity", "")
        if holder and holder != (self.holders or [""])[-1]:
            self.holders.append(holder)
        return self.leases[name]


def _failure(code: int, message: str, reason: str = "") -> dict[str, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return status | {"message": message, "reason": reason, "code": code}
