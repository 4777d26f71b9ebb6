"""The packets of a connection, cut out of large blocks of received bytes.

A packet is a view of its block, so that its payload is not copied. Only a packet that continues in the next block is
joined. A packet never takes more memory than its received bytes, even if it announces a greater length.
"""

from paho.mqtt.exception import MalformedPacket

_LENGTH_BYTES = 4
_NOTHING = memoryview(b"")


class PacketReader:
    """Cuts blocks into packets, in order."""

    def __init__(self) -> None:
        self._block = self._following = _NOTHING
        self._at = 0
        self._begun: list[bytes] = []
        self._missing = 0

    def feed(self, block: bytes) -> None:
        """Add a block of received bytes. Call it when `packet` has returned None."""
        if self._missing > len(block):
            self._begun.append(block)
            self._missing -= len(block)
            return
        if self._missing:
            self._begun.append(block[: self._missing])
            self._following = memoryview(block)[self._missing :]
            block = b"".join(self._begun)
            self._begun, self._missing = [], 0
        elif self._at < len(self._block):  # the length of the next packet is not complete
            block = bytes(self._block[self._at :]) + block
        self._block, self._at = memoryview(block), 0

    def packet(self) -> tuple[int, memoryview] | None:
        """Return the first byte of the next packet, and the bytes behind its length; None when more must be fed.

        Raises MalformedPacket for a length of more than four bytes.
        """
        if self._at == len(self._block):
            self._block, self._following, self._at = self._following, _NOTHING, 0
        block, at = self._block, self._at
        try:
            start, size = varint(block, at + 1)
        except IndexError:
            return None
        end = start + size
        if end > len(block):
            self._missing, self._at = end - len(block), len(block)
            self._begun.append(bytes(block[at:]))
            return None
        self._at = end
        return block[at], block[start:end]


def varint(packet: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """Return where the bytes begin that the length at byte `at` counts, and their number.

    Raises IndexError when the length is incomplete, and MalformedPacket when it has more than four bytes.
    """
    size = packet[at]
    at += 1
    if size < 0x80:
        return at, size
    size &= 0x7F
    for place in range(1, _LENGTH_BYTES):
        digit = packet[at]
        at += 1
        size |= (digit & 0x7F) << 7 * place
        if digit < 0x80:
            return at, size
    raise MalformedPacket("a length has more than four bytes")
