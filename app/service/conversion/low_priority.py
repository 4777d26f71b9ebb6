"""Lower the priority of the process that imports this module: receiving and answering go before converting.

The server of processes imports it before everything else, so that its own imports do not slow the gateway down. Each
process that it forks has the same priority.
"""

import os
from contextlib import suppress

NICENESS = 5

with suppress(OSError):
    os.nice(NICENESS)
