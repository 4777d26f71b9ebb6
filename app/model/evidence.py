"""Evidence: which choices between readings were made for an attachment, and what decided them.

Where an input allows several readings, all evidence decides (docs/evidence.md). Each choice is recorded with the
attachment that it was made for, in the words of this module.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

OnDoubt = Literal["hold", "warn"]
"""The treatment of an attachment in doubt: it is not finished, or it is finished with a warning."""


class Question(StrEnum):
    """A question about the bytes of an attachment that allows several answers."""

    DIALECT = "dialect"
    COUNT = "count"
    CHARACTER_SET = "character-set"
    FLOAT_FORMAT = "float-format"
    ROW_LAYOUT = "row-layout"
    RECORD_ENDS = "record-ends"
    LAST_LINE_END = "last-line-end"
    HEADERS = "headers"
    FILE_KIND = "file-kind"
    MESSAGES = "messages"


class Ground(StrEnum):
    """What decided a question."""

    ONLY_READING = "only-reading"
    """The bytes have no other reading."""
    DESCRIPTOR = "descriptor"
    """The message's descriptor states it: the MQMD's Encoding or CodedCharSetId, or properties in their place."""
    ANNOUNCED = "announced"
    """The sender announced a size, or a number of observations or variables, and one reading agrees with it."""
    SOURCE = "source"
    """Earlier attachments of the source, or of the subject, have shown it."""
    SETTING = "setting"
    """A setting of the source states it."""
    VALUES = "values"
    """The values read as one would expect in this reading alone."""
    PREFERENCE = "preference"
    """Several readings fit; the most usual one was taken. `others` has the rest."""


class Choice(NamedTuple):
    """The answer to a question: the `reading` that was taken, its `ground`, and the `others` that fit as well."""

    question: Question
    reading: str
    ground: Ground
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, said: Sequence[Any]) -> "Choice":
        """Return the choice that was written as a list. Raises ValueError for another list."""
        question, reading, ground, others = said
        return cls(Question(question), reading, Ground(ground), tuple(others))


MOST_WARNINGS: Final = 20
"""The most warnings that are kept of an attachment."""
LONGEST_WARNING: Final = 500
"""The most characters of a warning."""


def kept_warnings(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings that are kept of an attachment, each once. The last one says how many are left out."""
    found = [
        *dict.fromkeys(each if len(each) <= LONGEST_WARNING else f"{each[:LONGEST_WARNING]}..." for each in warnings)
    ]
    left_out = len(found) - MOST_WARNINGS + 1
    return tuple(found) if left_out < 2 else (*found[:-left_out], f"{left_out:,} more warnings")
