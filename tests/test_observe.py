"""Log lines and metrics as others read them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from app.observe import Metrics, configure_logging, logger


@pytest.fixture
def restored() -> Iterator[None]:
    """Puts logging back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_one_json_object_a_line_whoever_logs(restored: None) -> None:
    stream = io.StringIO()
    configure_logging("info", "auto", stream)
    logger("one").info("segment sealed", segment=7)
    logger("one").debug("not this")
    logging.getLogger("two").warning("disk %s", "full")
    try:
        raise ValueError("why")
    except ValueError:
        logger("three").exception("failed")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["logger"], line["level"], line["event"]) for line in lines] == [
        ("one", "info", "segment sealed"),
        ("two", "warning", "disk full"),
        ("three", "error", "failed"),
    ]
    assert lines[0]["segment"] == 7
    assert "ValueError: why" in lines[2]["exception"]
    assert all(line["timestamp"].endswith("Z") for line in lines)


def test_the_console_shows_no_locals(restored: None) -> None:
    stream = io.StringIO()
    configure_logging("info", "console", stream)
    password = "swordfish"
    try:
        raise ValueError(len(password))
    except ValueError:
        logger("one").exception("failed")
    assert "ValueError: 9" in stream.getvalue()
    assert "swordfish" not in stream.getvalue().replace('password = "swordfish"', "")


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
