"""Character sets as others decode them: glibc's iconv, and Java's tables in tests/vectors/charsets."""

import codecs
import ctypes
from collections.abc import Sequence
from encodings.aliases import aliases
from functools import cache
from pathlib import Path
from unicodedata import normalize

from app.codecs import code_pages

code_pages.register()

_VECTORS = Path(__file__).parents[1] / "vectors" / "charsets"

SAS: dict[int, str] = {
    0: "CP1252", 20: "UTF-8", 28: "US-ASCII", 29: "ISO-8859-1", 30: "ISO-8859-2", 31: "ISO-8859-3", 32: "ISO-8859-4",
    33: "ISO-8859-5", 34: "ISO-8859-6", 35: "ISO-8859-7", 36: "ISO-8859-8", 37: "ISO-8859-9", 38: "ISO-8859-10",
    39: "ISO-8859-11", 40: "ISO-8859-15", 41: "CP437", 42: "CP850", 43: "CP852", 44: "CP857", 45: "CP858", 46: "CP862",
    47: "CP864", 48: "CP865", 49: "CP866", 50: "CP869", 51: "CP874", 52: "CP921", 53: "x-IBM922", 54: "CP1129",
    56: "CP737", 57: "CP775", 58: "CP860", 59: "CP863", 60: "CP1250", 61: "CP1251", 62: "CP1252", 63: "CP1253",
    64: "CP1254", 65: "CP1255", 66: "CP1256", 67: "CP1257", 68: "CP1258", 69: "x-MacRoman", 70: "x-MacArabic",
    71: "x-MacHebrew", 72: "x-MacGreek", 73: "x-MacThai", 75: "x-MacTurkish", 76: "x-MacUkraine", 118: "CP950",
    119: "EUC-TW", 123: "BIG5", 125: "GB18030", 126: "GBK", 128: "x-IBM1381", 134: "EUC-JP", 136: "CP932",
    137: "x-IBM942C", 138: "CP932", 140: "EUC-KR", 141: "CP949", 142: "CP949", 163: "x-MacIceland",
    167: "ISO-2022-JP", 168: "ISO-2022-KR", 169: "ISO-2022-CN", 172: "ISO-2022-CN-EXT", 204: "CP1252", 205: "GB18030",
    227: "ISO-8859-14", 242: "ISO-8859-13", 245: "x-MacCroatian", 246: "x-MacCyrillic", 247: "x-MacRomania",
    248: "SHIFT_JISX0213",
}  # fmt: skip
"""By byte 70 of a header: the character set that ReadStat's table names, as iconv or Java calls it. (55, MS-DOS 720, is
in neither.)"""


WORDS: Sequence[str] = str.split(
    "Größe naïve Łódź Čeština Ελλάδα Ячмень Ґанок اردن مرحبا שלום שָׁלוֹם כלב ไทยน้ำ Việt Tie\u0301ng Ştefan İzmir "
    "Õunapuu 臺灣 中文字典 简体汉语 日本語テキスト ｱｲｳ 한국어 ŷ Þór ķ"
)
"""Words of many languages, some with characters that are composed of two."""


def samples(name: str) -> list[bytes]:
    """Return texts beyond ASCII of a character set: words of languages, and every character of one byte."""
    if name.startswith("x-"):
        found = [
            code for code, character in _table(name).items() if code[0] >= 0x80 and not _is_private(code, character)
        ]
        return [code + b"a" for code in found][:: _MOST_STEPS if len(found) > 256 else 1]
    words = [raw for word in WORDS if (raw := encoded(word, name)) is not None]
    bytes_alone = [bytes([byte]) for byte in range(0x80, 256)] if name.startswith(_OF_ONE_BYTE) else []
    return [raw for raw in (*words, *bytes_alone) if decoded([raw], name)[0]]


_MOST_STEPS = 97
_OF_ONE_BYTE = ("ISO-8859-", "CP1", "CP4", "CP7", "CP8")


def _is_private(code: bytes, character: str) -> bool:
    """Tell whether users define what a code of two bytes means."""
    return len(code) == 2 and 0xE000 <= ord(character) < 0xF900


def decoded(texts: Sequence[bytes], name: str) -> list[str]:
    """Return each text as others decode it, composed; a text that is not in the character set is empty."""
    found = (_of_java(raw, name) if name.startswith("x-") else _of_iconv(raw, name) for raw in texts)
    return [normalize("NFC", text) for text in found]


def encoded(text: str, name: str) -> bytes | None:
    """Return a text in a character set that iconv has; None if it lacks a character."""
    return _iconv("UTF-8", name, text.encode())


def _of_iconv(raw: bytes, name: str) -> str:
    return (_iconv(name, "UTF-8", raw) or b"").decode()


_LIBC = ctypes.CDLL(None)
_LIBC.iconv_open.restype = ctypes.c_void_p
_LIBC.iconv.restype = ctypes.c_ssize_t


def _iconv(of: str, into: str, data: bytes) -> bytes | None:
    """Return the converted bytes; None if they are not in the one character set, or cannot be in the other."""
    opened = ctypes.c_void_p(_LIBC.iconv_open(into.encode(), of.encode()))
    if opened.value == ctypes.c_void_p(-1).value:
        return None
    given, room = ctypes.c_char_p(data), ctypes.create_string_buffer(8 * len(data) + 64)
    left, free = ctypes.c_size_t(len(data)), ctypes.c_size_t(len(room))
    at = ctypes.cast(room, ctypes.c_char_p)
    taken = _LIBC.iconv(opened, ctypes.byref(given), ctypes.byref(left), ctypes.byref(at), ctypes.byref(free))
    _LIBC.iconv(opened, None, None, ctypes.byref(at), ctypes.byref(free))  # back to the state of the beginning
    _LIBC.iconv_close(opened)
    return None if taken < 0 else room.raw[: len(room) - free.value]


def _of_java(raw: bytes, name: str) -> str:
    table = _table(name)
    found, at = [], 0
    while at < len(raw):
        size = 2 if raw[at : at + 2] in table and len(raw) > at + 1 else 1
        found.append(table[raw[at : at + size]])
        at += size
    return "".join(found)


@cache
def _table(name: str) -> dict[bytes, str]:
    table = {bytes([byte]): chr(byte) for byte in range(0x80)}
    for line in (_VECTORS / f"{name}.txt").read_text(encoding="utf-8").split("\n")[:-1]:
        code, characters = line.split("\t")
        for at, character in enumerate(characters, int(code, 16)):
            if character != "\N{REPLACEMENT CHARACTER}":
                table[at.to_bytes(len(code) // 2, "big")] = character
    return table


def every_codec() -> list[str]:
    """Return the names of all codecs of texts that the product accepts: Python's, and those that it adds."""
    names = {codecs.lookup(name).name for name in {*aliases.values(), *_UNALIASED} - _NO_TEXTS}
    return sorted({*names, *code_pages.ADDED})


_NO_TEXTS = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec", "mbcs"}
_UNALIASED = {
    "cp720", "cp737", "cp856", "cp874", "cp875", "cp1006", "koi8_u", "koi8_t", "mac_arabic", "mac_croatian",
    "mac_farsi", "mac_romanian", "utf_8_sig",
}  # fmt: skip
