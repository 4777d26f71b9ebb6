"""Find the type of a whole column of texts - numbers, dates or times - and convert its values.

All texts of a column determine its type. It stays text if numbers would lose information: leading zeros, or integers
beyond 2^53. Dates and times are in ISO 8601. Times with a zone are converted to UTC, since SAS has no zones.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.dataset.character_columns import constants
from app.dataset.conversion_error import first_wrong
from app.dataset.numeric import MAX_EXACT

MISSING_WORDS = ("", ".", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""The texts of missing values among numbers, dates and times."""

_MISSING = constants(MISSING_WORDS)
_WORDS = constants([word for word in MISSING_WORDS if word.isalpha() or "/" in word])
_TAG = r"^\.[A-Za-z_]$"
_NUMBER = r"^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?$"
_GROUPED = r"^-?(?:(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?$"
_CERTAINLY_GROUPED = r",[0-9]{3}[.,]"
_DIGITS = r"^[+-]?[0-9]+$"
_LONG_INTEGER = r"^-?[0-9]{16,}$"
_SAFE_LENGTH = 15
"""The length up to which a number without an exponent is exact, or has no more digits than a double holds."""
_MAYBE_ROUNDED = r"[0-9.]{16}|[eE]-[3-9][0-9]{2}"
_NOT_ZERO = r"^-?[0.]*[1-9]"
_BOOLEAN = r"^(?i:true|false)$"
_DAY = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-[0-9]{2}-[0-9]{2}"
_DATE = rf"^{_DAY}$"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_SPAN = r"^-?[0-9]{2,6}:[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?$"
_SPAN_PARTS = r"^-?(?P<h>[0-9]+):(?P<m>[0-9]+):(?P<s>[0-9]+)\.?(?P<f>[0-9]*)$"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_DATETIME = rf"^{_DAY}(?:[T ](?:{_CLOCK}|[0-9]{{2}}:[0-9]{{2}}))?$"
_ZONED = rf"^{_DAY}[T ](?:{_CLOCK}|[0-9]{{2}}:[0-9]{{2}}){_ZONE}$"
_ZONED_CLOCK = rf"^(?:{_CLOCK}|[0-9]{{2}}:[0-9]{{2}}){_ZONE}$"
_ENDS_IN_ZONE = rf":[0-9]{{2}}(?:\.[0-9]{{1,6}})?{_ZONE}$"

ROUNDED = "the number has more digits than a double holds"
IN_UTC = "SAS has no time zones: the times are sent in UTC"

_UTC = pa.timestamp("us", "UTC")

Mask = NDArray[np.bool_]
Convert = Callable[[pa.StringArray], pa.Array]


class TextType(NamedTuple):
    """A type of texts.

    Each text must match `pattern`. `convert` returns their values (missing ones are null) and raises pa.ArrowInvalid
    for a text that matches but has no value. `keeps` tells whether the conversion loses no information. All texts of
    this type are also of the type with the word `wider`, if that is given.
    """

    word: str
    data_type: pa.DataType
    pattern: str
    convert: Convert
    remark: str = ""
    keeps: Callable[[pa.StringArray, pa.Array], bool] = lambda _texts, _values: True
    wider: str = ""


def _keeps_numbers(texts: pa.StringArray, doubles: pa.DoubleArray) -> bool:
    """Tell whether all numbers are in the range of doubles, and all integers at most 2^53.

    The fraction of other numbers may have more digits than a double.
    """
    numbers: NDArray[np.float64] = doubles.to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():
        return False
    if (numbers == 0).any():
        zeros = texts.filter(pa.array(numbers == 0))
        if pc.any(pc.match_substring_regex(zeros, _NOT_ZERO)).as_py():
            return False
    if _are_short(texts):
        return True
    try:
        exact = pc.cast(texts.filter(pc.match_substring_regex(texts, _LONG_INTEGER)), pa.int64())
    except pa.ArrowInvalid:
        return False
    integers = exact.to_numpy(zero_copy_only=False)
    return not ((integers > MAX_EXACT) | (integers < -MAX_EXACT)).any()


def _are_short(texts: pa.StringArray) -> bool:
    return int(pc.max(pc.binary_length(texts)).as_py() or 0) <= _SAFE_LENGTH


