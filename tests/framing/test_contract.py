"""Every framing keeps the contract; one of another package does in tests/test_example_package.py."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from app.framing.file_transfer import FILE_TRANSFER, command_of
from app.framing.mq_group import MQ_GROUP
from app.framing.sas_queue import SAS_QUEUE
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from app.model.message import TOPIC, PhysicalMessage, Position
from app.testing.framing_contract import FramingContract, around_parts, in_the_pipeline, receive, records
from app.testing.gateway_stages import service_context


class TestSasQueue(FramingContract):
    framing = SAS_QUEUE

    @pytest.mark.parametrize("slices", [1, 5])
    @pytest.mark.parametrize("are_little", [False, True])
    @pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
    def test_a_part_in_the_other_byte_order_is_quarantined_by_both_hosts(
        self, tmp_path: Path, place: float, are_little: bool, slices: int
    ) -> None:
        with service_context(tmp_path / "embedded") as context:
            sent = self.written(context, body_limit=1024)
            long = max(around_parts(self.framing, sent), key=len)
            stray = swapped(long[1])._replace(body=b"of another byte order")
            if are_little:
                stray = long[1]._replace(body=stray.body)
                sent = [swapped(each) if each in long else each for each in sent]
            last = max(at for at, each in enumerate(sent) if each.correl_id[:16] == stray.correl_id[:16])
            sent.insert(int(place * last), stray)
            step = -(-len(sent) // slices)
            receive(context, [sent[start : start + step] for start in range(0, len(sent), step)])
            self.check(context, records(context))
            (entry,) = context.catalog.quarantined(None, None, None, 10).items
            assert entry.code == "sequence-beyond-count"
            assert context.journal.read(Position.unpack(entry.position)).body == stray.body
            mine = {record.id: record for record in records(context)}
        results = in_the_pipeline(tmp_path / "pipeline", sent)
        finished = {result.finished.id: result.finished.sha256 for result in results if result.finished is not None}
        assert finished == {key: record.sha256 for key, record in mine.items()}
        assert [entry.code for result in results for entry in result.quarantine] == ["sequence-beyond-count"]


def swapped(part: PhysicalMessage) -> PhysicalMessage:
    """The part with the four bytes of its sequence number in the opposite order."""
    return part._replace(correl_id=part.correl_id[:16] + part.correl_id[16:20][::-1] + part.correl_id[20:])


class TestMqGroup(FramingContract):
    framing = MQ_GROUP


class TestSasRendezvous(FramingContract):
    framing = SAS_RENDEZVOUS


class TestFileTransfer(FramingContract):
    framing = FILE_TRANSFER

    def missing_without(self, parts: Sequence[PhysicalMessage], lost: int) -> list[tuple[int, int]]:
        command = command_of(parts[lost])
        if command.name == "init":
            return []
        return [(command.number + 1, command.number + len(parts[lost].body))]

    def with_body(self, part: PhysicalMessage, body: bytes) -> PhysicalMessage:
        command = command_of(part)._replace(checksum=sha256(body).hexdigest())
        return part._replace(body=body, properties={**part.properties, TOPIC: command.topic()})
