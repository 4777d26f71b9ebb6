"""The JSON of a data set's profile."""

from typing import Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field

from app.model.records import AttachmentRecord
from app.service.conversion import Slot, SlotUse, finished
from app.service.conversion.conversion_jobs import profile_data_set
from app.service.gateway import Gateway
from app.tables.profiling import Profile, VariableProfile
from app.web.problems import Problem
from app.web.resources.schemas import shown
from app.web.responses.disconnection import convert

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
