"""What the pipeline on Spark does: its runs, and how far it is behind."""

from fastapi import APIRouter, Depends, Request, Response

from app.service.monitoring.pipeline_lag import lag
from app.web.dependencies.caller import CallerDep
from app.web.dependencies.request_gateway import GatewayDep, PagingDep, link_next
from app.web.problems import responses
from app.web.resources.pipeline.schemas import LagView, PipelineRunView, PipelineView
from app.web.resources.schemas import PageView, page_view


async def _about_all(caller: CallerDep) -> None:
    caller.require_unlimited()  # a run is about the messages of all sources


router = APIRouter(prefix="/pipeline", tags=["operations"], dependencies=[Depends(_about_all)])


@router.get("", operation_id="get_pipeline", responses=responses("unavailable"))
def get_pipeline(gateway: GatewayDep, response: Response) -> PipelineView:
    """Return who assembles, and how far the pipeline is behind the journal."""
    response.headers["Cache-Control"] = "no-store"
    assembler = gateway.settings.assembler
    if assembler != "spark":
        return PipelineView(assembler=assembler, lag=None)
    behind = lag(gateway.journal, gateway.catalog.progress(), gateway.clock.now())
    return PipelineView(assembler=assembler, lag=LagView.of(behind))


@router.get("/runs", operation_id="list_pipeline_runs", responses=responses("invalid", "unavailable"))
def list_pipeline_runs(
    request: Request, response: Response, gateway: GatewayDep, paging: PagingDep
) -> PageView[PipelineRunView]:
    """List the runs of the pipeline, newest first. The catalog keeps the last thousand."""
    page = gateway.catalog.pipeline_runs(paging.cursor, paging.limit)
    link_next(request, response, page)
    return page_view(page, PipelineRunView.of)
