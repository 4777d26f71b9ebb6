"""The text to which IBM's dmpmqmsg, formerly qload (SupportPac MO03), unloads a queue.

Sources: IBM MQ, "Using the dmpmqmsg utility" and "Meaning of three letter codes in dmpmqmsg output file". These pages
do not describe the grammar of the lines; its source is the code of qload as IBM published it.

    * QLOAD Version:1.9 Created:Sat Nov 21 07:30:00 2026
    * Qmgr  = QM1
    * Queue = Q1

    A VER 2
    A MST 8
    A COI 414D5120514D31202020202020202020...
    X 48656C6C6F                                         <Hello>
    S ", ~"world~""

| line | meaning |
|---|---|
| `*` | a comment, anywhere, as is an empty line |
| `A code value` | a field of the descriptor; without a value it is as if absent |
| `N` | instead of a descriptor: there is none |
| `X digits` | bytes of the body in hexadecimal; text in `<>` after them repeats them as characters |
| `S "text"` | bytes of the body as they are, with `~"` for a quotation mark and `~~` for a tilde |
| `S text` | the same without surrounding blanks; nothing is escaped |
| `T text` | bytes of the body as they are, followed by a line feed |

A message is its descriptor and one or more lines of its body. IBM's program silently misreads some input, which this
one refuses: numbers and identifiers that contain or precede other characters, text after a closing quotation mark, a
field that is given twice, as after a message without a body, and a last line of a body without a line feed, which may
have been cut. IBM's program loses the last character of `S text`; this one keeps it.
"""

import re
from binascii import Error as NoDigitsError
from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from app.capture.capture_entries import LONGEST_MESSAGE, BoundedLine, Entry, LineError, Origin, RefusedEntry
from app.codecs.ibm_mq.constants import MQ_NO_ID, MQMT_DATAGRAM
from app.codecs.ibm_mq.headers import put_time_in
from app.codecs.ibm_mq.unwrap import unwrap
from app.wire import WireError

HEADS: Final = (b"* QLOAD", b"* DMPMQMSG")
"""The beginnings of a file that IBM's program accepts."""

_BODY = (b"X", b"S", b"T")
_KINDS = (b"A", b"N", *_BODY)
_VALUE_AT = 6
_MOST_KEPT = 2 * LONGEST_MESSAGE
_MQLONG = range(-(1 << 31), 1 << 31)
_NUMBER = re.compile(rb" *[+-]?\d{1,10} *")
_DIGITS = re.compile(rb"[0-9A-Fa-f]*")
_SHOWN_AGAIN = re.compile(rb" *(?:<.*>)? *", re.DOTALL)
_QUOTED = re.compile(rb'"([^"~]*(?:~["~][^"~]*)*)"')
_ESCAPED = re.compile(rb'~(["~])')


def _long(value: bytes, at: int, _: int) -> int:
    if not _NUMBER.fullmatch(value) or (number := int(value)) not in _MQLONG:
        raise LineError(at, f"{_shown(value)} is not a 32-bit number")
    return number


def _bytes(value: bytes, at: int, size: int) -> bytes:
    value = value.rstrip(b" ")
    if (end := _digits_end(value, 0)) != len(value):
        raise LineError(at + end, f"not a hexadecimal digit: {chr(value[end])!r}")
    if len(value) % 2 or len(value) > 2 * size:
        raise LineError(at, f"found {len(value):,} digits; {size} bytes have {2 * size}")
    return bytes.fromhex(str(value, "ascii")).ljust(size, b"\0")


def _text(value: bytes, at: int, size: int) -> str:
    text = value.rstrip(b" \0")
    if len(text) > size:
        raise LineError(at, f"{len(text):,} characters; at most {size} are allowed")
    return str(text, "latin-1")


class _Attribute(NamedTuple):
    """The reader of a value, its size in bytes, and the field that it becomes; most values are only checked."""

    read: Callable[[bytes, int, int], Any]
    size: int = 4
    field: str = ""


