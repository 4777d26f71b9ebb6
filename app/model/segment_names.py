"""Names of journal segments: in the journal's folder, in the archive and in backups they are the same."""

from typing import Final

SEALED: Final = ".arrows"
OPEN: Final = ".open.arrows"
DAMAGED: Final = ".damaged"
"""The ending of what is kept aside of a damaged segment."""
DIGITS: Final = 10


def segment_name(number: int, ending: str = SEALED) -> str:
    """Return the name of a segment, a sealed one unless said otherwise."""
    return f"{number:0{DIGITS}}{ending}"


def sealed_number(name: str) -> int | None:
    """Return the number of the sealed segment that has this name; None where it is another file's."""
    number, ending = name[:DIGITS], name[DIGITS:]
    return int(number) if ending == SEALED and number.isascii() and number.isdigit() else None
