"""What a data set has: its variables, its profile, and pages of its rows, also while it is being received."""

from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.dataset.description import DataSetDescription, listing
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.records import AttachmentRecord
from app.service.conversion import Slot, SlotUse, finished
from app.service.conversion.conversion_jobs import page_of_rows, profile_data_set
from app.service.finishing.partial_content import NothingYet, leading_rows
from app.service.gateway import Gateway
from app.tables.profiles import TOP, Profile, VariableProfile
from app.tables.write.rows_page import PageRequest
from app.web.dependencies.caller import Caller, CallerDep, resource_router
from app.web.dependencies.known_resources import Identifier
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.negotiation import quality
from app.web.http.parameters import DIGITS
from app.web.problems import Problem, responses
from app.web.resources.attachments.content import finished_data_set, readable_in_part
from app.web.resources.data_set_schemas import SchemaView, describe, found_contents
from app.web.resources.schemas import shown
from app.web.responses.disconnection import convert
from app.web.server.thread_pools import pools_of, run_in

MOST_FREQUENT = 100
"""The maximum number of frequent values of each variable in a response."""

Value = float | str | None


class FrequencyView(BaseModel):
    """A value and the number of its occurrences."""

    value: Value = Field(examples=["F"])
    count: int = Field(examples=[9])


class HistogramView(BaseModel):
    """Numbers of values in equally wide bins, at most 32; the first bin begins at `start`.

    Dates are in days since 1970-01-01, datetimes in microseconds since then, times in microseconds.
    """

    start: float = Field(examples=[8])
    width: float = Field(examples=[4])
    counts: list[int] = Field(examples=[[3, 9, 5, 2]])


class VariableProfileView(BaseModel):
    """The values of a variable. Dates and times are in ISO 8601; texts are cut after 200 characters."""

    number: int = Field(description="its number among the variables of an observation, from 1", examples=[2])
    name: str = Field(examples=["Sex"])
    column: str = Field(examples=["Sex"])
    type: Literal["numeric", "character"] = Field(examples=["character"])
    label: str = Field(examples=[""])
    format: str = Field(examples=["$1."])
    count: int = Field(description="number of values that are not missing", examples=[18])
    missing_values: dict[str, int] = Field(
        description="number of missing values by kind: `.`, `._`, `.A` to `.Z`, `blank`, `null`",
        examples=[{"blank": 1}],
    )
    distinct: int = Field(description="number of different values", examples=[2])
    is_exact: bool = Field(
        description="whether `distinct` and the counts of `frequent` are exact; they are not if there are too many "
        "different values",
        examples=[True],
    )
    distinct_error: float = Field(description="relative standard error of `distinct`; 0 if exact", examples=[0])
    minimum: Value = Field(examples=["F"])
    maximum: Value = Field(examples=["M"])
    mean: float | None = Field(description="of numbers without a date or time format", examples=[None])
    frequent: list[FrequencyView] = Field(description="the most frequent values, the most frequent first")
    frequent_error: int = Field(description="by how much a count of `frequent` may be too low", examples=[0])
    histogram: HistogramView | None = Field(description="null for texts, and without values", examples=[None])

    @classmethod
    def of(cls, found: VariableProfile) -> "VariableProfileView":
        about = found.about
        return cls(
            number=about.position,
            name=shown(about.name),
            column=shown(about.column),
            type="numeric" if about.is_numeric else "character",
            label=shown(about.label),
            format=shown(about.format),
            count=found.count,
            missing_values=found.missing,
            distinct=found.distinct,
            is_exact=found.is_exact,
            distinct_error=found.distinct_error,
            minimum=found.minimum,
            maximum=found.maximum,
            mean=found.mean,
            frequent=[FrequencyView(value=each.value, count=each.count) for each in found.frequent],
            frequent_error=found.frequent_error,
            histogram=found.histogram and HistogramView.model_validate(found.histogram._asdict()),
        )


class ProfileView(BaseModel):
    """The profile of a data set."""

    library: str = Field(examples=["WORK"])
    member: str = Field(examples=["PUPILS"])
    label: str = Field(examples=["Pupils"])
    observations: int = Field(examples=[19])
    variables: list[VariableProfileView]

    @classmethod
    def of(cls, found: Profile) -> "ProfileView":
        return cls(
            library=shown(found.library),
            member=shown(found.member),
            label=shown(found.label),
            observations=found.observations,
            variables=[VariableProfileView.of(each) for each in found.variables],
        )


async def profiled(request: Request, gateway: Gateway, record: AttachmentRecord, top: int) -> Response:
    """Return the response with a data set's profile, made in a conversion slot. Raises Problem."""

    def make(slot: Slot) -> bytes:
        found = finished(slot.run(profile_data_set, gateway.contents.for_conversion(record), top))
        return ProfileView.of(found).model_dump_json().encode()

    try:
        return Response(await convert(request, SlotUse.DOWNLOAD, make), media_type="application/json")
    except KeyError:
        raise Problem("gone", "the content has been deleted") from None


