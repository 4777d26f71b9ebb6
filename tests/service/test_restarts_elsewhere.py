"""Attachments that another process begins anew while assembly holds them in memory."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adapters.sql_catalog import SqlCatalog
from app.model.attachment import AttachmentState
from app.model.errors import CatalogChanged
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.host import SOURCE, Host
from tests.support.sas_client import Attached, binary_file


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    clock = ManualClock()
    with service_context(tmp_path, clock) as context:
        yield Host(context, clock)


@pytest.fixture
def elsewhere(host: Host, tmp_path: Path) -> Iterator[SqlCatalog]:
    """Another process's catalog."""
    with closing(SqlCatalog(f"sqlite:///{tmp_path}/catalog.sqlite")) as catalog:
        yield catalog


def begun_anew(host: Host, elsewhere: SqlCatalog, attached: Attached) -> None:
    """Let an attachment expire, and release its parts."""
    record = host.record(attached)
    assert elsewhere.expire([record], host.clock.now(), ["it is silent"], []) == {record.id}
    assert elsewhere.restart([record.id], AttachmentState.EXPIRED, "its parts were released") == [record.id]


def test_parts_that_were_released_elsewhere_do_not_complete_an_attachment(host: Host, elsewhere: SqlCatalog) -> None:
    attached = binary_file(host.program, "a.bin", host.program.random.randbytes(100_000))
    messages = host.messages(attached)
    host.receive(messages[:-2])  # the last part and the count are missing
    assert host.record(attached).parts_received > 1
    begun_anew(host, elsewhere, attached)
    with pytest.raises(CatalogChanged, match="1 attachments were begun anew"):
        host.receive(messages[-2:])
    assert host.record(attached).parts_received == 0, "nothing of the checkpoint was written"
    host.assembler.forget()
    host.receive([])
    assert (host.record(attached).state, host.record(attached).parts_received) == (AttachmentState.RECEIVING, 1)
    host.receive(messages[:-2])
    host.assert_whole(attached)


def test_own_changes_do_not_hide_those_of_others(host: Host, elsewhere: SqlCatalog) -> None:
    one, two = (binary_file(host.program, f"{n}.bin", host.program.random.randbytes(100_000)) for n in (1, 2))
    parts = {each.definition.correl_id: host.messages(each) for each in (one, two)}
    for each in (one, two):
        host.receive(parts[each.definition.correl_id][:-2])

    def change() -> list[tuple[str, bytes]]:
        begun_anew(host, elsewhere, two)
        begun_anew(host, elsewhere, one)  # as if by this process
        return [(SOURCE, one.definition.correl_id)]

    host.assembler.change(change)
    host.receive(parts[two.definition.correl_id][-2:])
    assert (host.record(two).state, host.record(two).parts_received) == (AttachmentState.RECEIVING, 1)
    for each in (one, two):
        host.receive(parts[each.definition.correl_id])
        host.assert_whole(each)
