"""What waits for its header, in the pipeline: after each batch the catalog has what is known.

A catalog that is made of the whole journal at once has every identifier that was shown meanwhile.
"""

from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings

from adapters.arrow_journal import ArrowJournal
from adapters.delta_tables import DeltaTables
from adapters.sql_catalog import SqlCatalog
from app.model.identity import attachment_id
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter, Catalog
from app.service.assembling.assembler import Assembler
from app.tables.quality import QUALITY, summed
from app.testing.gateway_stages import service_context
from app.testing.host_results import settings as settings_of
from tests.support.announcing import KEY, Known, Sent, traffic
from tests.support.length import examples
from tests.support.local_steps import run_batch
from tests.support.sas_client import Program, message

SOURCE = "orders"
_times = count(1_700_000_000_000_000, 1000)


def listed(catalog: Catalog, announced: bool) -> list[AttachmentRecord]:
    which = AttachmentFilter(announced=announced)
    found = catalog.attachments(which, None, 500).items
    assert catalog.count_attachments(which) == (len(found), True)
    return found


def ids(keys: set[bytes]) -> dict[str, bytes]:
    return {attachment_id(SOURCE, key): key for key in keys}


def check(catalog: Catalog, known: Known) -> None:
    assert {each.id for each in listed(catalog, announced=True)} == ids(known.announced).keys()
    assert {each.id for each in listed(catalog, announced=False)} == ids(known.unannounced).keys()


def check_answers(catalog: Catalog, known: Known, shown: dict[str, bytes]) -> None:
    for identifier, key in shown.items():
        if key not in known.announced | known.unannounced:
            assert catalog.attachment(identifier) is None
            found = catalog.messages_that_waited([identifier])
            assert {each.application_body for each in found} == known.bodies(key)
            assert catalog.identifiers("attachments", identifier[:20], 5) == [identifier]


def check_events(catalog: Catalog, known: Known, waiting: dict[str, bytes]) -> None:
    """Whatever was committed as waiting, and nothing else, is told of when it is known."""
    events = [each for each in catalog.events_after(0, 10_000) if each.type == "attachment.identified"]
    told = {(each.subject, each.data["what"]) for each in events}
    now_attachments = {(each, "attachment") for each, key in waiting.items() if key in known.announced}
    gone = {each for each, key in waiting.items() if key not in known.announced | known.unannounced}
    assert {each for each in told if each[1] == "attachment"} == now_attachments
    assert {each for each, what in told if what == "application-message"} >= gone
    assert {each for each, _ in told} <= waiting.keys()
    assert len({(each.subject, each.data["message"]) for each in events}) == len(events), "nothing is told of twice"


@settings(max_examples=examples(8), deadline=None)
@given(pieces=traffic().filter(bool))
def test_batches_and_a_catalog_made_anew_have_what_is_known(pieces: list[list[Sent]]) -> None:
    known, shown, waiting = Known(), dict[str, bytes](), dict[str, bytes]()
    with TemporaryDirectory() as folder:
        journal, out = Path(folder) / "journal", Path(folder) / "out"
        for piece in pieces:
            with closing(ArrowJournal(journal)) as writer:
                writer.append([each.message._replace(source=SOURCE, received_at=next(_times)) for each in piece])
            for each in piece:
                known.come(each)
            assert run_batch(out, journal) is not None
            with closing(SqlCatalog(settings_of(out).catalog_url)) as catalog:
                check(catalog, known)
            waiting |= ids(known.unannounced)
            shown |= ids(known.announced) | waiting
        with closing(SqlCatalog(settings_of(out).catalog_url)) as catalog:
            check_answers(catalog, known, shown)
            check_events(catalog, known, waiting)
            of_the_pipeline = {each.id: each.waited_as for each in catalog.messages(None, None, 100).items}
        rows = DeltaTables(settings_of(out).tables_url).rows(QUALITY)
        assert sum(summed(rows)["attachments_begun"].to_pylist()) == len(known.announced)
        with service_context(Path(folder)) as context:
            Assembler(context, lambda _complete: None).recover()
            check(context.catalog, known)
            check_answers(context.catalog, known, shown)
            at_once = {each.id: each.waited_as for each in context.catalog.messages(None, None, 100).items}
        assert at_once == of_the_pipeline
        assert set(at_once.values()) - {None} == ids({each[:KEY] for each in known.waited}).keys()


def test_an_application_message_that_comes_twice_behind_its_header_is_one(tmp_path: Path) -> None:
    """Its correlid has a number, as those of parts have."""
    header, application, *_ = message(Program(Random(3), numbers_messages=True), [], b"the message")
    come = [each._replace(source=SOURCE, received_at=next(_times)) for each in (header, application, application)]
    with service_context(tmp_path) as context:
        context.journal.append(come)
        Assembler(context, lambda _complete: None).recover()
        (found,) = context.catalog.messages(None, None, 10).items
        assert found.application_body == b"the message"
        assert listed(context.catalog, announced=False) == []
        assert context.catalog.quarantined(None, None, None, 10).items == []
