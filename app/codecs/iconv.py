"""Codecs of the system's iconv, for large character sets that Python lacks.

Where the system has no iconv, or its iconv does not have a character set, Python does not know the codec either.
"""

import codecs
import ctypes
import errno
from functools import cache
from typing import Any, Final

_INVALID: Final = ctypes.c_void_p(-1).value
_FAILED: Final = ctypes.c_size_t(-1).value
_ROOM: Final = 4
"""The bytes of UTF-32 that one byte may become."""


class _Iconv:
    """The functions of the C library. Raises AttributeError, OSError or TypeError where it has none."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        pointer = ctypes.POINTER(ctypes.c_char_p)
        size = ctypes.POINTER(ctypes.c_size_t)
        self.open = library.iconv_open
        self.open.restype, self.open.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_char_p)
        self.convert = library.iconv
        self.convert.restype, self.convert.argtypes = ctypes.c_size_t, (ctypes.c_void_p, pointer, size, pointer, size)
        self.close = library.iconv_close
        self.close.restype, self.close.argtypes = ctypes.c_int, (ctypes.c_void_p,)


@cache
def _library() -> _Iconv | None:
    try:
        return _Iconv()
    except (AttributeError, OSError, TypeError):
        return None


class _Conversion:
    """One text that is converted. Its state ends with it, so that no text changes the next."""

    def __init__(self, into: str, of: str) -> None:
        """Begin. Raises LookupError if the system does not have one of the character sets."""
        library = _library()
        opened = None if library is None else library.open(into.encode(), of.encode())
        if library is None or opened in {None, _INVALID}:
            raise LookupError(f"the system has no conversion from {of} into {into}")
        self._library, self._opened = library, opened

    def __del__(self) -> None:
        if hasattr(self, "_opened"):
            self._library.close(self._opened)

    def convert(self, data: bytes, *, final: bool = False) -> tuple[bytes, int, int]:
        """Return what bytes become, how many were converted, and why not all: an error number, or 0."""
        source = ctypes.create_string_buffer(data, len(data))
        room = _ROOM * len(data) + 64
        target = ctypes.create_string_buffer(room)
        given, left = ctypes.cast(source, ctypes.c_char_p), ctypes.c_size_t(len(data))
        put, free = ctypes.cast(target, ctypes.c_char_p), ctypes.c_size_t(room)
        found = self._library.convert(self._opened, given, left, put, free)
        failure = ctypes.get_errno() if found == _FAILED else 0
        if final and not failure:
            self._library.convert(self._opened, None, None, put, free)
        return target.raw[: room - free.value], len(data) - left.value, failure


def codec(name: str, system_name: str) -> codecs.CodecInfo | None:
    """Return a codec named `name` of a character set that iconv has as `system_name`; None if the system lacks it."""
    try:
        _decoder(system_name)
    except LookupError:
        return None

    def encode(text: str, errors: str = "strict", /) -> tuple[bytes, int]:
        return _encode(name, system_name, text, errors)

    def decode(raw: Any, errors: str = "strict", /) -> tuple[str, int]:
        return _decode(name, _decoder(system_name), bytes(raw), errors, final=True)

    class Encoder(codecs.IncrementalEncoder):
        def encode(self, text: str, final: bool = False) -> bytes:  # noqa: ARG002
            return encode(text, self.errors)[0]

    class Decoder(codecs.BufferedIncrementalDecoder):
        def __init__(self, errors: str = "strict") -> None:
            super().__init__(errors)
            self._conversion = _decoder(system_name)

        def _buffer_decode(self, raw: Any, errors: str, final: bool) -> tuple[str, int]:
            return _decode(name, self._conversion, bytes(raw), errors, final=final)

        def reset(self) -> None:
            super().reset()
            self._conversion = _decoder(system_name)

    return codecs.CodecInfo(encode, decode, name=name, incrementalencoder=Encoder, incrementaldecoder=Decoder)


def _decoder(system_name: str) -> _Conversion:
    return _Conversion("UTF-32LE", system_name)


def _encode(name: str, system_name: str, text: str, errors: str) -> tuple[bytes, int]:
    conversion = _Conversion(system_name, "UTF-32LE")
    written = bytearray()
    rest, at = text, 0
    while True:
        made, taken, failure = conversion.convert(rest.encode("utf-32-le", "surrogatepass"), final=True)
        written += made
        if not failure:
            return bytes(written), len(text)
        at += taken // 4
        error = UnicodeEncodeError(name, text, at, at + 1, "character not in the character set")
        replacement, at = codecs.lookup_error(errors)(error)
        written += (
            replacement if isinstance(replacement, bytes) else _encode(name, system_name, replacement, "strict")[0]
        )
        rest = text[at:]


def _decode(name: str, conversion: _Conversion, data: bytes, errors: str, *, final: bool) -> tuple[str, int]:
    found: list[str] = []
    at = 0
    while True:
        made, taken, failure = conversion.convert(data[at:], final=final)
        found.append(made.decode("utf-32-le"))
        at += taken
        if not failure or (failure == errno.EINVAL and not final):
            return "".join(found), at
        why = "incomplete character" if failure == errno.EINVAL else "byte not in the character set"
        replacement, at = codecs.lookup_error(errors)(UnicodeDecodeError(name, data, at, at + 1, why))
        found.append(str(replacement))
