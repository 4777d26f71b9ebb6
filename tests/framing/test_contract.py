"""Every framing keeps the contract, one of the tests' own as well."""

import pytest

from app.framing.mq_group import MQ_GROUP
from app.framing.registry import FRAMINGS
from app.framing.sas_queue import SAS_QUEUE
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from tests.contracts.framing import FramingContract
from tests.framing.numbered import NUMBERED


class TestSasQueue(FramingContract):
    framing = SAS_QUEUE


class TestMqGroup(FramingContract):
    framing = MQ_GROUP


class TestSasRendezvous(FramingContract):
    framing = SAS_RENDEZVOUS


class TestNumbered(FramingContract):
    framing = NUMBERED

    @pytest.fixture(autouse=True)
    def _registered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(FRAMINGS, NUMBERED.traits.name, NUMBERED)
