"""Replays that a process requests which does not write the journal."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from adapters.sql_catalog import SqlCatalog
from app.model.errors import JournalFull
from app.model.message import PhysicalMessage
from app.service.quarantine.replays import Replayer, RequestedReplays
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.host import Host


def test_a_replay_that_is_requested_elsewhere_is_carried_out_once(tmp_path: Path) -> None:
    clock = ManualClock()
    journalled: list[PhysicalMessage] = []
    is_full = True

    def journal_again(messages: Sequence[PhysicalMessage], mark: Callable[[], object]) -> None:
        if is_full:
            raise JournalFull("no space is left")
        journalled.extend(messages)
        mark()

    with (
        service_context(tmp_path, clock) as context,
        closing(SqlCatalog(f"sqlite:///{tmp_path}/catalog.sqlite")) as elsewhere,
    ):
        host = Host(context, clock)
        host.poison(b"no message of SAS")
        host.poison(b"neither")
        first, second = host.entries()
        requesting = RequestedReplays(elsewhere)
        assert requesting.replay("0" * 32) is None
        for _ in range(2):
            replayed = requesting.replay(first.id)
            assert replayed is not None
            assert replayed().result == "pending"
        replayer = Replayer(context, journal_again, lambda _id: None, context.journal.end)
        with pytest.raises(JournalFull):
            replayer.carry_out()
        assert elsewhere.replay_requests(9) == [first.id], "it waits for space"
        is_full = False
        replayer.carry_out()
        replayer.carry_out()
        assert [bytes(each.body) for each in journalled] == [b"no message of SAS"]
        states = {each.id: each.state for each in host.entries()}
        assert states == {first.id: "replayed", second.id: "kept"}
        assert elsewhere.replay_requests(9) == []
