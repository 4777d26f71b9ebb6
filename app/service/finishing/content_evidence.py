"""The evidence of finished content: the choices between readings, and the warnings.

Content is read in several ways, early and late, by both hosts. All of them pass their result through here, so that the
same messages always have the same evidence and warnings.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from app.codecs.ibm_mq.encodings import charset
from app.codecs.sas import dialect
from app.codecs.sas.file_messages import RecordTotals, is_announced_size
from app.framing.protocol import PartReader
from app.framing.sas_evidence import Evidence, charset_of_texts
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.evidence import Choice, Ground, Question, kept_warnings
from app.model.message import EVIDENCE, PhysicalMessage
from app.model.records import DOUBTFUL_CONTENT, AttachmentRecord, Finished, changed
from app.service.context import Stores

HEADERS = Choice(Question.HEADERS, "not-as-announced", Ground.VALUES)
"""A header is not what was announced, but could be read for certain. A warning says which."""

_OF_BYTES: Final = (AttachmentKind.BINARY_FILE, Question.RECORD_ENDS)

LINE_END: Final = "line-end"
_NO_LINE_END: Final = "no-line-end"
_WITHOUT_BY_SIZE = Choice(Question.LAST_LINE_END, _NO_LINE_END, Ground.ANNOUNCED)
_WITH_BY_SIZE = Choice(Question.LAST_LINE_END, LINE_END, Ground.ANNOUNCED)
_WITH_AS_USUAL = Choice(Question.LAST_LINE_END, LINE_END, Ground.PREFERENCE, (_NO_LINE_END,))


def last_line_end(size: int, line_end: int, announced: int | None) -> Choice:
    """Return whether the last line of a text file has a line end of `line_end` bytes; all else has `size` bytes.

    The announced size is compared modulo 2^32, since it may have only 4 bytes; zero announces none. Senders may or may
    not count line ends, so that a size may agree with neither.
    """
    if announced and not (size - announced) % (1 << 32):
        return _WITHOUT_BY_SIZE
    return _WITH_BY_SIZE if announced and not (size + line_end - announced) % (1 << 32) else _WITH_AS_USUAL


def charset_of_file(kind: AttachmentKind | None, first: PhysicalMessage) -> Evidence:
    """Return the choice of the character set that the media type of a text file has; none if it has none."""
    if kind is not AttachmentKind.TEXT_FILE or (named := charset(first.ccsid, first.encoding)) is None:
        return ()
    return (charset_of_texts(named, first.ccsid, first.encoding),)


def concluded(found: Finished, first: PhysicalMessage, stores: Stores) -> Finished:
    """Return finished content with the transport's warning about its `first` message, and with what the settings of its
    source have decided."""
    return _concluded(found, stores, first.source, first.properties.get(EVIDENCE), first.ccsid, first.encoding)


def concluded_binary(found: Finished, header_warning: str | None, source: str, stores: Stores) -> Finished:
    """Return a finished binary file as `concluded`, given only the transport's warning about its first message: nothing
    else of a binary file depends on that message."""
    return _concluded(found, stores, source, header_warning)


def _concluded(
    found: Finished, stores: Stores, name: str, header_warning: str | None, ccsid: int = 0, encoding: int = 0
) -> Finished:
    source = stores.settings.sources.get(name)
    evidence, warnings = found.evidence, found.warnings
    if source is not None and (source.dialect or source.ccsid or source.encoding):
        has_charset, has_encoding = bool(source.ccsid) and not ccsid, bool(source.encoding) and not encoding
        evidence = _by_setting(evidence, source.dialect, has_charset, has_encoding)
    if header_warning:
        evidence, warnings = (*evidence, HEADERS), (header_warning, *warnings)
    if evidence is found.evidence and not warnings:
        return found
    return changed(found, evidence=evidence, warnings=kept_warnings(warnings))


@lru_cache(maxsize=256)
def _by_setting(evidence: Evidence, dialect_name: str | None, has_charset: bool, has_encoding: bool) -> Evidence:
    """Return the choices, with `Ground.SETTING` where a setting has decided: the dialect of the source, or a
    character set or an Encoding that its messages lack."""
    decided: Mapping[Question, bool] = {
        Question.CHARACTER_SET: has_charset,
        Question.FLOAT_FORMAT: has_encoding,
        Question.DIALECT: has_encoding,
    }
    choices = []
    for choice in evidence:
        is_decided = choice.ground is Ground.DESCRIPTOR and decided.get(choice.question, False)
        if dialect_name is not None and choice.question is Question.DIALECT and not choice.others:
            is_decided = is_decided or _frame(choice.reading) == _frame(dialect_name)
        choices.append(choice._replace(ground=Ground.SETTING) if is_decided else choice)
    return tuple(choices)


def _frame(name: str) -> int:
    """Return the dialects that differ from the one of this name in nothing but the rule for NULs."""
    return dialect.frames(dialect.mask_of(dialect.Dialect.parse(name)))


@lru_cache(maxsize=256)
def other_bytes(kind: AttachmentKind | None, evidence: Evidence) -> str | None:
    """Return a sentence if content has another reading with other bytes, or other messages came for it, and nothing
    decides which is right.

    Whether a NUL belongs to a record is a question of bytes in binary files alone.
    """
    for question, reading, _, others in evidence:
        if question is Question.MESSAGES:
            return "messages of it contradict each other: the first ones were taken, the others are in quarantine"
        if others and question is Question.FILE_KIND:
            said, came = (word.replace("-", " ") for word in (reading, others[0]))
            return f"its header says that it is a {said}, and records of it came as those of a {came}"
        if others and (question is Question.DIALECT or (kind, question) == _OF_BYTES):
            return f"it reads as {reading} and, with other bytes, as {', '.join(others)}: the setting `dialect` decides"
    return None


def held(doubts: Iterable[str]) -> InvalidInputError:
    """Return the error of content that is held for these doubts."""
    why = f"{'; '.join(doubts)} (the source's setting on_doubt can accept it)"
    return InvalidInputError(DOUBTFUL_CONTENT, "", -1, why)


def require_certain(record: AttachmentRecord, evidence: Evidence, stores: Stores) -> None:
    """Raise InvalidInputError if this evidence of an attachment leaves other bytes possible, and its source holds
    such attachments."""
    ambiguity = other_bytes(record.kind, evidence)
    if ambiguity is not None and stores.on_doubt(record.source) == "hold":
        raise held([ambiguity])


def is_certain(reader: PartReader, tally: RecordTotals) -> bool:
    """Tell whether a binary file that was read to its end has the size that its sender announced, if it announced one,
    and no other reading."""
    description = reader.description
    is_announced = description is None or is_announced_size(description, tally, of_lines=False)
    return is_announced and other_bytes(AttachmentKind.BINARY_FILE, reader.evidence) is None


def with_earlier(found: Finished, record: AttachmentRecord) -> Finished:
    """Return finished content with what was known of the attachment before its content was read."""
    if not record.evidence and not record.warnings:
        return found
    answered = {choice.question for choice in found.evidence}
    earlier = (choice for choice in record.evidence if choice.question not in answered)
    evidence = (*earlier, *found.evidence)
    return changed(found, evidence=evidence, warnings=kept_warnings((*record.warnings, *found.warnings)))
