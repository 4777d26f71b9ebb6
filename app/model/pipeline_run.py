"""The runs of the pipeline on Spark: each batch of a stream, and each run over an archive."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

RunKind = Literal["batch", "stream"]
"""A run over a whole archive, or one micro-batch of a stream."""


class RunState(StrEnum):
    """The state of a run. An `interrupted` one did not end: its process was killed."""

    RUNNING = "running"
    COMMITTED = "committed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """One run. Times are microseconds since 1970-01-01 UTC.

    `messages` are physical messages that no earlier run has counted, `attachments` the finished attachments, `refused`
    the attachments without valid content, `quarantined` the quarantined messages, `rows` the rows added to tables.
    """

    id: str
    kind: RunKind
    state: RunState
    began_at: int
    ended_at: int | None = None
    messages: int = 0
    attachments: int = 0
    refused: int = 0
    quarantined: int = 0
    rows: int = 0
    error: str | None = None
