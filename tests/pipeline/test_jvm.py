"""What of Java's chatter is passed on."""

import os

import pytest

from app.pipeline.job.jvm import _Output, sentences

IDLE = (
    "Traceback (most recent call last):\n"
    '  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager\n'
    '  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker\n'
    "BrokenPipeError: [Errno 32] Broken pipe\n"
)
IDLE_WITH_SOURCE = (
    "Traceback (most recent call last):\n"
    '  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager\n'
    "    code = worker(sock, authenticated)\n"
    '  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker\n'
    "    outfile.flush()\n"
    "    ~~~~~~~~~~~~~^^\n"
    "BrokenPipeError: [Errno 32] Broken pipe\n"
)
MADE_TWICE = (
    "2026-11-22T19:51:55.998397Z [warn ] Block rdd_4_0 already exists on this machine; not re-adding it"
    " [org.apache.spark.storage.BlockManager]\n"
)
OURS = (
    'Traceback (most recent call last):\n  File "/app/pipeline/run/spark_steps.py", line 1, in step\n'
    "    fail()\nKeyError: 1\n"
)


def test_lines_stay_lines_and_tracebacks_are_whole() -> None:
    text = f"one\n{IDLE}two\n{OURS}{IDLE}Traceback (most recent call last):\n  File"
    found = list(sentences(text.splitlines(keepends=True)))
    assert found == ["one\n", IDLE, "two\n", OURS, IDLE, "Traceback (most recent call last):\n  File"]


def test_only_what_says_something_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    said = _Output()
    os.write(said.write_end, f"{IDLE}{IDLE_WITH_SOURCE}a warning\n\n{MADE_TWICE}{OURS}".encode())
    said.close()
    assert said.last().endswith(OURS)
    assert capfd.readouterr().err == f"a warning\n{OURS}"
