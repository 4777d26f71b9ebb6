"""All types of problems, in one table."""

from collections.abc import Mapping
from typing import NamedTuple


class ProblemType(NamedTuple):
    """One type of problem: the last word of its `type` URI, its status, and its texts for people."""

    word: str
    status: int
    title: str
    meaning: str

    @property
    def uri(self) -> str:
        return f"/problems/{self.word}" if self.word else "about:blank"


_TABLE = (
    ProblemType(
        "malformed",
        400,
        "The request cannot be read",
        "The request is not well-formed; `detail` says what is wrong, and where.",
    ),
    ProblemType(
        "digest-mismatch",
        400,
        "The bytes differ from their digest",
        "`digest` is the digest of the received bytes, which were discarded. Send them again.",
    ),
    ProblemType(
        "inconsistent-upload-length",
        400,
        "The sizes of the upload contradict each other",
        "The size of the content differs from the announced size.",
    ),
    ProblemType(
        "sign-in-refused",
        400,
        "The sign-in was refused",
        "The OpenID provider has not accepted the code or the refresh token; sign in again.",
    ),
    ProblemType(
        "unauthorized",
        401,
        "An API key or a token is required",
        "The request has none, or one that this gateway does not accept.",
    ),
    ProblemType(
        "forbidden",
        403,
        "The key does not allow this",
        "`scope` is the scope that the API key or token lacks; or it is limited to some sources or destinations.",
    ),
    ProblemType(
        "cross-origin",
        403,
        "A page of another site may have sent this",
        "`setting` names the setting that would allow it; `detail` says what is wrong with `Host`, `Origin`, "
        "`Sec-Fetch-Site` or the content type. Requests with an API key or a token are refused only for their `Host`.",
    ),
    ProblemType("not-found", 404, "Not found", "There is no resource with this identifier or at this path."),
    ProblemType(
        "table-not-found",
        404,
        "Unknown table",
        "`/v1/tables` lists all tables.",
    ),
    ProblemType(
        "no-receipt",
        404,
        "There is no receipt",
        "The gateway makes no receipts, or it is not finished or sent; with `Retry-After`, its receipt is being made.",
    ),
    ProblemType("method-not-allowed", 405, "Method not allowed", "`Allow` lists the methods of this resource."),
    ProblemType("not-acceptable", 406, "Format not available", "`available` lists the formats of this content."),
    ProblemType(
        "request-timeout",
        408,
        "The request took too long",
        "`http.request_timeout` limits the time of a whole request. `http.header_timeout` limits the time of its head, "
        "and of its body until the caller is authenticated. Upload in pieces, or read by ranges or pages.",
    ),
    ProblemType(
        "ambiguous",
        409,
        "The identifier is ambiguous",
        "Several identifiers begin with these digits; `candidates` lists them, at most 20. Give more digits.",
    ),
    ProblemType(
        "not-ready",
        409,
        "The attachment is not finished",
        "Its content can be read once it is finished; `progress` has its state.",
    ),
    ProblemType(
        "unreadable",
        409,
        "The attachment cannot be read",
        "All its parts arrived, but it violates its layout; `reason` says where.",
    ),
    ProblemType(
        "not-ended",
        409,
        "It has not ended",
        "A delivery can be deleted when it has ended, a message after its attachments, which `attachments` lists. A "
        "receiver can be forgotten when it has not been seen for a minute.",
    ),
    ProblemType(
        "last-receiver",
        409,
        "No other receiver receives",
        "A receiver can leave when another one receives, as brokers keep nothing for a group without members.",
    ),
    ProblemType(
        "wrong-state",
        409,
        "The delivery's state does not allow this",
        "`state` is its state. A sent delivery cannot be cancelled; only a failed or cancelled one can be sent again.",
    ),
    ProblemType(
        "mismatching-upload-offset",
        409,
        "The upload continues at another byte",
        "The header `Upload-Offset` gives the byte at which it continues.",
    ),
    ProblemType(
        "superseded",
        409,
        "A newer request continues the upload",
        "The bytes received until then are kept, unless the request has a checksum.",
    ),
    ProblemType("in-flight", 409, "The key is in use", "Another request with this idempotency key is running."),
    ProblemType("not-a-data-set", 409, "Only data sets have this", "The attachment is a file."),
    ProblemType(
        "gone",
        410,
        "The content is gone",
        "It was deleted, it expired before it was complete, or its retention time ended.",
    ),
    ProblemType(
        "events-gone",
        410,
        "The events after this one are gone",
        "The catalog was rebuilt, or restored from an older copy. Read again the resources you need, and begin without "
        "`after` and `Last-Event-ID`.",
    ),
    ProblemType(
        "application-message",
        410,
        "This is an application message",
        "It waited for its header under this identifier; `messages` links to the message to which it belongs.",
    ),
    ProblemType(
        "precondition-failed",
        412,
        "A precondition is false",
        "`If-Match` names another entity tag; `ETag` has the current one.",
    ),
    ProblemType(
        "unsupported-tus-version",
        412,
        "Unknown version of tus",
        "`Tus-Version` lists the versions that are supported.",
    ),
    ProblemType("too-large", 413, "The request is too large", "`limit` is the largest size that the gateway accepts."),
    ProblemType(
        "unsupported-media-type", 415, "Unsupported media type", "`accepted` lists the media types that are supported."
    ),
    ProblemType(
        "range-not-satisfiable",
        416,
        "The range is outside the content",
        "`Content-Range` has the size of the whole content.",
    ),
    ProblemType("invalid", 422, "The request is not valid", "`errors` lists every field that is wrong."),
    ProblemType(
        "not-representable",
        422,
        "The format cannot represent this data set",
        "`misfits` lists for each variable what the format cannot represent, and its name with `rename=true`.",
    ),
    ProblemType(
        "not-recognised", 422, "Unknown format", "`tried` lists how far the bytes could be read in each format."
    ),
    ProblemType(
        "query-failed",
        422,
        "The query cannot be run",
        "`detail` says why. A query can read only tables, and its memory is limited.",
    ),
    ProblemType(
        "unsuitable",
        422,
        "The file cannot be sent as a data set",
        "`errors` lists everything that SAS or the destination does not accept, with its variable and its row.",
    ),
    ProblemType("unknown-destination", 422, "Unknown destination", "`known` lists the destinations of this gateway."),
    ProblemType(
        "key-reused",
        422,
        "The idempotency key belongs to another request",
        "Repeat the same request unchanged, or use a new key.",
    ),
    ProblemType(
        "conversion-limit",
        422,
        "The conversion takes too much memory or time",
        "`limit` names the limit of the gateway's configuration; a smaller file, or fewer rows, may stay below it.",
    ),
    ProblemType(
        "expansion-limit",
        422,
        "The file would become too large",
        "As a data set it would have more than `limits.expansion` times its own bytes, and more than 64 MiB. Nothing "
        "of it was sent.",
    ),
    ProblemType(
        "too-many-uploads",
        429,
        "Too many uploads",
        "`limit` resumable uploads may exist, of all clients or of one, and `used` do. Delete or send some, or wait "
        "until some expire.",
    ),
    ProblemType(
        "upload-quota",
        429,
        "Too many bytes in uploads",
        "The resumable uploads of a client may have `limit` bytes together, and have `used`. Delete or send some, "
        "or wait until some expire.",
    ),
    ProblemType(
        "rate-limited",
        429,
        "Too many requests or bytes",
        "`Retry-After` has the seconds to wait; `violated-policies` names the limit, `RateLimit-Policy` describes it.",
    ),
    ProblemType(
        "checksum-mismatch",
        460,
        "The bytes differ from their checksum",
        "Nothing of the body was kept. Send it again at the same offset.",
    ),
    ProblemType(
        "damaged",
        500,
        "The content is damaged",
        "Its stored bytes differ from those received, or cannot be read. Once repaired, it is served again.",
    ),
    ProblemType("internal", 500, "The gateway failed", "The error is in the log under `incident`."),
    ProblemType(
        "unavailable",
        503,
        "The gateway accepts no requests at present",
        "It is starting or stopping, or its catalog, journal or content store cannot be read or written; try again.",
    ),
    ProblemType(
        "provider-unavailable",
        503,
        "The OpenID provider does not answer",
        "Its configuration or its token endpoint cannot be read at present; try again, or sign in with an API key.",
    ),
    ProblemType(
        "not-served",
        503,
        "This process does not serve REST",
        "The gateway is divided among processes; `detail` has the roles of this one. Send requests to those with the "
        "role `serve`. There is no `Retry-After`: this process will not serve them later either.",
    ),
    ProblemType(
        "busy",
        503,
        "The gateway is busy",
        "The maximum number of conversions, uploads, downloads or connections is reached; see `Retry-After`.",
    ),
    ProblemType(
        "tables-unavailable",
        503,
        "The gateway cannot read tables",
        "`detail` says which library to install.",
    ),
    ProblemType("storage-full", 507, "Storage full", "The gateway's disk or store is full; try again later."),
)
PROBLEMS: Mapping[str, ProblemType] = {problem.word: problem for problem in _TABLE}


def table() -> str:
    """Return the table as Markdown, for docs/problems.md."""
    head = (
        "# Problems\n\n"
        "For developers: every error of the REST interface, and what it means.\n\n"
        "Every error of REST is `application/problem+json` (RFC 9457). `type` is stable: programs may rely on it;\n"
        "`detail` is for people. Requests that cannot be read as HTTP/1.1 get 414, 431, 501 or 505 with the type\n"
        "`about:blank`.\n\n"
        "| type | status | title | meaning |\n|---|---|---|---|\n"
    )
    return head + "".join(f"| `{p.uri}` | {p.status} | {p.title} | {p.meaning} |\n" for p in _TABLE)
