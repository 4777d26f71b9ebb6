"""The generated pages of lists: dialects, events, metrics, and the codes of quarantine."""

from collections.abc import Iterable

from app.codecs.sas.constants import IntString, Long
from app.codecs.sas.dialect import DIALECTS
from app.metrics import SUPERSEDED, DeclaredMetric, Metrics, PipelineDeclared
from app.wire import Layout, row

QUARANTINED_MESSAGES: dict[str, str] = {
    "backed-out": "a message that IBM MQ returned more often than BOTHRESH says, with no queue to move it to",
    "bad-capture": "an imported line that is not hexadecimal, or has an invalid time",
    "bad-count": "a count message whose number is negative, or more than `limits.parts`",
    "bad-descriptor": "an imported message whose MQMD cannot be read",
    "bad-envelope": "a publish whose properties, or the frame of a daemon whose fields, are not those of a message",
    "bad-grouping": "MsgSeqNumber, Offset or MsgFlags of a group or segment that contradict each other",
    "bad-header": "an attachment header that cannot be read in any dialect",
    "bad-init": "a command of file transfer whose JSON document, which begins a file, is not valid",
    "bad-mq-header": "an MQXQH, MQDLH, MQRFH2 or other header before the body, not as announced or not readable",
    "bad-mq-image": "a payload that begins like an MQMD and is none",
    "bad-mqtt-packet": "imported bytes that are not a complete MQTT packet",
    "bad-packet": "an order packet whose header, segments or parts do not fit its size",
    "bad-part": "an order packet whose part of data is missing or cannot be read",
    "bad-rendezvous-frame": "bytes of a daemon's connection that are not a frame",
    "bad-rendezvous-message": "bytes that are not exactly one complete tibrvMsg",
    "bad-segment": "a segment of file transfer that has not the checksum in its topic",
    "bad-topic": "a message whose topic is no command of file transfer",
    "bad-unload": "an imported line of an unloaded queue that cannot be read",
    "conflicting-count": "a second count message with another number; the first one is kept, in doubt",
    "conflicting-end": "an end of a file that contradicts an earlier one or bytes that have come; those are kept",
    "conflicting-header": "a header that describes an attachment otherwise than the first one; the first one is kept",
    "conflicting-init": "a beginning of a file that contradicts an earlier one; the first one is kept",
    "conflicting-last": "a second last message, or last segment, of one group",
    "conflicting-part": "a part that came before with other bytes; the first one is kept, in doubt",
    "conflicting-segment": "a segment after the last one, or of a message that came in one piece",
    "damaged-message": "a message of the journal, or without a source a batch of them, whose bytes on disk are damaged",
    "damaged-part": "a part that could not be read back from the journal when its attachment was finished",
    "error-reply": "an order packet with an error of the database instead of data",
    "framing-failed": "a message at which this program fails by a fault of its own; the log has it, please report it",
    "interleaved-attachments": "parts over Rendezvous of which nothing says to which attachment they belong",
    "message-too-large": "a message over Rendezvous longer than the source's `max_message`; its first bytes are kept",
    "message-too-long": "an imported message of more than 104,857,600 bytes",
    "no-attachment": "an order packet of a message type that carries no data",
    "no-descriptor": "an imported message without an MQMD",
    "no-envelope": "a message that is neither a publish with `msg-type` nor an MQ image",
    "no-header": "a part over Rendezvous before the header of its attachment",
    "no-identifier": "no GroupId, or no MsgId outside of a group; an order packet without its identifier",
    "no-place": "a piece of a LONG value whose position is missing",
    "no-statement": "an order packet without the statement that it belongs to",
    "no-topic": "a message without a topic, of a framing whose topics say what messages are",
    "other-framing": "only told by a replay: the message came under another framing, and says too little for this one",
    "properties-too-large": "more names and values of properties than `limits.properties_bytes`",
    "report-message": "MsgType 4 in a group: a report contains no data",
    "segment-beyond-end": "a segment of file transfer that goes past the end of its file",
    "segment-too-large": "a segment, or a size, that is larger than file transfer allows",
    "segmented-message": "a segment of an IBM MQ message, where the framing of the source reads whole messages",
    "sequence-beyond-count": "a part whose number exceeds the number of parts, also in the other byte order",
    "sequence-beyond-last": "a MsgSeqNumber after the last one of its group",
    "too-many-attachments": "a header with more attachments than `limits.attachments_a_message`",
    "too-many-parts": "more parts than `limits.parts`",
    "unknown-framing": "a message of a framing that this version does not know",
    "unknown-message-name": "a message over Rendezvous whose name is not one of the specification",
    "unknown-message-type": "a MsgType that is neither 100000 nor 100001",
    "unwritable": "a message that the journal cannot store, such as one whose fields are out of range",
}
"""Codes of physical messages, with what is wrong. Tests compare the codes with the code."""

