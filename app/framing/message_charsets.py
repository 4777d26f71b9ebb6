"""The character sets in which the text of a SAS message is read and written."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from app.codecs.ibm_mq.encodings import EBCDIC, is_ebcdic
from app.codecs.ibm_mq.encodings import charset as named_charset
from app.dataset import decode
from app.dataset.character_columns import GUESSES
from app.dataset.decode import Blocks, DecodingPlan, Unforeseen
from app.framing.protocol import StoreTable
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


def in_first_charset(message: PhysicalMessage, read: Callable[[str], T]) -> T:
    """Return what `read` returns for the first of `charsets` in which a message's text can be read.

    Raises the WireError of the first one if it can be read in none.
    """
    refusal: WireError | None = None
    for charset in charsets(message):
        try:
            return read(charset)
        except WireError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


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
        for charset in GUESSES:
            why = f"no character set is declared, and the texts are not {plan.how.charset}: they were read as {charset}"
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
