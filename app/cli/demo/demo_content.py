"""The contents that the demo sends: a text, a picture and a table."""

import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WIDTH, HEIGHT = 480, 320
_ROWS = 20_000
_TEXT = """\
The attachment gateway

A message can carry attachments, as an e-mail does: files and SAS data sets. On a queue each of them is a header and
many small messages. The gateway puts them together again, and offers them by REST as what they are.

Größe, señor, čeština, Ελληνικά, 日本語: text keeps its characters.
"""


def write(folder: Path) -> tuple[Path, Path, Path]:
    """Write the three files into a folder: text, picture and data set (Parquet)."""
    text, picture, table = folder / "welcome.txt", folder / "picture.png", folder / "stations.parquet"
    text.write_text(_TEXT, encoding="utf-8")
    picture.write_bytes(png())
    pq.write_table(data_set(), table)
    return text, picture, table


def png() -> bytes:
    """Return a picture with a gradient and rings, as a PNG file (RFC 2083) of 8-bit RGB."""
    pixels = bytearray()
    for y in range(HEIGHT):
        pixels.append(0)
        for x in range(WIDTH):
            distance = (x - WIDTH // 2) ** 2 + (y - HEIGHT // 2) ** 2
            ring = 255 if distance // 400 % 7 == 0 else 0
            pixels += bytes((x * 255 // WIDTH, y * 255 // HEIGHT, ring))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(bytes(pixels), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def data_set() -> pa.Table:
    """Return measurements of weather stations: character values, and numbers of which some are missing."""
    names = ["Łódź", "Malmö", "Córdoba", "Graz", "Oulu"]
    columns = {
        "STATION": pa.array([names[row % len(names)] for row in range(_ROWS)]),
        "HOUR": pa.array([float(row // len(names)) for row in range(_ROWS)]),
        "CELSIUS": pa.array([None if row % 97 == 0 else (row * 37 % 600) / 10 - 20 for row in range(_ROWS)]),
    }
    return pa.table(columns)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
