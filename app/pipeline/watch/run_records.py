"""A record of each run in the catalog, which REST shows.

Recording fails open: a run that cannot be recorded is processed all the same.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import structlog

from app.model.errors import GatewayError, with_type
from app.model.pipeline_run import PipelineRun, RunKind, RunState
from app.pipeline.commit.commit import CommittedBatch
from app.ports import Catalog, Clock

KEPT = 1000
"""The number of runs that the catalog keeps."""
LONGEST_ERROR = 1000
"""The most characters that are recorded of an error."""

log = structlog.stdlib.get_logger(__name__)


class Recording:
    """The record of one run, which began when this object was made."""

    def __init__(self, catalog: Catalog, clock: Clock, kind: RunKind) -> None:
        self._catalog, self._clock = catalog, clock
        self._run = PipelineRun(uuid4().hex, kind, RunState.RUNNING, clock.now())
        self._is_begun = False

    def begin(self) -> None:
        """Record that the run is in progress."""
        self._is_begun = True
        self._write(self._catalog.begin_run, self._run, KEPT)

    def end(self, committed: CommittedBatch | None) -> None:
        """Record what the run has committed; None means nothing."""
        done = committed or CommittedBatch(0)
        self._end(
            state=RunState.COMMITTED,
            messages=sum(each.messages for each in done.received),
            attachments=done.finished,
            refused=done.refused,
            quarantined=done.quarantined,
            rows=sum(each.rows for each in done.tables),
        )

    def fail(self, error: BaseException) -> None:
        """Record that the run has failed, and why."""
        if not self._is_begun:
            self.begin()
        self._end(state=RunState.FAILED, error=with_type(error)[:LONGEST_ERROR])

    def _end(self, **found: Any) -> None:
        self._write(self._catalog.end_run, replace(self._run, ended_at=self._clock.now(), **found))

    def _write(self, write: Callable[..., None], *arguments: Any) -> None:
        try:
            write(*arguments)
        except GatewayError as error:
            log.warning("run_not_recorded", run=self._run.id, error=str(error))


@contextmanager
def recording(catalog: Catalog, clock: Clock, kind: RunKind) -> Iterator[Recording]:
    """Provide the record of a run for the block. An exception is recorded as the run's failure, and raised again."""
    run = Recording(catalog, clock, kind)
    try:
        yield run
    except BaseException as error:
        run.fail(error)
        raise
