"""Dashboards of Grafana, one for the gateway and one for the pipeline. `python -m docs.generate` writes them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_COLUMNS = 3
_WIDTH, _HEIGHT = 24 // _COLUMNS, 8
_WHERE = 'namespace=~"$namespace", job=~"$job"'
_RATE = "[$__rate_interval]"


class Panel(NamedTuple):
    """A time series, or several. `queries` are expressions with the legend of their series; `$where` in them is what
    the dashboard's variables select. `unit` is one of Grafana's."""

    title: str
    meaning: str
    unit: str
    queries: tuple[tuple[str, str], ...]


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]


class Dashboard(NamedTuple):
    """`metric` is one that every job of this kind has: the dashboard's variables list the jobs by it."""

    identifier: str
    title: str
    metric: str
    rows: tuple[Row, ...]


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{$where{more}}}{_RATE}))"


def _quantile(share: float, metric: str, by: str = "", more: str = "") -> str:
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{$where{more}}}{_RATE})))"


_REQUESTS = "http_server_request_duration_seconds"
_NOT_STREAMS = ', http_route!="/v1/events"'

GATEWAY = Dashboard(
    "attachment-gateway",
    "Attachment gateway",
    "attachment_gateway_taking",
    (
        Row(
            "State",
            (
                Panel(
                    "Receiving",
                    "1 while messages are taken from brokers, 0 while a limit pauses it.",
                    "short",
                    (("attachment_gateway_taking{$where}", "receiving"),),
                ),
                Panel(
                    "Connections",
                    "1 while a source or a destination is connected to its broker.",
                    "short",
                    (
                        ("attachment_gateway_source_connected{$where}", "source {{source}}"),
                        ("attachment_gateway_destination_connected{$where}", "destination {{destination}}"),
                    ),
                ),
                Panel(
                    "Damage",
                    "Damaged content is not served. Damaged segments may be needed to restore content.",
                    "short",
                    (
                        ("attachment_gateway_damaged_attachments{$where}", "attachments"),
                        ("attachment_gateway_scrub_damaged_segments{$where}", "segments"),
                    ),
                ),
            ),
        ),
        Row(
            "Receiving",
            (
                Panel(
                    "Messages received",
                    "Physical messages that are durable in the journal.",
                    "cps",
                    ((_rate("messaging_client_consumed_messages_total", "source"), "{{source}}"),),
                ),
                Panel(
                    "Bytes received",
                    "Bodies of physical messages.",
                    "Bps",
                    ((_rate("attachment_gateway_bytes_received_total", "source"), "{{source}}"),),
                ),
                Panel(
                    "Attachments",
                    "Attachments that entered a state.",
                    "cps",
                    ((_rate("attachment_gateway_attachments_total", "state"), "{{state}}"),),
                ),
                Panel(
                    "Quarantined messages",
                    "Messages that could not be read, by code.",
                    "cps",
                    ((_rate("attachment_gateway_quarantined_total", "source, code"), "{{source}} {{code}}"),),
                ),
                Panel(
                    "Duplicates and dropped messages",
                    "Duplicates change nothing. Dropped messages are lost; only Rendezvous has them.",
                    "short",
                    (
                        (_rate("attachment_gateway_duplicates_total", "source"), "duplicates a second, {{source}}"),
                        ("attachment_gateway_source_dropped_messages{$where}", "dropped since the start, {{source}}"),
                    ),
                ),
                Panel(
                    "Waiting on queues of IBM MQ",
                    "CURDEPTH of the queue that a source receives from.",
                    "short",
                    (("attachment_gateway_source_queue_depth{$where}", "{{source}}"),),
                ),
                Panel(
                    "First message on queues of IBM MQ",
                    "Time since the first message that waits was put; 0 if none waits.",
                    "s",
                    (("attachment_gateway_source_oldest_message_seconds{$where}", "{{source}}"),),
                ),
                Panel(
                    "Oldest unfinished attachment",
                    "Time since its last part.",
                    "s",
                    (("attachment_gateway_oldest_unfinished_seconds{$where}", "oldest"),),
                ),
            ),
        ),
        Row(
            "Waiting",
            (
                Panel(
                    "Messages not yet durable",
                    "Received from brokers, and not acknowledged yet.",
                    "short",
                    (("attachment_gateway_backlog_messages{$where}", "messages"),),
                ),
                Panel(
                    "Finishing",
                    "Complete attachments whose content is not written yet.",
                    "short",
                    (
                        ("attachment_gateway_finishing_waiting{$where}", "waiting"),
                        ("attachment_gateway_finishing_failing{$where}", "failing"),
                        ("attachment_gateway_settling_failing{$where}", "not copied to the content store"),
                    ),
                ),
                Panel(
                    "Segments not archived or not assembled",
                    "Sealed segments of the journal that wait for the archive, or for the Spark job.",
                    "short",
                    (
                        ("attachment_gateway_archive_waiting_segments{$where}", "archive"),
                        ("attachment_gateway_assembly_behind_segments{$where}", "Spark job"),
                    ),
                ),
            ),
        ),
        Row(
            "Sending",
            (
                Panel(
                    "Messages sent",
                    "Physical messages that a broker has confirmed.",
                    "cps",
                    ((_rate("messaging_client_sent_messages_total", "destination"), "{{destination}}"),),
                ),
                Panel(
                    "Bytes sent",
                    "Bodies of confirmed physical messages.",
                    "Bps",
                    ((_rate("attachment_gateway_bytes_sent_total", "destination"), "{{destination}}"),),
                ),
                Panel(
                    "Deliveries",
                    "Deliveries that entered a state.",
                    "cps",
                    ((_rate("attachment_gateway_deliveries_total", "state"), "{{state}}"),),
                ),
            ),
        ),
        Row(
            "Answers and receipts",
            (
                Panel(
                    "Missing parts",
                    "Requests to senders, parts that came after them, and requests that destinations answered.",
                    "cps",
                    (
                        (_rate("attachment_gateway_missing_requests_total", "source"), "asked {{source}}"),
                        (_rate("attachment_gateway_missing_received_total", "source"), "came {{source}}"),
                        (
                            _rate("attachment_gateway_missing_answers_total", "destination, answer"),
                            "{{destination}} {{answer}}",
                        ),
                    ),
                ),
                Panel(
                    "Answers to senders of files",
                    "By reason code: 0 is success, 128 asks for segments again, 131 ends the file.",
                    "cps",
                    (
                        (
                            _rate("attachment_gateway_sender_answers_total", "source, reason_code"),
                            "{{source}} {{reason_code}}",
                        ),
                    ),
                ),
                Panel(
                    "Receipts",
                    "Statements that were appended, events that are still to come, and whether appending fails.",
                    "short",
                    (
                        ("sum(rate(attachment_gateway_receipts_total{$where}" + _RATE + "))", "a second"),
                        ("attachment_gateway_receipts_behind_events{$where}", "events behind"),
                        ("attachment_gateway_receipts_failing{$where}", "failing"),
                    ),
                ),
            ),
        ),
        Row(
            "HTTP",
            (
                Panel(
                    "Requests by route",
                    "By method and route; an empty route is a path that does not exist.",
                    "reqps",
                    (
                        (
                            _rate(f"{_REQUESTS}_count", "http_request_method, http_route"),
                            "{{http_request_method}} {{http_route}}",
                        ),
                    ),
                ),
                Panel(
                    "Requests by class of status",
                    "4xx: the client's errors; 5xx: the gateway's.",
                    "reqps",
                    tuple(
                        (
                            f'sum(rate({_REQUESTS}_count{{$where, http_response_status_code=~"{digit}.."}}{_RATE}))',
                            f"{digit}xx",
                        )
                        for digit in "2345"
                    ),
                ),
                Panel(
                    "Tools of language models",
                    "Calls by tool and outcome.",
                    "reqps",
                    ((_rate("attachment_gateway_mcp_calls_total", "tool, outcome"), "{{tool}} {{outcome}}"),),
                ),
                Panel(
                    "Time of requests",
                    "From the head to the end of the response, without streams of events.",
                    "s",
                    (
                        (_quantile(0.5, _REQUESTS, more=_NOT_STREAMS), "half"),
                        (_quantile(0.99, _REQUESTS, more=_NOT_STREAMS), "99 %"),
                        ("sum(http_server_active_requests{$where})", "being answered (number)"),
                    ),
                ),
            ),
        ),
        Row(
            "Storage and process",
            (
                Panel(
                    "Disk",
                    "The journal, and the free space of its file system.",
                    "bytes",
                    (
                        ("attachment_gateway_journal_bytes{$where}", "journal"),
                        ("attachment_gateway_free_bytes{$where}", "free"),
                    ),
                ),
                Panel(
                    "Kept objects",
                    "What retention manages.",
                    "bytes",
                    (("attachment_gateway_kept_bytes{$where}", "{{what}}"),),
                ),
                Panel(
                    "Appends to the journal",
                    "Until a batch of messages is on disk.",
                    "s",
                    (
                        (_quantile(0.5, "attachment_gateway_journal_append_seconds"), "half"),
                        (_quantile(0.99, "attachment_gateway_journal_append_seconds"), "99 %"),
                    ),
                ),
                Panel(
                    "Scrub",
                    "Stored bytes that were read again and compared.",
                    "Bps",
                    ((_rate("attachment_gateway_scrub_bytes_total", "what"), "{{what}}"),),
                ),
                Panel("Memory", "Resident memory.", "bytes", (("process_resident_memory_bytes{$where}", "resident"),)),
                Panel(
                    "Processor",
                    "Cores in use.",
                    "short",
                    ((f"rate(process_cpu_seconds_total{{$where}}{_RATE})", "cores"),),
                ),
            ),
        ),
    ),
)

