"""Log lines as others read them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from app.model.errors import GatewayError
from app.observe import Recurring, configure_logging, logger


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


def test_each_line_has_the_facts_of_its_process(restored: None) -> None:
    stream = io.StringIO()
    configure_logging("info", "json", stream, {"roles": "keep", "instance": "one"})
    logger("one").info("segment_sealed", segment=7)
    logging.getLogger("two").warning("disk full")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["roles"], line["instance"], line.get("segment")) for line in lines] == [
        ("keep", "one", 7),
        ("keep", "one", None),
    ]


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


def test_a_terminal_gets_no_control_characters(restored: None) -> None:
    stream = io.StringIO()
    configure_logging(style="console", stream=stream)
    hostile = "\x1b[31m\x9b31m\u202e\r\x07"
    log = logger("test")
    log.warning("name_refused", name=hostile, names=[hostile])
    try:
        raise ValueError(hostile)
    except ValueError:
        log.exception("name_failed")
    assert all(character.isprintable() or character == "\n" for character in stream.getvalue())


def test_what_fails_again_and_again_is_told_once_and_at_its_end() -> None:
    with structlog.testing.capture_logs() as logs:
        fault = Recurring(logger("here"), "copying", store="s3")
        fault.worked()
        for number in range(100):
            fault.failed(GatewayError("no space left" if number % 2 else "no answer"), attachment=number)
        assert (fault.failures, fault.error) == (100, "no space left")
        fault.worked()
        fault.worked()
        assert (fault.failures, fault.error) == (0, None)
        fault.failed(ValueError("a mistake"))
    assert [(each["event"], each["log_level"], each["store"]) for each in logs] == [
        ("copying_failed", "error", "s3"),
        ("copying_failed", "error", "s3"),
        ("copying_recovered", "info", "s3"),
        ("copying_failed", "error", "s3"),
    ]
    assert [each.get("reason") for each in logs[:2]] == ["no answer", "no space left"]
    assert logs[2]["failures"] == 100
    assert not logs[0]["exc_info"], "what this program raises itself is a sentence"
    assert isinstance(logs[3]["exc_info"], ValueError)


def test_reasons_that_differ_each_time_do_not_fill_the_log() -> None:
    with structlog.testing.capture_logs() as logs:
        fault = Recurring(logger("here"), "copying")
        for number in range(100):
            fault.failed(f"connection {number} broke")
        fault.worked()
    assert len(logs) == Recurring.MOST_REASONS + 1
