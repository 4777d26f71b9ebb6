"""Loading the configuration, and the list of everything that is wrong with it."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from app.model.masking import masked
from app.model.patterns import worded
from app.settings.endpoints import validating_transports
from app.settings.root import ENVIRONMENT_PREFIX, Settings

_OF_THE_COMMAND_LINE = {"CONFIG", "URL", "TOKEN"}


class Problem(NamedTuple):
    """One thing that is wrong with the configuration. `place` is dotted (`sources.orders.url`), or empty for the whole
    configuration."""

    place: str
    why: str

    def __str__(self) -> str:
        return masked(f"{self.place}: {self.why}" if self.place else self.why)


class SettingsError(Exception):
    """Everything that is wrong with the configuration, at once."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def load(path: Path | None = None, *, transports: bool = True) -> Settings:
    """Return the settings of a file (without one: the defaults) and the environment.

    Without `transports`, the keys of transports are ignored: a job that only assembles needs neither their client
    libraries nor their secrets. Raises SettingsError with all problems.
    """
    problems = [
        Problem(name, "no such setting")
        for name in os.environ
        if name.startswith(ENVIRONMENT_PREFIX) and not _is_known(name.removeprefix(ENVIRONMENT_PREFIX))
    ]
    try:
        with validating_transports(enabled=transports):
            settings = Settings(**_merged(_table(path), EnvSettingsSource(Settings)()))
    except ValidationError as error:
        problems += [Problem(_place(detail["loc"]), _why(detail)) for detail in error.errors(include_url=False)]
    except ValueError as error:
        problems.append(Problem("environment", str(error)))
    if problems:
        raise SettingsError(problems)
    return settings


def _merged(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Return both tables as one. Tables within them are merged, too."""
    both = {
        key: _merged(weaker[key], value)
        for key, value in stronger.items()
        if isinstance(value, Mapping) and isinstance(weaker.get(key), Mapping)
    }
    return {**weaker, **stronger, **both}


def _is_known(name: str) -> bool:
    return name in _OF_THE_COMMAND_LINE or name.lower().partition("__")[0] in Settings.model_fields


def _table(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError([Problem(str(path), f"cannot be read: {error.strerror}")]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError([Problem(str(path), f"is not TOML: {error}")]) from error


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(step) for step in location if step not in ("options", "[key]"))


def _why(detail: Any) -> str:
    known = {"extra_forbidden": "no such setting", "missing": "is required"}
    return known.get(detail["type"], worded(str(detail["msg"])).removeprefix("Value error, "))
