"""Every type of problem, in one table."""

from collections.abc import Mapping
from typing import NamedTuple


class ProblemType(NamedTuple):
    """One row: the last word of its `type` URI, its status, and what it tells people."""

    word: str
    status: int
    title: str
    meaning: str

    @property
    def uri(self) -> str:
        return f"/problems/{self.word}" if self.word else "about:blank"


_TABLE = (
    ProblemType(
        "malformed", 400, "The request cannot be read", "The request's framing is broken; `detail` says where."
    ),
    ProblemType(
        "unauthorized", 401, "A bearer token is needed", "No token was given, or none that this gateway knows."
    ),
    ProblemType("not-found", 404, "There is no such thing", "Nothing has this identifier or this path."),
    ProblemType(
        "table-not-found",
        404,
        "There is no such table",
        "`/v1/tables` lists those there are.",
    ),
    ProblemType("method-not-allowed", 405, "This method does not apply", "`Allow` lists the methods that do."),
    ProblemType(
        "not-acceptable", 406, "No such representation", "`available` lists the formats that this content comes in."
    ),
    ProblemType(
        "not-ready",
        409,
        "The attachment is not finished",
        "Its content can be read once it is; `progress` says how far it is.",
    ),
    ProblemType(
        "unreadable",
        409,
        "The attachment could not be understood",
        "Everything arrived, but it breaks its layout; `reason` says where.",
    ),
    ProblemType(
        "in-flight", 409, "The same key is being used", "Another request with this idempotency key is running."
    ),
    ProblemType("not-a-data-set", 409, "Only data sets have this", "The attachment is a file."),
    ProblemType(
        "gone", 410, "It is gone", "It was deleted, or expired before it was complete, or was retained no longer."
    ),
    ProblemType(
        "precondition-failed", 412, "A precondition is false", "The content is not the one that If-Match names."
    ),
    ProblemType("too-large", 413, "The request is too large", "`limit` is what the gateway takes."),
    ProblemType("unsupported-media-type", 415, "This media type is not taken", "`accepted` lists those that are."),
    ProblemType(
        "range-not-satisfiable", 416, "The range lies outside", "Content-Range tells the size of the whole content."
    ),
    ProblemType("invalid", 422, "The request is not valid", "`errors` lists every field that is wrong."),
    ProblemType(
        "not-representable",
        422,
        "The format cannot hold this data set",
        "`misfits` lists of each variable what the format cannot hold, and what `rename=true` would make of it.",
    ),
    ProblemType(
        "not-recognised", 422, "The bytes are of no known format", "`tried` tells for each format how far it came."
    ),
    ProblemType(
        "unsuitable",
        422,
        "The file makes no data set that can be sent",
        "`errors` lists everything that SAS or the destination cannot take, with its variable and its row.",
    ),
    ProblemType(
        "unknown-destination", 422, "There is no such destination", "`known` lists the destinations of this gateway."
    ),
    ProblemType(
        "key-reused",
        422,
        "The idempotency key stands for another request",
        "Send the very same request again, or take a new key.",
    ),
    ProblemType(
        "conversion-limit",
        422,
        "The conversion takes too much memory or time",
        "`limit` names the limit of the gateway's configuration; a smaller file, or fewer rows, may stay below it.",
    ),
    ProblemType(
        "damaged",
        500,
        "The content is damaged",
        "Its bytes on disk are not those that were received, or cannot be read. Once repaired, it is served again.",
    ),
    ProblemType("internal", 500, "The gateway failed", "The fault is logged under `incident`."),
    ProblemType(
        "unavailable",
        503,
        "The gateway is not taking requests",
        "It is starting or stopping, or its catalog cannot be read or written; try again.",
    ),
    ProblemType(
        "busy", 503, "The gateway has too much to do", "As many conversions run and wait as may; see `Retry-After`."
    ),
    ProblemType(
        "tables-unavailable",
        503,
        "The gateway cannot read tables",
        "`detail` says which library to install.",
    ),
    ProblemType("storage-full", 507, "There is no room", "The gateway's disk or store is full; try again later."),
)
PROBLEMS: Mapping[str, ProblemType] = {problem.word: problem for problem in _TABLE}


def table() -> str:
    """Return the table as Markdown, for docs/problems.md."""
    head = (
        "# Problems\n\n"
        "Every error of REST is `application/problem+json` (RFC 9457). `type` is stable: programs may rely on it;\n"
        "`detail` is for people. The table is printed by `python -m app.web.problems`.\n\n"
        "| type | status | title | meaning |\n|---|---|---|---|\n"
    )
    return head + "".join(f"| `{p.uri}` | {p.status} | {p.title} | {p.meaning} |\n" for p in _TABLE)