_PIPELINE = "attachment_gateway_pipeline"

PIPELINE = Dashboard(
    "attachment-gateway-pipeline",
    "Attachment gateway: pipeline on Spark",
    f"{_PIPELINE}_lag_segments",
    (
        Row(
            "Progress",
            (
                Panel(
                    "Behind",
                    "How long the first segment that is not committed has been sealed.",
                    "s",
                    ((f"{_PIPELINE}_lag_seconds{{$where}}", "behind"),),
                ),
                Panel(
                    "Messages behind",
                    "Estimated from the size of these segments.",
                    "short",
                    (
                        (f"{_PIPELINE}_lag_messages{{$where}}", "messages"),
                        (f"{_PIPELINE}_lag_segments{{$where}}", "segments"),
                    ),
                ),
                Panel(
                    "Bytes behind",
                    "Size of the segments that are not committed.",
                    "bytes",
                    ((f"{_PIPELINE}_lag_bytes{{$where}}", "bytes"),),
                ),
            ),
        ),
        Row(
            "Batches",
            (
                Panel(
                    "Time of a batch",
                    "Half, and 99 % of the batches, are faster.",
                    "s",
                    (
                        (_quantile(0.5, f"{_PIPELINE}_batch_seconds"), "half"),
                        (_quantile(0.99, f"{_PIPELINE}_batch_seconds"), "99 %"),
                    ),
                ),
                Panel(
                    "Phases of the last batch",
                    "By Spark's names.",
                    "s",
                    ((f"{_PIPELINE}_phase_seconds{{$where}}", "{{phase}}"),),
                ),
                Panel(
                    "Since the last commit",
                    "Time since a batch was committed.",
                    "s",
                    ((f"time() - {_PIPELINE}_committed_timestamp_seconds{{$where}}", "since"),),
                ),
            ),
        ),
        Row(
            "Data",
            (
                Panel(
                    "Messages",
                    "Physical messages that were read.",
                    "cps",
                    ((_rate(f"{_PIPELINE}_messages_total", "source"), "{{source}}"),),
                ),
                Panel(
                    "Attachments",
                    "Attachments that entered a state.",
                    "cps",
                    ((_rate(f"{_PIPELINE}_attachments_total", "state"), "{{state}}"),),
                ),
                Panel(
                    "Rows of tables",
                    "Rows that were added.",
                    "cps",
                    ((f"sum(rate({_PIPELINE}_table_rows_total{{$where}}{_RATE}))", "rows"),),
                ),
                Panel(
                    "Quality",
                    "Duplicates, conflicting parts, quarantined messages, violated expectations.",
                    "cps",
                    (
                        (f"sum(rate({_PIPELINE}_duplicates_total{{$where}}{_RATE}))", "duplicates"),
                        (f"sum(rate({_PIPELINE}_conflicts_total{{$where}}{_RATE}))", "conflicts"),
                        (f"sum(rate({_PIPELINE}_quarantined_total{{$where}}{_RATE}))", "quarantined"),
                        (_rate(f"{_PIPELINE}_expectation_violations_total", "quantity"), "violated: {{quantity}}"),
                    ),
                ),
                Panel(
                    "Rows of Spark's state",
                    "Keys of unfinished and recently finished attachments.",
                    "short",
                    ((f"{_PIPELINE}_state_rows{{$where}}", "rows"),),
                ),
                Panel(
                    "Memory of Spark's state",
                    "Of the state store.",
                    "bytes",
                    ((f"{_PIPELINE}_state_bytes{{$where}}", "bytes"),),
                ),
            ),
        ),
    ),
)

