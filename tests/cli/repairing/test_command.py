"""What the commands say and leave alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.arrow_journal import ArrowJournal
from app.model.attachment import AttachmentState
from app.service.receiving.journal_upkeep import JournalUpkeep
from tests.cli.conftest import Run
from tests.cli.repairing.conftest import Fsck
from tests.support.kept import Kept


def test_a_running_gateway_is_not_repaired(kept: Kept, fsck: Fsck) -> None:
    kept.receive(3)
    journal = ArrowJournal(kept.folder / "journal")
    assert not fsck.check()
    result = fsck.repair()
    journal.close()
    assert result.code == 2
    assert "in use" in result.err


def test_what_cannot_be_checked_is_said(kept: Kept, fsck: Fsck) -> None:
    kept.folder.rmdir()
    result = fsck.command()
    assert result.code == 2
    assert f"no journal at {kept.folder}" in result.err


@pytest.mark.parametrize("command", [("fsck",), ("fsck", "--repair"), ("rebuild", "--yes"), ("backup", "--to", "x")])
def test_settings_that_cannot_be_read_are_no_difference(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = run(*command, "--config", tmp_path / "none.toml")
    assert (result.code, result.out) == (2, "")
    assert "none.toml" in result.err


def test_a_plan_is_shown_and_nothing_done_without_a_yes(kept: Kept, run: Run) -> None:
    ids = kept.receive(6, settled=True)
    kept.object(ids[0]).unlink()
    result = run("fsck", "--config", kept.configuration, "--repair")
    assert result.code == 1
    assert "restore-content" in result.out
    assert "--yes" in result.err
    assert not kept.object(ids[0]).exists()
    assert replace(kept.record(ids[0])).state is AttachmentState.FINISHED


def test_segments_are_retired_only_when_all_is_recorded(kept: Kept) -> None:
    kept.receive(9, settled=True)

    def fail() -> None:
        raise OSError("no room")

    with kept.context() as context:
        before = len(context.journal.segments())
        assert before > 1
        with pytest.raises(OSError, match="no room"):
            JournalUpkeep(context, before_retiring=fail).retire_segments()
        assert len(context.journal.segments()) == before
