"""Code pages that Python has no codec for, as their differences from a codec of Python, or from the system's iconv.

SAS and other programs use 1047 on z/OS. 1141 to 1149 are the national code pages with the euro; 277 to 871 are those
without it. The others occur in SAS's own files on other systems. Sources: the code charts of IBM's Character Data
Representation Architecture and Apple's tables of the Mac's character sets, as in glibc, ICU and Java.
"""

# ruff: noqa: RUF001 - characters of every script

import codecs
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from app.codecs import iconv

# fmt: off
_SINGLE_BYTES: Final[Mapping[str, tuple[str, str]]] = {
    "ibm277": ("cp500", "47} 4A# 5A¤ 5BÅ 67$ 6Aø 70¦ 7BÆ 7CØ 80@ 9C{ 9E[ 9F] A1ü C0æ D0å DC~"),
    "ibm278": ("cp500", "43{ 47} 4A§ 51` 5A¤ 5BÅ 63# 67$ 6Aö 79é 7BÄ 7CÖ 9F] A1ü B5[ C0ä CC¦ D0å DC~ EC@"),
    "ibm280": ("cp500", "44{ 48\\ 4A° 51] 54} 58~ 5Aé 6Aò 79ù 7B£ 7C§ 90[ A1ì B1# B5@ C0à CD¦ D0è DD` E0ç"),
    "ibm284": ("cp500", "49¦ 4F| 5F¬ 69# 6Añ 7BÑ A1¨ BA^ BB! BD~"),
    "ibm285": ("cp037", "4A$ 5B£ A1¯ B0¢ B1[ BA^ BC~"),
    "ibm297": ("cp500", "44@ 48\\ 4A° 51{ 54} 5A§ 6Aù 79µ 7B£ 7Cà 90[ A0` A1¨ B1# B5] BD~ C0é D0è DD¦ E0ç"),
    "ibm871": ("cp500", "4AÞ 5AÆ 5FÖ 79ð 7CÐ 8C` 8E{ 9C} 9E] A1ö AC@ AE[ BE\\ C0þ CC~ D0æ E0\xb4 EC^"),
    "ibm1047": ("cp037", "5F^ AD[ B0¬ BAÝ BB¨ BD]"),
    "ibm1141": ("cp273", "9F€ BC¯"),
    "ibm1142": ("cp500", "47} 4A# 5A€ 5BÅ 67$ 6Aø 70¦ 7BÆ 7CØ 80@ 9C{ 9E[ 9F] A1ü C0æ D0å DC~"),
    "ibm1143": ("cp500", "43{ 47} 4A§ 51` 5A€ 5BÅ 63# 67$ 6Aö 79é 7BÄ 7CÖ 9F] A1ü B5[ C0ä CC¦ D0å DC~ EC@"),
    "ibm1144": ("cp500", "44{ 48\\ 4A° 51] 54} 58~ 5Aé 6Aò 79ù 7B£ 7C§ 90[ 9F€ A1ì B1# B5@ C0à CD¦ D0è DD` E0ç"),
    "ibm1145": ("cp500", "49¦ 4F| 5F¬ 69# 6Añ 7BÑ 9F€ A1¨ BA^ BB! BD~"),
    "ibm1146": ("cp1140", "4A$ 5B£ A1¯ B0¢ B1[ BA^ BC~"),
    "ibm1147": ("cp500", "44@ 48\\ 4A° 51{ 54} 5A§ 6Aù 79µ 7B£ 7Cà 90[ 9F€ A0` A1¨ B1# B5] BD~ C0é D0è DD¦ E0ç"),
    "ibm1148": ("cp500", "9F€"),
    "ibm1149": ("cp500", "4AÞ 5AÆ 5FÖ 79ð 7CÐ 8C` 8E{ 9C} 9E] 9F€ A1ö AC@ AE[ BE\\ C0þ CC~ D0æ E0\xb4 EC^"),
    "ibm922": ("latin_1", "AF‾ D0Š DEŽ F0š FEž"),
    "ibm1129": (
        "latin_1",
        "A8œ B4Ÿ B8Œ C3Ă CC\u0300 D0Đ D2\u0309 D5Ơ DDƯ\u0303 E3ă EC\u0301 F0đ F2\u0323 F5ơ FDư₫",
    ),
    "mac_hebrew": (
        "mac_arabic",
        ("81\ufb1f 8Bãå 93ì 98ò 9Bõ A5%₪ AC, B00123456789 BB; BF? C0\ufffe„\ufffe\ufffe\ufffe\ufffe "
            "C6\u05bc\ufb4b\ufb35… CA\xa0\u05b8\u05b7\u05b5\u05b6\u05b4–—“”‘’ "
            "D6\ufb2a\ufb2b\u05bf\u05b0\u05b2\u05b1\u05bb\u05b9\ufffe\u05b3 "
            "E0אבגדהוזחטיךכלםמןנסעףפץצקרשת}]{[|"),
    ),
    "mac_thai": (
        "iso8859_11",
        ("80«»…\uf88c\uf88f\uf892\uf895\uf898\uf88b\uf88e\uf891\uf894\uf897“”\uf899 90\ufffe• "
            "92\uf884\uf889\uf885\uf886\uf887\uf888\uf88a\uf88d\uf890\uf893\uf896‘’\ufffe "
            "DB\ufeff\u200b–— EE™ FA®©\ufffe\ufffe\ufffe\ufffe"),
    ),
}
"""By name: the similar codec, and the characters of bytes that differ: the first byte, and one or more characters."""