DASHBOARDS = (GATEWAY, PIPELINE)


def queries(dashboard: Dashboard) -> Iterator[str]:
    """Return the expressions of a dashboard, as Grafana has them."""
    for row in dashboard.rows:
        for panel in row.panels:
            for expression, _ in panel.queries:
                yield expression.replace("$where", _WHERE)


def text(dashboard: Dashboard) -> str:
    """Return the JSON of a dashboard, as Grafana imports it."""
    made = {
        "uid": dashboard.identifier,
        "title": dashboard.title,
        "tags": ["attachment-gateway"],
        "editable": True,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "graphTooltip": 1,
        "templating": {"list": _variables(dashboard.metric)},
        "panels": list(_panels(dashboard.rows)),
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _variables(metric: str) -> list[dict[str, Any]]:
    """Return the data source, and the namespaces and jobs that have a metric."""
    chosen: dict[str, Any] = {
        "type": "query",
        "datasource": _SOURCE,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
    }
    everything = {"current": {"text": ["All"], "value": ["$__all"]}}
    asked = {
        "namespace": f"label_values({metric}, namespace)",
        "job": f'label_values({metric}{{namespace=~"$namespace"}}, job)',
    }
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        *(
            {"name": name, "label": name.capitalize(), "query": {"query": query, "refId": name}} | chosen | everything
            for name, query in asked.items()
        ),
    ]


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panels(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for row in rows:
        place = {"h": 1, "w": 24, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        number, top = number + 1, top + 1
        for at, panel in enumerate(row.panels):
            line, column = divmod(at, _COLUMNS)
            place = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": top + line * _HEIGHT}
            yield _panel(panel, number) | {"gridPos": place}
            number += 1
        top += -(-len(row.panels) // _COLUMNS) * _HEIGHT


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(65 + at), "datasource": _SOURCE, "expr": query.replace("$where", _WHERE), "legendFormat": legend}
        for at, (query, legend) in enumerate(panel.queries)
    ]
    drawn = {"drawStyle": "line", "fillOpacity": 10, "showPoints": "never"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": drawn}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }
