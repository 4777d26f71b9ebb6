"""Loading the configuration, and the list of everything that is wrong with it."""

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource

from app.model.masking import masked
from app.model.validation import sentence
from app.settings.configuration import ENVIRONMENT_PREFIX, Settings
from app.settings.transports import validating_transports

_ADDED = re.compile(r"\[key\]|[a-z]+(-[a-z]+)+\[.*\]")
"""Steps of a location that pydantic adds."""
_WANTING = ("missing", "too_short")
"""Types of errors of missing values."""
_NOTHING: Mapping[str, Any] = {}
_OF_THE_COMMAND_LINE = {"CONFIG", "URL", "TOKEN"}


class SettingsProblem(NamedTuple):
    """One thing that is wrong with the configuration. `place` is dotted (`sources.orders.url`), or empty for the whole
    configuration."""

    place: str
    why: str

    def __str__(self) -> str:
        return masked(f"{self.place}: {self.why}" if self.place else self.why)


class SettingsError(Exception):
    """Everything that is wrong with the configuration, at once."""

    def __init__(self, problems: list[SettingsProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def load(path: Path | None = None, *, transports: bool = True, given: Mapping[str, Any] = _NOTHING) -> Settings:
    """Return the settings of a file (without one: the defaults) and the environment; `given` wins over both.

    Without `transports`, the keys of transports are ignored: a job that only assembles needs neither their client
    libraries nor their secrets. Raises SettingsError with all problems.
    """
    problems = [
        SettingsProblem(name, "no such setting")
        for name in os.environ
        if name.startswith(ENVIRONMENT_PREFIX)
        and (key := name.removeprefix(ENVIRONMENT_PREFIX)) not in _OF_THE_COMMAND_LINE
        and key.lower().partition("__")[0] not in Settings.model_fields
    ]
    try:
        table = {} if path is None else tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise SettingsError([SettingsProblem(str(path), f"cannot be read: {error.strerror}")]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError([SettingsProblem(str(path), f"is not TOML: {error}")]) from error
    environment: dict[str, Any] | None = _EnvironmentTexts(Settings)()
    with validating_transports(enabled=transports):
        while environment is not None:
            settings, wrong = _validated(_merged(_merged(table, environment), given))
            environment = _decoded(environment, [problem.place.split(".") for problem in wrong])
    if settings is None or problems or wrong:
        raise SettingsError(problems + wrong)
    return settings


class _EnvironmentTexts(EnvSettingsSource):
    """The environment's values as texts."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Return the text: whether it is JSON depends on the setting that it is for (`_decoded`)."""
        del field_name, field
        return value


def _decoded(environment: Mapping[str, Any], wrong: Sequence[Sequence[str]]) -> dict[str, Any] | None:
    """Return the environment's values with those at wrong places read as JSON; None if that changes none.

    A text is taken as it is where a setting takes one: a password of digits stays a text.
    """
    decoded = dict(environment)
    for name, value in environment.items():
        inner = [place[1:] for place in wrong if place[:1] == [name]]
        if isinstance(value, dict):
            decoded[name] = _decoded(value, inner) or value
        elif isinstance(value, str) and inner:
            with suppress(ValueError):
                decoded[name] = json.loads(value, parse_constant=_refused_constant)
    return None if decoded == environment else decoded


def _refused_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _validated(given: dict[str, Any]) -> tuple[Settings | None, list[SettingsProblem]]:
    """Return the settings, and everything that is wrong.

    A rule about several keys is checked only where each of them is right by itself. So what is wrong is left out, and
    the rest is checked again, until nothing else is found.
    """
    found: dict[SettingsProblem, None] = {}
    rest = given
    while True:
        try:
            settings = Settings(**rest)
        except ValidationError as error:
            details = error.errors(include_url=False)
        else:
            return None if found else settings, sorted(found)
        known, reported = len(found), [problem.place for problem in found]
        for detail in details:
            place = ".".join(map(str, _steps(detail["loc"])))
            problem = _new(SettingsProblem(place, sentence(detail)), detail["type"], reported)
            if problem is not None:
                found[problem] = None
        for steps in (_steps(detail["loc"]) for detail in details):
            # The transport determines how the others are checked.
            if steps[-1:] != ["transport"]:
                rest = _without(rest, steps)
        if len(found) == known:
            return None, sorted(found)


def _new(problem: SettingsProblem, kind: str, reported: Sequence[str]) -> SettingsProblem | None:
    """Return a problem without consequences of problems found before, whose keys were left out and are missing
    now."""
    place = f"{problem.place}." if problem.place else ""
    if kind in _WANTING:
        left_out = any(f"{one.removesuffix('_file')}.".startswith(place) for one in reported)
        return None if left_out else problem
    if kind != "value_error":
        return problem
    keys = [
        one.removeprefix(place).partition(".")[0].removesuffix("_file") for one in reported if one.startswith(place)
    ]
    about_them = re.compile("|".join(rf"\b{re.escape(key)}" for key in keys) or "(?!)")
    rules = [rule for rule in problem.why.split("; ") if not about_them.search(rule)]
    return SettingsProblem(problem.place, "; ".join(rules)) if rules else None


def _without(value: Any, place: Sequence[int | str]) -> Any:
    """Return tables and lists without the value at a place, or as they are when there is nothing at the place."""
    step, *further = place or [""]
    if isinstance(value, Mapping) and step in value:
        inner = {step: _without(value[step], further)} if further else {}
        return {key: each for key, each in value.items() if key != step} | inner
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [*value[:step], *([_without(value[step], further)] if further else ()), *value[step + 1 :]]
    return value


def _merged(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Return both tables as one. Tables within them are merged, too."""
    both = {
        key: _merged(weaker[key], value)
        for key, value in stronger.items()
        if isinstance(value, Mapping) and isinstance(weaker.get(key), Mapping)
    }
    return {**weaker, **stronger, **both}


def _steps(location: Sequence[int | str]) -> list[int | str]:
    """Return the place of an error without what pydantic adds: the gateway's own field, and kinds of types."""
    return [step for step in location if step != "options" and not (isinstance(step, str) and _ADDED.fullmatch(step))]
