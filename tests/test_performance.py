"""The pages of performance: every ratio is explained, every explanation has a program, and records say no more."""

import json
import sys
from pathlib import Path
from socket import gethostname

import pytest

from bench import record
from bench.record import Record, kept, records
from docs.performance import SUBJECTS
from tests.test_benches import LARGE, SMALL


def test_each_program_is_explained_and_has_a_record() -> None:
    assert {*SUBJECTS} == {*SMALL, *LARGE}
    assert {*SUBJECTS} == {*records()}


@pytest.mark.parametrize("program", records())
def test_a_record_has_the_ratios_that_are_explained(program: str) -> None:
    found = records()[program]
    assert {*found.ratios} == {*SUBJECTS[program].ratios}
    assert all(float(value) > 0 for value in found.ratios.values())
    assert kept(found) == (record.RESULTS / f"{program}.json").read_text()


def test_a_ratio_has_a_peer_and_a_value_has_a_unit() -> None:
    explained = [(name, each) for subject in SUBJECTS.values() for name, each in subject.ratios.items()]
    assert [name for name, each in explained if bool(each.against) == bool(each.unit)] == []
    assert {each.good for _, each in explained} == {"higher", "lower", "near 1"}


@pytest.mark.parametrize(
    ("argument", "output", "why"),
    [
        ("--folder=/tmp/bench", "ratios: a=1", "'/tmp'"),
        ("--rounds", f"on {gethostname()}\nratios: a=1", gethostname()),
        ("--rounds", "ratios: a=1\nended", "last line"),
        ("--rounds", "", "last line"),
    ],
)
def test_a_record_names_no_place_and_no_machine(argument: str, output: str, why: str) -> None:
    run = Record("rest", [argument, "1"], "2026-11-29", 1, "abc", {}, ["12 MB/s  /v1/attachments", *output.split("\n")])
    with pytest.raises(ValueError, match=why):
        kept(run)


@pytest.mark.process
def test_a_run_is_recorded_as_it_was_printed_and_a_failed_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["record", "rendezvous", "--rounds", "none"])
    with pytest.raises(SystemExit, match=r"bench\.rendezvous ended with 2"):
        record.main()
    assert [*tmp_path.rglob("*.json")] == []
    monkeypatch.setattr(sys, "argv", ["record", "rendezvous", "--rounds", "1"])
    record.main()
    written = json.loads((tmp_path / "results" / "rendezvous.json").read_text())
    assert written["arguments"] == ["--rounds", "1"]
    assert "".join(f"{line}\n" for line in written["output"]) == capsys.readouterr().out
    assert written["machine"].keys() >= {"cores", "processor", "memory_gib", "python"}