_ATTRIBUTES = {
    b"VER": _Attribute(_long),
    b"RPT": _Attribute(_long),
    b"MST": _Attribute(_long, field="msg_type"),
    b"EXP": _Attribute(_long),
    b"FDB": _Attribute(_long),
    b"ENC": _Attribute(_long, field="encoding"),
    b"CCS": _Attribute(_long, field="ccsid"),
    b"FMT": _Attribute(_text, 8, "format"),
    b"PRI": _Attribute(_long),
    b"PER": _Attribute(_long),
    b"MSI": _Attribute(_bytes, 24, "message_id"),
    b"COI": _Attribute(_bytes, 24, "correl_id"),
    b"BOC": _Attribute(_long),
    b"RTQ": _Attribute(_text, 48),
    b"RTM": _Attribute(_text, 48),
    b"USR": _Attribute(_text, 12),
    b"ACC": _Attribute(_bytes, 32),
    b"AID": _Attribute(_text, 32),
    b"AIX": _Attribute(_bytes, 32),
    b"PAT": _Attribute(_long),
    b"PAN": _Attribute(_text, 28),
    b"PTD": _Attribute(_text, 8, "put_date"),
    b"PTT": _Attribute(_text, 8, "put_time"),
    b"AOD": _Attribute(_text, 4),
    b"AOX": _Attribute(_bytes, 4),
    b"GRP": _Attribute(_bytes, 24, "group_id"),
    b"MSQ": _Attribute(_long, field="msg_seq_number"),
    b"OFF": _Attribute(_long, field="offset"),
    b"MSF": _Attribute(_long, field="msg_flags"),
    b"ORL": _Attribute(_long, field="original_length"),
}
_CODES = str(b", ".join(_ATTRIBUTES), "ascii")


def read(lines: Iterable[BoundedLine], origin: Origin) -> Iterator[Entry]:
    """Yield the messages of a file in their order, as the IBM MQ transport would have received them.

    A message is refused as a whole. As `bad-unload`, its body has the message's lines, at most 200 MiB. As
    `bad-mq-header`, for bad headers, it is the message as its descriptor describes it.
    """
    draft: _Draft | None = None
    for line in lines:
        if draft is not None and draft.add_digits(line):
            continue
        if not line.content.strip(b" \t") or line.content.startswith(b"*"):
            continue
        if draft is not None and draft.ends_before(line):
            yield draft.entry(origin)
            draft = None
        if draft is None:
            draft = _Draft(line.number)
        draft.add(line)
    if draft is not None:
        yield draft.entry(origin)


