"""Small PNG files: pictures of pages need few colours, and browsers compress for speed."""

import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_STEP = 17
"""The distance of the shades that are kept: 16 of red, green and blue each."""


def small_png(picture: bytes) -> bytes:
    """Return a PNG of RGB pixels, 8 bits each and not interlaced, with a palette of at most 256 colours."""
    chunks = _chunks(picture)
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = _unfiltered(zlib.decompress(chunks[b"IDAT"]), width * 3, height)
    pixels = [_triples(row) for row in rows]
    kept = {colour: bytes((part + _STEP // 2) // _STEP * _STEP for part in colour) for row in pixels for colour in row}
    palette = {colour: number for number, colour in enumerate(sorted(set(kept.values())))}
    indexed = b"".join(b"\0" + bytes(palette[kept[colour]] for colour in row) for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(indexed, 9)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _triples(row: bytes) -> list[bytes]:
    return [row[at : at + 3] for at in range(0, len(row), 3)]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _chunks(picture: bytes) -> dict[bytes, bytes]:
    """Return the chunks of a PNG by their kind; those of the same kind are joined."""
    found: dict[bytes, bytes] = {}
    at = len(_SIGNATURE)
    while at < len(picture):
        size, kind = struct.unpack(">I4s", picture[at : at + 8])
        found[kind] = found.get(kind, b"") + picture[at + 8 : at + 8 + size]
        at += 12 + size
    return found


def _unfiltered(data: bytes, width: int, height: int, step: int = 3) -> list[bytes]:
    """Return the rows of `width` bytes as they were before PNG's filters (section 9 of its specification)."""
    rows = [bytes(width)]
    for row in range(height):
        begin = row * (width + 1)
        kind, line = data[begin], bytearray(data[begin + 1 : begin + 1 + width])
        above = rows[-1]
        for at in range(width):
            left, corner = (line[at - step], above[at - step]) if at >= step else (0, 0)
            line[at] = (line[at] + _predicted(kind, left, above[at], corner)) & 255
        rows.append(bytes(line))
    return rows[1:]


def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    if kind < 4:
        return (0, left, above, (left + above) // 2)[kind]
    guess = left + above - corner
    return min((abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner))[2]
