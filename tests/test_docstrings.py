"""The check of how docstrings of functions begin."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]


def checked(*places: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "docstrings"), *map(str, places)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def module(folder: Path, docstring: str, before: str = "") -> Path:
    file = folder / "module.py"
    file.write_text(f'"""A module."""\n\n\n{before}def size() -> int:\n    """{docstring}"""\n    return 1\n')
    return file


@pytest.mark.parametrize(
    "docstring",
    ["What it takes.", "Nothing goes.", "Whoever asks.", "Whether it is there.", "As `other`.", "Bytes of it."],
)
def test_an_unwanted_opening_is_named_with_its_place(tmp_path: Path, docstring: str) -> None:
    file = module(tmp_path, docstring)
    done = checked(tmp_path)
    assert done.returncode == 1
    assert f"{file}:4: docstring of size begins with {docstring.split(maxsplit=1)[0].strip('`')!r}" in done.stdout


@pytest.mark.parametrize("docstring", ["The size of it.", "Returned size."])
def test_ruff_finds_what_is_not_imperative(tmp_path: Path, docstring: str) -> None:
    module(tmp_path, docstring)
    done = checked(tmp_path)
    assert done.returncode == 1
    assert docstring.split(maxsplit=1)[0] in done.stdout


@pytest.mark.parametrize("docstring", ["Return the size.", "Process it.", "Write `this`, or nothing."])
def test_a_verb_in_the_imperative_is_accepted(tmp_path: Path, docstring: str) -> None:
    module(tmp_path, docstring)
    assert checked(tmp_path).returncode == 0


def test_a_property_says_what_it_is(tmp_path: Path) -> None:
    module(tmp_path, "The size of it.", before="@property\n")
    assert checked(tmp_path).returncode == 0


def test_a_place_that_does_not_exist_fails(tmp_path: Path) -> None:
    done = checked(tmp_path / "moved")
    assert done.returncode == 1
    assert "moved: no such file or folder" in done.stderr
