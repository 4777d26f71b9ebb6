"""How a call ends that does not end well."""

from tests.queue_manager.server.constants import MQCC_FAILED


class Refused(Exception):
    """A call that gets this completion code and reason, and whose effects, if any, are those described where it is
    raised."""

    def __init__(self, reason: int, completion: int = MQCC_FAILED) -> None:
        super().__init__(reason)
        self.reason, self.completion = reason, completion
