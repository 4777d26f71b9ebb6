"""A journal whose first segment has only the header of a message; what the header announces comes later."""

from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

from adapters.arrow_journal import ArrowJournal
from adapters.sql_catalog import SqlCatalog
from app.testing.host_results import assert_same, in_folder, settings, tables
from tests.support.loads import table
from tests.support.mixed_journal import BEGAN_AT
from tests.support.sas_client import Program, binary_file, data_set, message


class HeaderApart(NamedTuple):
    """The journal, and the folder of a pipeline's results."""

    journal: Path
    out: Path

    @classmethod
    def written(cls, folder: Path) -> "HeaderApart":
        """Write four segments: the header, another message as a whole, the first parts, and all the rest."""
        program = Program(Random(7))
        listed = [data_set(program, "WORK", "LATE", table(program, 40)), binary_file(program, "late.bin", b"late" * 99)]
        header, application, *parts = message(program, listed)
        other = message(program, [binary_file(program, "other.bin", b"other" * 99)])
        with closing(ArrowJournal(folder / "journal")) as journal:
            for some in ([header], other, parts[:1], [*parts[1:], application]):
                journal.append([each._replace(source="s", received_at=BEGAN_AT) for each in some])
                journal.seal()
        return cls(folder / "journal", folder / "out")

    def retire_header(self) -> None:
        """Retire the first segment as the gateway does, which asks the catalog."""
        with (
            closing(SqlCatalog(settings(self.out).catalog_url)) as catalog,
            closing(ArrowJournal(self.journal)) as opened,
        ):
            assert catalog.needed_segments([1]) == set()
            opened.retire(1)

    def assert_same_as(self, whole: "HeaderApart") -> None:
        """Assert that nothing is missing of what a pipeline has made of a journal with all its segments."""
        assert_same(in_folder(self.out, self.journal), in_folder(whole.out, whole.journal), settled=True)
        assert tables(self.out) == tables(whole.out)
