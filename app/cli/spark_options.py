"""The Spark session of a command: its options, its start and end, and its failures as sentences."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import gettempdir
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.terminal import Failure
from app.model.errors import GatewayError
from app.plugins import PluginError
from app.service.threads import collect_seldom
from app.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.pipeline.job.spark_session import SparkSettings

Master = Annotated[
    str | None, typer.Option(help="Spark master: local[*] (default; all cores), local[2], spark://…, k8s://….")
]
Memory = Annotated[str | None, typer.Option(help="Java heap of Spark on this machine, such as 2g.")]
Partitions = Annotated[int | None, typer.Option(min=1, help="Number of tasks of a shuffle.")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
]

_LAST_SECONDS = 2.0
"""How long a Java process that has closed its connections may take to end."""


def spark_settings(
    master: str | None, memory: str | None, partitions: int | None, conf: list[str] | None, *, brief: bool = False
) -> "SparkSettings":
    """Return the settings of a command's options, `brief` for one that ends after one batch.

    Raises Failure for a setting that is not KEY=VALUE.
    """
    from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, pairs  # noqa: PLC0415

    options = BRIEF_JAVA if brief else ""
    try:
        return SparkSettings(master, memory, partitions, java_options=options, conf=pairs(conf or []))
    except ValueError as error:
        raise Failure(str(error)) from error


@contextmanager
def spark_session(chosen: "SparkSettings", settings: Settings) -> Iterator["SparkSession"]:
    """Provide a Spark session for the block. A session that is started here ends with the block.

    Errors that people can correct become a Failure, and so do Spark's, with the file that has their traceback.
    """
    from app.pipeline.job.spark_session import active, is_connected, session  # noqa: PLC0415 - Spark is an extra, and slow to import

    try:
        found = active()
    except GatewayError as error:
        raise Failure(str(error)) from error
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from app.pipeline.job import jvm, spark_failures  # noqa: PLC0415

    spark = None
    places = {"the checkpoint": settings.pipeline_checkpoint}
    try:
        if (spark := found) is None:
            spark = session("attachment-gateway", chosen)
            collect_seldom()
        if not is_connected(spark):
            places["Spark's temporary files"] = spark.sparkContext.getConf().get("spark.local.dir") or gettempdir()
        yield spark
    except (GatewayError, PluginError) as error:
        raise Failure(*spark_failures.explain(error, None, places)) from error
    except (PySparkException, Py4JError, OSError, EOFError) as error:
        is_answer = isinstance(error, PySparkException | Py4JJavaError)
        ended = jvm.ended(0 if is_answer else _LAST_SECONDS)
        if ended is None and not isinstance(error, PySparkException | Py4JError):
            raise
        why, hint = spark_failures.explain(error, ended, places)
        written = spark_failures.keep_traceback(error, ended, settings.data)
        where = "" if written is None else f"The whole traceback is in {written}"
        raise Failure(f"Spark failed: {why}", "\n".join(filter(None, (hint, where)))) from error
    finally:
        if spark is not None and found is None:
            with suppress(Py4JError, OSError):  # its Java may be gone
                spark.stop()
