"""The framing and the transport keep the contracts of the gateway."""

from pathlib import Path

import pytest
from gateway_example.folder import FolderDestination, FolderSource, plugin
from gateway_example.numbered import NUMBERED

from app.framing.registry import traits
from app.ports import Receiver, Sender
from app.testing.framing_contract import FramingContract
from app.testing.transport_contract import KeepingTransportContract, Line


class TestNumbered(FramingContract):
    """Write files, and read them back by both hosts in any order, with duplicates and with faults."""

    framing = NUMBERED


class FolderLine(Line):
    """A source and a destination that are the same folder."""

    framing = "numbered"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def receiver(self) -> Receiver:
        return plugin.receiver("here", traits(self.framing), FolderSource(folder=self._folder))

    def sender(self) -> Sender:
        return plugin.sender("there", FolderDestination(folder=self._folder))


class TestFolder(KeepingTransportContract):
    """Send and receive messages of every size, and stop at any time."""

    @pytest.fixture
    def line(self, tmp_path: Path) -> Line:
        return FolderLine(tmp_path)