MOST_ROWS = 1_000
PARTIAL_ROWS = 100_000
"""The most rows of a data set that is not complete."""

router = resource_router(prefix="/attachments", tags=["attachments"])


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

    `total` is the number of rows, null while it is not known. `rows_available` is the number of rows that can be read
    now. `has_more` says that there are more rows after these. Of a data set that is not complete, it says there may
    be more in the parts received so far, and `missing_parts` has the ranges of missing sequence numbers, at most 100.
    """

    columns: list[ColumnView]
    rows: list[list[Any]] = Field(examples=[[["Ann", 11]]])
    total: int | None = Field(examples=[19])
    rows_available: int = Field(examples=[19])
    has_more: bool = Field(examples=[False])
    special_missing: list[SpecialMissingView]
    missing_parts: list[tuple[int, int]] | None = Field(examples=[None])


@router.get(
    "/{attachment_id}/schema",
    operation_id="get_data_set_schema",
    response_model=SchemaView,
    responses={
        200: {"description": "the variables", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **responses("not-found", "ambiguous", "not-ready", "unreadable", "gone", "not-a-data-set", "damaged"),
    },
)
async def data_set_schema(
    attachment_id: Identifier,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    word: Annotated[
        Literal["json", "text"] | None, Query(alias="format", description="takes precedence over Accept")
    ] = None,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return a data set's variables as PROC CONTENTS lists them: as JSON, or as its printed text (text/plain)."""

    def read() -> DataSetDescription:
        record = finished_data_set(gateway, attachment_id, caller)
        try:
            return found_contents(gateway.contents.verified(record))
        except KeyError:
            raise Problem("gone", "the content has been deleted") from None

    found = await run_in(pools_of(request).downloads, read)
    if word == "text" or (word is None and quality(accept, "text/plain") > quality(accept, "application/json")):
        body, media_type = listing(found).encode("utf-8", "replace"), "text/plain; charset=utf-8"
    else:
        body, media_type = describe(found).model_dump_json().encode(), "application/json"
    return Response(body, headers={"Vary": "Accept"}, media_type=media_type)


@router.get(
    "/{attachment_id}/profile",
    operation_id="get_data_set_profile",
    response_model=ProfileView,
    responses=responses(
        "not-found",
        "ambiguous",
        "application-message",
        "not-ready",
        "unreadable",
        "gone",
        "not-a-data-set",
        "conversion-limit",
        "damaged",
        "busy",
    ),
)
async def data_set_profile(
    attachment_id: Identifier,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    top: Annotated[int, Query(ge=0, le=MOST_FREQUENT, description="number of most frequent values"), DIGITS] = TOP,
) -> Response:
    """Return a data set's values, variable by variable: missing and different values, range, mean and frequent values.

    The data set is read once, in bounded memory. Numbers of different values are exact up to about 10,000 of them, then
    estimated.
    """
    record = await run_in_threadpool(finished_data_set, gateway, attachment_id, caller)
    return await profiled(request, gateway, record, top)


@router.get(
    "/{attachment_id}/rows",
    operation_id="get_data_set_rows",
    response_model=RowsView,
    responses=responses(
        *("not-found", "ambiguous", "application-message", "not-ready", "unreadable", "gone", "not-a-data-set"),
        *("conversion-limit", "damaged", "busy"),
    ),
)
async def data_set_rows(
    attachment_id: Identifier,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    offset: Annotated[int, Query(ge=0, lt=1 << 62, description="number of rows to skip at the beginning"), DIGITS] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS, description="maximum number of rows"), DIGITS] = 100,
    sort: Annotated[
        str | None,
        Query(
            max_length=200,
            description="variable to sort by, preceded by `-` for descending order; missing values are the smallest",
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
        if record.state is AttachmentState.FINISHED:
            return b"".join(slot.run(page_of_rows, gateway.contents.for_conversion(record), asked))
        wanted = PARTIAL_ROWS if asked.sort is not None else min(PARTIAL_ROWS, asked.offset + asked.limit)
        found = leading_rows(record, gateway.context, wanted)
        missing = tuple(found.missing.ranges)
        so_far = asked._replace(is_partial=True, has_more=found.has_more, missing=missing)
        return b"".join(slot.run(page_of_rows, found.table, so_far))

    try:
        return Response(await convert(request, SlotUse.DOWNLOAD, make), media_type="application/json")
    except NothingYet as reason:
        raise Problem("not-ready", str(reason), state=record.state) from None
    except KeyError:
        raise Problem("gone", "the content has been deleted") from None


def _record(gateway: Gateway, attachment_id: str, caller: Caller, *, partial: bool) -> AttachmentRecord:
    """Return the data set. Raises Problem if it cannot be read, even in part."""
    if not partial:
        return finished_data_set(gateway, attachment_id, caller)
    record = readable_in_part(gateway, attachment_id, caller)
    if record.kind is not None and record.kind is not AttachmentKind.DATA_SET:
        raise Problem("not-a-data-set", "it is a file")
    return record
