"""SAS format references: `DATE9.`, `BEST12.2` and `$CHAR20.` have a name, a width and decimals.

The name of a format states the kind of its numbers: days or seconds since 1960, or seconds of a day. Names are matched
whole, so a user's format whose name begins like one of SAS's (`DAYSUP.`, `MONEY.`) is not a date format. Formats that
show only one part of a date (`MONTH.`, `WEEKDAY.`) are not date formats either: they are often used for plain counts.
Sources: SAS, "Formats by Category"; the tables of pandas, pyreadstat and haven.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from app.model.names import in_capitals

# No format name ends in a digit, so the digits before the point are the width.
_REFERENCE = re.compile(r"(?P<name>.*?)(?P<width>\d*)\.(?P<decimals>\d*)", re.DOTALL)


class SasFormat(NamedTuple):
    """A reference to a SAS format or informat. A missing width or number of decimals is 0."""

    name: str = ""
    width: int = 0
    decimals: int = 0

    def __str__(self) -> str:
        if not (self.name or self.width or self.decimals):
            return ""
        return f"{self.name}{self.width or ''}.{self.decimals or ''}"


def parse(reference: str) -> SasFormat:
    """Return the format of a reference, the inverse of `str`. A text without a point is a name alone."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return SasFormat(reference)
    return SasFormat(match["name"], int(match["width"] or 0), int(match["decimals"] or 0))


Kind = Literal["date", "datetime", "time", "time-of-day"]
"""A `time` may be any number of seconds. A `time-of-day` shows the hours of a time or of a datetime."""

_SEPARATORS = "BCDNPS"

_DATES = (
    "DATE JULIAN MINGUO MONYY NENGO PDJULG PDJULI WEEKDATE WEEKDATX WEEKU WEEKV WEEKW WORDDATE WORDDATX YYMON "
    "E8601DA B8601DA IS8601DA HDATE HEBDATE JDATEMD JDATEYM JDATEYMD JDATEMDW JDATEYMW "
    "NLDATE NLDATEL NLDATEM NLDATES NLDATEW NLDATEYM NLDATEYML NLDATEYMM NLDATEYMS NLDATEYQ NLDATEYQL NLDATEYQM "
    "NLDATEYQS NLDATEYW"
)
_DATETIMES = (
    "DATETIME DATEAMPM MDYAMPM DTDATE DTMONYY DTWKDATX DTYEAR DTYYQC "
    "NLDATM NLDATMAP NLDATMDT NLDATML NLDATMLT NLDATMM NLDATMMDL NLDATMMDM NLDATMMDS NLDATMS NLDATMTM NLDATMTZ NLDATMW "
    "NLDATMWZ NLDATMYM NLDATMYML NLDATMYMM NLDATMYMS NLDATMYQ NLDATMYQL NLDATMYQM NLDATMYQS NLDATMYR NLDATMYW NLDATMZ "
    "E8601DN E8601DT E8601DX E8601DZ E8601LX B8601DN B8601DT B8601DX B8601DZ B8601LX IS8601DN IS8601DT IS8601DZ"
)
_TIMES = (
    "TIME TIMEAMPM HHMM HOUR MMSS NLTIME NLTIMAP E8601LZ E8601TM E8601TX E8601TZ B8601LZ B8601TM B8601TX B8601TZ "
    "IS8601LZ IS8601TM IS8601TX IS8601TZ"
)
_WITH_SEPARATOR = {
    "DDMMYY": _SEPARATORS,
    "MMDDYY": _SEPARATORS,
    "YYMMDD": _SEPARATORS,
    "MMYY": _SEPARATORS[1:],
    "YYMM": _SEPARATORS[1:],
    "YYQ": _SEPARATORS[1:],
    "YYQR": _SEPARATORS[1:],
}
_LANGUAGES = "AFR CAT CRO CSY DAN DES DEU ENG ESP EUR FIN FRA FRS HUN ITA MAC NLD NOR POL PTG RUS SLO SVE"
_NATIONAL: Mapping[str, Kind] = {
    "DFDD": "date",
    "DFDE": "date",
    "DFMY": "date",
    "DFWDX": "date",
    "DFWKX": "date",
    "DFDT": "datetime",
}


KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(_DATES.split(), "date"),
    **dict.fromkeys(_DATETIMES.split(), "datetime"),
    **dict.fromkeys(_TIMES.split(), "time"),
    "TOD": "time-of-day",
    **{name + each: "date" for name, separators in _WITH_SEPARATOR.items() for each in ["", *separators]},
    **{language + name: kind for language in _LANGUAGES.split() for name, kind in _NATIONAL.items()},
}
"""The kinds by the base name of a format, in capitals."""


@lru_cache(maxsize=1024)
def kind_of(name: str) -> Kind | None:
    """Return the kind of numbers that have this format (`DATE`, also `date9.`), or None for plain ones."""
    return KINDS.get(in_capitals(name.strip()).split(".")[0].rstrip("0123456789"))
