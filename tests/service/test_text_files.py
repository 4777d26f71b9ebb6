"""Text files in any character set: their records become lines of their own set, and go out as such."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from app.codecs.charset_text import TextDecoder
from app.codecs.ibm_mq.encodings import charset as codec_of
from app.codecs.sas import file_messages
from app.codecs.sas.dialect import DIALECTS, Dialect
from app.model.attachment import AttachmentDefinition, AttachmentKind, AttachmentState
from app.model.records import DOUBTFUL_SIZE
from app.service.finishing.media_types import text_codec
from app.service.sending.framer import Framer
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import delivery, framing_options
from tests.service.test_round_trip import content, receive, received
from tests.support.sas_client import Attached, Program, message

CHARACTER_SETS = [
    (367, "ascii"),
    (1208, "utf-8"),
    (1200, "utf-16-be"),
    (37, "cp037"),
    (500, "cp500"),
    (1047, "ibm1047"),
]
FILES_A_MESSAGE, MESSAGES = 50, 3


def texts(random: Random, charset: str) -> Iterator[str]:
    """Text files of all shapes: of no lines, of blank ones, with and without an end to the last, with long lines."""
    letters = "aäöZ 09.,;{}[]" if charset != "ascii" else "az09 .,;"
    yield ""
    yield "\n"
    yield "no end"
    yield "\n\nafter two blank lines\r\n"
    while True:
        lengths = random.choices((0, 3, 80, 9000), (3, 3, 3, 1), k=random.randint(1, 9))
        lines = ["".join(random.choices(letters, k=length)) for length in lengths]
        yield "\n".join(lines) + random.choice(("", "\n"))


@pytest.mark.parametrize("number", range(MESSAGES))
@pytest.mark.parametrize(("ccsid", "charset"), CHARACTER_SETS)
def test_text_goes_out_and_comes_back_byte_for_byte(tmp_path: Path, ccsid: int, charset: str, number: int) -> None:
    random = Random(ccsid + number)
    assert codec_of(ccsid) == charset
    made = [text for _, text in zip(range(FILES_A_MESSAGE), texts(random, charset), strict=False)]
    how = framing_options()._replace(ccsid=ccsid, dialect=random.choice(DIALECTS).name)
    with service_context(tmp_path) as context:
        files = [(AttachmentKind.TEXT_FILE, f"{n}.txt", text.encode(charset)) for n, text in enumerate(made)]
        messages = list(Framer(how, context.store).frame(delivery(context, files)))
        assert {message.ccsid for message in messages} == {ccsid}
        random.shuffle(messages)
        receive(context, messages)
        for place, expected in enumerate(made, 1):
            record = received(context, place)
            assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
            found = content(context, record)
            assert found == expected.encode(charset)
            assert text_codec(record.content_type) == charset
            decoder = TextDecoder(charset)
            assert "".join(decoder.decode([found[:7], found[7:]])) == expected
            assert not decoder.undecodable


@pytest.mark.parametrize(
    ("ccsid", "encoding", "records", "expected"),
    [
        (37, 785, [b"\x81", b"", b"\x82"], b"\x81\x25\x25\x82\x25"),
        (1025, 785, [b"\x81", b"\x82"], b"\x81\x25\x82\x25"),
        (1200, 273, [b"\0a", b"\x0a\x0d"], b"\0a\0\n\x0a\x0d\0\n"),
        (1200, 546, [b"a\0"], b"a\0\n\0"),
        (0, 273, [b"a"], b"a\n"),
        (0, 273, [b""], b"\n"),
    ],
)
def test_line_ends_are_those_of_the_texts_own_character_set(
    tmp_path: Path, ccsid: int, encoding: int, records: list[bytes], expected: bytes
) -> None:
    dialect = Dialect("<" if encoding == 546 else ">")
    program = Program(Random(1), dialect, ccsid=ccsid, encoding=encoding)
    description = file_messages.write_file_description(file_messages.FileDescription(80, 0), dialect)
    definition = AttachmentDefinition(AttachmentKind.TEXT_FILE, b"\1" * 16, "FILENAME", "a.txt")
    attached = Attached(definition, (description, *file_messages.write_records(records, dialect, 32_000)), expected)
    with service_context(tmp_path) as context:
        receive(context, [sent._replace(source="orders") for sent in message(program, [attached])])
        record = received(context, 1)
        assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
        assert content(context, record) == expected


@pytest.mark.parametrize("kind", [AttachmentKind.TEXT_FILE, AttachmentKind.BINARY_FILE])
@pytest.mark.parametrize("early", [True, False])
def test_what_the_sender_says_of_a_file_is_kept_and_compared(tmp_path: Path, kind: AttachmentKind, early: bool) -> None:
    program = Program(Random(1))
    description = file_messages.write_file_description(file_messages.FileDescription(2, 77_777), program.dialect)
    definition = AttachmentDefinition(kind, b"\1" * 16, "FILENAME", "a")
    attached = Attached(
        definition, (description, *file_messages.write_records([b"abc"], program.dialect, 32_000)), b"abc"
    )
    sources = {"orders": {"transport": "memory", "queue": "q", "on_doubt": "warn"}}
    sent = [each._replace(source="orders") for each in message(program, [attached])]
    with service_context(tmp_path / "held") as context:
        receive(context, sent if early else sent[::-1])
        record = received(context, 1)
        assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, DOUBTFUL_SIZE)
    with service_context(tmp_path / "warned", sources=sources) as context:
        receive(context, sent if early else sent[::-1])
        record = received(context, 1)
    assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
    assert (record.record_length, record.announced_size) == (2, 77_777)
    assert [warning.split(",")[0] for warning in record.warnings] == [
        "the sender announced 77777 bytes",
        "the sender announced records of at most 2 bytes",
    ]
