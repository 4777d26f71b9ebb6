"""Durations in options of commands. Their grammar is that of the settings: 90d, 1h30m."""

from datetime import timedelta

from pydantic import TypeAdapter, ValidationError

from app.cli.terminal import Failure
from app.model.validation import sentence
from app.settings import Duration

_DURATIONS = TypeAdapter[timedelta](Duration)


def duration(option: str, text: str) -> timedelta:
    """Return the duration of an option; a number without a unit is seconds. Raises Failure for any other text."""
    try:
        return _DURATIONS.validate_python(text)
    except ValidationError as error:
        raise Failure(f"{option}: {sentence(error.errors()[0])}") from None


def age(option: str, text: str) -> timedelta:
    """Return the age of an option from which on something is deleted. Raises Failure also for one without a unit."""
    if not text.strip()[-1:].isalpha():
        raise Failure(
            f"{option} {text!r} has no unit", "Write for example 90d or 1h30m, with units ms, s, m, h, d and w."
        )
    return duration(option, text)
