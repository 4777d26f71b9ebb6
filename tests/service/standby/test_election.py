"""The election by a Lease: who becomes active, and when a gateway has to give up."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

import pytest

from app.model.errors import GatewayError
from app.service.instance import new_instance
from app.service.standby.election import Election
from app.service.standby.lease import LeaseApi, LeaseChanged, LeaseError
from app.settings import Standby
from app.testing.waiting import until
from tests.support.lease_server import LeaseServer

PATIENT = {"duration": 60, "renew_deadline": "40s", "retry": "50ms"}
"""A holder keeps the Lease even while this machine is too busy to run it."""
SHORT = {"duration": 1, "renew_deadline": "600ms", "retry": "50ms"}


class Elect(Protocol):
    def __call__(self, name: str, times: dict[str, Any] = ...) -> "Candidate": ...


@pytest.fixture
def api() -> Iterator[LeaseServer]:
    with LeaseServer().running() as running:
        yield running


def settings(folder: Path, api: LeaseServer, token: str, times: dict[str, Any]) -> Standby:
    file = folder / token
    file.write_text(token)
    place = {"lease": "gateway", "namespace": "prod", "api_url": api.url, "token_file": file}
    return Standby.model_validate(place | times)


class Candidate:
    """A part in the election, run in a thread."""

    def __init__(self, given: Standby) -> None:
        self.why: list[str] = []
        self.stop = Event()
        self.election = Election(given, new_instance(), self.why.append)
        self.won: bool | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.won = self.election.campaign(self.stop)

    def await_won(self) -> None:
        until(lambda: self.won, pause=0.005)

    def end(self) -> None:
        self.stop.set()
        self._thread.join()
        self.election.release()


@pytest.fixture
def elect(tmp_path: Path, api: LeaseServer) -> Iterator[Elect]:
    made: list[Candidate] = []

    def candidate(name: str, times: dict[str, Any] = PATIENT) -> Candidate:
        made.append(Candidate(settings(tmp_path, api, name, times)))
        return made[-1]

    yield candidate
    api.join("one", "two")
    for each in made:
        each.end()


def test_one_is_active_until_it_gives_the_lease_up(api: LeaseServer, elect: Elect) -> None:
    one = elect("one")
    one.await_won()
    two = elect("two")
    until(lambda: two.election.holder == one.election.name)
    before = api.leases["gateway"]["metadata"]["resourceVersion"]
    until(lambda: api.leases["gateway"]["metadata"]["resourceVersion"] > before)  # renewed
    assert (one.won, two.won) == (True, None)
    one.end()
    two.await_won()
    assert one.why == []
    assert api.holders == [one.election.name, two.election.name]
    assert api.leases["gateway"]["spec"]["leaseTransitions"] == 1


def test_of_several_that_begin_at_once_one_is_active(api: LeaseServer, elect: Elect) -> None:
    both = elect("one"), elect("two")
    until(lambda: any(each.won for each in both), pause=0.005)
    until(lambda: all(each.election.holder for each in both))
    assert sorted(bool(each.won) for each in both) == [False, True]
    assert api.holders == [each.election.name for each in both if each.won]


def test_a_holder_that_is_cut_off_gives_up_before_another_takes_over(api: LeaseServer, elect: Elect) -> None:
    one = elect("one", SHORT)
    one.await_won()
    two = elect("two", SHORT)
    until(lambda: two.election.holder)
    api.cut("one")  # its request gets no answer
    until(lambda: one.why, pause=0.005)
    assert "could not be renewed" in one.why[0]
    assert not one.election.is_held()
    two.await_won()
    assert api.holders == [one.election.name, two.election.name]


def test_failures_of_the_api_server_are_repeated(api: LeaseServer, elect: Elect) -> None:
    api.failures = [500, 403, 409]
    one = elect("one")
    one.await_won()
    api.failures = [503, 409, 500]
    until(lambda: not api.failures)
    before = api.leases["gateway"]["metadata"]["resourceVersion"]
    until(lambda: api.leases["gateway"]["metadata"]["resourceVersion"] > before)
    assert one.why == []
    until(lambda: one.election.error is None)


@pytest.mark.parametrize("holder", ["somebody", "", None])
def test_a_lease_that_somebody_else_writes_is_lost(api: LeaseServer, elect: Elect, holder: str | None) -> None:
    one = elect("one")
    one.await_won()
    if holder is None:
        del api.leases["gateway"]
    else:
        lease = api.leases["gateway"]
        metadata, spec = lease["metadata"] | {"resourceVersion": "1"}, lease["spec"] | {"holderIdentity": holder}
        api.leases["gateway"] = lease | {"metadata": metadata, "spec": spec}
    until(lambda: one.why, pause=0.005)
    assert f"is held by {holder or 'nobody'}" in one.why[0]


def test_standing_by_ends_when_it_is_told_to(elect: Elect) -> None:
    elect("one").await_won()
    two = elect("two")
    until(lambda: two.election.holder)
    two.end()
    assert two.won is False


def test_what_the_api_server_cannot_answer_is_one_sentence(tmp_path: Path, api: LeaseServer) -> None:
    given = settings(tmp_path, api, "one", SHORT)
    lease = LeaseApi(given)
    assert lease.read() is None
    found = lease.take(None, "me")
    with pytest.raises(LeaseChanged):
        lease.take(None, "me")
    lease.renew(found)
    with pytest.raises(LeaseChanged, match="changed by another gateway"):
        lease.renew(found)
    api.failures = [401]
    with pytest.raises(LeaseError, match=r"the Kubernetes API at http://127.* failed: Client error '401"):
        lease.read()
    api.leases["gateway"] = {"kind": "Status"}
    with pytest.raises(LeaseError, match="something other than a Lease"):
        lease.read()
    given.token_file.unlink()
    with pytest.raises(LeaseError, match="No such file"):
        lease.read()
    lease.close()
    with pytest.raises(GatewayError, match="ca_file"):
        LeaseApi(given.model_copy(update={"api_url": "https://127.0.0.1:1", "ca_file": tmp_path / "none"}))
