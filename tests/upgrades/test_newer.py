"""Data of a newer version: whatever is newer is named, with what to do, and nothing is changed."""

import gzip
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from adapters.arrow_journal import journal_identity, segment_header
from adapters.disk import ReadFile
from adapters.sql_catalog import SqlCatalog
from app.model import data_formats
from app.model.data_formats import FORMATS, IN_BACKUPS, JOURNAL, DataFormat
from tests.cli.conftest import Run
from tests.support.forked_gateway import ForkedGateway
from tests.upgrades.data import VERSIONS, unpacked

pytestmark = pytest.mark.process

Raise = Callable[[Path], object]


def segment(folder: Path, *, is_open: bool = False) -> None:
    """As if a newer version had written the first segment, or had begun the one that `is_open`."""
    journal = folder / "gateway/var/journal"
    path = max(journal.glob("*.open.arrows")) if is_open else min(journal.glob("*.arrows"))
    header = segment_header.header_of(ReadFile(path), path.stat().st_size, path)
    with pytest.MonkeyPatch.context() as patch, path.open("r+b") as file:
        patch.setattr(segment_header, "JOURNAL", replace(JOURNAL, number=JOURNAL.number + 1))
        file.write(segment_header.header_bytes(header.created_at, header.journal, header.origin))


def identity(folder: Path) -> None:
    known = journal_identity.load(folder / "gateway/var/journal")
    assert known is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_identity, "JOURNAL", replace(JOURNAL, number=JOURNAL.number + 1))
        journal_identity.save(folder / "gateway/var/journal", known)


def schema(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "gateway/var/catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [f"{data_formats.CATALOG.number + 1:04}"])


def records(folder: Path) -> None:
    path = max((folder / "gateway/var/content/catalog").iterdir(), key=lambda path: path.name.partition("-")[2])
    first, rest = gzip.decompress(path.read_bytes()).split(b"\n", 1)
    header = json.loads(first)
    header["format"] += 1
    path.write_bytes(gzip.compress(json.dumps(header).encode() + b"\n" + rest))


def table(folder: Path) -> None:
    for path in (folder / "spark/var/tables/quality/_delta_log").glob("*.json"):
        text = path.read_text()
        now = f'"attachment_gateway.format":"{data_formats.TABLES.number}"'
        path.write_text(text.replace(now, f'"attachment_gateway.format":"{data_formats.TABLES.number + 1}"'))


def manifest(raised: DataFormat) -> Raise:
    def raise_(folder: Path) -> None:
        (path,) = (folder / "gateway/backup/backups").iterdir()
        first, rest = gzip.decompress(path.read_bytes()).split(b"\n", 1)
        header = json.loads(first)
        header["formats"][raised.name] = raised.number + 1
        path.write_bytes(gzip.compress(json.dumps(header).encode() + b"\n" + rest))

    return raise_


class Newer(NamedTuple):
    """A format whose number is raised, and the commands that open it besides `serve`."""

    format: DataFormat
    raised: Raise
    commands: tuple[tuple[str, ...], ...] = (("fsck", "--config", "{folder}/gateway/gateway.toml"),)
    is_served: bool = True


_RESTORED = tuple(
    ("restore", "--from", "{folder}/gateway/backup", *more) for more in (("--data", "{folder}/new"), ("--list",))
)
_TABLES = (("tables", "ls", "--tables", "{folder}/spark/var/tables"),)
CASES = {
    "segment": Newer(data_formats.JOURNAL, segment),
    "open segment": Newer(data_formats.JOURNAL, partial(segment, is_open=True), ()),
    "identity": Newer(data_formats.JOURNAL, identity, ()),
    "catalog": Newer(data_formats.CATALOG, schema),
    "records": Newer(data_formats.RECORDS, records),
    "table": Newer(data_formats.TABLES, table, _TABLES, is_served=False),
    **{f"{each.name} in a backup": Newer(each, manifest(each), _RESTORED, is_served=False) for each in IN_BACKUPS},
}


def state(folder: Path) -> Mapping[str, str]:
    """The digests of all files, except the log, and SQLite's files of a write-ahead log, unless that has anything."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
        and path.name != "gateway.log"
        and not path.name.endswith("-shm")
        and (path.stat().st_size or not path.name.endswith("-wal"))
    }


def test_every_format_is_tried() -> None:
    """That of the checkpoint is in `test_stream`."""
    tried = {each.format for name, each in CASES.items() if not name.endswith("in a backup")}
    assert tried | {data_formats.CHECKPOINT, data_formats.BACKUP} == {*FORMATS}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_and_stays_as_it_is(name: str, tmp_path: Path, run: Run) -> None:
    newer = CASES[name]
    unpacked(VERSIONS[-1], tmp_path)
    gateway = ForkedGateway(tmp_path / "gateway", "")
    SqlCatalog(f"sqlite:///{tmp_path / 'gateway/var/catalog.sqlite'}").close()  # a newer version has migrated it, too
    with closing(sqlite3.connect(tmp_path / "gateway/var/catalog.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # as any connection does when it is closed as the last
    newer.raised(tmp_path)
    before = state(tmp_path)
    if newer.is_served:
        gateway.spawn()
        assert gateway.process is not None
        try:
            assert gateway.process.wait(60) == 1
        finally:
            gateway.stop()
        assert_says(newer.format, gateway.log)
        assert state(tmp_path) == before
    for command in newer.commands:
        done = run(*(each.format(folder=tmp_path) for each in command))
        assert done.code != 0
        assert_says(newer.format, done.out + done.err)
        assert state(tmp_path) == before


def assert_says(newer: DataFormat, said: str) -> None:
    """Assert that a sentence names the format, both numbers, and what to do."""
    said = " ".join(said.split())
    assert "a newer version of this program has written " in said
    numbers = f"format {newer.number + 1} of the {newer.name}, and this version knows formats up to {newer.number}"
    assert f"{numbers}. Nothing was changed. Install the newer version again, or {newer.way_back}" in said
