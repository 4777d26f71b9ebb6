"""Messages that are submitted without HTTP: what becomes a delivery, what does not, and what stays in the store."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapters.memory import MemoryDestinationSettings, MemorySender
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import GatewayError, StoreFull
from app.service.context import ServiceContext
from app.service.sending.delivery_creation import Deliveries, Submission, folder_of
from app.service.sending.drafts import (
    DraftedApplicationMessage,
    DraftedAttachment,
    DraftedMessage,
    check_destination_takes,
    find_destination,
)
from app.service.sending.sending_errors import (
    CannotSend,
    DestinationRefuses,
    KeyReused,
    Refusal,
    UnknownDestination,
    UnsuitableDataSets,
)
from app.service.sending.upload_parts import PartWriter, StoredPart
from app.testing.gateway_stages import service_context

DESTINATIONS: dict[str, Any] = {
    "partner": {"transport": "memory", "queue": "partner"},
    "groups": {"transport": "memory", "queue": "groups", "framing": "mq_group"},
    "mainframe": {"transport": "memory", "queue": "mainframe", "ccsid": 37, "encoding": 785},
    "packets": {"transport": "memory", "queue": "packets", "framing": "order_packet", "body_limit": 131_072},
}
FILE, DATA_SET = AttachmentKind.BINARY_FILE, AttachmentKind.DATA_SET


class Sending:
    """Deliveries whose outboxes do not run, and submissions for them."""

    def __init__(self, context: ServiceContext) -> None:
        self.context = context
        senders = {name: MemorySender(MemoryDestinationSettings(queue=name)) for name in DESTINATIONS}
        self.room = 1 << 30
        self.deliveries = Deliveries(context, senders, self._check_room)

    def _check_room(self, wanted: int) -> None:
        if wanted > self.room or self.room == 0:
            raise StoreFull("no room")

    def stored(self, number: int, delivery_id: str, data: bytes, file_name: str) -> StoredPart:
        writer = PartWriter(self.context.store, f"{folder_of(delivery_id)}/{number}")
        writer.write(memoryview(data))
        return writer.finish(f"p{number}", file_name, "")

    def submission(
        self, delivery_id: str, *files: tuple[AttachmentKind, str, bytes], destination: str = "partner", **more: Any
    ) -> Submission:
        parts = [self.stored(number, delivery_id, data, name) for number, (_, name, data) in enumerate(files)]
        attachments = [
            DraftedAttachment(part.name, kind, name=None if kind is DATA_SET else name)
            for part, (kind, name, _) in zip(parts, files, strict=True)
        ]
        message = DraftedMessage(destination, tuple(attachments))
        return Submission(delivery_id, message, {part.name: part for part in parts}, **more)

    def objects(self) -> list[str]:
        return sorted(self.context.store.names())


@pytest.fixture
def sending(tmp_path: Path) -> Iterator[Sending]:
    with service_context(tmp_path, destinations=DESTINATIONS) as context:
        yield Sending(context)


def test_a_file_becomes_a_queued_delivery(sending: Sending) -> None:
    accepted = sending.deliveries.submit(sending.submission("1", (FILE, "a.bin", b"abc")))
    (sent,) = accepted.delivery.attachments
    assert (accepted.delivery.state, accepted.warnings, accepted.is_replayed) == (DeliveryState.QUEUED, [], False)
    assert (sent.object_name, sent.size, sent.sha256) == ("outgoing/1/0", 3, sha256(b"abc").hexdigest())
    assert (sent.qualifier_1, sent.qualifier_2) == ("FILENAME", "a.bin")
    assert sending.context.catalog.delivery("1") == accepted.delivery
    assert [event.type for event in sending.context.catalog.events_after(0, 9)] == ["delivery.queued"]


def test_a_data_set_replaces_its_file(sending: Sending) -> None:
    accepted = sending.deliveries.submit(sending.submission("1", (DATA_SET, "c:\\in\\sales.csv", b"a,b\n1,x\n")))
    (sent,) = accepted.delivery.attachments
    assert (sent.qualifier_1, sent.qualifier_2) == ("WORK", "SALES")
    assert sending.objects() == [sent.object_name] == ["outgoing/1/data-set-0"]
    assert b"".join(sending.context.store.read(sent.object_name))[:4] == b"PAR1"


def test_a_message_is_accepted_although_the_file_of_its_data_set_cannot_be_removed(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise GatewayError("the store is away")

    for method in ("delete", "delete_all"):
        monkeypatch.setattr(sending.context.store, method, fail)
    accepted = sending.deliveries.submit(sending.submission("1", (DATA_SET, "sales.csv", b"a,b\n1,x\n")))
    assert accepted.delivery == sending.context.catalog.delivery("1")


def test_every_fault_of_every_file_is_reported_with_its_place(sending: Sending) -> None:
    files = (
        (DATA_SET, "a.csv", b"a b,c\n1,2\n"),
        (FILE, "x.bin", b"x"),
        (DATA_SET, "b.parquet", b"PAR1 is not all"),
        (DATA_SET, "c.csv", b"ok,not ok\n1,2\n"),
    )
    with pytest.raises(UnsuitableDataSets) as error:
        sending.deliveries.submit(sending.submission("1", *files))
    places = [(fault.where, fault.fault.variable) for fault in error.value.faults]
    assert places == [
        (("attachments", 0, "data_set"), "a b"),
        (("attachments", 2, "part"), None),
        (("attachments", 3, "data_set"), "not ok"),
    ]
    assert sending.objects() == []
    assert sending.context.catalog.delivery("1") is None


def test_what_is_changed_is_a_warning_with_its_place(sending: Sending) -> None:
    files = ((FILE, "x.bin", b"x"), (DATA_SET, "a.csv", b"exact,n\n1,1\n2,12345678901234567\n"))
    warnings = sending.deliveries.submit(sending.submission("1", *files)).warnings
    assert [(warning.where, warning.fault.variable) for warning in warnings] == [(("attachments", 1, "data_set"), "n")]


def test_the_same_key_sends_once(sending: Sending) -> None:
    def submit(delivery_id: str, fingerprint: str) -> Any:
        asked = sending.submission(delivery_id, (FILE, "a.bin", b"abc"), key="k", fingerprint=fingerprint)
        return sending.deliveries.submit(asked)

    first = submit("1", "same").delivery
    sending.context.catalog.update_delivery(replace(first, state=DeliveryState.SENT, attempts=3, messages_sent=4))
    again = submit("2", "same")
    assert again.is_replayed
    assert again.delivery == first
    with pytest.raises(KeyReused, match="delivery 1"):
        submit("3", "other")
    assert sending.objects() == ["outgoing/1/0"]


def test_a_dry_run_counts_and_keeps_nothing(sending: Sending) -> None:
    asked = sending.submission("1", (FILE, "a.bin", b"x" * 70_000), (DATA_SET, "t.csv", b"a\n1\n"))
    told = sending.deliveries.dry_run(asked)
    file, data_set = told.delivery.attachments
    assert told.parts == ["p0", "p1"]
    assert list(told.data_sets) == ["p1"]
    assert told.attachment_messages[file.correl_id] == 5  # the description, three bodies and the count
    attachments = sum(told.attachment_messages[each.correl_id] for each in (file, data_set))
    assert told.messages == attachments + 2  # the header and the application message
    assert sending.objects() == []
    assert sending.context.catalog.delivery("1") is None


def test_a_dry_run_of_what_cannot_be_sent_keeps_nothing(sending: Sending) -> None:
    line = b"x" * ((16 << 20) + 1)
    with pytest.raises(CannotSend, match="longer than"):
        sending.deliveries.dry_run(sending.submission("1", (AttachmentKind.TEXT_FILE, "a.txt", line)))
    assert sending.objects() == []


def test_no_room_while_a_data_set_is_stored(sending: Sending) -> None:
    asked = sending.submission("1", (DATA_SET, "t.csv", b"a\n1\n"))
    sending.room = 0
    with pytest.raises(StoreFull):
        sending.deliveries.submit(asked)
    assert sending.objects() == []


def test_what_is_discarded_is_the_folder_of_one_submission(sending: Sending) -> None:
    for delivery_id in ("1", "10"):
        sending.submission(delivery_id, (FILE, "a.bin", b"abc"))
    sending.deliveries.discard("1")
    assert sending.objects() == ["outgoing/10/0"]


def test_a_part_that_is_abandoned_leaves_nothing(sending: Sending) -> None:
    writer = PartWriter(sending.context.store, "outgoing/1/0")
    writer.write(memoryview(b"abc"))
    writer.abandon()
    assert sending.objects() == []


@pytest.mark.parametrize(
    ("destination", "kind", "application", "refusals"),
    [
        ("partner", DATA_SET, "text", []),
        (
            "groups",
            DATA_SET,
            "text",
            [
                Refusal(("attachments", 0, "kind"), "the framing mq_group carries no data-set"),
                Refusal(("application_message",), "the framing mq_group carries no application message"),
            ],
        ),
        (
            "mainframe",
            FILE,
            "日本",
            [
                Refusal(
                    ("application_message",),
                    "text cannot be written in the destination's CCSID 37: character maps to <undefined>",
                )
            ],
        ),
    ],
)
def test_what_a_destination_takes(
    sending: Sending, destination: str, kind: AttachmentKind, application: str, refusals: list[Refusal]
) -> None:
    message = DraftedMessage(
        destination,
        (DraftedAttachment("p", kind),),
        application_message=DraftedApplicationMessage(application),
    )
    to = find_destination(sending.deliveries.destinations, destination)
    if not refusals:
        check_destination_takes(message, to)
        return
    with pytest.raises(DestinationRefuses, match=f"destination '{destination}' does not take this") as error:
        check_destination_takes(message, to)
    assert error.value.refusals == refusals


def test_an_unknown_destination(sending: Sending) -> None:
    with pytest.raises(UnknownDestination, match="'nobody'") as error:
        find_destination(sending.deliveries.destinations, "nobody")
    assert error.value.known == sorted(DESTINATIONS)


def longs(*cells: str | None, kind: str = "long_byte") -> bytes:
    """A Parquet file with a LONG column, of which each cell names a file."""
    fields = pa.schema([pa.field("ID", pa.float64()), pa.field("DOC", pa.string(), metadata={"sapdb.type": kind})])
    pq.write_table(pa.table([[1.0] * len(cells), list(cells)], fields), sink := BytesIO())
    return sink.getvalue()


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("table", "code", "row", "why"),
    [
        (longs("a.bin", None, "", "long:" + "1f" * 16), None, None, ""),
        (longs("a.bin", "c.bin"), "value", 2, "'c.bin' names no file of the same message"),
        (longs("long:1f"), "value", 1, "'long:1f' names no file"),
        (longs("a.bin", "b.bin"), "value", 2, "'b.bin' is the name of 2 files of the same message"),
        (longs("a.bin", kind="long_nope"), "type", None, "unknown sapdb.type 'long_nope'; choose one of: fixed, float"),
        (longs(kind="long_nope"), "type", None, "unknown sapdb.type 'long_nope'"),
    ],
)
def test_what_a_long_column_names_is_decided_before_a_message_is_queued(
    sending: Sending, table: bytes, code: str | None, row: int | None, why: str, *, dry_run: bool
) -> None:
    files = [(DATA_SET, "t.parquet", table), *((FILE, name, name.encode()) for name in ("a.bin", "b.bin", "b.bin"))]
    submit = sending.deliveries.dry_run if dry_run else sending.deliveries.submit
    submission = sending.submission("1", *files, destination="packets")
    if code is None:
        assert submit(submission)
        return
    with pytest.raises(UnsuitableDataSets) as error:
        submit(submission)
    (found,) = error.value.faults
    assert (found.where, found.fault.variable, found.fault.code, found.fault.row) == (
        ("attachments", 0, "data_set"),
        "DOC",
        code,
        row,
    )
    assert why in found.fault.why
    assert sending.objects() == []
