"""Pages of a data set's rows as JSON, also of one that is still being received."""

from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import DamagedError
from app.model.records import AttachmentRecord
from app.service.content.stored_content import Content
from app.service.conversion import Slot, SlotUse
from app.service.conversion.conversion_jobs import page_of_rows
from app.service.finishing.partial_content import NothingYet
from app.service.gateway import Gateway
from app.tables.write import OptionError
from app.tables.write.rows_page import PageRequest
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.identifiers import Identifier
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.negotiation import invalid
from app.web.http.strict_int import Digits
from app.web.problems import Problem, damaged, responses
from app.web.resources.attachments.endpoints import finished_data_set, readable_in_part
from app.web.responses.disconnection import converting

MOST_ROWS = 1_000
PARTIAL_ROWS = 100_000
"""The most rows of a data set that is not complete."""

router = APIRouter(prefix="/attachments", tags=["attachments"])


class ColumnView(BaseModel):
    """A column of a page. `length` is in bytes of an observation."""

    name: str = Field(examples=["Age"])
    label: str = Field(examples=["Age in years"])
    format: str = Field(examples=["BEST12."])
    type: str = Field(
        description="`number`, `text`, `date`, `datetime`, `time`, `duration`, `boolean` or `bytes`",
        examples=["number"],
    )
    length: int = Field(examples=[8])


class SpecialMissingView(BaseModel):
    """A special missing value: its row and its column in the page, from 0, and its tag."""

    row: int = Field(examples=[0])
    column: int = Field(examples=[1])
    tag: str = Field(examples=[".A"])


class RowsView(BaseModel):
    """A page of rows; each row has a value for each column, dates and times in ISO 8601.

    `total` is the number of rows, null while it is not known. `rows_available` are those that can be read at present.
    Of a data set that is not complete, `missing_parts` has the ranges of missing sequence numbers, at most 100;
    `has_more` says that there may be more rows in the parts that have come.
    """

    columns: list[ColumnView]
    rows: list[list[Any]] = Field(examples=[[["Ann", 11]]])
    total: int | None = Field(examples=[19])
    rows_available: int = Field(examples=[19])
    has_more: bool = Field(examples=[False])
    special_missing: list[SpecialMissingView]
    missing_parts: list[tuple[int, int]] | None = Field(examples=[None])


@router.get(
    "/{attachment_id}/rows",
    operation_id="get_data_set_rows",
    response_model=RowsView,
    responses=responses(
        *("not-found", "ambiguous", "application-message", "not-ready", "unreadable", "gone", "not-a-data-set"),
        *("invalid", "conversion-limit", "damaged", "busy"),
    ),
)
async def data_set_rows(
    attachment_id: Identifier,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    offset: Annotated[Digits, Query(ge=0, lt=1 << 62, description="number of rows to skip at the beginning")] = 0,
    limit: Annotated[Digits, Query(ge=1, le=MOST_ROWS, description="maximum number of rows")] = 100,
    sort: Annotated[
        str | None,
        Query(
            max_length=200,
            description="variable to sort by, `-` before it for descending; missing values are the smallest",
            examples=["-Age"],
        ),
    ] = None,
    columns: Annotated[
        list[str] | None, Query(description="names of the variables, as for the content", examples=[["Name,Age"]])
    ] = None,
    partial: Annotated[bool, Query(description="also while the data set is being received: the rows so far")] = False,
) -> Response:
    """Return a page of a data set's rows, sorted if asked for.

    Of a finished data set only the row groups of the page are read. While a data set is being received, the rows in its
    leading parts can be read, at most 100,000.
    """
    asked = PageRequest(offset, limit, sort, None if columns is None else tuple(columns), is_partial=False)
    record = await run_in_threadpool(_record, gateway, attachment_id, caller, partial=partial)

    def make(slot: Slot) -> bytes:
        return b"".join(slot.run(page_of_rows, *_content(gateway, record, asked)))

    try:
        async with converting(request, request.receive, SlotUse.DOWNLOAD) as slot:
            return Response(await slot.within_time(lambda: make(slot)), media_type="application/json")
    except OptionError as error:
        raise invalid(error) from None
    except NothingYet as reason:
        raise Problem("not-ready", str(reason), state=record.state) from None
    except KeyError:
        raise Problem("gone", "the content has been deleted") from None
    except DamagedError as error:
        raise damaged(error) from error


def _record(gateway: Gateway, attachment_id: str, caller: Caller, *, partial: bool) -> AttachmentRecord:
    """Return the data set. Raises Problem if it cannot be read, even in part."""
    if not partial:
        return finished_data_set(gateway, attachment_id, caller)
    record = readable_in_part(gateway, attachment_id, caller)
    if record.kind is not None and record.kind is not AttachmentKind.DATA_SET:
        raise Problem("not-a-data-set", "it is a file")
    return record


def _content(gateway: Gateway, record: AttachmentRecord, asked: PageRequest) -> tuple[Content | pa.Table, PageRequest]:
    if record.state is AttachmentState.FINISHED:
        return gateway.contents.for_conversion(record), asked
    wanted = PARTIAL_ROWS if asked.sort is not None else min(PARTIAL_ROWS, asked.offset + asked.limit)
    found = gateway.leading_rows(record, wanted)
    return found.table, asked._replace(is_partial=True, has_more=found.has_more, missing=tuple(found.missing.ranges))