def _cast(data_type: pa.DataType) -> Convert:
    return lambda texts: pc.cast(texts, data_type)


def _instants(texts: pa.StringArray) -> pa.TimestampArray:
    instants = pc.cast(texts, _UTC)
    years = pc.year(instants)
    if pc.any(pc.or_(pc.less(years, 1), pc.greater(years, 9999))).as_py():
        raise pa.ArrowInvalid("the year in UTC is outside of ISO 8601")
    return instants


def _time_of_day(moment: pa.TimestampType) -> Convert:
    """Return the conversion of times that are parsed as moments; those with a zone to UTC, as SAS's E8601TZ does."""

    def convert(texts: pa.StringArray) -> pa.Time64Array:
        moments = pc.cast(pc.binary_join_element_wise("1970-01-01", texts, "T"), moment)
        return pc.cast(pc.cast(moments, pa.timestamp("us")), pa.time64("us"))

    return convert


def _ungrouped(texts: pa.StringArray) -> pa.StringArray:
    return pc.replace_substring(texts, ",", "")


def are_zoned(texts: pa.StringArray) -> pa.BooleanArray:
    """Return which texts are times that state a zone; false for null."""
    return pc.fill_null(pc.match_substring_regex(texts, _ENDS_IN_ZONE), fill_value=False)


def first(wanted: pa.BooleanArray) -> int | None:
    """Return the first place that is true, or None."""
    at: int = pc.index(wanted, pa.scalar(value=True)).as_py()
    return at if at >= 0 else None


