"""One line at the end of a run: the total of all scenarios of the short form."""

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
    """Return the verdicts of earlier scenarios; each scenario adds its own."""
    return request.config.stash[VERDICTS]
