"""Evidence and warnings of finished attachments: what decided each reading, and what else would have fitted."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from app.codecs.sas import file_messages
from app.codecs.sas.dialect import Dialect
from app.model.attachment import AttachmentDefinition, AttachmentKind, AttachmentState
from app.model.evidence import LONGEST_WARNING, MOST_WARNINGS, Choice, Ground, Question, kept_warnings
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter
from app.service.context import ReceiverContext
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import SOURCE
from tests.service.test_data_sets import bodies_of, messages, row, stored
from tests.service.test_round_trip import receive, received
from tests.support.sas_client import Attached, Program, message

ADA = row("3FF8000000000000", 0, 0, b"Ada     ")
TORN = row("3FF8000000000000", 0, 0, b"\xc5da     ")


def of(record: AttachmentRecord, question: Question) -> Choice:
    (choice,) = (each for each in record.evidence if each.question is question)
    return choice


def file(
    context: ReceiverContext,
    bodies: list[bytes],
    kind: AttachmentKind = AttachmentKind.BINARY_FILE,
    announced: int = 0,
    *,
    backwards: bool = False,
    **fields: Any,
) -> AttachmentRecord:
    """A finished file with these payloads."""
    program = Program(Random(1))
    description = file_messages.write_file_description(file_messages.FileDescription(0, announced), program.dialect)
    attached = Attached(AttachmentDefinition(kind, b"\1" * 16, "FILENAME", "a"), (description, *bodies), b"")
    sent = [each._replace(source=SOURCE, **fields) for each in message(program, [attached])]
    receive(context, sent[::-1] if backwards else sent)
    record = received(context, 1)
    assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
    return record


def records_of(lines: list[bytes]) -> list[bytes]:
    return list(file_messages.write_records(lines, Program(Random(1)).dialect, 32_000))


# --- data sets --------------------------------------------------------------------------------------------------------


def test_values_kept_as_bytes_are_a_warning_with_its_event(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        _, record = stored(context, messages(context, bodies_of([TORN])))
        warned = context.catalog.attachments(AttachmentFilter(warned=True), None, 9).items
        told = [event for event in context.catalog.events_after(0, 100) if event.subject == record.id]
    warning = "customer: values that do not decode, as bytes in customer__bytes"
    assert record.warnings == (warning,)
    assert of(record, Question.CHARACTER_SET) == Choice(Question.CHARACTER_SET, "utf-8", Ground.DESCRIPTOR)
    assert [each.id for each in warned] == [record.id]
    assert [event.type for event in told] == ["attachment.finished", "attachment.warned"]
    assert told[1].data == {"source": SOURCE, "name": "SALES", "warnings": [warning]}


@pytest.mark.parametrize(
    ("rows", "ccsid", "expected"),
    [
        ([ADA], 1208, Choice(Question.CHARACTER_SET, "utf-8", Ground.DESCRIPTOR)),
        ([ADA], 0, Choice(Question.CHARACTER_SET, "utf-8", Ground.VALUES)),
        ([TORN], 0, Choice(Question.CHARACTER_SET, "cp1252", Ground.PREFERENCE, ("latin-1",))),
        ([row("3FF8000000000000", 0, 0, b"\x81da     ")], 0, ("latin-1", Ground.PREFERENCE)),
    ],
)
def test_the_character_set_of_texts(tmp_path: Path, rows: list[bytes], ccsid: int, expected: Any) -> None:
    with service_context(tmp_path) as context:
        _, record = stored(context, messages(context, bodies_of(rows), ccsid=ccsid))
    found = of(record, Question.CHARACTER_SET)
    assert expected in {found, (found.reading, found.ground)}
    assert bool(record.warnings) == (found.ground is Ground.PREFERENCE)


def test_names_in_another_character_set_than_the_declared_one_are_a_warning(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        _, record = stored(context, messages(context, bodies_of([ADA], label="Größe"), ccsid=367))
    assert record.warnings == ("names and labels are not ascii, which is declared: they are read as utf-8",)
    assert of(record, Question.CHARACTER_SET).ground is Ground.VALUES


def test_the_format_of_numbers(tmp_path: Path) -> None:
    for encoding, expected in ((273, Ground.DESCRIPTOR), (0, Ground.PREFERENCE)):
        with service_context(tmp_path / str(encoding)) as context:
            _, record = stored(context, messages(context, bodies_of([ADA]), encoding=encoding))
        choice = of(record, Question.FLOAT_FORMAT)
        assert (choice.reading, choice.ground) == ("ieee", expected)
        assert choice.others == (() if expected is Ground.DESCRIPTOR else ("ibm",))


def test_what_settings_say(tmp_path: Path) -> None:
    source = {"transport": "memory", "queue": "q", "ccsid": 1252, "encoding": 273, "dialect": Dialect().name}
    with service_context(tmp_path, sources={SOURCE: source}) as context:
        sent = messages(context, bodies_of([TORN]), ccsid=0, encoding=0, charset="cp1252")
        _, record = stored(context, sent)
    assert record.warnings == ()
    assert {choice.question: choice.ground for choice in record.evidence} == {
        Question.DIALECT: Ground.SETTING,
        Question.CHARACTER_SET: Ground.SETTING,
        Question.FLOAT_FORMAT: Ground.SETTING,
    }


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("kind", [AttachmentKind.TEXT_FILE, AttachmentKind.BINARY_FILE])
def test_a_usual_file_has_no_other_reading(tmp_path: Path, kind: AttachmentKind, backwards: bool) -> None:
    with service_context(tmp_path) as context:
        record = file(context, records_of([b"a line", b"another"]), kind, backwards=backwards)
    choice = of(record, Question.DIALECT)
    assert (choice.ground, choice.others) == (Ground.ONLY_READING, ())
    assert choice.reading == Program(Random(1)).dialect.name
    assert not record.warnings


@pytest.mark.parametrize(
    ("announced", "reading", "ground"),
    [(0, "line-end", Ground.PREFERENCE), (14, "no-line-end", Ground.ANNOUNCED), (15, "line-end", Ground.ANNOUNCED)],
)
def test_the_last_line_end(tmp_path: Path, announced: int, reading: str, ground: Ground) -> None:
    with service_context(tmp_path) as context:
        record = file(context, records_of([b"a line", b"another"]), AttachmentKind.TEXT_FILE, announced)
    choice = of(record, Question.LAST_LINE_END)
    assert (choice.reading, choice.ground) == (reading, ground)
    assert record.size == (14 if reading == "no-line-end" else 15)
    assert choice.others == (() if announced else ("no-line-end",))


def test_nuls_behind_all_texts_are_told(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        record = file(context, records_of([b"a\0", b"b\0"]), AttachmentKind.TEXT_FILE)
    assert of(record, Question.RECORD_ENDS) == Choice(Question.RECORD_ENDS, "nul-included", Ground.VALUES)


# --- warnings ---------------------------------------------------------------------------------------------------------


def test_warnings_are_bounded() -> None:
    assert kept_warnings(["a", "b", "a"]) == ("a", "b")
    many = kept_warnings(f"{number}" for number in range(100))
    assert len(many) == MOST_WARNINGS
    assert many[-1] == "81 more warnings"
    exact = [f"{number}" for number in range(MOST_WARNINGS)]
    assert kept_warnings(exact) == tuple(exact)
    (long,) = kept_warnings(["x" * 10_000])
    assert len(long) == LONGEST_WARNING + 3
