"""Messages for the effects of assembly: the one that was just applied, and earlier ones in the journal."""

from typing import NamedTuple

from app.model.errors import DamagedError
from app.model.message import PhysicalMessage, Position
from app.observe import logger
from app.service.context import ServiceContext

log = logger(__name__)


class AppliedMessages(NamedTuple):
    """The message that was just applied, and the earlier ones that the journal still has."""

    context: ServiceContext
    at: int
    applied: PhysicalMessage

    def message(self, position: int) -> PhysicalMessage | None:
        """Return a message, as `app.assembly.interpretation.Messages`.

        An earlier message waited with an attachment. When that expired, the journal may have removed the message.
        """
        if position == self.at:
            return self.applied
        try:
            return self.context.journal.read(Position.unpack(position))
        except KeyError:
            log.warning("message_not_found", position=position)
            return None
        except DamagedError as error:
            log.error("message_damaged", position=position, reason=str(error))  # noqa: TRY400 - a fault of the disk
            self.context.metrics.damage.labels("assembly").inc()
            return None

    def body(self, position: int) -> bytes | memoryview:
        """Return the body of a message, as `app.assembly.interpretation.Messages`."""
        if position == self.at:
            return self.applied.body
        try:
            (body,) = self.context.journal.bodies([Position.unpack(position)])
        except KeyError as gone:
            raise DamagedError("its journal segment is gone") from gone
        return body