_NONE: Final = "\ufffe"
"""What stands for no character in these tables, and in Python's own."""


class _DoubleByte(NamedTuple):
    """A character set of one and two bytes: the similar codec, what differs from it, and what it lacks.

    `lead` matches the first byte of two, `lacks` the characters of the codec that this set does not have.
    """

    base: str
    lead: bytes
    differences: str
    lacks: bytes = rb"(?!)"


_DOUBLE_BYTES: Final[Mapping[str, _DoubleByte]] = {
    "ibm942": _DoubleByte(
        "cp932",
        rb"[\x81-\x9f\xe0-\xfc]",
        "80¢ 815C— 8160〜 8161‖ 817C− 88B1鰺 89A7鶯 8A61蠣 8A68攪 8A96竈 8AC1灌 8AD0諫 "
        "8BC4堯 8C7A頸 8D56昻 8D7B礦 8EC7蘂 9078靱 9147賤 92D9壺 9376礪 938E檮 9393濤 93F4邇 "
        "9488蠅 954F檜 968A槇 9699儘 96F7藪 9779遙 9855籠 98D4侭 9AE2壷 9D98撹 9E77桧 9E8D梼 "
        "9FB7涛 9FF3潅 A0£ E086熙 E0F4瑤 E1E6砿 E1E8砺 E27D竃 E2C4篭 E541蕊 E54D薮 E579蛎 "
        "E5A2蝿 E67C諌 E6CB賎 E78E迩 E8D5靭 E8F2頚 E9CB鯵 E9F2鴬 EA9F尭 EAA0槙 EAA1遥 EAA2瑶 "
        "EAA4煕 FA55¦ FAD0昂 FD¬ FE\\ FF~",
        rb"[\x87\xed\xee]|\x81[\xca\xe6]",
    ),
    "ibm1381": _DoubleByte(
        "gb2312",
        rb"[\x8c-\xfe]",
        "80£ 81¬ 82¥ 83‾ 84¦ 8CE0ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹ￢￤＇ー 8CEF゛゜ヽヾ‐ 8CF5〆〇〒㈱℡‥ゝゞ▽▼ A3A7´",
    ),
}
# fmt: on

_ICONV: Final[Mapping[str, str]] = {
    "euc_tw": "EUC-TW",
    "iso2022_cn": "ISO-2022-CN",
    "iso2022_cn_ext": "ISO-2022-CN-EXT",
}
"""By name: large character sets that only the system's iconv has, under its own name."""

HOST_CCSIDS: Final[Mapping[int, str]] = {
    int(name.removeprefix("ibm")): name
    for name, (base, _) in _SINGLE_BYTES.items()
    if base in {"cp037", "cp273", "cp500", "cp1140"}
}
"""By CCSID: the host code pages here."""

ADDED: Final = (*_SINGLE_BYTES, *_DOUBLE_BYTES, *_ICONV)
"""The names under which `register` registers the code pages in Python."""


@cache
def register() -> None:
    """Register the code pages in Python, such that `"text".encode("ibm1047")` works."""
    codecs.register(_found)


