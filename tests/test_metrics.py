"""Metrics as others read them, and the names that they have."""

import re

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import SUPERSEDED, Metrics, PipelineDeclared


def test_metrics_in_prometheus_text() -> None:
    metrics = Metrics()
    metrics.count_received("orders", 3, 96_000)
    metrics.quarantined.labels("orders", "bad-header").inc()
    metrics.attachments.labels("finished", "data-set").inc()
    metrics.free_bytes.set_function(lambda: 5)
    text = metrics.text().decode()
    for line in (
        'attachment_gateway_messages_received_total{source="orders"} 3.0',
        'attachment_gateway_bytes_received_total{source="orders"} 96000.0',
        'attachment_gateway_quarantined_total{code="bad-header",source="orders"} 1.0',
        'attachment_gateway_attachments_total{kind="data-set",state="finished"} 1.0',
        "attachment_gateway_free_bytes 5.0",
    ):
        assert line in text.splitlines()
    assert "process_resident_memory_bytes" in text


def test_what_opentelemetry_names_has_both_names_for_a_while() -> None:
    metrics = Metrics()
    metrics.name_source("orders", "ibm_mq", "SAS.ATTACHMENTS")
    metrics.name_destination("replies", "mqtt", "attachments/replies")
    metrics.count_received("orders", 3, 96_000)
    metrics.count_received("unnamed", 1, 1)
    metrics.count_sent("replies", 2, 64_000)
    lines = metrics.text().decode().splitlines()
    consumed = 'messaging_system="ibmmq",source="orders"} 3.0'
    assert [line for line in lines if line.startswith("messaging_client_consumed_messages_total")] == [
        f'messaging_client_consumed_messages_total{{messaging_destination_name="SAS.ATTACHMENTS",{consumed}'
    ]
    sent = 'messaging_destination_name="attachments/replies",messaging_system="mqtt"} 2.0'
    assert f'messaging_client_sent_messages_total{{destination="replies",{sent}' in lines
    assert 'attachment_gateway_messages_received_total{source="orders"} 3.0' in lines
    assert 'attachment_gateway_messages_sent_total{destination="replies"} 2.0' in lines


@pytest.mark.parametrize("declared", [Metrics(), PipelineDeclared()])
def test_every_metric_is_described_as_it_is_written(declared: Metrics | PipelineDeclared) -> None:
    """Each is given values once, and then found in the text with the labels that its description has."""
    described = {each.name.removesuffix("_total"): each for each in declared.described}
    for metric in vars(declared).values():
        if labels := getattr(metric, "_labelnames", ()):
            metric.labels(*labels)
    text = generate_latest(declared.registry).decode()
    found = {
        family.name: family
        for family in text_string_to_metric_families(text)
        if not re.match("process_|python_|.*_created$", family.name)
    }
    assert set(found) == set(described)
    for name, family in found.items():
        assert (family.type, family.documentation) == (described[name].type, described[name].meaning)
        samples = {each.name: frozenset(each.labels) for each in family.samples if not each.name.endswith("_created")}
        assert samples == described[name].samples()


def test_a_superseded_name_and_its_replacement_are_both_written() -> None:
    names = {each.name for each in Metrics().described}
    assert set(SUPERSEDED) | set(SUPERSEDED.values()) <= names
