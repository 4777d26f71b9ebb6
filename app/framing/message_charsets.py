"""The character sets in which the text of a SAS message is read and written."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar

from app.codecs.ibm_mq.encodings import EBCDIC, is_ebcdic
from app.codecs.ibm_mq.encodings import charset as named_charset
from app.dataset import decode
from app.dataset.character_columns import GUESSES
from app.dataset.decode import Blocks, DecodingPlan, Unforeseen
from app.framing.protocol import StoreTable
from app.model.attachment import AttachmentDefinition
from app.model.message import PhysicalMessage
from app.model.records import FramingOptions
from app.wire import WireError

T = TypeVar("T")


def charsets(message: PhysicalMessage) -> Iterator[str]:
    """Yield the character sets to read a message's text in: the one that its descriptor names first, Latin-1 last.

    Latin-1 reads any bytes, so that a name in an undeclared character set does not lose an attachment.
    """
    named = _nearest(message.ccsid, message.encoding)
    yield from dict.fromkeys(name for name in (named, "utf-8", *GUESSES) if name)


_NAME = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII | re.IGNORECASE)


def in_first_charset(
    message: PhysicalMessage, read: Callable[[str], T], words: Callable[[T], Sequence[str]] = lambda _: ()
) -> T:
    """Return what `read` returns for the first of `charsets` in which a message's text can be read.

    A guess can read EBCDIC, too. It is taken for EBCDIC if all `words`, which are names of SAS, are such names then.

    Raises the WireError of the first one if it can be read in none.
    """
    refusal: WireError | None = None
    for charset in charsets(message):
        try:
            found = read(charset)
        except WireError as error:
            refusal = refusal or error
            continue
        if charset in GUESSES and named_charset(message.ccsid, message.encoding) is None:
            with suppress(WireError):
                names = words(ebcdic := read(EBCDIC))
                if names and all(map(_NAME.fullmatch, names)):
                    return ebcdic
        return found
    assert refusal is not None
    raise refusal


def with_doubt(
    message: PhysicalMessage, used: str, entries: Iterable[AttachmentDefinition]
) -> tuple[AttachmentDefinition, ...]:
    """Return the entries of a header whose names were read in this character set, with a warning if that is in doubt.

    Names that are UTF-8 are in no doubt, whatever character set without a codec is declared.
    """
    is_plain = used == "utf-8" and named_charset(message.ccsid, message.encoding) is None
    why = None if is_plain else charset_doubt(message, used, "names in the header")
    return tuple(entries) if why is None else tuple(replace(entry, warnings=(why,)) for entry in entries)


def charset_doubt(message: PhysicalMessage, used: str, texts: str = "names and labels") -> str | None:
    """Return why the character set in which texts were read is in doubt; None if it is the declared one, or if none is
    declared and they are UTF-8."""
    declared = named_charset(message.ccsid, message.encoding)
    if used == declared or (message.ccsid <= 0 and used == "utf-8"):
        return None
    if declared is not None:
        return f"{texts} are not {declared}, which is declared: they are read as {used}"
    if message.ccsid > 0:
        return f"{_undeclared(message)}: {texts} are read as {used}"
    return f"{_undeclared(message)}, and {texts} are not utf-8: they are read as {used}"


def _undeclared(message: PhysicalMessage) -> str:
    return f"no codec for CCSID {message.ccsid}" if message.ccsid > 0 else "no character set is declared"


class Stored(NamedTuple):
    """The number of observations that were stored, and the plan by which they were read."""

    observations: int
    plan: DecodingPlan


def store_table(plan: DecodingPlan, blocks: Blocks, message: PhysicalMessage, store: StoreTable) -> Stored:
    """Store the observations of a data set whose first message is given.

    If values do not fit the plan, they are stored by one that fits. If texts do not decode and no character set is
    declared, it is guessed for all of them. Raises as `decode.batches` does, except Unforeseen.
    """
    try:
        return Stored(store(plan.schema, decode.batches(plan, blocks)), plan)
    except Unforeseen as unforeseen:
        fitting = unforeseen.plan
    if fitting.has_damaged_texts and named_charset(message.ccsid, message.encoding) is None:
        for charset in (each for each in GUESSES if each != plan.how.charset):
            why = f"{_undeclared(message)}, and the texts are not {plan.how.charset}: they were read as {charset}"
            guessed = fitting.in_charset(charset, why)
            try:
                return Stored(store(guessed.schema, decode.batches(guessed, blocks)), guessed)
            except Unforeseen:
                continue
    return Stored(store(fitting.schema, decode.batches(fitting, blocks)), fitting)


def charset_of(options: FramingOptions) -> str:
    """Return the Python codec of the character set that names and texts are written in."""
    return _nearest(options.ccsid, options.encoding) or "utf-8"


def _nearest(ccsid: int, encoding: int) -> str | None:
    """Return the Python codec of a character set. For an EBCDIC one without a codec, it is code page 500, where
    the capitals, digits and blanks are the same."""
    return named_charset(ccsid, encoding) or (EBCDIC if is_ebcdic(ccsid) else None)
