"""A server of file transfer that answers each command by the reason code of its PUBACK, as EMQX does. Written from the
specifications of MQTT 5 and of EIP-0021 alone."""

import socket
from collections import defaultdict, deque
from contextlib import suppress
from hashlib import sha256
from json import loads
from threading import Thread
from typing import BinaryIO, NamedTuple

CONNECT, PUBLISH, PINGREQ, DISCONNECT = 1, 3, 12, 14
UNSPECIFIED_ERROR = 0x80


class Asked(NamedTuple):
    """A command: `init`, `segment` or `fin`, the first byte of a segment, and the reason code that it got."""

    kind: str
    offset: int
    code: int


class FileTransferServer:
    """Takes files on a free loopback port. `plan` has reason codes for the next commands of a kind; a server that so
    refuses `fin` has lost the segments."""

    def __init__(self) -> None:
        self.plan: defaultdict[str, deque[int]] = defaultdict(deque)
        self.asked: list[Asked] = []
        self.files: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self._segments: defaultdict[str, dict[int, bytes]] = defaultdict(dict)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "FileTransferServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, suppress(OSError, IndexError):
            while (first := stream.read(1)[0]) >> 4 != DISCONNECT:
                body = stream.read(_length(stream))
                if first >> 4 == CONNECT:
                    connection.sendall(bytes((0x20, 3, 0, 0, 0)))
                elif first >> 4 == PINGREQ:
                    connection.sendall(bytes((0xD0, 0)))
                elif first >> 4 == PUBLISH:
                    end = 2 + int.from_bytes(body[:2], "big")
                    identifier, properties = body[end : end + 2], body[end + 2]  # fewer than 128 bytes
                    code = self._answer(body[2:end].decode(), body[end + 3 + properties :])
                    connection.sendall(bytes((0x40, 3)) + identifier + bytes((code,)))

    def _answer(self, topic: str, body: bytes) -> int:
        _, file_id, *levels = topic.split("/")
        kind = levels[0] if levels[0] in ("init", "fin") else "segment"
        if self.plan[kind]:
            code = self.plan[kind].popleft()
            if kind == "fin" and code:
                self._segments[file_id].clear()
        else:
            code = 0 if self._take(file_id, kind, levels, body) else UNSPECIFIED_ERROR
        self.asked.append(Asked(kind, int(levels[0]) if kind == "segment" else 0, code))
        return code

    def _take(self, file_id: str, kind: str, levels: list[str], body: bytes) -> bool:
        if kind == "init":
            self._names[file_id] = loads(body)["name"]
            return True
        if kind == "segment":
            self._segments[file_id][int(levels[0])] = body
            return sha256(body).hexdigest() == levels[1]
        whole = b"".join(part for _, part in sorted(self._segments[file_id].items()))
        if file_id not in self._names or [len(whole), sha256(whole).hexdigest()] != [int(levels[1]), levels[2]]:
            return False
        self.files[self._names[file_id]] = whole
        return True


def _length(stream: BinaryIO) -> int:
    number = shift = 0
    while True:
        (byte,) = stream.read(1)
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number
