"""What the steps of a gateway and an object store cost, and which bench has printed it."""

from collections.abc import Sequence

COSTS = {
    "receive_message": (13e-6, "s a message", "bench.steps: packets, envelopes, journal"),
    "receive_byte": (1.4e-9, "s a byte", "bench.steps: the same, large over small"),
    "flush": (0.4e-3, "s a batch", "bench.intake: a row of SQLite a message, 86 MB/s of 32 KiB"),
    "flush_byte": (1 / 400e6, "s a byte", "bench.intake: files of 8 MiB"),
    "publish": (10e-3, "s a segment", "assumed: some statements of the catalog"),
    "keep_attachment": (365e-6, "s an attachment", "bench.steps: assembly, checkpoints, records of tiny files"),
    "keep_message": (15e-6, "s a message", "bench.steps: the same of large files"),
    "keep_byte": (0.65e-9, "s a byte", "bench.steps: the same, small over tiny"),
    "settle_attachment": (
        239e-6,
        "s an attachment",
        "docs/spark-operating.md: content read, checked, written to a folder",
    ),
    "shared_message": (15e-6, "s a message", "bench.receivers over bench.steps: MQTT 5, publishing"),
    "shared_attachment": (280e-6, "s an attachment", "bench.receivers over bench.steps: a keeper with PostgreSQL"),
    "catalog_attachment": (290e-6, "s an attachment", "bench.receivers: PostgreSQL's server"),
    "spark_batch": (2.0, "s a micro-batch", "docs/spark-operating.md: the model of a batch"),
    "spark_attachment": (0.45e-3, "s of a core an attachment", "docs/spark-operating.md: the model of a batch"),
    "spark_byte": (1 / 2**30, "s of a core a byte", "docs/spark-operating.md: the model of a batch"),
    "driver_attachment": (0.04e-3, "s an attachment", "docs/spark-operating.md: the model of a batch"),
}
STORES = {
    "bench": {"put": 0.02, "put_byte": 1 / 27.3e6, "put_alone": 2.4e-3},
    "cloud": {"put": 0.03, "put_byte": 1 / 100e6, "put_alone": 0.0},
}
"""Seconds of an answer, of a byte in one connection, and of the whole store for one object: `bench.archive_ack` (20 ms)
and `bench.pipeline_object_store` (2,000 uploads in 4.8 s)."""


def chosen(store: str, changes: Sequence[str]) -> dict[str, float]:
    """Return all costs, with `changes` such as flush=0.001."""
    costs = {name: value for name, (value, _, _) in COSTS.items()} | STORES[store]
    for name, _, value in (each.partition("=") for each in changes):
        if name not in costs:
            raise SystemExit(f"there is no cost {name}: choose one of {', '.join(costs)}")
        costs[name] = float(value)
    return costs
