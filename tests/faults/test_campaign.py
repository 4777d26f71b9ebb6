"""The campaign's short form: every kind of fault at least once. The long form is `make faults`."""

from pathlib import Path

import pytest

from tests.faults import pipeline, replicas
from tests.faults.judging import Verdict
from tests.faults.kinds import KINDS
from tests.faults.pipeline_kills import MOMENTS
from tests.faults.scenarios import SCENARIOS, SHORT, run
from tests.support.length import IS_LONG

pytestmark = pytest.mark.broker

SEED = "short"
FAULTS_OF_REPLICAS = None if IS_LONG else 3
"""Fewer than there are kinds: each takes some ten seconds. tests/end_to_end/test_roles.py kills and pauses processes,
and tests/end_to_end/test_readiness.py takes the database away."""


@pytest.mark.timeout(1200)  # ten starts and more take long on a busy machine
@pytest.mark.parametrize("name", SHORT)
def test_promises_are_kept_whatever_happens(name: str, tmp_path: Path, verdicts: list[Verdict]) -> None:
    try:
        verdict = run(SCENARIOS[name], SEED, tmp_path)
    except PermissionError as error:
        pytest.skip(str(error))
    verdicts.append(verdict)
    assert verdict.faults, "nothing happened"
    assert verdict.is_kept, "\n".join((verdict.line, *verdict.notes))


def test_a_pipeline_killed_in_its_commit_loses_nothing(tmp_path: Path, verdicts: list[Verdict]) -> None:
    """A batch. tests/end_to_end/test_landing.py kills a stream, which has a checkpoint beside the same commit."""
    verdict = pipeline.run("batch", SEED, tmp_path)
    verdicts.append(verdict)
    assert verdict.faults, "\n".join(("nothing happened", *verdict.notes))
    assert verdict.is_kept, "\n".join((verdict.line, *verdict.notes))


@pytest.mark.timeout(1200)
def test_a_divided_gateway_whose_processes_end_loses_nothing(tmp_path: Path, verdicts: list[Verdict]) -> None:
    verdict = replicas.run(SEED, tmp_path, FAULTS_OF_REPLICAS)
    verdicts.append(verdict)
    assert verdict.faults
    assert verdict.is_kept, "\n".join((verdict.line, *verdict.notes))


@pytest.mark.parametrize("host", pipeline.HOSTS)
def test_a_seed_says_which_processes_of_the_pipeline_are_killed(host: str) -> None:
    drawn = pipeline.kills(host, "7", 40)
    assert drawn == pipeline.kills(host, "7", 40) != pipeline.kills(host, "8", 40)
    targets, moments = {each.target for each in drawn}, {each.moment for each in drawn}
    assert (targets, moments) == (set(pipeline.HOSTS[host].targets), set(MOMENTS))


def test_the_short_form_has_every_kind() -> None:
    assert {fault.kind for name in SHORT for fault in SCENARIOS[name].faults(SEED)} == KINDS.keys()


def test_a_seed_says_which_faults_are_drawn() -> None:
    scenario = SCENARIOS["everything"]
    assert scenario.faults("7", 40) == scenario.faults("7", 40) != scenario.faults("8", 40)