QUARANTINED_ATTACHMENTS: dict[str, str] = {
    "aborted": "deleted because its sender gave it up before it was complete",
    "bad-checksum": "a file that has not the checksum that its sender says",
    "bad-column": "a column of an order packet whose digits, length or place in a row cannot be",
    "bad-content": "parts that cannot be decoded in any dialect: also variables of another number than announced",
    "bad-group": "segments that overlap or leave a gap; packets of a result set that do not follow each other",
    "bad-rows": "rows of an order packet that do not fit their columns",
    "column-type": "values that the type of their column does not allow",
    "conflicting-definition": "two different definitions of one data set",
    "conflicting-segments": "segments that differ where they overlap, and no checksum decides; or that go past the end",
    "content-lost": "finished content is gone and cannot be assembled again; when it is sent again, it starts over",
    "damaged-content": "finished content is not what was received; it is not served until it is restored",
    "doubtful-content": "messages that contradict each other, another reading, or a warning, if its source holds them",
    "doubtful-count": "a count that has several readings, or that the first message contradicts; it is still received",
    "doubtful-size": "a file that has not the size that its sender announced",
    "file-without-records": "an attachment over Rendezvous of several files, one of which has no records",
    "mixed-files": "an attachment over Rendezvous of several files, some text and some binary",
    "no-columns": "a result set without a description of its columns",
    "no-definition": "no message with the definition of the data set",
    "no-description": "a result set without the packet that describes it",
    "no-parts": "an attachment that was announced with no parts",
    "no-rows": "a result set without rows though rows were announced",
    "observation-count": "another number of observations than the definition announces",
    "observation-length": "a length that the variables do not fit, or none though there are observations",
    "observation-torn": "bytes at the end that are not a whole observation",
    "out-of-order": "definitions of a data set over Rendezvous behind its observations",
    "parts-gone": "parts of an unfinished attachment were in a lost part of the journal; the attachment expires",
    "retention": "deleted by `[retention]`",
    "too-many-files": "an attachment over Rendezvous of more than 1,000 files",
    "unexpected-message": "a message over Rendezvous that does not belong to this kind of attachment",
    "variable-count": "more than 32,767 variables, or more bytes than the announced ones can have",
    "variable-length": "a numeric of 1 byte, a character of more than 32,767",
}
"""Codes of attachments (`reason_code`)."""

EVENTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "attachment.identified": (
        "attachment",
        "the header has come for what waited for it: it is an `attachment`, or the `application-message` of `message`",
        ("source", "what", "message"),
    ),
    "attachment.finished": ("attachment", "its content can be read", ("source", "name", "size", "sha256")),
    "attachment.warned": (
        "attachment",
        "it has warnings: right after `attachment.finished`, or when a later message gives reason for one",
        ("source", "name", "warnings"),
    ),
    "attachment.quarantined": ("attachment", "its content cannot be made of its parts", ("source", "code", "reason")),
    "attachment.expired": (
        "attachment",
        "no message came for `expiry.unfinished`, announced or not; or parts are gone",
        ("source", "parts_received", "parts_expected", "code", "reason"),
    ),
    "attachment.missing": (
        "attachment",
        "its sender is asked for what has not come; `address` is null where this event alone tells of it",
        ("source", "name", "framing", "attachment", "parts", "header", "count", "request", "address", "reason"),
    ),
    "attachment.deleted": (
        "attachment",
        "a client, its sender or `[retention]` deleted it",
        ("source", "name", "reason"),
    ),
    "attachment.damaged": ("attachment", "its finished content was found damaged", ("source", "code", "reason")),
    "message.complete": (
        "message",
        "all of its attachments are finished, and its application message is there",
        ("source",),
    ),
    "message.deleted": ("message", "a client deleted it", ("source",)),
    "message.quarantined": ("quarantine entry", "a message could not be read", ("source", "code", "row", "why")),
    "delivery.queued": (
        "delivery",
        "it was accepted, or waits for its next attempt",
        ("destination", "attempts", "reason"),
    ),
    "delivery.sending": ("delivery", "its sending began, or begins again", ("destination", "attempts", "reason")),
    "delivery.sent": ("delivery", "the broker has all of its messages", ("destination", "attempts", "reason")),
    "delivery.failed": ("delivery", "it is not tried again", ("destination", "attempts", "reason")),
    "delivery.deleted": ("delivery", "a client deleted it", ("destination",)),
    "delivery.cancelled": ("delivery", "a client cancelled it", ("destination", "attempts", "reason")),
    "receipt.made": (
        "attachment or delivery",
        "its [receipt](receipts.md) is at `receipt`, and its place in the log is told; not logged where nobody gets it",
        ("source", "destination", "name", "receipt", "leaf_hash", "leaf_index", "tree_size"),
    ),
}
"""By type: what `subject` identifies, when the event happens, the fields of `data` (some only in some cases)."""


