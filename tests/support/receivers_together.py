"""Several receivers of one gateway, in a folder, each with a journal of its own; a test changes what their calls do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from app.model.message import PhysicalMessage, Position
from app.ports import Catalog
from app.service.context import ReceiverContext
from app.service.receiving.publishing import TURN, Publisher

SOURCE = "orders"


@dataclass
class CalledWith:
    """A catalog or an archive. `around` gets the call of each method that it names."""

    called: Any
    around: dict[str, Callable[..., Any]]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.called, name)
        if (around := self.around.get(name)) is None:
            return method
        return lambda *given, **named: around(method, *given, **named)


@dataclass
class ReceiverAmongOthers:
    """One of several receivers, whose calls a test changes."""

    context: ReceiverContext
    publisher: Publisher
    catalog: dict[str, Callable[..., Any]]
    archive: dict[str, Callable[..., Any]]

    def receive(self, *bodies: bytes) -> Position:
        """Journal messages, and end their segment."""
        positions = self.context.journal.append([PhysicalMessage(SOURCE, "sas_queue", body=body) for body in bodies])
        self.context.journal.seal()
        return positions[-1]

    @property
    def error(self) -> str | None:
        found: str | None = self.publisher.check()["error"]
        return found

    @property
    def retirable(self) -> list[int]:
        return [each.number for each in self.context.journal.segments() if self.publisher.is_published(each)]


class ReceiversTogether:
    """What receivers share."""

    def __init__(self, folder: Path, context: ReceiverContext) -> None:
        self.folder, self.context = folder, context
        self.catalog: Catalog = context.catalog
        (folder / "archive").mkdir(exist_ok=True)
        self.archive = ArrowArchive(folder / "archive", is_growing=True)
        self.journals: dict[str, ArrowJournal] = {}

    def begin(self, name: str, journal: ArrowJournal | None = None, instance: str | None = None) -> ReceiverAmongOthers:
        """Begin a process that receives. By default it has the journal of its name."""
        if journal is None:
            if name in self.journals:
                self.journals[name].close()
            journal = self.journals[name] = ArrowJournal(self.folder / name)
        instance = instance or f"{name} {journal.identity().epoch}"
        archive = ArrowArchive(self.folder / "archive", is_growing=True)
        calls: dict[str, Callable[..., Any]] = {}
        adding: dict[str, Callable[..., Any]] = {}
        catalog: Any = CalledWith(self.catalog, calls)
        context = replace(self.context, journal=journal, catalog=catalog, instance=instance)
        stored: Any = CalledWith(archive, adding)
        return ReceiverAmongOthers(context, Publisher(context, stored, [SOURCE]), calls, adding)

    def archived(self) -> list[bytes]:
        return [bytes(message.body) for _, messages in self.archive.replay(None) for message in messages]

    def published(self) -> list[int]:
        return [each.published for each in self.catalog.receiving_journals()]

    def end_lease(self) -> None:
        """Let the lease of a receiver that stands still be over."""
        lease = self.catalog.take_lease(TURN, "test", 1.0, at_once=True)
        assert lease is not None
        self.catalog.release_lease(lease)
