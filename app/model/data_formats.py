"""The formats of data on disk, and the one rule about their versions.

Each format has a number. What is written has it, and what is opened is compared with it, before anything is changed.
This version reads every number up to its own. A higher one was written by a newer version of this program, and is
refused with what to do.

All other files in the data folder, the content store and the archive have no number. Whoever changes one of these so
that an older version would misread it adds a revision of the catalog: then the older version does not start.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.model.errors import GatewayError

_NUMBER: Final = re.compile("[0-9]{1,9}")
_RESTORE: Final = "restore a backup made before the upgrade: `attachment-gateway restore --from PLACE --data FOLDER`"


class NewerFormat(GatewayError):
    """A newer version of this program has written what is to be opened. It is not damaged, and stays as it is."""


@dataclass(frozen=True, slots=True)
class DataFormat:
    """A format: its `name`, its `number` in this version, and the `way_back` for people who have the older version."""

    name: str
    number: int
    way_back: str = _RESTORE

    def require_known(self, found: object, place: str) -> None:
        """Raise NewerFormat if what is in a place was written with a higher number. Values that are no numbers are not
        of a newer version; callers call them damaged or foreign."""
        number = number_in(found)
        if number is not None and number > self.number:
            raise NewerFormat(
                f"a newer version of this program has written {place}: format {number} of the {self.name}, and this "
                f"version knows formats up to {self.number}. Nothing was changed. Install the newer version again, or "
                f"{self.way_back}"
            )


JOURNAL: Final = DataFormat("journal", 1)
CATALOG: Final = DataFormat(
    "catalog",
    3,
    f"{_RESTORE}, or run `attachment-gateway rebuild`: it makes a catalog of this version from the journal and the "
    "records",
)
"""Its number is that of the newest revision of the schema."""
RECORDS: Final = DataFormat("records", 1)
TABLES: Final = DataFormat("tables", 1)
CHECKPOINT: Final = DataFormat(
    "checkpoint", 1, "give the stream a new checkpoint (pipeline.checkpoint): it then reads the journal again"
)
BACKUP: Final = DataFormat(
    "backup", 1, "choose a backup that this version made: `attachment-gateway restore --from PLACE --list`"
)

IN_BACKUPS: Final = (JOURNAL, CATALOG, RECORDS, TABLES, BACKUP)
FORMATS: Final = (*IN_BACKUPS, CHECKPOINT)


def number_in(found: object) -> int | None:
    """Return the number of a format as it is written; None if this is no such number."""
    text = str(found)
    return int(text) if _NUMBER.fullmatch(text) else None


def numbers_in_backups() -> dict[str, int]:
    """Return the numbers, by name, of what a backup of this version has."""
    return {each.name: each.number for each in IN_BACKUPS}


def require_known(found: Mapping[str, Any], place: str) -> None:
    """Raise NewerFormat if one of the numbers, by name, that a backup notes is higher than this version's."""
    for each in IN_BACKUPS:
        each.require_known(found.get(each.name), place)
