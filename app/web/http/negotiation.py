"""Content negotiation (RFC 9110, section 12): the format and the options of a data set, and content codings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import pyarrow as pa
from fastapi import Depends, Query

from app.model.errors import InvalidInputError
from app.tables.write import FORMATS, OutputOptions, TableFormat
from app.tables.write.output_pieces import OutputPieces
from app.tables.write.output_table import Blank, Dates, Formulas, Missing, Names, Times
from app.tables.xpt.xpt_limits import UnfitTableError
from app.web.http.parameters import DIGITS
from app.web.problems import Problem

BY_MEDIA_TYPE: Mapping[str, TableFormat] = {known.media_type: known for known in reversed(list(FORMATS.values()))}
"""The format for each media type."""

_SCHEMAS: Mapping[str, Any] = {
    "text/csv": {"type": "string"},
    "application/json": {
        "oneOf": [
            {"title": "rows", "type": "array", "items": {"type": "object"}},
            {"title": "Dataset-JSON", "type": "object"},
        ]
    },
    "application/x-ndjson": {"type": "string"},
}
_EXAMPLES: Mapping[str, Any] = {
    "csv": 'Name,Age,Born\r\n"Bo, jr.",14,2012-02-29\r\n',
    "json": [{"Name": "Bo, jr.", "Age": 14, "Born": "2012-02-29"}],
    "ndjson": '{"Name":"Bo, jr.","Age":14,"Born":"2012-02-29"}\n',
}


def _described(media_type: str) -> dict[str, Any]:
    formats = [known for known in FORMATS.values() if known.media_type == media_type]
    said = {"description": "; ".join(f"`{known.name}`: {known.title}" for known in formats)}
    examples = {
        known.name: {"summary": known.title, "value": _EXAMPLES[known.name]}
        for known in formats
        if known.name in _EXAMPLES
    }
    schema = _SCHEMAS.get(media_type, {"type": "string", "format": "binary"}) | said
    return {"schema": schema} | ({"examples": examples} if examples else {})


DESCRIBED: dict[str, Any] = {known.media_type: _described(known.media_type) for known in FORMATS.values()}
"""OpenAPI's description of data sets in each media type."""


def chosen_format(word: str | None, accept: str | None) -> TableFormat:
    """Return the format of the response, by `?format=` or else by Accept. Raises Problem if the client accepts none."""
    if word is None:
        candidates = [known for known in FORMATS.values() if BY_MEDIA_TYPE[known.media_type] is known]
        qualities = [quality(accept, known.media_type) for known in candidates]
        best = max(qualities)
        if best > 0:
            return candidates[qualities.index(best)]
    elif word in FORMATS:
        return FORMATS[word]
    names = list(FORMATS)
    raise Problem(
        "not-acceptable", f"the formats of a data set are {', '.join(names)}", {"Vary": "Accept"}, available=names
    )


def quality(accept: str | None, media_type: str) -> float:
    """Return the quality of a media type in an Accept header, 0 (refused) to 1. The most specific range counts."""
    if not accept or not accept.strip(", "):
        return 1.0
    ranks = {media_type: 2, media_type.partition("/")[0] + "/*": 1, "*/*": 0}
    best, found = -1, 0.0
    for item in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in item.split(";"))
        if ranks.get(name, -1) > best:
            best, found = ranks[name], weight(parameters)
    return found


