"""The check that an archive, a catalog, tables and content belong to one journal, before anything is committed.

Positions of messages count within one journal. In results of another journal they would mean other messages: what is
new would be taken for known and left out. So progress is recorded with its journal's identifier, and so are the tables'
transactions (`app.service.tables.table_reader.application`). Results of several journals are refused.
"""

from collections.abc import Sequence

import structlog

from app.model.errors import GatewayError
from app.model.message import Position
from app.pipeline.commit import commit_intent as intents
from app.pipeline.job.job import OpenRun
from app.ports import TableStore
from app.service.tables.table_reader import APPLICATION, application
from app.tables.quality import QUALITY

_OF_ITS_OWN = "give each journal results of its own (--out, or a catalog, content and tables in the configuration)"

log = structlog.stdlib.get_logger(__name__)


def claim(run: OpenRun) -> str:
    """Bind results to the journal of an archive, and return its name.

    Raises GatewayError, and changes nothing, if the catalog, the tables or an unfinished commit are of another journal.
    """
    place = run.job.journal
    identity, name = run.archive.identity(), intents.journal_name(run.archive, place)
    what = f"the archive {place} is journal {name}"
    if run.tables is not None:
        for table in marked(run.tables):
            for other in run.tables.applications(table):
                if not other.startswith(APPLICATION) or other == application(name):
                    continue
                journal = other.removeprefix(application(""))
                raise GatewayError(f"the table {table} has rows of journal {journal}, and {what}: {_OF_ITS_OWN}")
    begun = intents.begun(run.stores.store)
    if begun is not None and begun.journal not in {name, place}:
        raise GatewayError(
            f"the content store has a commit of journal {begun.journal} that was interrupted, and {what}: {_OF_ITS_OWN}"
        )
    if identity is not None:
        run.catalog.claim(identity, place)
    elif (bound := run.catalog.journal_identity()) is not None and run.archive.segments():
        raise GatewayError(
            f"the catalog has results of journal {bound.id}, and the segments in {place} do not say which "
            f"journal they are of: {_OF_ITS_OWN}"
        )
    return name


def marked(tables: TableStore) -> Sequence[str]:
    """Return the tables that show what the pipeline has committed: the table of quality, which takes each transaction
    before all others. All tables, if it was removed or has none."""
    return [QUALITY] if tables.applications(QUALITY) else tables.names()


def warn_of_lacking_rows(tables: TableStore, name: str, progress: int | None) -> None:
    """Log a warning if tables lack rows that the catalog has recorded: they are an older copy, or were left out."""
    reached = tables.reached(QUALITY, application(name))
    if progress is not None and reached is not None and reached < progress:
        first = Position.unpack(reached).segment + 1
        log.warning(
            "older_tables_found", from_segment=first, hint=f"`pipeline batch --again-from {first}` adds their rows"
        )
