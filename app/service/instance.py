"""The name by which other processes know this one: in leases, claims, health, metrics and logs."""

from secrets import token_hex
from socket import gethostname


def new_instance() -> str:
    """Return a name for a process. It is new each time: a process of the same machine that has ended may still run."""
    return f"{gethostname()}_{token_hex(4)}"
