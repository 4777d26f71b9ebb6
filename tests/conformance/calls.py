"""The calls of the MQI as the tests write them, over pymqi and ibmmq alike.

The two libraries have the same classes with other defaults: pymqi starts at version 1 of MQMD, MQGMO and MQPMO, ibmmq
at the newest, and both raise warnings as errors. Here every version is said and a warning can be expected.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

WARNED, FAILED = 1, 2
"""MQCC_WARNING, MQCC_FAILED."""

LONG_WAIT = 20_000
"""Milliseconds; no test waits so long, unless it fails."""


@dataclass(frozen=True, slots=True)
class Got:
    """What MQGET gave: the buffer, the descriptor and the options as they came back, and DataLength."""

    body: bytes
    md: Any
    gmo: Any
    length: int


class Session:
    """One connection in this process."""

    def __init__(self, mq: ModuleType, connection: Any) -> None:
        self.mq = mq
        self.connection = connection

    def open(self, name: str | Any, options: int) -> Any:
        """MQOPEN of a queue by its name or an MQOD; skips the test where the user may not do that."""
        try:
            return self.mq.Queue(self.connection, name, options)
        except self.mq.MQMIError as error:
            if error.reason == self.mq.CMQC.MQRC_NOT_AUTHORIZED:
                pytest.skip("the user lacks the authority for an MQOPEN")
            raise

    def source(self, name: str, options: int = 0) -> Any:
        """The queue opened to get from, shared."""
        return self.open(name, self.mq.CMQC.MQOO_INPUT_SHARED | options)

    def destination(self, name: str, options: int = 0) -> Any:
        """The queue opened to put on."""
        return self.open(name, self.mq.CMQC.MQOO_OUTPUT | options)

    def put(
        self, queue: Any, body: bytes = b"", options: int = 0, *, version: int = 2, context: Any = None, **md: Any
    ) -> Any:
        """MQPUT; `md` are fields of the MQMD, which is returned as the queue manager filled it in."""
        descriptor = self.mq.MD(Version=version, **md)
        pmo = self.mq.PMO(Version=self.mq.CMQC.MQPMO_VERSION_2, Options=options)
        if context is not None:
            pmo.Context = context.get_handle()
        queue.put(body, descriptor, pmo)
        return descriptor

    def get(
        self,
        queue: Any,
        options: int = 0,
        *,
        version: int = 2,
        match: int | None = None,
        wait: int = 0,
        length: int = 1 << 16,
        warning: int = 0,
        token: bytes = b"",
        **md: Any,
    ) -> Got:
        """MQGET into a buffer of `length` bytes; `md` are fields of the MQMD to match by.

        Without `match` the initial value of MatchOptions stands: MsgId and CorrelId. `wait` is milliseconds and implies
        MQGMO_WAIT. With `warning` the call must complete with that warning.
        """
        c = self.mq.CMQC
        descriptor = self.mq.MD(Version=version, **md)
        gmo = self.mq.GMO(Version=c.MQGMO_VERSION_3, Options=options, MsgToken=token)
        if match is not None:
            gmo.MatchOptions = match
        if wait:
            gmo.Options |= c.MQGMO_WAIT
            gmo.WaitInterval = wait
        if not warning:
            body = queue.get(length, descriptor, gmo)
            return Got(body, descriptor, gmo, len(body))
        with self.warns(warning) as caught:
            queue.get(length, descriptor, gmo)
        return Got(caught.value.message, descriptor, gmo, caught.value.original_length)

    def bodies(self, queue: Any, options: int = 0) -> list[bytes]:
        """Every message that can be got, until MQRC_NO_MSG_AVAILABLE."""
        c = self.mq.CMQC
        found = []
        try:
            while True:
                found.append(self.get(queue, options, match=c.MQMO_NONE).body)
        except self.mq.MQMIError as error:
            if error.reason != c.MQRC_NO_MSG_AVAILABLE:
                raise
        return found

    @contextmanager
    def _completes(self, completion: int, reason: int) -> Iterator[pytest.ExceptionInfo[Any]]:
        with pytest.raises(self.mq.MQMIError) as caught:
            yield caught
        assert (caught.value.comp, caught.value.reason) == (completion, reason)

    def warns(self, reason: int) -> Any:
        """Expects MQCC_WARNING with this reason."""
        return self._completes(WARNED, reason)

    def fails(self, reason: int) -> Any:
        """Expects MQCC_FAILED with this reason."""
        return self._completes(FAILED, reason)


class Waiting:
    """An MQGET that waits in a thread and on a connection of its own."""

    def __init__(self, session: Session, queue: str, options: int = 0, **match: Any) -> None:
        self.outcome: Any = None
        source = session.source(queue)

        def run() -> None:
            try:
                self.outcome = session.get(source, options, wait=LONG_WAIT, **match).body
            except session.mq.MQMIError as error:
                self.outcome = error.reason

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def result(self) -> Any:
        """The message's body, or the reason."""
        self._thread.join()
        return self.outcome
