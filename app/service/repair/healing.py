"""The healing of finished content that is damaged, by messages that came again.

The content of an attachment is compared when all of its parts have been sent again. If it is damaged, whether that was
known or not, the repetition replaces it. Only bytes with the SHA-256 of the received content do. So a repetition with
other content changes nothing, and neither does one of undamaged content.

Damaged content is also searched for in the journal, once the damage is found and whenever messages of the attachment
have arrived.
"""

from collections import deque
from collections.abc import Callable, Iterator
from threading import Event
from typing import Final

from app.model.attachment import AttachmentState
from app.model.errors import DamagedError
from app.model.records import AttachmentRecord
from app.service.content.content_damage import Damages
from app.service.context import ServiceContext
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.repair.restoring import report_outcome, restore_content, restore_from

Reading = Callable[[AttachmentRecord], Iterator[memoryview]]
"""A function that reads the content of an attachment and compares it with its digest. It raises DamagedError, and
KeyError when the content is gone."""

WAITING: Final = 1000
"""The most repetitions that wait. Beyond that the oldest is dropped, and a later scrub compares its content."""


class Healer:
    """Heals what has been sent again, with each call of `step`."""

    def __init__(
        self,
        context: ServiceContext,
        damages: Damages,
        read: Reading,
        stop: Event,
    ) -> None:
        self._context, self._damages, self._read, self._stop = context, damages, read, stop
        self._waiting: deque[CompleteAttachment] = deque(maxlen=WAITING)
        self._seen: dict[str, int] = {}
        self._tried: dict[str, int] = {}

    def put(self, again: CompleteAttachment) -> None:
        """Have the content of a finished attachment compared that has been sent again."""
        self._waiting.append(again)

    def step(self) -> None:
        """Compare what has been sent again, and search for what is damaged. Raises GatewayError."""
        while self._waiting and not self._stop.is_set():
            self.heal(self._waiting[0])
            self._waiting.popleft()
        damaged = {each.id: each for each in self._damages.known() if each.state is AttachmentState.FINISHED}
        self._seen = {each: at for each, at in self._seen.items() if each in damaged}
        self._tried = {each: at for each, at in self._tried.items() if each in damaged}
        for record in damaged.values():
            if self._stop.is_set():
                return
            if self._seen.get(record.id) != record.last_position:  # more of it may be arriving
                self._seen[record.id] = record.last_position
            elif self._tried.get(record.id) != record.last_position:
                self._tried[record.id] = record.last_position
                for outcome in restore_content([record.id], self._context, give_up=False):
                    report_outcome(record, outcome, self._context, self._damages, how="found in the journal")

    def heal(self, again: CompleteAttachment) -> None:
        """Replace the content of an attachment by a repetition of it, if it is damaged."""
        record = self._context.catalog.attachment(again.record.id)
        if record is None or record.state is not AttachmentState.FINISHED or self._is_sound(record):
            return
        outcome = restore_from(record, again, self._context)
        report_outcome(record, outcome, self._context, self._damages, how="sent again")

    def _is_sound(self, record: AttachmentRecord) -> bool:
        try:
            for _ in self._read(record):
                pass
        except DamagedError:
            return False
        except KeyError as gone:
            return self._damages.lost(record, gone) is None
        return True
