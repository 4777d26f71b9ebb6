"""Host code pages that Python has no codec for, each as its differences from a codec of Python.

SAS and other programs use 1047 on z/OS. 1141 to 1149 are the national code pages with the euro; 277 to 871 are those
without it. Source: the code charts of IBM's Character Data Representation Architecture, as in glibc.
"""

import codecs
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

# fmt: off
_DIFFERENCES: Final[Mapping[int, tuple[str, str]]] = {
    277: ("cp500", "47} 4A# 5A¤ 5BÅ 67$ 6Aø 70¦ 7BÆ 7CØ 80@ 9C{ 9E[ 9F] A1ü C0æ D0å DC~"),
    278: ("cp500", "43{ 47} 4A§ 51` 5A¤ 5BÅ 63# 67$ 6Aö 79é 7BÄ 7CÖ 9F] A1ü B5[ C0ä CC¦ D0å DC~ EC@"),
    280: ("cp500", "44{ 48\\ 4A° 51] 54} 58~ 5Aé 6Aò 79ù 7B£ 7C§ 90[ A1ì B1# B5@ C0à CD¦ D0è DD` E0ç"),
    284: ("cp500", "49¦ 4F| 5F¬ 69# 6Añ 7BÑ A1¨ BA^ BB! BD~"),
    285: ("cp037", "4A$ 5B£ A1¯ B0¢ B1[ BA^ BC~"),
    297: ("cp500", "44@ 48\\ 4A° 51{ 54} 5A§ 6Aù 79µ 7B£ 7Cà 90[ A0` A1¨ B1# B5] BD~ C0é D0è DD¦ E0ç"),
    871: ("cp500", "4AÞ 5AÆ 5FÖ 79ð 7CÐ 8C` 8E{ 9C} 9E] A1ö AC@ AE[ BE\\ C0þ CC~ D0æ E0\xb4 EC^"),
    1047: ("cp037", "5F^ AD[ B0¬ BAÝ BB¨ BD]"),
    1141: ("cp273", "9F€ BC¯"),
    1142: ("cp500", "47} 4A# 5A€ 5BÅ 67$ 6Aø 70¦ 7BÆ 7CØ 80@ 9C{ 9E[ 9F] A1ü C0æ D0å DC~"),
    1143: ("cp500", "43{ 47} 4A§ 51` 5A€ 5BÅ 63# 67$ 6Aö 79é 7BÄ 7CÖ 9F] A1ü B5[ C0ä CC¦ D0å DC~ EC@"),
    1144: ("cp500", "44{ 48\\ 4A° 51] 54} 58~ 5Aé 6Aò 79ù 7B£ 7C§ 90[ 9F€ A1ì B1# B5@ C0à CD¦ D0è DD` E0ç"),
    1145: ("cp500", "49¦ 4F| 5F¬ 69# 6Añ 7BÑ 9F€ A1¨ BA^ BB! BD~"),
    1146: ("cp1140", "4A$ 5B£ A1¯ B0¢ B1[ BA^ BC~"),
    1147: ("cp500", "44@ 48\\ 4A° 51{ 54} 5A§ 6Aù 79µ 7B£ 7Cà 90[ 9F€ A0` A1¨ B1# B5] BD~ C0é D0è DD¦ E0ç"),
    1148: ("cp500", "9F€"),
    1149: ("cp500", "4AÞ 5AÆ 5FÖ 79ð 7CÐ 8C` 8E{ 9C} 9E] 9F€ A1ö AC@ AE[ BE\\ C0þ CC~ D0æ E0\xb4 EC^"),
}
# fmt: on
"""By CCSID: the similar codec, and the bytes that stand for another character."""

CODECS: Final[Mapping[int, str]] = {ccsid: f"ibm{ccsid}" for ccsid in _DIFFERENCES}
"""The names under which `register` registers the code pages in Python."""


@cache
def register() -> None:
    """Register the code pages in Python, such that `"text".encode("ibm1047")` works."""
    codecs.register({name: _codec(name, *_DIFFERENCES[ccsid]) for ccsid, name in CODECS.items()}.get)


def _codec(name: str, base: str, differences: str) -> codecs.CodecInfo:
    characters = list(bytes(range(256)).decode(base))
    for difference in differences.split():
        characters[int(difference[:2], 16)] = difference[2]
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
