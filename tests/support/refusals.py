"""Errors as values."""

from collections.abc import Callable

from app.wire import WireError


def wire_error(call: Callable[[], object]) -> WireError | None:
    """The WireError that a call ends with, None when it ends well; any other error is raised."""
    try:
        call()
    except WireError as error:
        return error
    return None
