"""A client's options for a table, beside the format."""

from dataclasses import dataclass, fields
from typing import Literal

Missing = Literal["null", "tag", "column"]
Dates = Literal["iso", "sas"]
Names = Literal["keep", "lower"]
Blank = Literal["empty", "null"]
Formulas = Literal["keep", "escape"]
Times = Literal["time", "duration"]


class OptionError(ValueError):
    """An option that does not apply or is wrong: `option` is its name, `why` a sentence."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"{option}: {why}")
        self.option, self.why = option, why


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The requested options; None for an option that was not given, where the format's default applies.

    - `columns`: variables by name, in this order, in any case;
    - `offset`, `limit`: number of rows to skip at the beginning, and maximum number of rows;
    - `missing`: special missing values as null, as their tag (`.A`) in the cell, or in a side column;
    - `dates`: dates, datetimes and times in ISO 8601 (in their own types, if a format has them), or as the numbers
      that SAS keeps: days or seconds since 1960-01-01, or seconds;
    - `names`: column names unchanged, or in lower case;
    - `blank`: blank character values as empty text or as null;
    - `formulas`: CSV cells that spreadsheets take for formulas unchanged, or with an apostrophe before them;
    - `rename`: names that the format cannot hold are changed;
    - `labels`: value labels are shown in place of values;
    - `times`: times of day in their own type, or as durations since midnight, which more programs read;
    - `attrs`: labels and formats also where pandas finds them, as `DataFrame.attrs`.
    """

    columns: tuple[str, ...] | None = None
    offset: int | None = None
    limit: int | None = None
    missing: Missing | None = None
    dates: Dates | None = None
    names: Names | None = None
    blank: Blank | None = None
    rename: bool | None = None
    formulas: Formulas | None = None
    labels: bool | None = None
    times: Times | None = None
    attrs: bool | None = None

    def given(self) -> dict[str, object]:
        """Return the options that were given, by name."""
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in pairs if value is not None}
