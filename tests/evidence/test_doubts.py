"""Attachments in doubt are held with the reason, or finished with a warning, as their source is set."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.attachment import AttachmentState
from app.model.evidence import Choice, Ground, Question
from app.model.message import PhysicalMessage
from app.model.records import (
    DOUBTFUL_CONTENT,
    DOUBTFUL_COUNT,
    DOUBTFUL_SIZE,
    AttachmentRecord,
    EventRecord,
    QuarantineRecord,
)
from app.pipeline.job.job import Job, open_run
from app.pipeline.run import batch
from app.ports import AttachmentFilter, Intake
from app.service.content.stored_content import object_name, opened
from app.service.context import ReceiverContext
from app.service.gateway import Gateway
from app.testing.gateway_stages import service_context
from app.testing.host_results import settings
from app.testing.waiting import until
from tests.evidence.hosts import Broker, _physical, in_folder, pipeline
from tests.evidence.senders import contents, sas_queue, sas_rendezvous
from tests.evidence.senders.sent import Sending
from tests.support.ibm_float import ibm
from tests.support.local_steps import LocalSteps

DIALECT, UTF8 = sas_queue.DIALECTS[0], sas_queue.UTF8
SIZE = len(contents.TEXT)
WITH_HEADER = sas_rendezvous.Counting(header=True, application=False)
OWN = sas_rendezvous.OWN


def short_file(size: int) -> Sending:
    """A text file of which its sender says another size."""
    return sas_queue.sending(DIALECT, "text", "another size", sas_queue.text_file(DIALECT, size))


def long_records() -> Sending:
    """A text file with a record that is longer than its sender says."""
    line = b"x" * 81
    return sas_queue.sending(DIALECT, "text", "no size", sas_queue.text_file(DIALECT, 0, [[line]]))


def on_rendezvous(counting: sas_rendezvous.Counting, size: int) -> Sending:
    return sas_rendezvous.sending("text", "", counting, sas_rendezvous.text_file(size), application=False)


class Undeclared(NamedTuple):
    """A data set in a character set of which its messages say nothing, or nothing that is known."""

    charset: str
    label: str
    doubt: str | None
    ccsid: int = 0
    encoding: int = 273
    number: Callable[[float], bytes] | None = None


UNDECLARED = [
    Undeclared("utf-8", "Stationen, größere", None),
    Undeclared("latin-1", "Stationen, größere", "no character set is declared, and names and labels are not utf-8"),
    Undeclared("ascii", "stations", "no codec for CCSID 99999", ccsid=99999),
    Undeclared("latin-1", "größere", "no codec for CCSID 99999", ccsid=99999),
    Undeclared("cp500", "größere", "no character set is declared", encoding=0, number=ibm),
    Undeclared("cp500", "größere", "no character set is declared", encoding=273),
    Undeclared("cp500", "größere", "no codec for CCSID 99999", ccsid=99999, encoding=785, number=ibm),
]


class Feed(Broker):
    """A receiver that hands over messages, and tells when they are on disk."""

    def __init__(self, messages: Sequence[PhysicalMessage]) -> None:
        super().__init__([messages])
        self.is_done, self._messages = Event(), messages

    def run(self, intake: Intake, stop: Event) -> None:
        """Hand over everything, and end."""
        intake.submit(self._messages, self.is_done.set)


@contextmanager
def receiving(folder: Path, *sendings: Sending, **keys: Any) -> Iterator[tuple[ReceiverContext, Gateway]]:
    """A gateway that has received what was sent, from one source with these settings."""
    (framing,) = {each.framing for each in sendings}
    source = {"transport": "memory", "queue": "q", "framing": framing, **keys}
    messages = [_physical("s", framing, each) for sending in sendings for each in sending.messages]
    with service_context(folder, sources={"s": source}) as context:
        feed = Feed(messages)
        gateway = Gateway(context, {"s": feed}, {})
        gateway.start()
        try:
            assert feed.is_done.wait(20)
            until(lambda: _is_assembled(context))
            yield context, gateway
        finally:
            gateway.stop()


def _is_assembled(context: ReceiverContext) -> bool:
    end, progress = context.journal.end(), context.catalog.progress()
    return end is not None and progress == end.pack() and not context.catalog.complete_attachments(1)


def only(context: ReceiverContext) -> AttachmentRecord:
    (record,) = context.catalog.attachments(AttachmentFilter(), None, 10).items
    return record


def events(context: ReceiverContext, *types: str) -> Sequence[EventRecord]:
    return [event for event in context.catalog.events_after(0, 1000) if event.type in types]


def entries(context: ReceiverContext) -> Sequence[QuarantineRecord]:
    return context.catalog.quarantined(None, None, None, 10).items


def test_a_file_with_another_size_than_was_announced_is_held(tmp_path: Path) -> None:
    with receiving(tmp_path, short_file(SIZE + 1000)) as (context, _):
        record = only(context)
        assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, DOUBTFUL_SIZE)
        assert record.reason is not None
        assert f"announced {SIZE + 1000} bytes" in record.reason
        assert "on_doubt" in record.reason
        (entry,) = entries(context)
    with receiving(tmp_path, short_file(SIZE + 1000), on_doubt="warn") as (context, gateway):
        replayed = gateway.replayer.replay(entry.id)
        assert replayed is not None
        replayed()
        record = only(context)
        assert record.state is AttachmentState.FINISHED
        (warning,) = record.warnings
        assert warning.startswith(f"the sender announced {SIZE + 1000} bytes")
        (event,) = events(context, "attachment.warned")
        assert event.data["warnings"] == [warning]


@pytest.mark.parametrize(("on_doubt", "is_held"), [(None, False), ("warn", False), ("hold", True)])
def test_a_doubt_that_is_no_loss_warns_unless_the_source_is_strict(
    tmp_path: Path, on_doubt: str | None, is_held: bool
) -> None:
    settings = {} if on_doubt is None else {"on_doubt": on_doubt}
    with receiving(tmp_path, long_records(), **settings) as (context, _):
        record = only(context)
        if is_held:
            assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, DOUBTFUL_CONTENT)
            assert record.reason is not None
            assert "longest has 81" in record.reason
        else:
            assert record.state is AttachmentState.FINISHED
            assert len(record.warnings) == 1
    assert pipeline(tmp_path / "pipeline", tmp_path / "journal").keys() == {"s"}


@pytest.mark.parametrize(
    "case", UNDECLARED, ids=lambda case: f"{case.charset} {case.ccsid} {case.encoding} {case.label}"
)
def test_a_character_set_that_is_not_declared_is_a_doubt_unless_all_is_utf_8(tmp_path: Path, case: Undeclared) -> None:
    written = DIALECT._replace(charset=case.charset, number=case.number)
    attachment = sas_queue.data_set(written, len(contents.TABLE.rows), label=case.label)
    sent = sas_queue.sending(written, "data set", "", attachment)
    messages = tuple(each._replace(ccsid=case.ccsid, encoding=case.encoding) for each in sent.messages)
    with receiving(tmp_path / "default", replace(sent, messages=messages)) as (context, _):
        record = only(context)
        assert record.state is AttachmentState.FINISHED
        with opened(context.store, object_name(record.id)) as file:
            assert pq.read_schema(file).metadata[b"sas.label"].decode() == case.label
        assert record.qualifier_2 == attachment.name
        assert record.warnings[0].startswith(case.doubt) if case.doubt else not record.warnings
    (by_spark,) = pipeline(tmp_path / "pipeline", tmp_path / "default" / "journal")["s"]
    assert (by_spark.name, by_spark.content) == (record.qualifier_2, contents.TABLE)
    with receiving(tmp_path / "hold", replace(sent, messages=messages), on_doubt="hold") as (context, _):
        assert only(context).reason_code == (DOUBTFUL_CONTENT if case.doubt else None)


@pytest.mark.parametrize("kind", ["text", "binary"])
@pytest.mark.parametrize(("charset", "ccsid"), [("utf-8", 0), ("latin-1", 0), ("cp500", 0), ("latin-1", UTF8)])
def test_a_name_in_a_character_set_that_is_not_declared_is_a_doubt(
    tmp_path: Path, kind: str, charset: str, ccsid: int
) -> None:
    written = DIALECT._replace(charset=charset)
    made = sas_queue.text_file(written, SIZE) if kind == "text" else sas_queue.binary_file(written, 0)
    sent = sas_queue.sending(written, kind, "", made._replace(name="größe"))
    sent = replace(sent, messages=tuple(each._replace(ccsid=ccsid) for each in sent.messages))
    with receiving(tmp_path / "default", sent) as (context, _):
        record = only(context)
        assert (record.state, record.qualifier_2) == (AttachmentState.FINISHED, "größe")
        about = [each for each in record.warnings if "names in the header are not utf-8" in each]
        assert len(about) == (charset != "utf-8")
    pipeline(tmp_path / "pipeline", tmp_path / "default" / "journal")
    with closing(SqlCatalog(settings(tmp_path / "pipeline").catalog_url)) as catalog:
        (by_spark,) = catalog.attachments(AttachmentFilter(), None, 10).items
        assert (by_spark.warnings, by_spark.qualifier_2) == (record.warnings, "größe")
    with receiving(tmp_path / "hold", sent, on_doubt="hold") as (context, _):
        assert only(context).reason_code == (DOUBTFUL_CONTENT if about else None)


@pytest.mark.parametrize(("kind", "mixed"), [("text", False), ("binary", False), ("text", True), ("binary", True)])
def test_a_file_whose_records_come_as_those_of_another_kind_is_held(tmp_path: Path, kind: str, mixed: bool) -> None:
    text, binary = sas_rendezvous.text_file(0), sas_rendezvous.binary_file(0)
    other = text if kind == "binary" else binary
    parts = [*text.parts[:2], *binary.parts[1:2]] if mixed else other.parts
    sending = sas_rendezvous.sending("text", "", OWN, other._replace(kind=kind, parts=parts), application=False)
    with receiving(tmp_path, sending, counts="attachment") as (context, _):
        record = only(context)
        assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, DOUBTFUL_CONTENT)
        said = {"text": "text-file", "binary": "binary-file"}
        why = f"its header says that it is a {kind} file, and records of it came as those of a {other.kind} file"
        assert why in str(record.reason)
        assert "on_doubt" in str(record.reason)
    (in_pipeline,) = pipeline(tmp_path / "pipeline", tmp_path / "journal")["s"]
    assert (in_pipeline.state, in_pipeline.reason) == (record.state, record.reason)
    with receiving(tmp_path / "warn", sending, counts="attachment", on_doubt="warn") as (context, _):
        record = only(context)
        assert (record.state, record.warnings) == (AttachmentState.FINISHED, (why,))
        assert Choice(Question.FILE_KIND, said[kind], Ground.PREFERENCE, (said[other.kind],)) in record.evidence
    chosen = context.settings.model_copy(update={"data": tmp_path / "warned"})
    with closing(SqlCatalog(chosen.catalog_url)) as catalog:
        job = Job.of(chosen, str(tmp_path / "warn" / "journal"), in_place=False)
        batch.run(LocalSteps(), open_run(job, catalog, SystemClock()))
        (again,) = catalog.attachments(AttachmentFilter(), None, 10).items
    assert (again.sha256, again.warnings) == (record.sha256, record.warnings)


def test_a_count_with_two_readings_is_held_until_the_subject_shows_what_it_counts(tmp_path: Path) -> None:
    with receiving(tmp_path, on_rendezvous(WITH_HEADER, 0)) as (context, _):
        record = only(context)
        assert (record.state, record.reason_code) == (AttachmentState.RECEIVING, DOUBTFUL_COUNT)
        assert record.reason is not None
        assert "either messages are missing, or the sender counts the header" in record.reason
    sized = [on_rendezvous(WITH_HEADER, SIZE)] * 2
    with receiving(tmp_path, *sized) as (context, _):
        found = context.catalog.attachments(AttachmentFilter(), None, 10).items
        assert {each.state for each in found} == {AttachmentState.FINISHED}, "the first one, too"
        assert len({each.sha256 for each in found}) == 1
        choices = {each.evidence[0].ground for each in found if each.evidence[0].question is Question.COUNT}
        assert choices <= {Ground.ANNOUNCED, Ground.SOURCE}
        assert {each.reason for each in found} == {None}
    in_pipeline = pipeline(tmp_path / "pipeline", tmp_path / "journal")["s"]
    assert [each.state for each in in_pipeline] == [AttachmentState.FINISHED] * 3
    assert in_folder(tmp_path / "pipeline", tmp_path / "journal")["s"] == in_pipeline


def test_a_source_may_accept_a_count_in_doubt_or_state_what_is_counted(tmp_path: Path) -> None:
    with receiving(tmp_path / "warn", on_rendezvous(WITH_HEADER, 0), on_doubt="warn") as (context, _):
        record = only(context)
        assert record.state is AttachmentState.FINISHED
        assert "either messages are missing" in record.warnings[0]
        count = next(each for each in record.evidence if each.question is Question.COUNT)
        assert count.ground is Ground.PREFERENCE
        assert "attachment" in count.others
        assert len(events(context, "attachment.warned")) == 1
    with receiving(tmp_path / "set", on_rendezvous(WITH_HEADER, 0), counts="attachment+header") as (context, _):
        record = only(context)
        assert (record.state, record.warnings) == (AttachmentState.FINISHED, ())
        assert Choice(Question.COUNT, "attachment+header", Ground.SETTING) in record.evidence


def test_what_was_finished_by_a_rule_that_later_files_refute_gets_a_warning(tmp_path: Path) -> None:
    """A file without a size has come whole by the only reading; two others show that the subject counts the header."""
    sendings = [on_rendezvous(OWN, 0), *[on_rendezvous(WITH_HEADER, SIZE)] * 2]
    with receiving(tmp_path, *sendings) as (context, _):
        found = context.catalog.attachments(AttachmentFilter(), None, 10).items
        assert {each.state for each in found} == {AttachmentState.FINISHED}
        (warned,) = [each for each in found if each.warnings]
        assert warned.announced_size == 0
        assert "later attachments show that it counts differently" in warned.warnings[0]
        assert [event.subject for event in events(context, "attachment.warned")] == [warned.id]
    pipeline(tmp_path / "pipeline", tmp_path / "journal")


@pytest.mark.parametrize(("counts", "why"), [("header", "unknown rule 'header'"), ("attachment", "framing")])
def test_a_setting_that_counts_nothing_is_refused(tmp_path: Path, counts: str, why: str) -> None:
    with pytest.raises(ValueError, match=why), receiving(tmp_path, short_file(SIZE), counts=counts):
        pass