@cache
def _found(name: str) -> codecs.CodecInfo | None:
    if name in _SINGLE_BYTES:
        return _single_byte(name, *_SINGLE_BYTES[name])
    if name in _DOUBLE_BYTES:
        return _double_byte(name, _DOUBLE_BYTES[name])
    return iconv.codec(name, _ICONV[name]) if name in _ICONV else None


def _differences(written: str) -> Iterator[tuple[bytes, str]]:
    for difference in written.split(" "):
        code = re.match("(?:[0-9A-F]{2}){1,2}", difference)
        assert code is not None
        first = int(code[0], 16)
        for at, character in enumerate(difference[code.end() :], first):
            yield at.to_bytes(len(code[0]) // 2, "big"), character


def _single_byte(name: str, base: str, differences: str) -> codecs.CodecInfo:
    characters = [bytes([byte]).decode(base, "ignore") or _NONE for byte in range(256)]
    for code, character in _differences(differences):
        characters[code[0]] = character
    table = "".join(characters)
    codes = codecs.charmap_build(table)

    def encode(text: str, errors: str = "strict", /) -> tuple[bytes, int]:
        return codecs.charmap_encode(text, errors, codes)

    def decode(raw: Any, errors: str = "strict", /) -> tuple[str, int]:
        return codecs.charmap_decode(raw, errors, table)

    class Encoder(codecs.IncrementalEncoder):
        def encode(self, text: str, final: bool = False) -> bytes:  # noqa: ARG002
            return encode(text, self.errors)[0]

    class Decoder(codecs.IncrementalDecoder):
        def decode(self, raw: Any, final: bool = False) -> str:  # noqa: ARG002
            return decode(raw, self.errors)[0]

    return codecs.CodecInfo(encode, decode, name=name, incrementalencoder=Encoder, incrementaldecoder=Decoder)


def _double_byte(name: str, definition: _DoubleByte) -> codecs.CodecInfo:
    characters = _characters(definition)
    codes = {character: code for code, character in characters.items()}
    tokens = re.compile(rb"%b[\x40-\xff]|[\s\S]" % definition.lead)

    def encode(text: str, errors: str = "strict", /) -> tuple[bytes, int]:
        written = bytearray()
        at = 0
        while at < len(text):
            code = codes.get(text[at])
            if code is None:
                error = UnicodeEncodeError(name, text, at, at + 1, "character not in the character set")
                replacement, at = codecs.lookup_error(errors)(error)
                code = replacement if isinstance(replacement, bytes) else encode(replacement)[0]
            else:
                at += 1
            written += code
        return bytes(written), len(text)

    def decode(raw: Any, errors: str = "strict", /, *, final: bool = True) -> tuple[str, int]:
        data = bytes(raw)
        found: list[str] = []
        at = 0
        while at < len(data):
            token = tokens.match(data, at)
            assert token is not None
            character = characters.get(token[0])
            if character is not None:
                found.append(character)
                at = token.end()
            elif not final and token.end() == len(data) and re.fullmatch(definition.lead, token[0]):
                break
            else:
                error = UnicodeDecodeError(name, data, at, at + 1, "byte not in the character set")
                replacement, at = codecs.lookup_error(errors)(error)
                found.append(str(replacement))
        return "".join(found), at

    class Encoder(codecs.IncrementalEncoder):
        def encode(self, text: str, final: bool = False) -> bytes:  # noqa: ARG002
            return encode(text, self.errors)[0]

    class Decoder(codecs.BufferedIncrementalDecoder):
        def _buffer_decode(self, raw: Any, errors: str, final: bool) -> tuple[str, int]:
            return decode(raw, errors, final=final)

    return codecs.CodecInfo(encode, decode, name=name, incrementalencoder=Encoder, incrementaldecoder=Decoder)


def _characters(definition: _DoubleByte) -> dict[bytes, str]:
    pairs = (bytes((first, second)) for first in range(0x80, 256) for second in range(0x40, 256))
    found = {}
    for code in (*(bytes([byte]) for byte in range(256)), *pairs):
        if re.fullmatch(definition.lead, code[:1]) is None or len(code) == 2:
            character = code.decode(definition.base, "ignore")
            if len(character) == 1 and re.match(definition.lacks, code) is None:
                found[code] = character
    return found | dict(_differences(definition.differences))