class Example(Layout):
    """Two texts between two numbers."""

    first: Long = row("a C long")
    text: IntString = row("a text")
    empty: IntString = row("an empty text")
    last: Long = row("a C long")


_DIALECTS = """\
# Dialects

For SAS programmers and operators: the 32 ways in which a sender may write its messages, with their bytes.

The specification of SAS attachments leaves four choices to the sender. A dialect is one choice of each; there are 32.
The gateway detects the dialect of received messages, and remembers it for each source; a source's `dialect` applies
where nothing shows it. For sending, a destination's `dialect` must be that of the receiving program. The default is
`big-4-excluded-packed`.

| word | values | meaning |
|---|---|---|
| 1 | `big`, `little` | byte order of numbers |
| 2 | `4`, `8` | bytes of a C `long`: 4 on Windows, z/OS and 32-bit systems, 8 on 64-bit UNIX and Linux |
| 3 | `excluded` | a text ends with a NUL that its length does not count |
| | `included` | a text ends with a NUL that its length counts |
| | `absent` | a text has no NUL |
| | `excluded_nonempty` | as `excluded`, but an empty text has no NUL |
| 4 | `packed` | numbers follow without gaps |
| | `aligned` | a number begins at a multiple of its size, counted from the start of the message |

The bytes are the long 1, the text AB with its length, the empty text, and the long 2. `trace` shows the dialect of a
captured message.

"""

_EVENTS = """\
# Events

For developers: what happens in the gateway, as a stream that a program follows and misses nothing of.

`GET /v1/events` streams events as they happen, as server-sent events. Each is a CloudEvent 1.0 in JSON. Its `id`
is a number that grows by one, and the name of its log. With the header `Last-Event-ID`, or `?after=`, the stream begins
after that event, so that a client that was away misses nothing; `?after=0` begins with the oldest one. Events are kept
for `retention.events`.

```console
$ curl -N 'http://127.0.0.1:8080/v1/events?after=0'
EXAMPLE
```

`subject` is the identifier of what the event is about, by which REST has it. `source` and `destination` in `data` are
names of the settings. An attachment or a delivery that is [traced](traces.md) has `traceparent`, too.

The parameters `type`, `source`, `destination` and `subject` select events. Each can be given several times:
`?type=attachment.*&type=delivery.failed`. A stream with parameters also sends, with its heartbeats, the number that it
has reached, as an `id` without data. So it resumes there, and not at the last event that was selected.

[Webhooks](webhooks.md) send the same events to other programs.

Each start of the gateway that receives begins a log, and so does the first write after each start of PostgreSQL; the
numbers go on, and so do clients. Where the numbers of events that a client has seen were given to others, the answer is
410 [`events-gone`](problems.md), and nothing is skipped or repeated in silence: the catalog was rebuilt, it was
restored from an older copy, or its last events were lost in a power failure. Streams that are open then end, and their
clients get this answer when they come again. The client then reads anew what it needs to know, such as the list of
attachments, and begins without an `id`. A client that is no further than the restored copy just goes on.

An older copy is recognised by what it does not bring with it: PostgreSQL was started or has recovered from a crash, or
the database or its table of events is another one in the server. Two ways to go back show none of this, and are not
recognised: rows that are deleted and written again in tables of a running server, and a virtual machine with PostgreSQL
that is set back together with its memory. Stop all processes of the gateway before that, and start a process that
receives alone after it, or start PostgreSQL once more before the gateway writes.

"""

EVENTS_EXAMPLE = (
    ": attachment gateway\n\n"
    "id: 1-3f9a2b01\n"
    'data: {"specversion": "1.0", "id": "1-3f9a2b01", "source": "/v1/events", "type": "delivery.queued", '
    '"subject": "101348a818ed9b938a8442c924751ac9", "time": "2026-11-22T16:08:46.843436+00:00", '
    '"datacontenttype": "application/json", "data": {"destination": "demo"}}\n\n'
    "id: 2-3f9a2b01\n"
    'data: {"specversion": "1.0", "id": "2-3f9a2b01", "source": "/v1/events", "type": "delivery.sending", '
    '"subject": "101348a818ed9b938a8442c924751ac9", "time": "2026-11-22T16:08:46.886815+00:00", '
    '"datacontenttype": "application/json", "data": {"destination": "demo", "attempts": 1, "reason": null}}\n\n'
)
"""The beginning of the demo's stream."""

