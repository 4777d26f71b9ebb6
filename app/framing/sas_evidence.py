"""The choices between readings of an attachment of the SAS Common Messaging Interface, and what decided them.

The functions here report what the readers have decided; they decide nothing. Data sets and files of a sender are mostly
alike, so that the choices are the same objects.
"""

from collections.abc import Collection
from functools import lru_cache

from app.codecs.ibm_mq.encodings import charset as named_charset
from app.codecs.ibm_mq.encodings import float_format, integer_order, is_ebcdic
from app.codecs.sas import dialect
from app.codecs.sas.dialect import Dialect
from app.dataset.character_columns import GUESSES
from app.dataset.observation_layout import RowLayout
from app.model.evidence import Choice, Ground, Question

Evidence = tuple[Choice, ...]


@lru_cache(maxsize=256)
def of_file(dialects: int, chosen: Dialect, rivals: tuple[Dialect, ...] = ()) -> Evidence:
    """Return the choices of a file whose records were read in the `chosen` dialect, and could be read in `rivals`.

    The rule for the NUL after a record is a question of its own, since other messages may have another rule.
    """
    frame = dialect.frames(dialect.mask_of(chosen))
    others = [each for each in rivals if not dialect.mask_of(each) & frame]
    names = tuple(dict.fromkeys(_in_frame(dialects, each) for each in others))
    how = Choice(Question.DIALECT, _in_frame(dialects, chosen), _preferred_to(names), names)
    ends = tuple(each.nul for each in rivals if dialect.mask_of(each) & frame)
    if ends or chosen.nul != "absent":
        ground = Ground.VALUES if chosen.nul == "included" else _preferred_to(ends)
        return how, Choice(Question.RECORD_ENDS, f"nul-{chosen.nul}", ground, tuple(f"nul-{each}" for each in ends))
    return (how,)


def _in_frame(dialects: int, chosen: Dialect) -> str:
    """Return the name of the dialect of a set that agrees with the chosen one in all but the rule for NULs."""
    same = dialects & dialect.frames(dialect.mask_of(chosen))
    return dialect.preferred(same).name if same else chosen.name


def _preferred_to(others: Collection[object]) -> Ground:
    return Ground.PREFERENCE if others else Ground.ONLY_READING


@lru_cache(maxsize=256)
def dialect_of_data_set(dialects: int, encoding: int) -> Choice:
    """Return the choice among the dialects in which the definitions of a data set were read.

    They have the same meaning in all of these. Only the byte order of the values is left to choose.
    """
    chosen = dialect.preferred(dialects, encoding)
    others = dialect.with_order(dialects, "<" if chosen.order == ">" else ">")
    if not others:
        return Choice(Question.DIALECT, chosen.name, Ground.ONLY_READING)
    is_declared = integer_order(encoding) == chosen.order
    names = () if is_declared else (dialect.preferred(others).name,)
    return Choice(Question.DIALECT, chosen.name, Ground.DESCRIPTOR if is_declared else Ground.PREFERENCE, names)


@lru_cache(maxsize=256)
def charset_of_texts(charset: str, ccsid: int, encoding: int) -> Choice:
    """Return the choice of the character set in which texts were read.

    Without a declared one, UTF-8 is taken if all texts are UTF-8; else it is a guess.
    """
    named = named_charset(ccsid, encoding)
    if charset == named:
        return Choice(Question.CHARACTER_SET, charset, Ground.DESCRIPTOR)
    if charset in GUESSES:
        others = tuple(each for each in GUESSES if each != charset)
        return Choice(Question.CHARACTER_SET, charset, Ground.PREFERENCE, others)
    is_declared = charset != "utf-8" and is_ebcdic(ccsid)
    return Choice(Question.CHARACTER_SET, charset, Ground.DESCRIPTOR if is_declared else Ground.VALUES)


@lru_cache(maxsize=256)
def floats_of(floats: str, is_declared_ebcdic: bool, encoding: int, configured: int) -> Choice:
    """Return the choice of the format of floating-point numbers."""
    if float_format(encoding) is not None or is_declared_ebcdic:
        return Choice(Question.FLOAT_FORMAT, floats, Ground.DESCRIPTOR)
    if float_format(configured) is not None:
        return Choice(Question.FLOAT_FORMAT, floats, Ground.SETTING)
    return Choice(Question.FLOAT_FORMAT, floats, Ground.PREFERENCE, ("ibm",) if floats == "ieee" else ("ieee",))


@lru_cache(maxsize=256)
def rows_of(rows: RowLayout) -> Evidence:
    """Return the choice of the layout of rows, if there was any."""
    if rows.is_only:
        return ()
    return (Choice(Question.ROW_LAYOUT, rows.name, Ground.PREFERENCE if rows.others else Ground.VALUES, rows.others),)
