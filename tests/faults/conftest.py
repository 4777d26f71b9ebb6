"""One line at the end of a run: what all scenarios of the short form came to."""

import pytest

from tests.faults.judging import Verdict, summed

VERDICTS = pytest.StashKey[list[Verdict]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[VERDICTS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if verdicts := config.stash[VERDICTS]:
        terminalreporter.write_line(f"fault campaign: {summed(verdicts).line}")


@pytest.fixture
def verdicts(request: pytest.FixtureRequest) -> list[Verdict]:
    """What the scenarios before have come to; each adds its own."""
    return request.config.stash[VERDICTS]
