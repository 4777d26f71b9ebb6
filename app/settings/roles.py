"""The roles of a process, of which one process has all, unless the settings divide them among several."""

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """A role.

    - `receive`: from brokers to the journal, assembly, finishing, and the journal's own upkeep.
    - `serve`: REST, the console, and sending.
    - `keep`: what must be done once: retention, expiry, scrubbing, webhooks, records, settling, the lines of events.
    """

    RECEIVE = "receive"
    SERVE = "serve"
    KEEP = "keep"


ALL_ROLES: Final = frozenset(Role)
