"""A batch on Spark from and to an object store: 2,000 files of 16 KiB, with 30 ms before each answer of the store.

    python -m bench.pipeline_object_store
    python -m bench.pipeline_object_store --store azure

batch      `pipeline batch`: segments fetched, attachments put together, content copied to the store, catalog and
           tables written; the cache of segments holds a tenth of the archive
puts       the same bytes by obstore itself, which the content store uses: as many uploads of 16 KiB, 32 at a time
downloads  requests for segments, those for their headers included, for each segment of the archive

The store is moto's server of S3, or Azurite, in a process of its own. It computes for each request, on the same
machine, so that `puts` is what this store can do. Figures are from the best round; Spark runs a batch once before
the clock runs.
"""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import obstore
from obstore.store import from_url

from adapters.object_store import ObjectStore
from adapters.object_store.bucket_objects import PUT_AT_ONCE
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.observe import configure_logging
from app.pipeline.job.job import Job, open_run
from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, session
from app.pipeline.run import batch
from app.pipeline.run.spark_steps import SparkSteps
from app.ports import AttachmentFilter
from app.service.threads import collect_seldom
from app.settings import Settings
from bench.pipeline_journals import files_of, write
from tests.support import azurite, object_server
from tests.support.mosquitto import free_port
from tests.support.object_server import Bucket

SIZE = 16 << 10
SEGMENT_BYTES = 1 << 20
CACHED_SHARE = 10
COMPARED = 20
"""The number of objects whose bytes are compared after each batch."""


class Round(NamedTuple):
    """The seconds of a batch, this process's processor time, and the requests for segments."""

    seconds: float
    driver: float
    downloads: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000, help="number of files (2,000)")
    parser.add_argument("--delay", type=float, default=0.03, help="seconds before each answer of the store (0.03)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--store", choices=STORES, default="s3", help="the object store (s3)")
    given = parser.parse_args()
    configure_logging("warning", "console")
    with TemporaryDirectory(prefix="bench-pipeline-") as folder, STORES[given.store](Path(folder)) as bucket:
        measure(bucket, Path(folder), given)


@contextmanager
def amazon_s3(_folder: Path) -> Iterator[Bucket]:
    port = free_port()
    os.environ.update(object_server.environment(port))
    with object_server.serving(port):
        yield Bucket(port, "bench")


@contextmanager
def azure_blob_storage(folder: Path) -> Iterator[Bucket]:
    port = free_port()
    os.environ.update(azurite.environment(port))
    with azurite.running_azurite(folder, port):
        yield azurite.Container(port, "bench")


STORES = {"s3": amazon_s3, "azure": azure_blob_storage}


def measure(bucket: Bucket, folder: Path, given: argparse.Namespace) -> None:
    """Measure both, in turns, and print them."""
    segments, size = archived(bucket, folder / "journal", given.files)
    bucket.delay(given.delay)
    spark = session("bench", SparkSettings("local[2]", "1g", java_options=BRIEF_JAVA))  # as the command does
    collect_seldom()  # as the command does
    cached = max(size // CACHED_SHARE, SEGMENT_BYTES)
    rounds, puts = [], []
    for number in range(given.rounds + 1):
        rounds.append(batch_once(spark, bucket, folder / f"out-{number}", cached, given.files))
        puts.append(put_all(bucket, number, given.files))
    spark.stop()
    best, straight = min(rounds[1:]), min(puts[1:])
    print(f"archive    {size / 2**20:.0f} MiB in {segments} segments, {given.delay * 1000:.0f} ms before each answer")
    driver = best.driver / given.files * 1000
    print(f"batch      {given.files:,} files in {best.seconds:.1f} s, driver {driver:.2f} ms each")
    print(f"puts       {given.files:,} uploads in {straight:.1f} s")
    print(f"downloads  {best.downloads}, {best.downloads / segments:.2f} a segment")
    print(
        f"ratios: {given.store}_over_puts={straight / best.seconds:.2f} {given.store}_seconds={best.seconds:.1f} "
        f"downloads_a_segment={best.downloads / segments:.2f}"
    )


def archived(bucket: Bucket, folder: Path, files: int) -> tuple[int, int]:
    """Write the journal and copy its segments to the bucket. Return their number and their size in bytes."""
    write(folder, files_of(files, SIZE), SEGMENT_BYTES)
    store = from_url(f"{bucket.url}/journal")
    paths = sorted(folder.glob("*.arrows"))
    for path in paths:
        obstore.put(store, path.name, path.read_bytes())
    return len(paths), sum(path.stat().st_size for path in paths)


def batch_once(spark: Any, bucket: Bucket, folder: Path, cache_bytes: int, files: int) -> Round:
    """Run a batch with an empty cache, catalog and content store."""
    settings = Settings.model_validate(
        {
            "data": folder,
            "content": {"url": f"{bucket.url}/{folder.name}"},
            "pipeline": {"cache": folder / "cache", "cache_bytes": cache_bytes},
        }
    )
    before = bucket.counts("GET", "journal").total()
    started, worked = perf_counter(), process_time()
    with closing(SqlCatalog(settings.catalog_url)) as catalog:
        job = Job.of(settings, f"{bucket.url}/journal", in_place=False)
        committed = batch.run(SparkSteps(spark), open_run(job, catalog, SystemClock()))
        found = perf_counter() - started, process_time() - worked
        assert committed is not None
        assert committed.finished == catalog.counts()["attachments"]["finished"] == files
        compare(catalog, ObjectStore(settings.content_url))
    return Round(*found, bucket.counts("GET", "journal").total() - before)


def compare(catalog: SqlCatalog, store: ObjectStore) -> None:
    """Compare some objects with their digests in the catalog."""
    for record in catalog.attachments(AttachmentFilter(), None, COMPARED).items:
        assert record.object_name is not None
        assert sha256(b"".join(store.read(record.object_name))).hexdigest() == record.sha256


def put_all(bucket: Bucket, number: int, files: int) -> float:
    """Return the seconds of as many uploads, by obstore itself."""
    store = from_url(f"{bucket.url}/straight-{number}")
    data = os.urandom(SIZE)
    started = perf_counter()
    with ThreadPoolExecutor(PUT_AT_ONCE) as pool:
        for _ in pool.map(lambda at: obstore.put(store, f"{at}", data, use_multipart=False), range(files)):
            pass
    return perf_counter() - started


if __name__ == "__main__":
    main()