class _Draft:
    """A message under construction, to which lines are added."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._given: set[bytes] = set()
        self._fields: dict[str, Any] = {}
        self._body: bytearray | None = None
        self._lines = bytearray()
        self._refused: tuple[int, int, str] | None = None

    def ends_before(self, line: BoundedLine) -> bool:
        """Tell whether this line begins another message."""
        if not line.content.startswith((b"A", b"N")):
            return False
        return self._body is not None or line.content[:5] in self._given

    def add_digits(self, line: BoundedLine) -> bool:
        """Add a line of digits to a body that has begun, as nearly all lines are. Return false for any other line."""
        content, body = line.content, self._body
        if body is None or self._refused or not (line.is_ended and content.startswith(b"X ")):
            return False
        if len(body) + len(content) > LONGEST_MESSAGE:
            return False
        try:
            body += unhexlify(content[2:])
        except NoDigitsError:
            return False
        self._keep(content)
        return True

    def add(self, line: BoundedLine) -> None:
        self._keep(line.content)
        if self._refused is None:
            try:
                self._take(line)
            except LineError as error:
                self._refused = line.number, error.at, error.why
        elif line.content.startswith(_BODY) and self._body is None:
            self._body = bytearray()

    def entry(self, origin: Origin) -> Entry:
        """Return the message of the lines, or its refusal."""
        if self._refused is None and self._body is None:
            self._refused = self._number, -1, "the descriptor has no body; a line X, S or T must follow"
        if self._refused is not None:
            line, at, why = self._refused
            return origin.refused(bytes(self._lines), "bad-unload", why, line, at)
        fields = self._fields
        put_at = fields.pop("put_date", "").ljust(8) + fields.pop("put_time", "")
        initial = origin.initial
        found = initial._replace(
            **{"msg_type": initial.msg_type or MQMT_DATAGRAM, **fields},
            body=bytes(self._body or b""),
            put_time=put_time_in(put_at),
            received_at=origin.now(),
        )
        found = origin.completed(found)
        try:
            return unwrap(found)
        except WireError as error:
            return RefusedEntry(found, "bad-mq-header", str(error), self._number, row=error.row, body_at=error.at)

    def _keep(self, content: bytes) -> None:
        if (room := _MOST_KEPT - len(self._lines)) > 0:
            self._lines += content[:room] + b"\n"

    def _take(self, line: BoundedLine) -> None:
        """Add a line to the message. Raises LineError."""
        content, kind = line.content, line.content[:1]
        line.require_whole()
        if kind not in _KINDS or content[1:2] not in (b"", b" "):
            raise LineError(0, f"{_shown(content)} is not a line of an unloaded queue")
        if kind in _BODY:
            if self._body is None:
                self._body = bytearray()
                if not self._given:
                    raise LineError(0, "the body has no descriptor; lines A or a line N must precede it")
            self._body += _READ_BODY[kind](content)
            if not line.is_ended:
                raise LineError(len(content), "the file ends here without a line feed; add one if nothing was cut off")
            if len(self._body) > LONGEST_MESSAGE:
                self._body = bytearray()
                raise LineError(0, f"the message exceeds the limit of {LONGEST_MESSAGE:,} bytes")
        elif kind == b"A":
            self._describe(content)
        elif self._given:
            raise LineError(0, "a line N replaces the descriptor, but the descriptor has already begun")
        else:
            self._given.add(content[:5])

    def _describe(self, content: bytes) -> None:
        code = content[2:5]
        attribute = _ATTRIBUTES.get(code)
        if attribute is None or content[5:_VALUE_AT].strip(b" "):
            raise LineError(2, f"unknown code {_shown(content[2:])}; known are: {_CODES}")
        self._given.add(content[:5])
        if not content[_VALUE_AT:].strip(b" "):
            return
        value = attribute.read(content[_VALUE_AT:], _VALUE_AT, attribute.size)
        if attribute.field:
            self._fields[attribute.field] = b"" if value == MQ_NO_ID and code != b"COI" else value


def _hexadecimal(content: bytes) -> bytes:
    start = _blanks_end(content, 1)
    end = _digits_end(content, start)
    if not _SHOWN_AGAIN.fullmatch(content, end):
        raise LineError(end, f"not a hexadecimal digit: {chr(content[end])!r}")
    if (end - start) % 2:
        raise LineError(end, f"odd number of hexadecimal digits: {end - start:,}")
    return unhexlify(content[start:end])


def _string(content: bytes) -> bytes:
    start = _blanks_end(content, 1)
    if content[start : start + 1] != b'"':
        return content[start:].rstrip(b" ")
    found = _QUOTED.match(content, start)
    if found is None:
        at = start + 1
        while (at := content.find(b"~", at)) >= 0 and content[at + 1 : at + 2] in (b'"', b"~"):
            at += 2
        why = (
            "this text has no closing quotation mark"
            if at < 0 or at + 1 == len(content)
            else 'only ~ or " may follow ~'
        )
        raise LineError(max(at, start), why)
    if content[found.end() :].strip(b" "):
        raise LineError(
            found.end(),
            'unexpected text after the closing quotation mark; write a quotation mark within the text as ~"',
        )
    return _ESCAPED.sub(rb"\1", found[1])


_READ_BODY: dict[bytes, Callable[[bytes], bytes]] = {
    b"X": _hexadecimal,
    b"S": _string,
    b"T": lambda content: content[2:] + b"\n",
}


def _blanks_end(content: bytes, at: int) -> int:
    return len(content) - len(content[at:].lstrip(b" "))


def _digits_end(content: bytes, at: int) -> int:
    found = _DIGITS.match(content, at)
    return found.end() if found else at


def _shown(content: bytes) -> str:
    return repr(str(content[:20], "latin-1"))
