"""What every framing keeps: what it writes comes back by both hosts, in any order, with duplicates, cut anywhere.

A subclass names its `framing`. The fixture `spark` is a session of Spark, as `app.testing.fixtures` starts it.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from structlog.testing import capture_logs

from app import plugins
from app.assembly.arrangement import ARRANGEMENTS, arrangement_of
from app.assembly.machine import AssemblyLimits
from app.codecs.sas import dialect
from app.framing.message_events import FAILED, is_header, read_event
from app.framing.protocol import Framing
from app.framing.registry import FRAMINGS, framing, traits
from app.main import SystemClock
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import InvalidInputError
from app.model.event import Announced, PartArrived, Pieces
from app.model.evidence import Question
from app.model.message import EVIDENCE, PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions
from app.pipeline.assemble.assemble_key import KeyOutcome, KeyState, assemble, by_key
from app.pipeline.finish import finish_outcomes
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job, open_job, open_run
from app.pipeline.references.message_references import Header, MessageEvent, RefusedMessage, SequencedParts
from app.pipeline.run import batch
from app.pipeline.run.spark_steps import SparkSteps
from app.ports import AttachmentFilter
from app.service.assembling.assembler import Assembler
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment, missing_ranges
from app.service.sending.delivery_creation import count_messages
from app.service.sending.drafts import check_names
from app.service.sending.framer import Framer
from app.service.sending.sending_errors import CannotSend, DestinationRefuses
from app.settings import Settings
from app.testing.gateway_stages import service_context
from app.testing.host_results import assert_same, by_the_gateway, in_folder, settings
from app.testing.outgoing_files import FILES, SOURCE, delivery
from app.testing.reference_passes import Announcing, all_references, journalled, positioned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED: dict[str, Any] = {
    "body_limit": 4000,
    "dialect": "little-8-absent-aligned",
    "ccsid": 943,
    "encoding": 546,
    "record_length": 1000,
    "group": "segments",
}
"""Another value of every option that a framing may have."""
SMALL = [each for each in FILES if len(each[2]) < 100_000]


class FramingContract:
    """Inherited by the tests of each framing."""

    framing: ClassVar[Framing]

    @property
    def options(self) -> FramingOptions:
        return FramingOptions(32_000, "big-4-excluded-packed", 1208, 273, framing=self.framing.traits.name)

    def delivery(
        self, context: ReceiverContext, files: Sequence[tuple[AttachmentKind, str, bytes]] = SMALL
    ) -> DeliveryRecord:
        """Store files to send, and what belongs to them as far as the framing carries it."""
        carried = [each for each in files if each[0] in self.framing.kinds]
        made = delivery(context, carried)
        return made if self.framing.application_message else replace(made, application_body=None)

    def written(self, context: ReceiverContext, **options: Any) -> list[PhysicalMessage]:
        made = self.options._replace(**options)
        sent = Framer(made, context.store).frame(self.delivery(context))
        return [each._replace(body=bytes(each.body), received_at=1 + at) for at, each in enumerate(sent)]

    # --- what it is called and what it is asked ---------------------------------------------------------------------

    def test_it_is_registered_under_its_name(self) -> None:
        name = self.framing.traits.name
        assert framing(name) is self.framing
        assert traits(name) is self.framing.traits
        with pytest.raises(KeyError, match=rf"unknown framing 'smoke': use .*'{name}'"):
            framing("smoke")
        assert traits(name).numbered_on_arrival == (self.framing.arrivals() is not None)

    def test_settings_take_its_name(self) -> None:
        made = Settings.model_validate(
            {"sources": {"a": {"transport": "memory", "queue": "q", "framing": self.framing.traits.name}}}
        )
        assert made.sources["a"].framing == self.framing.traits.name

    # --- writing ----------------------------------------------------------------------------------------------------

    def test_what_it_writes_is_the_same_each_time(self, tmp_path: Path) -> None:
        with service_context(tmp_path) as context:
            sent = self.written(context)
            assert sent == self.written(context), "an interrupted delivery continues with the same messages"
            assert len({message.message_id for message in sent}) == len(sent)
            assert {(message.source, message.framing) for message in sent} == {(SOURCE, self.framing.traits.name)}
            assert max(len(message.body) for message in sent) <= self.options.body_limit
            if self.framing.traits.needs_descriptor:
                assert all(message.msg_type for message in sent)

    @pytest.mark.parametrize("option", CHANGED)
    def test_only_its_own_options_change_what_it_writes(self, tmp_path: Path, option: str) -> None:
        with service_context(tmp_path) as context:
            is_same = self.written(context) == self.written(context, **{option: CHANGED[option]})
        assert is_same == (option not in self.framing.options)

    def test_what_it_does_not_carry_is_refused(self, tmp_path: Path) -> None:
        with service_context(tmp_path) as context:
            made = self.delivery(context)
            for kind in set(AttachmentKind) - self.framing.kinds:
                other = replace(made, attachments=(replace(made.attachments[0], kind=kind),))
                with pytest.raises(CannotSend, match=f"the framing {self.framing.traits.name} carries no "):
                    next(Framer(self.options, context.store).frame(other))
            if not self.framing.application_message:
                with pytest.raises(CannotSend, match="carries no application message"):
                    next(Framer(self.options, context.store).frame(replace(made, application_body=b"x")))

    def test_names_are_checked_as_they_are_written(self, tmp_path: Path) -> None:
        """Check that what can never be written is refused when it is submitted, and not queued."""
        with service_context(tmp_path) as context:
            made = self.delivery(context)
            for name in ("\u65e5\u672c.txt", "x" * 255, "\u00e9" * 128, "x" * 1024, "a\nb", "x" * 40_000):
                for number, attachment in enumerate(made.attachments):
                    for changed in (replace(attachment, qualifier_2=name), replace(attachment, description=name)):
                        attachments = (*made.attachments[:number], changed, *made.attachments[number + 1 :])
                        other = replace(made, attachments=attachments)
                        is_written = is_taken = True
                        try:
                            list(Framer(self.options, context.store).frame(other))
                        except CannotSend:
                            is_written = False
                        try:
                            check_names(other, self.options)
                        except DestinationRefuses:
                            is_taken = False
                        assert is_taken == is_written, (name[:8], changed)

    def test_messages_of_each_attachment_are_known_by_its_key(self, tmp_path: Path) -> None:
        with service_context(tmp_path) as context:
            made = self.delivery(context)
            counting = count_messages(self.options, context.store, made)
            next(counting)
            with pytest.raises(StopIteration) as counted:
                next(counting)
            total, of_each = counted.value.value
            assert total == len(list(Framer(self.options, context.store).frame(made)))
            assert set(of_each) == {attachment.correl_id for attachment in made.attachments}
            assert all(of_each.values())

    # --- reading ----------------------------------------------------------------------------------------------------

    def test_headers_are_what_announces(self, tmp_path: Path) -> None:
        with service_context(tmp_path) as context:
            for message in self.written(context):
                event = self.framing.read(message, dialect.ALL)
                assert self.framing.is_header(message) == isinstance(event, Announced)
                if not isinstance(event, Announced):
                    assert not isinstance(event, Pieces), "none of these has several parts"
                    assert self.framing.attachment_key(message) == event.correl_id

    @pytest.mark.parametrize("seed", range(3))
    def test_a_batch_means_what_its_messages_mean(self, tmp_path: Path, seed: int) -> None:
        random = Random(seed)
        with service_context(tmp_path / "of") as context:
            sent = [damaged(each, random) if not random.randrange(5) else each for each in self.written(context)]
        if seed:
            random.shuffle(sent)
        archive = journalled(tmp_path / "journal", sent)
        found: dict[int, Any] = {}
        for reference in all_references(archive):
            for place, size in enumerate(reference.sizes):
                meaning: Any = None
                match reference:
                    case SequencedParts():
                        meaning = PartArrived(reference.key, reference.number + place, size)
                    case MessageEvent():
                        meaning = reference.event
                    case RefusedMessage(code=code, row=row, at=at, why=why):
                        meaning = code, row, at, why
                    case Header():
                        meaning = "header"
                found[reference.position + place] = meaning
        expected = {position: self._meaning(message) for position, message in positioned(archive)}
        assert found == expected

    def _meaning(self, message: PhysicalMessage) -> Any:
        if is_header(message):  # by the framing that the message has, which may be another one
            return "header"
        try:
            return read_event(message, dialect.ALL)
        except InvalidInputError as error:
            return error.code, error.row, error.at, error.why

    def test_a_message_cut_at_any_byte_is_an_event_or_their_error(self, tmp_path: Path) -> None:
        with service_context(tmp_path) as context:
            for message in self.written(context)[:6]:
                for at in range(min(len(message.body), 300)):
                    self._meaning(message._replace(body=message.body[:at]))

    # --- both hosts -------------------------------------------------------------------------------------------------

    def test_a_message_at_which_it_fails_stops_no_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        failing: Any = Failing(self.framing, b"poison")
        monkeypatch.setitem(FRAMINGS, self.framing.traits.name, failing)
        with service_context(tmp_path / "embedded") as context:
            sent = self.written(context, body_limit=3000)
            sent.insert(len(sent) // 2, sent[0]._replace(body=b"poison"))
            with capture_logs() as logs:
                receive(context, [sent])
            self.check(context, records(context))
            (entry,) = context.catalog.quarantined(None, None, None, 10).items
        assert (entry.code, entry.why) == (FAILED, "the program fails at it: ZeroDivisionError: a fault of ours")
        assert [log["event"] for log in logs] == ["message_not_read"]
        results = in_the_pipeline(tmp_path / "pipeline", sent)
        assert [each.code for result in results for each in result.quarantine] == [FAILED]
        assert sum(result.finished is not None for result in results) == len(records(context))

    def test_a_fault_in_reading_early_leaves_files_to_finishing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing: Any = Failing(self.framing, None)
        monkeypatch.setitem(FRAMINGS, self.framing.traits.name, failing)
        with service_context(tmp_path) as context:
            with capture_logs() as logs:
                receive(context, [self.written(context, body_limit=3000)])
            self.check(context, records(context))
        assert {log["event"] for log in logs} == (
            {"early_reading_failed"} if self.framing.arrangement == "numbered" else set()
        )

    @pytest.mark.parametrize("body_limit", [1024, 5000, 32_000])
    @pytest.mark.parametrize("order", ["as sent", "disordered", "backwards"])
    def test_what_is_written_comes_back(self, tmp_path: Path, order: str, body_limit: int) -> None:
        with service_context(tmp_path) as context:
            sent = ordered(self.written(context, body_limit=body_limit), order)
            receive(context, [sent])
            self.check(context, records(context))
            assert not context.catalog.quarantined(None, None, None, 10).items

    def test_a_host_that_begins_again_and_again_comes_to_the_same(self, tmp_path: Path) -> None:
        with service_context(tmp_path) as context:
            sent = shuffled(self.written(context, body_limit=2000), Random(2))
            receive(context, [sent[start : start + 7] for start in range(0, len(sent), 7)])
            self.check(context, records(context))

    @pytest.mark.parametrize("order", ["as sent", "disordered", "backwards"])
    def test_the_pipeline_finds_the_same(self, tmp_path: Path, order: str) -> None:
        with service_context(tmp_path / "embedded") as context:
            sent = ordered(self.written(context, body_limit=3000), order)
            receive(context, [sent])
            mine = {record.id: record for record in records(context)}
        results = in_the_pipeline(tmp_path / "pipeline", sent)
        finished = {result.finished.id: result.finished for result in results if result.finished is not None}
        assert finished.keys() == mine.keys()
        for key, found in finished.items():
            assert (found.size, found.sha256) == (mine[key].size, mine[key].sha256)
            assert found.content_type == mine[key].content_type
            assert (found.evidence, found.warnings) == (mine[key].evidence, mine[key].warnings)

    @pytest.mark.parametrize("order", ["as sent", "backwards"])
    def test_what_a_transport_doubts_is_told_by_both_hosts(self, tmp_path: Path, order: str) -> None:
        doubt = "the MQRFH2 at byte 0 is in the other byte order"
        with service_context(tmp_path / "embedded") as context:
            sent = [
                each._replace(properties={**each.properties, EVIDENCE: doubt})
                for each in ordered(self.written(context, body_limit=3000), order)
            ]
            receive(context, [sent])
            mine = {record.id: record for record in records(context)}
            listed = context.catalog.attachments(AttachmentFilter(warned=True), None, 100).items
            events = [event for event in context.catalog.events_after(0, 1000) if event.type == "attachment.warned"]
        assert {record.id for record in listed} == {event.subject for event in events} == mine.keys()
        for record in mine.values():
            assert record.warnings == (doubt,)
            assert [choice for choice in record.evidence if choice.question is Question.HEADERS]
        results = in_the_pipeline(tmp_path / "pipeline", sent)
        found = [result.finished for result in results if result.finished is not None]
        assert {each.id: (each.warnings, each.evidence) for each in found} == {
            key: (record.warnings, record.evidence) for key, record in mine.items()
        }

    @pytest.mark.parametrize("seed", range(4))
    def test_what_has_not_come_is_told_and_then_taken(self, tmp_path: Path, seed: int) -> None:
        random = Random(seed)
        with service_context(tmp_path) as context:
            sent = self.written(context, body_limit=1024)
            long = max(around_parts(self.framing, sent), key=len)
            lost = random.choice(long[:-1])
            receive(context, [[message for message in sent if message is not lost]])
            (record,) = [each for each in records(context) if each.state is AttachmentState.RECEIVING]
            assert ARRANGEMENTS[self.framing.arrangement] is arrangement_of(record)
            missing = missing_ranges(record, context.catalog, context.journal, 10)
            assert missing == self.missing_without(long, long.index(lost))
            receive(context, [[lost]])
            self.check(context, records(context))

    def test_a_part_with_other_bytes_is_quarantined(self, tmp_path: Path) -> None:
        with service_context(tmp_path) as context:
            sent = self.written(context, body_limit=1024)
            part = max(around_parts(self.framing, sent), key=len)[1]
            other = self.with_body(part, bytes(part.body)[:-1] + bytes([part.body[-1] ^ 1]))
            receive(context, [[*sent, other]])
            (entry,) = context.catalog.quarantined(None, None, None, 10).items
            assert entry.code == "conflicting-part"
            self.check(context, records(context))

    def test_spark_finds_what_the_gateway_finds(self, tmp_path: Path, spark: "SparkSession") -> None:
        journal, alone, batched = tmp_path / "journal", tmp_path / "alone", tmp_path / "batched"
        with service_context(tmp_path / "of") as context:
            sent = shuffled(self.written(context, body_limit=4000), Random(3))
        with closing(plugins.journal()(journal, segment_bytes=1 << 18)) as opened:
            for start in range(0, len(sent), 40):
                opened.append(sent[start : start + 40])
            opened.seal()
        with closing(plugins.catalog()(settings(batched).catalog_url)) as catalog:
            job = Job.of(settings(batched), str(journal), in_place=False)
            committed = batch.run(SparkSteps(spark), open_run(job, catalog, SystemClock()))
        assert committed is not None
        assert committed.finished == len([each for each in SMALL if each[0] in self.framing.kinds])
        assert_same(in_folder(batched, journal), by_the_gateway(alone, journal), settled=True)

    def missing_without(self, parts: Sequence[PhysicalMessage], lost: int) -> list[tuple[int, int]]:
        """Return what is reported missing of an attachment where this part (0 is the first) has not come."""
        return [(lost + 1, lost + 1)]

    def with_body(self, part: PhysicalMessage, body: bytes) -> PhysicalMessage:
        """Return a part as it would be with another body."""
        return part._replace(body=body)

    def check(self, context: ReceiverContext, found: Iterable[AttachmentRecord]) -> None:
        """Assert that all that was sent is finished, byte for byte."""
        sent = {name: (kind, content) for kind, name, content in SMALL if kind in self.framing.kinds}
        by_name = {record.qualifier_2: record for record in found}
        assert by_name.keys() == sent.keys()
        for name, (kind, content) in sent.items():
            record = by_name[name]
            assert (record.state, record.reason, record.kind) == (AttachmentState.FINISHED, None, kind), name
            assert (record.size, record.sha256) == (len(content), sha256(content).hexdigest()), name


class Failing:
    """A framing with a fault of its own: at a message with this body, or where it begins to read a file."""

    def __init__(self, framing_: Framing, body: bytes | None) -> None:
        self._framing, self._body = framing_, body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._framing, name)

    def read_columns(self, *_: object) -> None:
        """Have all messages read one by one."""

    def read(self, message: PhysicalMessage, known: int) -> Any:
        if message.body == self._body:
            raise ZeroDivisionError("a fault of ours")
        return self._framing.read(message, known)

    def begin_file(self, record: AttachmentRecord, body: bytes) -> None:
        if self._body is None:
            raise ZeroDivisionError("a fault of ours")


def around_parts(framing_: Framing, sent: Iterable[PhysicalMessage]) -> list[list[PhysicalMessage]]:
    """Return the sequenced parts of each attachment, in order."""
    found: dict[bytes, list[PhysicalMessage]] = {}
    for message in sent:
        event = framing_.read(message, dialect.ALL)
        if hasattr(event, "sequence") or hasattr(event, "offset"):
            found.setdefault(framing_.attachment_key(message), []).append(message)
    return list(found.values())


def ordered(sent: list[PhysicalMessage], order: str) -> list[PhysicalMessage]:
    """Return the messages in this order."""
    return {"as sent": sent, "disordered": shuffled(sent, Random(4)), "backwards": sent[::-1]}[order]


def shuffled(sent: Sequence[PhysicalMessage], random: Random) -> list[PhysicalMessage]:
    """Return the messages in random order, a fifth of them twice."""
    twice = [*sent, *random.sample(sent, len(sent) // 5)]
    random.shuffle(twice)
    return twice


def damaged(message: PhysicalMessage, random: Random) -> PhysicalMessage:
    """Return the message with something wrong with it, or not."""
    body = bytes(message.body)
    return random.choice(
        [
            message._replace(body=body[: random.randrange(len(body) + 1)]),
            message._replace(msg_type=random.choice([0, 4, 8, 100000, 100001])),
            message._replace(correl_id=random.randbytes(24)),
            message._replace(msg_seq_number=random.randrange(-1, 4), offset=random.randrange(-1, 4)),
            message._replace(framing=random.choice(list(FRAMINGS))),
        ]
    )


def receive(context: ReceiverContext, slices: Iterable[Sequence[PhysicalMessage]]) -> None:
    """Run the stages of a new process for each slice, one after the other in this thread."""
    for some in slices:
        complete: dict[str, CompleteAttachment | None] = {}
        for start in range(0, len(some), 50):
            context.journal.append(some[start : start + 50])
        Assembler(context, complete.update).recover()
        Finisher(context).finish(complete)


def records(context: ReceiverContext) -> list[AttachmentRecord]:
    return list(context.catalog.attachments(AttachmentFilter(), None, 1000).items)


def in_the_pipeline(folder: Path, sent: Sequence[PhysicalMessage]) -> list[Result]:
    """Return what the functions of the pipeline make of messages, without Spark."""
    archive = journalled(folder / "journal", sent)
    job = Job.of(Settings.model_validate({"data": folder}), str(folder / "journal"), in_place=False)
    coming = sorted(Announcing(archive).references(all_references(archive)), key=lambda each: (each.source, each.key))
    outcomes: list[KeyOutcome] = []
    for key, some in by_key(coming):
        outcomes += assemble(key, some, KeyState(), AssemblyLimits())[0]
    return list(finish_outcomes.finish(outcomes, open_job(job).stores, archive))
