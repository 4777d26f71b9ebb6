"""Errors as values."""

from collections.abc import Callable

from app.wire import WireError


def wire_error(call: Callable[[], object]) -> WireError | None:
    """Return the WireError that a call raises, or None if it raises no error; other errors are raised."""
    try:
        call()
    except WireError as error:
        return error
    return None
