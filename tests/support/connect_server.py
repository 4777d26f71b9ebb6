"""A Spark Connect server on this machine, as a separate process: python -m tests.support.connect_server PORT.

It runs until its standard input ends.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.pipeline.job.spark_session import SparkSettings, session
from tests.support.mosquitto import free_port

ROOT = Path(__file__).parents[2]
READY = "ready"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Run a server for the block; provide its address. Its output goes to a file in the folder."""
    port = free_port()
    program = [sys.executable, "-m", "tests.support.connect_server", str(port)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "connect.log").open("w") as log:
        process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == READY, (folder / "connect.log").read_text()
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def _serve(port: str) -> None:
    options = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    spark = session("connect", SparkSettings("local[2]", "1g", 2, conf=options))
    print(READY, flush=True)  # noqa: T201
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    _serve(sys.argv[1])
