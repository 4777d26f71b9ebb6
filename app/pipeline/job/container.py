"""The program that a container of the pipeline's image runs.

Spark starts pods of an image with the word `executor` or `driver` and passes all else in the environment, as for the
images of Apache Spark. `attachment-gateway` gets any other arguments.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the program and its arguments. Raises KeyError with the name of a missing environment variable."""
    match arguments:
        case ["executor", *_]:
            return _executor(environment)
        case ["driver", *rest]:
            submit = str(Path(environment["SPARK_HOME"], "bin", "spark-submit"))
            address = f"spark.driver.bindAddress={environment['SPARK_DRIVER_BIND_ADDRESS']}"
            return [submit, "--conf", address, "--deploy-mode", "client", *rest]
        case _:
            return ["attachment-gateway", *arguments]


def _executor(environment: Mapping[str, str]) -> list[str]:
    java = str(Path(environment["JAVA_HOME"], "bin", "java")) if environment.get("JAVA_HOME") else "java"
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    numbered = {int(found[1]): value for name, value in environment.items() if (found := _JAVA_OPTION.fullmatch(name))}
    home = Path(environment["SPARK_HOME"])
    class_path = [
        environment.get("SPARK_CONF_DIR", str(home / "conf")),
        environment.get("HADOOP_CONF_DIR"),
        environment.get("SPARK_CLASSPATH"),
        str(home / "jars" / "*"),
        environment.get("SPARK_EXTRA_CLASSPATH"),
        environment.get("SPARK_DIST_CLASSPATH"),
    ]
    return [
        java,
        *(numbered[number] for number in sorted(numbered)),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        os.pathsep.join(filter(None, class_path)),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", environment["SPARK_DRIVER_URL"]),
        *("--executor-id", environment["SPARK_EXECUTOR_ID"]),
        *("--cores", environment["SPARK_EXECUTOR_CORES"]),
        *("--app-id", environment["SPARK_APPLICATION_ID"]),
        *("--hostname", environment["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", environment["SPARK_RESOURCE_PROFILE_ID"]),
        *("--podName", environment["SPARK_EXECUTOR_POD_NAME"]),
    ]


if __name__ == "__main__":
    program = command(sys.argv[1:], os.environ)
    os.execvp(program[0], program)  # noqa: S606 - what the container is for