def _spans(texts: pa.StringArray) -> pa.DurationArray:
    parts = pc.extract_regex(texts, _SPAN_PARTS)
    hours, minutes, seconds = (pc.cast(pc.struct_field(parts, name), pa.int64()) for name in ("h", "m", "s"))
    fraction = pc.cast(pc.utf8_rpad(pc.struct_field(parts, "f"), 6, "0"), pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    ticks = pc.add(pc.multiply(whole, 1_000_000), fraction)
    signed = pc.if_else(pc.starts_with(texts, "-"), pc.negate(ticks), ticks)
    return pc.cast(signed, pa.duration("us"))


_WITH_GROUPS = "numbers with separators of thousands"
NUMBER = TextType("numbers", pa.float64(), _NUMBER, _cast(pa.float64()), keeps=_keeps_numbers, wider=_WITH_GROUPS)
GROUPED = TextType(
    _WITH_GROUPS,
    pa.float64(),
    _GROUPED,
    lambda texts: pc.cast(_ungrouped(texts), pa.float64()),
    "its separators of thousands were removed",
    lambda texts, doubles: _keeps_numbers(_ungrouped(texts), doubles),
)
TEXT = TextType("text", pa.string(), "", _cast(pa.string()))
DIGITS_ALONE = TextType(
    "text",
    pa.string(),
    _DIGITS,
    TEXT.convert,
    "digits with leading zeros or signs, or beyond 2^53, stay text since a number would change them",
)
DATES = TextType("dates", pa.date32(), _DATE, _cast(pa.date32()), wider="datetimes")
DATETIMES = TextType("datetimes", pa.timestamp("us"), _DATETIME, _cast(pa.timestamp("us")))
ZONED_DATETIMES = TextType("datetimes with zones", _UTC, _ZONED, _instants)
TIMES = TextType("times", pa.time64("us"), rf"^{_CLOCK}$", _time_of_day(pa.timestamp("us")), wider="spans of time")
ZONED_TIMES = TextType("times with zones", pa.time64("us"), _ZONED_CLOCK, _time_of_day(_UTC), IN_UTC)
SPANS = TextType("spans of time", pa.duration("us"), _SPAN, _spans)
MOMENTS: tuple[TextType, ...] = (DATES, DATETIMES, ZONED_DATETIMES, TIMES, ZONED_TIMES, SPANS)
KINDS: tuple[TextType, ...] = (
    NUMBER,
    GROUPED,
    TextType("booleans", pa.bool_(), _BOOLEAN, lambda texts: pc.equal(pc.ascii_lower(texts), "true")),
    *MOMENTS,
    DIGITS_ALONE,
)
"""All types except text. A column has the first type that fits all its texts."""


class TextColumn:
    """Determines the type of a column of texts. Pass it all batches, then read its `kind`."""

    def __init__(
        self,
        kinds: Sequence[TextType] = KINDS,
        *,
        tags: bool = False,
        decimal: str = ".",
        numbers: bool = False,
        grouped: bool = False,
    ) -> None:
        """Prepare for a column.

        With `tags`, `.A` and the like are missing values; with `numbers`, an empty column is numeric. With `grouped`,
        the comma in `1,234` separates thousands; otherwise only a column that also has a text like `1,234.5` or
        `1,234,567` shows that.
        """
        self._possible = list(kinds)
        self._is_grouped = grouped
        self._is_empty: TextType = NUMBER if numbers else TEXT
        self._decimal, self._allows_tags = decimal, tags
        self._values = False
        self._rows = 0
        self.has_tags = False
        self.odd: tuple[int, str] | None = None
        """The first text that made it a column of text, and its row from 1."""
        self.rounded: int | None = None
        """The first row, from 1, whose number has more digits than a double."""
        self.worded: tuple[int, str] | None = None
        """The first missing value that is a word, such as NA, and its row from 1."""
        self.is_plain = decimal == "." and not tags
        """Whether all its texts are written as pyarrow reads them: without surrounding blanks."""
        self.digits: tuple[int, str] | None = None
        """The first text of digits that a number would change, and its row from 1."""
        self._first_present: int | None = None
        self._first_group: int | None = None

    @property
    def kind(self) -> TextType:
        if not self._values:
            return NUMBER if self.has_tags else self._is_empty
        found = self._possible[0] if self._possible else TEXT
        return TEXT if found is GROUPED and not self._is_grouped else found

    def remarks(self) -> Iterator[tuple[str, int | None]]:
        """Yield remarks on the conversion, for people, each with the first row, from 1, that it concerns."""
        kind = self.kind
        if kind.remark:
            digits = None if self.digits is None or kind is not DIGITS_ALONE else self.digits[0]
            yield kind.remark, self._first_group if kind is GROUPED else digits or self._first_present
        if self.worded is not None and self._values and kind.data_type != pa.string():
            row, word = self.worded
            yield f"{word!r} is read as a missing value", row
        if kind.data_type == pa.float64() and self.rounded is not None:
            yield ROUNDED, self.rounded
        if self._possible[:1] == [GROUPED] and kind is TEXT:
            mark = "comma" if self._decimal == "." else "point"
            why = f"a {mark} may separate thousands or decimals, so it stays text; give the type numeric or `decimal`"
            yield why, self._first_group

    def see(self, column: pa.StringArray) -> None:
        """Add the next batch."""
        if self._possible:
            could_be_numbers = NUMBER in self._possible
            texts, present = self._present(column)
            self._narrow(texts, present)
            if could_be_numbers and NUMBER not in self._possible and DIGITS_ALONE in self._possible:
                values = texts.filter(present)
                at = first_wrong(len(values), lambda low, high: not _is_all(NUMBER, values.slice(low, high - low)))
                row = int(np.flatnonzero(present.to_numpy(zero_copy_only=False))[at])
                self.digits = self._rows + row + 1, str(column[row])
        self._rows += len(column)

    def values(self, column: pa.StringArray) -> pa.Array:
        """Return a batch's values, converted to the type."""
        if not self.kind.pattern or self.kind is DIGITS_ALONE:
            return column
        return self.kind.convert(_nulled(*self._present(column)))

    def tags(self, column: pa.StringArray) -> pa.StringArray:
        """Return a batch's special missing values, `.A` and the like; null elsewhere."""
        trimmed = pc.utf8_trim_whitespace(column)
        is_tag = pc.fill_null(pc.match_substring_regex(trimmed, _TAG), fill_value=False)
        return pc.if_else(is_tag, pc.ascii_upper(trimmed), pa.scalar(None, pa.string()))

    def _present(self, column: pa.StringArray) -> tuple[pa.StringArray, pa.BooleanArray]:
        """Return the texts without surrounding blanks, and which of them are present."""
        texts = pc.utf8_trim_whitespace(pc.fill_null(column, ""))
        absent = pc.is_in(texts, value_set=_MISSING)
        self.is_plain = self.is_plain and texts.equals(column)
        if self.worded is None and pc.any(absent).as_py():
            at = first(pc.is_in(texts, value_set=_WORDS))
            self.worded = None if at is None else (self._rows + at + 1, str(texts[at]))
        if self._allows_tags:
            is_tag = pc.match_substring_regex(texts, _TAG)
            self.has_tags = self.has_tags or bool(pc.any(is_tag).as_py())
            absent = pc.or_(absent, is_tag)
        return (texts if self._decimal == "." else _swapped(texts)), pc.invert(absent)

    def _narrow(self, texts: pa.StringArray, present: pa.BooleanArray) -> None:
        values = texts.filter(present)
        if not len(values):
            return
        if not self._values:
            self._first_present = self._rows + (first(present) or 0) + 1
            kinds, probe = self._possible, str(values[0])
            self._possible = [kind for kind in kinds if re.match(kind.pattern, probe)] or kinds[:1]
        self._values = True

        before = self._possible
        self._possible = []
        wider: set[str] = set()
        for kind in before:
            if kind.word in wider or _is_all(kind, values):
                self._possible.append(kind)
                wider.add(kind.wider)

        if not self._possible:
            matches: Mask = pc.match_substring_regex(values, before[0].pattern).to_numpy(zero_copy_only=False)
            at = 0 if matches.all() else int(np.argmin(matches))
            rows = np.flatnonzero(present.to_numpy(zero_copy_only=False))
            odd = values.slice(at, 1) if self._decimal == "." else _swapped(values.slice(at, 1))
            self.odd = self._rows + int(rows[at]) + 1, str(odd[0])
            return
        if self._possible[0] is GROUPED:
            if self._first_group is None and (row := first(pc.match_substring(texts, ","))) is not None:
                self._first_group = self._rows + row + 1
            if not self._is_grouped:
                self._is_grouped = bool(pc.any(pc.match_substring_regex(texts, _CERTAINLY_GROUPED)).as_py())
            texts = _ungrouped(texts)
        if self._possible[0] in {NUMBER, GROUPED} and self.rounded is None:
            rounded = first_rounded(texts, present)
            self.rounded = None if rounded is None else self._rows + rounded + 1


def _swapped(texts: pa.StringArray) -> pa.StringArray:
    """Return texts that look like numbers with points and commas exchanged.

    So a text with a point, such as a number in groups of three digits, is not a number.
    """
    looks = pc.match_substring_regex(texts, r"^[-+]?[0-9.,]+([eE][-+]?[0-9]+)?$")
    swapped = texts
    for what, by in ((",", "\0"), (".", ","), ("\0", ".")):
        swapped = pc.replace_substring(swapped, what, by)
    return pc.if_else(looks, swapped, texts)


def _nulled(texts: pa.StringArray, present: pa.BooleanArray) -> pa.StringArray:
    return pc.if_else(present, texts, pa.scalar(None, pa.string()))


def _is_all(kind: TextType, values: pa.StringArray) -> bool:
    if not pc.all(pc.match_substring_regex(values, kind.pattern)).as_py():
        return False
    try:
        return kind.keeps(values, kind.convert(values))
    except pa.ArrowInvalid:
        return False


def first_rounded(texts: pa.StringArray, present: pa.BooleanArray) -> int | None:
    """Return the first number that has more digits than a double can represent."""
    if _are_short(texts) and not any(pc.any(pc.match_substring(texts, mark)).as_py() for mark in ("e-", "E-")):
        return None
    suspects = pc.and_(present, pc.match_substring_regex(texts, _MAYBE_ROUNDED))
    if not pc.any(suspects).as_py():
        return None
    shortest = pc.cast(pc.cast(_nulled(texts, present), pa.float64()), pa.string())
    others = pc.and_kleene(suspects, pc.not_equal(texts, shortest)).to_numpy(zero_copy_only=False)
    return next((int(row) for row in np.flatnonzero(others) if is_rounded(str(texts[int(row)]))), None)


def is_rounded(number: str) -> bool:
    """Tell whether a double differs from this decimal, by the shortest digits that identify the double."""
    value = float(number)
    if value == 0 or not np.isfinite(value):  # exponents may be too long for decimals
        return re.match(_NOT_ZERO, number) is not None
    return Decimal(repr(value)) != Decimal(number)