def weight(parameters: Sequence[str]) -> float:
    """Return the value of `q` among the parameters of an Accept header's item; 1 if it is missing or not a number."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                given = float(value)
            except ValueError:
                return 1.0
            return min(max(given, 0.0), 1.0) if given == given else 1.0  # noqa: PLR0124 - NaN is no number
    return 1.0


async def _options(
    columns: Annotated[
        list[str] | None,
        Query(
            description="names of the variables, in this order and in any case; separate several with commas, "
            "or repeat the parameter",
            examples=[["Name,Age"]],
        ),
    ] = None,
    offset: Annotated[int | None, Query(description="number of rows to skip at the beginning", ge=0), DIGITS] = None,
    limit: Annotated[int | None, Query(description="maximum number of rows", ge=0), DIGITS] = None,
    missing: Annotated[
        Missing | None,
        Query(
            description="special missing values (`.A`): as null, as their tag in the cell, or in a column "
            "`X__missing`; each format has its default"
        ),
    ] = None,
    dates: Annotated[
        Dates | None, Query(description="dates and times in ISO 8601, or as SAS numbers since 1960-01-01")
    ] = None,
    names: Annotated[Names | None, Query(description="column names unchanged, or in lower case")] = None,
    blank: Annotated[
        Blank | None, Query(description="blank character values as empty text or as null (CSV, JSON)")
    ] = None,
    rename: Annotated[
        bool | None,
        Query(description="change names that the format cannot represent (XPT, SAS); without it, they are refused"),
    ] = None,
    formulas: Annotated[
        Formulas | None,
        Query(description="texts that spreadsheets read as formulas: unchanged, or preceded by an apostrophe (CSV)"),
    ] = None,
    labels: Annotated[
        bool | None,
        Query(
            description="value labels in place of values; they come from the data set `FORMATS` or the `.sas7bcat` "
            "file of the same message"
        ),
    ] = None,
    times: Annotated[
        Times | None,
        Query(
            description="times of day in their own type, which Spark reads by a setting only, or as durations since "
            "midnight, which all programs read (Parquet, Arrow)"
        ),
    ] = None,
    attrs: Annotated[
        bool | None, Query(description="labels and formats as `DataFrame.attrs` of pandas, too (Parquet)")
    ] = None,
) -> OutputOptions:
    wanted = None if columns is None else tuple(columns)
    return OutputOptions(wanted, offset, limit, missing, dates, names, blank, rename, formulas, labels, times, attrs)


OptionsDep = Annotated[OutputOptions, Depends(_options)]
FormatDep = Annotated[
    str | None,
    Query(
        alias="format", max_length=40, description="format of a data set; without it, Accept decides", examples=["csv"]
    ),
]


def not_representable(error: InvalidInputError) -> Problem:
    """Return the problem for a data set that a format cannot represent."""
    misfits = [misfit._asdict() for misfit in error.misfits] if isinstance(error, UnfitTableError) else []
    return Problem("not-representable", str(error), misfits=misfits)


CODINGS: Final = ("zstd", "gzip")
"""In the order in which they are preferred where a client accepts both alike."""
CODED: Final[Mapping[str, Any]] = {
    "Content-Encoding": {"description": "`zstd` or `gzip`, for converted text", "schema": {"type": "string"}}
}
"""OpenAPI's description of the header field."""
_IDENTITY: Final = "identity"
_TEXT: Final = ("text/", "application/json", "application/x-ndjson")


def is_text(media_type: str) -> bool:
    """Return whether content of a media type is text, which is worth compressing."""
    return media_type.startswith(_TEXT)


def chosen_coding(accepted: str | None) -> str | None:
    """Return the coding that an Accept-Encoding header prefers; None for content as it is."""
    weights: dict[str, float] = {}
    for item in (accepted or "").lower().split(","):
        name, *parameters = (piece.strip() for piece in item.split(";"))
        weights[name] = weight(parameters)
    others = weights.get("*", 0.0)
    best = max(CODINGS, key=lambda coding: weights.get(coding, others))
    # Without a word on it, identity is as good as anything that is refused, and worse than what is wanted.
    return best if weights.get(best, others) > max(0.0, weights.get(_IDENTITY, 0.0)) else None


def compressed(pieces: Iterator[bytes | memoryview], coding: str) -> Iterator[bytes | memoryview]:
    """Yield pieces in a coding, while they come."""
    sink = OutputPieces()
    with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), coding) as stream:
        for piece in pieces:
            stream.write(piece)
            yield from sink.taken()
    yield from sink.rest()
