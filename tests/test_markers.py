"""Each test has a marker that says which programs it starts, and a test that starts none cannot start one."""

import subprocess
import sys

import pytest

from tests.conftest import STARTED_BY

MARKERS = {"unit", *STARTED_BY}


def test_each_test_has_a_marker(request: pytest.FixtureRequest) -> None:
    without = [item.nodeid for item in request.session.items if not any(map(item.get_closest_marker, MARKERS))]
    assert without == []


def test_a_test_that_starts_a_program_is_no_unit_test(request: pytest.FixtureRequest) -> None:
    both = [item.nodeid for item in request.session.items if item.get_closest_marker("unit") and starts(item)]
    assert both == []
    with pytest.raises(RuntimeError, match="starts a program: give it another marker"):
        subprocess.run([sys.executable, "--version"], check=False)


def starts(item: pytest.Item) -> bool:
    return any(map(item.get_closest_marker, STARTED_BY))
