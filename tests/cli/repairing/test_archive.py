"""Copies of segments in the archive that are damaged."""

import os
from pathlib import Path

from app import plugins
from app.service.receiving.archiver import Archiver
from tests.cli.repairing.conftest import Fsck
from tests.support.kept import Kept, flip


def test_damaged_copies_are_copied_again_from_the_journal_while_it_has_them(
    kept: Kept, fsck: Fsck, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    with kept.configuration.open("a") as file:
        file.write(f'[journal]\narchive_url = "{place}"\n')
    kept.receive(9, settled=True)
    with kept.context(journal={"archive_url": str(place)}) as context:
        Archiver(context, plugins.content_store()(str(place))).archive()
    copies, segments = sorted(place.glob("*.arrows")), kept.segments()
    whole = [path.read_bytes() for path in copies]
    assert len(whole) == 3
    assert not fsck.check()

    flip(copies[0])
    flip(copies[1], 40)
    os.truncate(copies[2], 9_000)
    assert fsck.check() == {"archive-damaged": 3}
    assert str(copies[0]) in fsck.command().out
    assert fsck.repair().code == 0
    assert [path.read_bytes() for path in copies] == whole
    assert not fsck.check()

    flip(copies[0])  # the same damage in both places: nothing undamaged is left to copy
    flip(segments[0])
    segments[1].unlink()
    flip(copies[1])
    assert fsck.check() == {"archive-damaged": 2, "segment-damaged": 1}
    result = fsck.repair()
    assert result.code == 1
    assert "the journal's own segment is damaged, too" in result.out
    assert "the journal no longer has the segment" in result.out
    assert copies[0].read_bytes() != whole[0]
    assert copies[2].read_bytes() == whole[2]


def test_an_archive_of_another_journal_stays_as_it_is(kept: Kept, fsck: Fsck, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    kept.receive(3, settled=True)
    with kept.context(journal={"archive_url": str(place)}) as context:
        Archiver(context, plugins.content_store()(str(place))).archive()
    (place / "journal-id").write_text("another")
    flip(next(place.glob("*.arrows")))
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    with kept.configuration.open("a") as file:
        file.write(f'[journal]\narchive_url = "{place}"\n')
    assert fsck.check() == {"archive-damaged": 1}
    result = fsck.repair()
    assert result.code == 1
    assert "belongs to the journal another" in result.out
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


def test_an_archive_that_is_gone_is_not_called_undamaged(kept: Kept, fsck: Fsck, tmp_path: Path) -> None:
    kept.receive(3, settled=True)
    with kept.configuration.open("a") as file:
        file.write(f'[journal]\narchive_url = "{tmp_path / "gone"}"\n')
    result = fsck.command()
    assert result.code == 2
    assert "the archive was not checked" in result.err