_METRICS = """\
# Metrics

For operators: every metric of the gateway and of the pipeline, with its labels.

`GET /metrics` has these metrics, in the text format of Prometheus. It needs a key,
unless `http.public` has `metrics`: [Access](access.md).
There are also metrics of the process and of Python (`process_…`, `python_…`). [Health](health.md) explains the
checks to which some of them belong. [Alerts](alerts/index.md) lists the alerts that are made of them. The chart has
the alerts and [two dashboards](kubernetes.md#on-kubernetes).

Names that OpenTelemetry's semantic conventions define are used as Prometheus writes them. All other names begin with
`attachment_gateway_`. `http_route` is the path as the description of the REST interface has it, and empty for a path
that does not exist. `messaging_destination_name` is the topic, queue or subject.

"""

_SUPERSEDED_METRICS = """
These names are from before the conventions. They are still written, and are removed with version 1.0:

"""

_PIPELINE_METRICS = """
## Metrics of the pipeline

The pipeline on Spark has these at its own port ([Spark](spark-operating.md#watching-it)).

"""

_CODES = """\
# Codes of quarantine

For operators: what the codes of messages and attachments in quarantine mean.

A physical message that cannot be read goes to quarantine, with its bytes and the reason, and the stream continues.
`GET /v1/quarantine` and `attachment-gateway quarantine ls` list the entries. A code says what is wrong; `row` names the
field, `at` the byte of the message (of the properties of a publish, if `row` begins with `properties`), `why` the
reason in words. Correct the cause, often `dialect`, `ccsid` or `framing` of the source. Then
`attachment-gateway quarantine replay` processes the entry again, by the present settings of its source.

A message that came under another framing becomes one of the present framing, with two exceptions: `sas_rendezvous`
numbers messages as they come, and `file_transfer` reads their topics. Have such a message sent again. An envelope that
could not be read stays unread, but a message with `no-envelope` is read if the present framing needs none.

## Messages

"""

_CODES_OF_ATTACHMENTS = """
## Attachments

An attachment that is quarantined or expired, that retention has deleted, or whose content was damaged, has a `reason`
with one of these codes and a text. A text that begins with `part` and a number tells which of its parts shows the
fault, in the order of the content. The entry among the messages is of that part.

"""


def dialects() -> str:
    """Return the page of all dialects, each with the bytes of an example."""
    example = Example(first=1, text="AB", empty="", last=2)
    encoded = ((f"`{each.name}`", example.encode(each.context())) for each in DIALECTS)
    rows = ((name, len(data), f"`{data.hex(' ')}`") for name, data in encoded)
    return _DIALECTS + _table(("dialect", "size", "bytes"), rows)


def events() -> str:
    """Return the page of the types of events."""
    rows = (
        (f"`{kind}`", subject, when, ", ".join(f"`{field}`" for field in fields) or "none")
        for kind, (subject, when, fields) in EVENTS.items()
    )
    introduction = _EVENTS.replace("EXAMPLE", EVENTS_EXAMPLE.strip())
    return introduction + _table(("type", "`subject`", "when", "fields of `data`"), rows)


def metrics() -> str:
    """Return the page of the metrics, with their labels."""
    described = Metrics().described
    kept = ((f"`{old}`", f"`{new}`") for old, new in SUPERSEDED.items())
    return "".join(
        (
            _METRICS,
            _metrics(each for each in described if each.name not in SUPERSEDED),
            _SUPERSEDED_METRICS,
            _table(("metric", "replaced by"), kept),
            _PIPELINE_METRICS,
            _metrics(PipelineDeclared().described),
        )
    )


def _metrics(described: Iterable[DeclaredMetric]) -> str:
    rows = ((f"`{each.name}`", each.type, _words(each.labels), each.meaning) for each in described)
    return _table(("metric", "type", "labels", "meaning"), rows)


def _words(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "none"


def codes() -> str:
    """Return the page of the codes of quarantine."""
    messages, attachments = (
        _table(("code", "reason"), ((f"`{code}`", why) for code, why in reasons.items()))
        for reasons in (QUARANTINED_MESSAGES, QUARANTINED_ATTACHMENTS)
    )
    return _CODES + messages + _CODES_OF_ATTACHMENTS + attachments


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(heads), *([str(cell) for cell in each] for each in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(each)} |\n" for each in lines)
