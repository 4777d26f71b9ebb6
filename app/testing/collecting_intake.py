"""An intake for tests: it collects the messages of a receiver, and reports when they are durable."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.ports import Intake, Receiver
from app.testing.waiting import until


class Collector(Intake):
    """An intake that reports durability when `release` is called, or at once (`durable_at_once`)."""

    def __init__(self, *, durable_at_once: bool = True, has_others: bool = False) -> None:
        self.has_others = has_others
        self.messages: list[PhysicalMessage] = []
        self.refused: list[tuple[PhysicalMessage, str, str]] = []
        self.in_order: list[bytes] = []
        """The body of each message, or the code of its refusal."""
        self.batches: list[int] = []
        self.held: list[Callable[[], None]] = []
        self._durable_at_once = durable_at_once

    def submit(self, messages: Sequence[PhysicalMessage], on_durable: Callable[[], None]) -> None:
        self.held.append(on_durable)
        self.batches.append(len(messages))
        self.in_order += [bytes(message.body) for message in messages]
        self.messages.extend(messages)
        if self._durable_at_once:
            self.release()

    def refuse(self, message: PhysicalMessage, error: InvalidInputError, on_durable: Callable[[], None]) -> None:
        self.held.append(on_durable)
        self.in_order.append(error.code.encode())
        self.refused.append((message, error.code, str(error)))
        if self._durable_at_once:
            self.release()

    def release(self, *, backwards: bool = False) -> None:
        """Report, from another thread than the receiver's, that all messages so far are durable."""
        held, self.held = self.held, []
        ordered = held[::-1] if backwards else held
        thread = threading.Thread(target=lambda: [on_durable() for on_durable in ordered])
        thread.start()
        thread.join()

    def bodies(self) -> list[bytes]:
        return [bytes(message.body) for message in self.messages]

    def wait_for(self, count: int) -> None:
        """Wait until this number of messages has been submitted, duplicates included."""
        until(lambda: len(self.messages) >= count)


@contextmanager
def receiving(receiver: Receiver, intake: Intake, patience: float = 30.0) -> Iterator[None]:
    """Run a receiver in a thread while the block lasts; it must be connected within `patience` seconds."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            receiver.run(intake, stop)
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        until(lambda: receiver.status()["connected"] or failures, patience)
        yield
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
    assert not failures
