"""Headers that are not what was announced: every kind, in every place and writing, with each field of its head wrong.

The headers are made here, with `struct` alone. A message is either read as it was sent, with a warning where a header
is in the other byte order, or it is refused with the field and its byte. No byte of a header ever becomes data, but for
an MQMDE that IBM's table 1 calls data.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise, product
from typing import NamedTuple

import pytest

from app.codecs.ibm_mq.image import read_image
from app.model.message import EVIDENCE, PhysicalMessage
from app.wire import WireError
from tests.support.cases import for_each

DATA = b"\x7fdata of the file, " * 4
ENCODINGS = {">": 273, "<": 546}
CCSIDS = {"ascii": 819, "cp500": 500}
WORDS = {">": "big-endian", "<": "little-endian"}
LENGTHS = {  # format: identifier, version, length; whether more may belong to it
    "MQCICS": ("CIH ", 2, 180, False),
    "MQHDIST": ("DH  ", 1, 48, True),
    "MQHEPCF": ("EPH ", 1, 68, True),
    "MQHREF": ("RMH ", 1, 108, True),
    "MQHRF": ("RFH ", 1, 44, True),
    "MQHRF2": ("RFH ", 2, 64, True),
    "MQHSAP": ("SAPH", 1, 108, False),
    "MQHWIH": ("WIH ", 1, 120, False),
    "MQIMS": ("IIH ", 1, 84, False),
}
KINDS = [*LENGTHS, "MQDEAD", "MQXMIT"]
NAMES = {
    "MQCICS": "MQCIH",
    "MQHDIST": "MQDH",
    "MQHEPCF": "MQEPH",
    "MQHREF": "MQRMH",
    "MQHRF": "MQRFH",
    "MQHRF2": "MQRFH2",
    "MQHSAP": "MQSAPH",
    "MQHWIH": "MQWIH",
    "MQIMS": "MQIIH",
    "MQDEAD": "MQDLH",
    "MQXMIT": "MQXQH",
    "MQHMDE": "MQMDE",
}
SPEAKS_OF_ITSELF = {"MQCICS", "MQIMS"}
"""The Encoding of what follows these is the one of the header itself."""


class Writing(NamedTuple):
    order: str
    charset: str

    def announces(self) -> tuple[int, int]:
        return ENCODINGS[self.order], CCSIDS[self.charset]


WRITINGS = [Writing(order, charset) for order, charset in product(ENCODINGS, CCSIDS)]


class Says(NamedTuple):
    """What a descriptor or a header says of what follows it."""

    format: str
    encoding: int
    ccsid: int


def text(chars: str, size: int, writing: Writing) -> bytes:
    return chars.ljust(size).encode(writing.charset)


def descriptor(says: Says, writing: Writing, offset: int | None = None) -> bytes:
    """An MQMD of version 1; of version 2 with an Offset."""
    head = struct.pack(
        f"{writing.order}4siiiiiii8sii",
        text("MD", 4, writing),
        1 if offset is None else 2,
        *(0, 8, -1, 0),
        *(says.encoding, says.ccsid),
        text(says.format, 8, writing),
        *(0, 0),
    )
    whole = head + b"I" * 24 + bytes(24 + 4 + 96 + 12 + 32) + text("", 32, writing) + bytes(4)
    whole += text("", 28, writing) + text("2026010112000000", 16, writing) + text("", 4, writing)
    assert len(whole) == 324
    if offset is None:
        return whole
    return whole + struct.pack(f"{writing.order}24siiii", b"G" * 24, 1, offset, 2, -1)


def header(kind: str, says: Says, writing: Writing) -> bytes:
    order = writing.order
    if kind == "MQXMIT":
        return (
            text("XQH", 4, writing) + struct.pack(f"{order}i", 1) + text("Q", 96, writing) + descriptor(says, writing)
        )
    if kind == "MQDEAD":
        after = struct.pack(f"{order}ii", says.encoding, says.ccsid) + text(says.format, 8, writing)
        behind = struct.pack(f"{order}i", 11) + text("", 44, writing)
        return text("DLH", 4, writing) + struct.pack(f"{order}ii", 1, 2053) + text("Q", 96, writing) + after + behind
    if kind == "MQHMDE":
        struc_id, version, length = "MDE ", 2, 72
        behind = struct.pack(f"{order}24siiii", bytes(24), 1, 0, 0, -1)
    else:
        struc_id, version, length, _ = LENGTHS[kind]
        behind = bytes(length - 32)
    if kind == "MQHRF":
        behind = text("a b", 12, writing)
    if kind == "MQHRF2":
        behind = struct.pack(f"{order}ii", 1208, 24) + b"<usr><a>b</a></usr>     "
    head = struct.pack(
        f"{order}4siiii8si",
        text(struc_id, 4, writing),
        *(version, length, says.encoding, says.ccsid),
        text(says.format, 8, writing),
        0,
    )
    assert len(head + behind) == length
    return head + behind


class Sent(NamedTuple):
    """A message as an MQ image, and where its last header begins."""

    image: bytes
    at: int

    def with_bytes(self, place: int, value: bytes) -> bytes:
        at = self.at + place
        return self.image[:at] + value + self.image[at + len(value) :]


PREFIXES: list[list[tuple[str, Writing]]] = [
    [],
    [("MQDEAD", Writing("<", "cp500"))],
    [("MQHRF2", Writing(">", "ascii")), ("MQXMIT", Writing("<", "ascii"))],
]
STRING = Says("MQSTR", 785, 1208)


def sent(kind: str, announced: Writing, written: Writing, prefix: list[tuple[str, Writing]], says: Says) -> Sent:
    """A message whose last header is of this kind, announced in one writing and written in another."""
    chain = [*prefix, (kind, announced)]
    own = Writing("<", "ascii")
    image = descriptor(Says(chain[0][0], *chain[0][1].announces()), own)
    for (before, writing), (following, how) in pairwise(chain):
        image += header(before, Says(following, *how.announces()), writing)
    return Sent(image + header(kind, says, written) + DATA, len(image))


def read(image: bytes) -> PhysicalMessage:
    return read_image(image, "source", "framing")


def refusal(image: bytes) -> tuple[str, int]:
    with pytest.raises(WireError) as refused:
        read(image)
    return refused.value.row, refused.value.at


def every(kind: str) -> Iterator[tuple[Writing, list[tuple[str, Writing]], Sent]]:
    for writing, prefix in product(WRITINGS, PREFIXES):
        yield writing, prefix, sent(kind, writing, writing, prefix, STRING)


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_as_announced_is_read_without_a_word(kind: str) -> None:
    for writing, _, image in every(kind):
        message = read(image.image)
        expected = STRING if kind not in SPEAKS_OF_ITSELF else Says("MQSTR", *writing.announces())
        assert (message.format, message.encoding, message.ccsid) == expected
        assert bytes(message.body) == DATA
        assert EVIDENCE not in message.properties


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_identifier_is_refused(kind: str) -> None:
    for writing, _, image in every(kind):
        right = image.image[image.at : image.at + 4]
        wrong = [bytes(4), b"\xff" * 4, b"data", text("MD", 4, writing), text("TM", 4, writing)]
        wrong += [right[:n] + bytes([right[n] ^ 1]) + right[n + 1 :] for n in range(4)]
        other = "cp500" if writing.charset == "ascii" else "ascii"
        wrong.append(right.decode(writing.charset).encode(other))
        for each in wrong:
            assert refusal(image.with_bytes(0, each)) == (f"{NAMES[kind]}.struc_id", image.at)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_version_is_refused(kind: str) -> None:
    for writing, _, image in every(kind):
        right = image.image[image.at + 4 : image.at + 8]
        wrong = [struct.pack(f"{writing.order}i", number) for number in (0, -1, 3, 256, 1 << 30)]
        for each in [*wrong, right[::-1]]:
            row, at = refusal(image.with_bytes(4, each))
            assert (row, at) == (f"{NAMES[kind]}.version", image.at + 4), each


@pytest.mark.parametrize("kind", LENGTHS)
def test_a_wrong_length_is_refused(kind: str) -> None:
    _, version, length, is_open = LENGTHS[kind]
    least = {"MQHRF": 32, "MQHRF2": 36}.get(kind, length)
    for writing, _, image in every(kind):
        wrong = {0, -1, -length, least - 1, length + len(DATA) + 1, 1 << 30}
        wrong |= set() if is_open else {length + 1, length + 4, length - 4, length + len(DATA)}
        swapped = image.image[image.at + 8 : image.at + 12][::-1]
        for each in [swapped, *(struct.pack(f"{writing.order}i", number) for number in wrong)]:
            assert refusal(image.with_bytes(8, each)) == (f"{NAMES[kind]}.struc_length", image.at + 8), (version, each)


def test_a_length_that_contradicts_the_folders_is_refused() -> None:
    for writing, _, image in every("MQHRF2"):
        for more in (-24, -4, -1, 1, 4, 8, len(DATA)):
            row, _at = refusal(image.with_bytes(8, struct.pack(f"{writing.order}i", 64 + more)))
            assert row.startswith("MQRFH2.folders")


@pytest.mark.parametrize("kind", KINDS)
def test_the_other_byte_order_is_read_with_a_warning(kind: str) -> None:
    for announced, prefix in product(WRITINGS, PREFIXES):
        written = announced._replace(order="<" if announced.order == ">" else ">")
        image = sent(kind, announced, written, prefix, STRING)
        message = read(image.image)
        speaks = kind in SPEAKS_OF_ITSELF
        assert message.encoding == (0 if speaks else 785)
        assert (message.format, bytes(message.body)) == ("MQSTR", DATA)
        said = f"the {NAMES[kind]} at byte {image.at} is {WORDS[written.order]}, but its Encoding "
        said += f"{ENCODINGS[announced.order]} says {WORDS[announced.order]}"
        said += "; nothing says the byte order of what follows it" if speaks else ""
        assert message.properties[EVIDENCE] == said


@pytest.mark.parametrize("kind", KINDS)
def test_the_other_family_of_character_sets_is_refused(kind: str) -> None:
    """Nothing then says in which character set the names and the data are."""
    for announced, prefix, order in product(WRITINGS, PREFIXES, ENCODINGS):
        written = Writing(order, "cp500" if announced.charset == "ascii" else "ascii")
        image = sent(kind, announced, written, prefix, STRING)
        assert refusal(image.image) == (f"{NAMES[kind]}.struc_id", image.at)


@pytest.mark.parametrize("kind", LENGTHS)
def test_the_other_byte_order_with_a_length_that_does_not_agree_is_refused(kind: str) -> None:
    for announced, prefix in product(WRITINGS, PREFIXES):
        written = announced._replace(order="<" if announced.order == ">" else ">")
        image = sent(kind, announced, written, prefix, STRING)
        wrong = image.with_bytes(8, image.image[image.at + 8 : image.at + 12][::-1])
        assert refusal(wrong) == (f"{NAMES[kind]}.version", image.at + 4)


def test_each_header_in_the_other_byte_order_has_its_sentence() -> None:
    big, little = Writing(">", "ascii"), Writing("<", "ascii")
    image = descriptor(Says("MQDEAD", *big.announces()), big)
    image += header("MQDEAD", Says("MQHRF2", *big.announces()), little)
    image += header("MQHRF2", STRING, little) + DATA
    said = read(image).properties[EVIDENCE]
    assert [sentence.split(" is ")[0] for sentence in said.split("; ")] == [
        "the MQDLH at byte 324",
        "the MQRFH2 at byte 496",
    ]


def test_a_descriptor_in_a_transmission_header_is_one() -> None:
    for writing, _, image in every("MQXMIT"):
        for place, row in ((104, "struc_id"), (108, "version")):
            right = image.image[image.at + place : image.at + place + 4]
            for wrong in (bytes(4), b"\xff" * 4, right[::-1]):
                assert refusal(image.with_bytes(place, wrong)) == (f"MQMD1.{row}", image.at + place), writing


@pytest.mark.parametrize("announced", WRITINGS)
def test_an_extension_in_another_writing_or_version_is_data_with_a_warning(announced: Writing) -> None:
    for written, prefix in product(WRITINGS, PREFIXES):
        image = sent("MQHMDE", announced, written, prefix, STRING)
        if written != announced:
            assert_is_data(read(image.image), image)
        for version in (0, 1, 3):
            wrong = image.with_bytes(4, struct.pack(f"{written.order}i", version))
            assert_is_data(read(wrong), Sent(wrong, image.at))


def assert_is_data(message: PhysicalMessage, image: Sent) -> None:
    assert (message.format, bytes(message.body)) == ("MQHMDE", image.image[image.at :])
    assert message.properties[EVIDENCE].startswith(f"the MQMDE at byte {image.at} is data, since its version")


@for_each("kind", KINDS)
@for_each("body", [DATA, b"", bytes(500), b"XYZ " + bytes(64)])
def test_a_later_segment_continues_a_message_whose_header_was_in_the_first(kind: str, body: bytes) -> None:
    for writing in WRITINGS:
        says = Says(kind, *writing.announces())
        message = read(descriptor(says, writing, offset=4096) + body)
        assert (message.format, bytes(message.body), message.offset) == (kind, body, 4096)
        with pytest.raises(WireError):
            read(descriptor(says, writing, offset=0) + body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_header_of_a_later_segment_is_refused(kind: str) -> None:
    for writing in WRITINGS:
        image = descriptor(Says(kind, *writing.announces()), writing, offset=4096)
        whole = header(kind, STRING, writing)
        assert bytes(read(image + whole + DATA).body) == DATA
        assert refusal(image + bytes(4) + whole[4:] + DATA) == (f"{NAMES[kind]}.struc_id", len(image))
        wrong = whole[:4] + b"\xff" * 4 + whole[8:]
        assert refusal(image + wrong + DATA) == (f"{NAMES[kind]}.version", len(image) + 4)
