"""The folder of a table, by its name, which is any text.

ASCII letters, digits, `-`, `_` and `.` are kept. Any other character is written as `=XX` for each of its UTF-8 bytes,
in hexadecimal; so are `-`, `_` and `.` at the beginning. Some file systems ignore case, so all letters of a folder have
the same case: capitals if the name has a dot, small letters otherwise. `==` says that the letters after it have the
other case in the name. So `WORK.TRADES` is in `WORK.TRADES`, `Work.x` in `W==ORK.==X`, `files` in `files`, and `FILES`
in `==files`. A folder of more than 100 characters is cut, and `=-` and a digest follow its beginning.
"""

import hashlib
from collections.abc import Iterator
from string import ascii_letters, digits

LONGEST = 100
_BEGINNING = 60
_DIGEST_BYTES = 16
_KEPT = frozenset(digits + "-_.")
_NOT_FIRST = frozenset("-_.")
_LETTERS = frozenset(ascii_letters)
_EMPTY = "="
_TURN = "=="
_CUT = "=-"


def folder(name: str) -> str:
    """Return the folder of a table. The folders of two names always differ in more than case."""
    encoded = "".join(_pieces(name)) or _EMPTY
    if len(encoded) <= LONGEST:
        return encoded
    digest = hashlib.blake2b(_utf8(name), digest_size=_DIGEST_BYTES).hexdigest()
    return encoded[:_BEGINNING].rstrip("=") + _CUT + digest


def name(folder: str) -> str | None:
    """Return the table's name of a folder. Return None for a cut folder, or if it is not a table's folder."""
    if folder == _EMPTY:
        return ""
    try:
        found = _decoded(folder)
    except ValueError:
        return None
    return found if found and "".join(_pieces(found)) == folder else None


def is_cut(folder: str) -> bool:
    """Tell whether the folder is cut, so that only the table itself contains its name."""
    return _CUT in folder


def _pieces(name: str) -> Iterator[str]:
    is_upper = in_capitals = "." in name
    for at, character in enumerate(name):
        if character in _LETTERS:
            if character.isupper() != is_upper:
                yield _TURN
                is_upper = not is_upper
            yield character.upper() if in_capitals else character.lower()
        elif character in _KEPT and (at or character not in _NOT_FIRST):
            yield character
        else:
            yield from (f"={byte:02X}" for byte in _utf8(character))


def _decoded(encoded: str) -> str:
    out = bytearray()
    turned: list[int] = []
    at = 0
    while at < len(encoded):
        if encoded.startswith(_TURN, at):
            turned.append(len(out))
            at += 2
        elif encoded[at] == "=":
            out += bytes.fromhex(encoded[at + 1 : at + 3])
            at += 3
        else:
            out += encoded[at].encode("ascii")
            at += 1
    is_upper = b"." in out
    text = b""
    for start, end in zip([0, *turned], [*turned, len(out)], strict=True):
        text += out[start:end].upper() if is_upper else out[start:end].lower()
        is_upper = not is_upper
    return text.decode("utf-8")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8")
