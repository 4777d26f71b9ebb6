"""Answers to the senders of messages, by the connection that received them.

A message is answered after the checkpoint that includes it, when it and what became of it are durable. What waits for
an answer is in memory only: a sender that gets none sends its message again, and is then answered by what is known. So
an answer may come twice.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Final, NamedTuple

from app.framing.protocol import SenderAnswer
from app.framing.registry import framing
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.ports import AnsweringReceiver, Receiver
from app.service.context import ReceiverContext
from app.service.finishing.stored_parts import missing_ranges

MOST_WAITING: Final = 50_000
"""The most messages that wait for their answers. Beyond that the oldest are not answered."""
RANGES: Final = 100
"""The most missing ranges that an answer names."""


class HeardMessage(NamedTuple):
    """A message without its body, and the error for which it was refused."""

    message: PhysicalMessage
    refused: InvalidInputError | None


class Answers:
    """Answers the messages of sources whose receivers can answer. The lock guards `_waiting`."""

    def __init__(self, context: ReceiverContext, receivers: Mapping[str, Receiver]) -> None:
        self._context = context
        self._receivers = {name: each for name, each in receivers.items() if isinstance(each, AnsweringReceiver)}
        self._lock = Lock()
        self._waiting: deque[HeardMessage] = deque(maxlen=MOST_WAITING)

    def put(self, heard: Sequence[HeardMessage]) -> None:
        """Have messages answered that are durable."""
        with self._lock:
            self._waiting.extend(each for each in heard if each.message.source in self._receivers)

    def step(self) -> None:
        """Answer the messages that can be answered now."""
        with self._lock:
            heard = [*self._waiting]
            self._waiting.clear()
        by_source: dict[str, list[HeardMessage]] = {}
        for each in heard:
            by_source.setdefault(each.message.source, []).append(each)
        try:
            while by_source:
                source = next(iter(by_source))
                later = self._answer(source, by_source[source])
                del by_source[source]
                self.put(later)
        finally:  # after an error, those that were not answered are tried again
            for some in by_source.values():
                self.put(some)

    def _answer(self, source: str, heard: Sequence[HeardMessage]) -> list[HeardMessage]:
        """Answer messages of a source; return those that cannot be answered yet."""
        keys: list[bytes | None] = []
        for each in heard:
            try:
                keys.append(framing(each.message.framing).attachment_key(each.message))
            except InvalidInputError:
                keys.append(None)
        wanted = [*dict.fromkeys(key for key in keys if key is not None)]
        records = self._context.catalog.attachments_by_key(source, wanted)
        answers: list[SenderAnswer] = []
        later: list[HeardMessage] = []
        for each, key in zip(heard, keys, strict=True):
            record = None if key is None else records.get(key)
            missing: Callable[[], Sequence[tuple[int, int]]] = tuple
            if record is not None:
                missing = partial(missing_ranges, record, self._context.catalog, self._context.journal, RANGES)
            answer = framing(each.message.framing).answer(each.message, each.refused, record, missing)
            if answer is None:
                later.append(each)
            else:
                answers.append(answer)
        self._receivers[source].answer([each.message for each in answers])
        for code, number in Counter(each.code for each in answers).items():
            self._context.metrics.sender_answers.labels(source, str(code)).inc(number)
        return later
