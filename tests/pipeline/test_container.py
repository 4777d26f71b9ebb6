"""What a container runs when Kubernetes starts it for Spark, and when people start it."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from app.pipeline.job.container import command
from app.pipeline.job.java import java_home

pytestmark = pytest.mark.process

HOME = str(Path(pyspark.__file__).parent)
SAID_BY_SPARK = {
    "JAVA_HOME": str(java_home()),
    "SPARK_HOME": HOME,
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.3",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@nowhere.invalid:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_ID": "4",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "pod-4",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_9": "-Dfirst=a b",
}


def test_anything_else_is_a_command_of_the_gateway() -> None:
    assert command(["pipeline", "stream"], {}) == ["attachment-gateway", "pipeline", "stream"]


def test_a_driver_is_submitted_in_its_own_pod() -> None:
    submit, *arguments = command(["driver", "--properties-file", "p", "local:///main.py", "stream"], SAID_BY_SPARK)
    assert os.access(submit, os.X_OK)
    assert " ".join(arguments) == (
        "--conf spark.driver.bindAddress=10.0.0.3 --deploy-mode client --properties-file p local:///main.py stream"
    )


def test_an_executor_is_told_all_that_spark_said() -> None:
    java, *arguments = command(["executor"], SAID_BY_SPARK)
    assert os.access(java, os.X_OK)
    assert arguments[:4] == ["-Dfirst=a b", "-Dlast=1", "-Xms512m", "-Xmx512m"]
    assert arguments[5] == f"/opt/spark/conf:{HOME}/jars/*"
    assert arguments[-2:] == ["--podName", "pod-4"]


def test_what_spark_has_not_said_is_named() -> None:
    with pytest.raises(KeyError, match="SPARK_EXECUTOR_MEMORY"):
        command(["executor"], {"SPARK_HOME": HOME})


def test_an_executor_understands_its_arguments_and_looks_for_its_driver() -> None:
    started = [sys.executable, "-m", "app.pipeline.job.container", "executor"]
    said = subprocess.run(started, env=os.environ | SAID_BY_SPARK, check=False, capture_output=True, text=True)
    assert said.returncode == 1
    assert "nowhere.invalid" in said.stderr
    assert "Unrecognized options" not in said.stderr
