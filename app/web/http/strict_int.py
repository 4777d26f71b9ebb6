"""Whole numbers in parameters and header fields: digits only, where Python also takes `5_0`, `+5` and `-0`."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticKnownError

_WHOLE = re.compile(r"[0-9]+|-[0-9]*[1-9][0-9]*")
"""A negative number passes, so that its error names the least number that is possible."""


def _require_digits(value: Any) -> Any:
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        raise PydanticKnownError("int_parsing")
    return value


Digits = Annotated[int, BeforeValidator(_require_digits)]
