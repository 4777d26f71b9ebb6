"""Alert rules, which are in alerts.toml, and a page of the documentation for each. `python -m docs.generate` writes
both."""

import tomllib
from pathlib import Path
from textwrap import fill
from typing import Any, Literal, NamedTuple

GATEWAY = 'job="attachment-gateway"'
"""Selects the gateway's series, for `$gateway` in expressions. The chart replaces it by the release's own."""
PIPELINE = 'job="attachment-gateway-pipeline"'
"""The same for `$pipeline`."""


class Alert(NamedTuple):
    """One rule, with the keys of alerts.toml."""

    name: str
    expression: str
    lasting: str
    severity: Literal["critical", "warning"]
    summary: str
    """A sentence, with Prometheus' templates."""
    meaning: str
    actions: list[str]

    @property
    def promql(self) -> str:
        """The expression as Prometheus reads it."""
        return self.expression.replace("$gateway", GATEWAY).replace("$pipeline", PIPELINE)


ALERTS = tuple(
    Alert(name, **fields) for name, fields in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
)


def rules() -> dict[str, Any]:
    """Return the rules as a file of Prometheus has them."""
    made = [
        {
            "alert": each.name,
            "expr": each.promql,
            "for": each.lasting,
            "labels": {"severity": each.severity},
            "annotations": {"summary": each.summary, "description": _line(each.meaning).replace("`", "")},
        }
        for each in ALERTS
    ]
    return {"groups": [{"name": "attachment-gateway", "rules": made}]}


def page(alert: Alert) -> str:
    """Return the page of an alert: what it means, and what to do."""
    steps = "".join(f"{_wrapped(f'{number}. {each}', '   ')}\n" for number, each in enumerate(alert.actions, 1))
    when = (
        "as soon as this has a result" if alert.lasting == "0m" else f"when this has had a result for {alert.lasting}"
    )
    return (
        f"# {alert.name}\n\n"
        f"{_summary(alert)} Severity: {alert.severity}.\n\n"
        f"{_wrapped(alert.meaning)}\n\n"
        f"## What to do\n\n{steps}\n"
        f"## Rule\n\nIt fires {when}:\n\n```\n{alert.promql}\n```\n"
    )


_INDEX = """\
# Alerts

For operators: every alert, with a page that explains what it means and what to do.

The chart makes a PrometheusRule of these alerts (`prometheusRule.enabled`). Without Kubernetes, load
[helm/files/alerts.yaml](../../helm/files/alerts.yaml) into Prometheus. It expects the job names `attachment-gateway`
and `attachment-gateway-pipeline`.

| alert | severity | fires when |
| --- | --- | --- |
"""


def index() -> str:
    """Return the page that lists all alerts."""
    rows = (f"| [{each.name}]({each.name}.md) | {each.severity} | {_summary(each)} |\n" for each in ALERTS)
    return _INDEX + "".join(rows)


def _summary(alert: Alert) -> str:
    """Return the summary for people: `NAME` for a label, whose value a page does not know."""
    text = alert.summary.replace("{{ $value | humanizePercentage }}", "A part")
    for label in ("source", "destination", "code", "quantity", "action"):
        text = text.replace(f"{{{{ $labels.{label} }}}}", f"`{label.upper()}`")
    return text


def _line(text: str) -> str:
    return " ".join(text.split())


def _wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of at most 120 characters; spans of code and links may be broken at their spaces."""
    return fill(_line(text), 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
