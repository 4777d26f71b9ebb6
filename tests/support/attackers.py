"""Clients that ask for all there is: conversions, bombs, frames without number, headers without end, connections
without requests, readers that do not read, uploads until the disk is full.

All run in one event loop. They come from addresses of their own (127.0.0.2 and up), as other machines would.
"""

import asyncio
import json
import socket
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

MIB = 1 << 20
CUT = "cut"
"""The outcome of a client whose connection was closed before it got a response, or all of it."""
LEFT = "left"
"""The outcome of a client that was still waiting when the attack ended."""


def parquet_bomb(size: int = 400 * MIB) -> bytes:
    """Return a Parquet file of some kilobytes with one page of so many bytes."""
    column = pa.array([bytes(MIB)] * (size // MIB))
    target = BytesIO()
    options = {"compression": "zstd", "use_dictionary": False, "data_page_size": 2 * size, "write_statistics": False}
    pq.write_table(pa.table({"X": column}), target, **options)
    return target.getvalue()


def dataset_json_bomb(size: int = 1200 * MIB) -> bytes:
    """Return compressed Dataset-JSON (DSJC) of about a thousandth of so many bytes."""
    head = {
        "datasetJSONCreationDateTime": "2026-11-22T20:10:22",
        "datasetJSONVersion": "1.1.0",
        "itemGroupOID": "IG.B",
        "records": 1,
        "name": "B",
        "label": "B",
        "columns": [{"itemOID": "IT.B.X", "name": "X", "label": "X", "dataType": "string", "length": 200}],
    }
    packer = zlib.compressobj()
    begun = packer.compress(json.dumps(head)[:-1].encode() + b', "rows": [["') + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b"x" * MIB) + packer.flush(zlib.Z_FULL_FLUSH)  # it stands alone, so it can be repeated
    return begun + block * (size // MIB) + packer.compress(b'"]]}') + packer.flush()


def csv_rows(size: int) -> bytes:
    """Return CSV of so many bytes, of short cells, which take long to look at."""
    head, line = b"A,B,C,D,E,F,G,H,I,J,K,L,M,N,O\n", b"1,2,3,4,5,6,7,8,9,a,b,c,d,e,f\n"
    return head + line * (size // len(line))


class Attackers:
    """What became of each client, by kind and outcome: a status with its problem, `cut` or `left`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.headers_sent = 0

    def of(self, kind: str) -> Counter[str]:
        """Return the outcomes of one kind."""
        return Counter({outcome: count for (each, outcome), count in self.outcomes.items() if each == kind})

    async def convert(self, kind: str, name: str, data: bytes) -> None:
        """Ask for a description of a file as a data set."""
        await self._exchange(kind, 2, _form(name, data))

    async def trace(self, data: bytes) -> None:
        """Ask for an explanation of these bytes."""
        head = f"POST /v1/trace HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
        await self._exchange("trace", 3, head.encode() + data)

    async def upload(self, size: int, until: Callable[[], bool]) -> None:
        """Send files of so many bytes, one after the other."""
        head = f"PUT /v1/files/away/big.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
        while not until():
            await self._exchange("upload", 4, head + bytes(size))

    async def headers(self, most: int) -> None:
        """Send up to so many bytes of header fields."""

        async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
            writer.write(b"GET /v1/attachments HTTP/1.1\r\nHost: localhost\r\n")
            sent = 0
            while sent < most:
                writer.write(b"X-More: " + b"x" * 8000 + b"\r\n")
                await writer.drain()
                sent += 8000
                self.headers_sent += 8000
            return await _response(reader)

        await self._attempt("headers", 5, send)

    async def be_silent(self, last_byte: int) -> None:
        """Connect, and send nothing."""

        async def wait(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> str:
            return await _response(reader)

        await self._attempt("silent", last_byte, wait)

    async def not_read(self, path: str) -> None:
        """Ask for content, and read only the beginning of the response."""

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            status = (await reader.readline()).split(b" ")
            await asyncio.sleep(3600)
            return status[1].decode()

        await self._attempt("not reading", 6, wait)

    async def _exchange(self, kind: str, last_byte: int, request: bytes) -> None:
        async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
            writer.write(request)
            sending = asyncio.create_task(writer.drain())
            try:
                return await _response(reader)
            finally:
                sending.cancel()
                await asyncio.wait([sending])

        await self._attempt(kind, last_byte, ask)

    async def _attempt(
        self,
        kind: str,
        last_byte: int,
        do: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[str]],
    ) -> None:
        outcome = LEFT
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client.bind((f"127.0.0.{last_byte}", 0))
        try:
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self._port))
            reader, writer = await asyncio.open_connection(sock=client, limit=8192)
            try:
                outcome = await do(reader, writer)
            finally:
                writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            outcome = CUT
        finally:
            client.close()
            self.outcomes[kind, outcome] += 1


async def _response(reader: asyncio.StreamReader) -> str:
    """Return the status of a response, and the type of its problem."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = head.split(" ")[1]
    size = int(head.partition("content-length: ")[2].split("\r")[0] or 0)
    body = await reader.readexactly(size)
    problem = "application/problem+json" in head
    return f"{status} {json.loads(body)['type'].rpartition('/')[2]}" if problem else status


def _form(name: str, data: bytes) -> bytes:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="destination"\r\n\r\naway\r\n'
        b'--b\r\nContent-Disposition: form-data; name="kind"\r\n\r\ndata-set\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\n%b\r\n--b--\r\n'
        % (name.encode(), data)
    )
    head = f"POST /v1/messages?dry_run=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + body
