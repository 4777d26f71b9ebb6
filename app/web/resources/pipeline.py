"""What the pipeline on Spark does: its runs, and how far it is behind."""

from datetime import datetime
from typing import Literal

from fastapi import Depends, Response
from pydantic import BaseModel, Field

from app.model.pipeline_run import PipelineRun, RunKind, RunState
from app.model.times import to_time
from app.service.assembling.assembly_hosts import Lag, lag
from app.web.dependencies.caller import require_unlimited, resource_router
from app.web.dependencies.request_gateway import GatewayDep, PagingDep
from app.web.http.parameters import optional_time
from app.web.problems import responses
from app.web.resources.schemas import PageView, page_view, shown


class LagView(BaseModel):
    """The sealed segments of the journal that are not in the catalog yet."""

    segments: int = Field(examples=[2])
    size: int = Field(description="their bytes", examples=[536870912])
    seconds: float = Field(description="how long the first of them has been sealed", examples=[41.5])

    @classmethod
    def of(cls, lag: Lag) -> "LagView":
        return cls(segments=lag.segments, size=lag.size, seconds=lag.seconds)


class PipelineView(BaseModel):
    """Who assembles attachments, and how far the pipeline is behind."""

    assembler: Literal["embedded", "spark"] = Field(description="the gateway itself, or the pipeline on Spark")
    lag: LagView | None = Field(description="null if the gateway assembles itself")


class PipelineRunView(BaseModel):
    """A run over an archive (`batch`), or one micro-batch of a stream (`stream`)."""

    id: str = Field(examples=["5f0c2a9be1d44c3b8e7f6a5d4c3b2a19"])
    kind: RunKind
    state: RunState = Field(description="`interrupted`: its process ended before the run did", examples=["committed"])
    began_at: datetime
    ended_at: datetime | None
    seconds: float | None = Field(description="null until it has ended", examples=[8.25])
    messages: int = Field(description="physical messages that no earlier run has counted", examples=[12678])
    attachment_count: int = Field(description="attachments that were finished", examples=[31])
    refused: int = Field(description="attachments whose parts gave no content", examples=[0])
    quarantined: int = Field(description="messages that went to quarantine", examples=[1])
    row_count: int = Field(description="rows that were added to tables", examples=[250000])
    error: str | None = Field(description="why it failed", examples=[None])

    @classmethod
    def of(cls, run: PipelineRun) -> "PipelineRunView":
        return cls(
            id=run.id,
            kind=run.kind,
            state=run.state,
            began_at=to_time(run.began_at),
            ended_at=optional_time(run.ended_at),
            seconds=None if run.ended_at is None else max(0, run.ended_at - run.began_at) / 1e6,
            messages=run.messages,
            attachment_count=run.attachments,
            refused=run.refused,
            quarantined=run.quarantined,
            row_count=run.rows,
            error=None if run.error is None else shown(run.error),
        )


router = resource_router(prefix="/pipeline", tags=["operations"], dependencies=[Depends(require_unlimited)])


@router.get("", operation_id="get_pipeline", responses=responses("unavailable"))
def get_pipeline(gateway: GatewayDep, response: Response) -> PipelineView:
    """Return who assembles, and how far the pipeline is behind the journal."""
    response.headers["Cache-Control"] = "no-store"
    assembler = gateway.settings.assembler
    if assembler != "spark":
        return PipelineView(assembler=assembler, lag=None)
    behind = lag(gateway.journal, gateway.catalog.progress(), gateway.clock.now())
    return PipelineView(assembler=assembler, lag=LagView.of(behind))


@router.get("/runs", operation_id="list_pipeline_runs", responses=responses("unavailable"))
def list_pipeline_runs(gateway: GatewayDep, paging: PagingDep) -> PageView[PipelineRunView]:
    """List the runs of the pipeline, newest first. The catalog keeps the last thousand."""
    page = gateway.catalog.pipeline_runs(paging.cursor, paging.limit)
    return page_view(paging, page, PipelineRunView.of)
