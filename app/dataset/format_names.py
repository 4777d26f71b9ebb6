"""SAS format references as text: `DATE9.`, `BEST12.2` and `$CHAR20.` have a name, a width and decimals."""

import re
from typing import NamedTuple

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
