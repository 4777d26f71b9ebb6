"""The copies of segments in the archive of a gateway that receives alone: their check, and their repair.

A copy is compared with its own checksums, as a segment of the journal is. So those of which the journal no longer has
the segment are checked, too. The archive that receivers share is the journal itself, and checked as such.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from app import plugins
from app.model.errors import GatewayError
from app.ports import JournalReader
from app.service.context import ReceiverContext
from app.service.receiving.archiver import Archiver
from app.service.repair.finding_kinds import CannotCheck, Finding
from app.service.repair.repair_stores import GatewayStores, ProgressListener

DAMAGED = "archive-damaged"

_SHOWN = 3


def damaged_copies(estate: GatewayStores, progress: ProgressListener) -> Iterator[Finding]:
    """Find segments in the archive that are not as they were written. Raises CannotCheck."""
    place = estate.settings.journal.archive_url
    if place is None or not estate.settings.is_sole_receiver:
        return
    # In the folder where the pipeline keeps segments of a bucket they may be whole: this reads the archive's own bytes.
    with TemporaryDirectory(prefix="archive-check-") as cache:
        try:
            archive = plugins.archive()(place, Path(cache), 1)
            segments = archive.segments()
        except (GatewayError, ValueError) as error:
            raise CannotCheck(f"the archive was not checked: {error}") from error
        progress.begin("archive", sum(segment.size for segment in segments))
        for segment in segments:
            damage = damage_of(archive, segment.number)
            progress.advance(segment.size)
            if damage is not None:
                yield Finding(DAMAGED, str(segment.number), archive.path(segment.number), damage)


def damage_of(journal: JournalReader, number: int) -> str | None:
    """Return how a segment differs from what was written, for people; None if it does not, or if it is gone."""
    try:
        damage = []
        for each in journal.verify(number):
            places = (("batch", each.batch), ("row", each.row))
            where = " ".join(f"{word} {number}" for word, number in places if number is not None)
            damage.append(f"{where}: {each.why}" if where else each.why)
    except KeyError:  # retired meanwhile
        return None
    except GatewayError as error:
        return str(error)
    more = f", and {len(damage) - _SHOWN:,} more" if len(damage) > _SHOWN else ""
    return "; ".join(damage[:_SHOWN]) + more if damage else None


def copying_again(context: ReceiverContext) -> Callable[[int], str]:
    """Return the function that replaces the copy of a segment by the journal's own. It returns why it did not, else an
    empty text."""
    place = context.settings.journal.archive_url
    assert place is not None
    archiver = Archiver(context, plugins.content_store()(place))

    def copy_again(number: int) -> str:
        if number not in {segment.number for segment in context.journal.segments()}:
            return "the journal no longer has the segment"
        if (damage := damage_of(context.journal, number)) is not None:
            return f"the journal's own segment is damaged, too: {damage}"
        try:
            archiver.copy_again(number)
        except GatewayError as error:
            return str(error)
        return ""

    return copy_again
