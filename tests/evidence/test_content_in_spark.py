"""One batch of Spark over an archive of very many attachments to whose messages something has happened."""

from contextlib import closing
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.pipeline.job.job import Job, open_run
from app.pipeline.run import batch
from app.pipeline.run.spark_steps import SparkSteps
from app.testing.host_results import settings
from tests.evidence import hosts
from tests.evidence.cases import SENDINGS, in_any_manner
from tests.evidence.test_content import explained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_finishes_nothing_with_other_content_either(tmp_path: Path, spark: "SparkSession") -> None:
    random = Random(33)
    cases = chain.from_iterable(random.sample([*in_any_manner(each, random)], 40) for each in SENDINGS.values())
    by_source = {f"s{number}": case for number, case in enumerate(cases)}
    traffic = {source: case.traffic for source, case in by_source.items() if case.mutated.numbered}
    found = hosts.gateway(tmp_path / "gateway", traffic)
    folder, journal = tmp_path / "spark", tmp_path / "gateway" / "journal"
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        assert batch.run(
            SparkSteps(spark), open_run(Job.of(settings(folder), str(journal), in_place=False), catalog, SystemClock())
        )
    in_spark = hosts.in_folder(folder, journal)
    assert in_spark == found
    assert explained(by_source, in_spark)
