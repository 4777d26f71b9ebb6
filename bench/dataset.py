"""A SAS data set decoded, and read from and written to transport files, against the usual libraries in one run.

The table has 1,000,000 rows of six numbers, a date, a datetime and two character variables of 20 bytes, which is 104
bytes a row. Everything is measured in turn, `--rounds` times, and the best of each counts.

memcpy          the observations' bytes, copied once
decode          observations, as messages of 32 KiB bring them, to Arrow: nulls, dates, trimmed text
parquet         the same to a Parquet file that is thrown away
xpt read        a transport file of version 5 in constant memory, special missing values kept: surveyed first, then read
xpt write       Arrow to such a file
polars          the same files by polars-readstat, whole, to a DataFrame, and written from one
pyreadstat      to a pandas DataFrame, and written from one
pandas          pandas.read_sas, which leaves dates as numbers

Run it as `python -m bench.dataset`.
"""

import argparse
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars_readstat
import pyarrow as pa
import pyreadstat

from app.dataset import decode, encode
from app.dataset.observation_layout import Representation
from app.dataset.parquet import write_parquet
from app.tables.xpt.xpt_reader import read
from app.tables.xpt.xpt_writer import write as write_transport

BODY = 32_000


def table(rows: int) -> pa.Table:
    """Return a table as a program would send it: numbers with some missing, names and codes."""
    random = np.random.default_rng(1)
    numeric, character = {"sas.type": "numeric", "sas.length": "8"}, {"sas.type": "character", "sas.length": "20"}
    fields = [pa.field(f"N{number}", pa.float64(), metadata=numeric) for number in range(6)]
    fields += [
        pa.field("SEEN", pa.date32(), metadata=numeric | {"sas.format": "DATE9."}),
        pa.field("STAMP", pa.timestamp("us"), metadata=numeric | {"sas.format": "DATETIME20."}),
        pa.field("NAME", pa.string(), metadata=character),
        pa.field("CODE", pa.string(), metadata=character),
    ]
    numbers = [pa.array(random.normal(size=rows), mask=random.random(rows) < 0.05) for _ in range(6)]
    days = pa.array(random.integers(0, 20_000, rows).astype(np.int32)).cast(pa.date32())
    seconds = random.integers(0, 2_000_000_000, rows)
    names = pa.array([f"Somebody {number % 99_991}" for number in range(rows)])
    codes = pa.array([("A1", "B22", "C333", "")[number % 4] for number in range(rows)])
    columns = [*numbers, days, pa.array(seconds * 1_000_000).cast(pa.timestamp("us")), names, codes]
    return pa.table(columns, schema=pa.schema(fields, {"sas.library": "WORK", "sas.member": "BENCH"}))


def frame(sent: pa.Table) -> pd.DataFrame:
    """Return the table as a pandas DataFrame, for the peers' writers."""
    return sent.to_pandas(date_as_object=False)


class Observations:
    """The table's observations in messages of 32 KiB, and their decoders."""

    def __init__(self, sent: pa.Table) -> None:
        batches = sent.to_batches(max_chunksize=16_384)
        self.definition, self.variables = encode.describe(
            sent.schema, charset="utf-8", observations=sent.num_rows, character_lengths={"NAME": 20, "CODE": 20}
        )
        packed = b"".join(encode.rows(batches, self.variables, order="little", charset="utf-8"))
        room = BODY // self.definition.obs_length * self.definition.obs_length
        self.bodies = [packed[at : at + room] for at in range(0, len(packed), room)]
        self.size = len(packed)
        self._how = Representation("little", "ieee", "utf-8")

    def decoded(self) -> Iterable[pa.RecordBatch]:
        return decode.batches(self._plan(), self.bodies)

    def parquet(self) -> None:
        plan = self._plan()
        write_parquet(plan.schema, decode.batches(plan, self.bodies), _Nowhere())

    def _plan(self) -> decode.DecodingPlan:
        return decode.first_plan(self.definition, self.variables, self._how, lambda: self.bodies)


class _Nowhere:
    def write(self, data: bytes) -> None:
        pass


def exhaust(pieces: Iterable[Any]) -> None:
    for _ in pieces:
        pass


def read_xpt(path: Path) -> None:
    with path.open("rb") as file:
        exhaust(read(file).batches())


def write_xpt(sent: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        for piece in write_transport(sent.schema, sent.to_batches(max_chunksize=16_384), 5, rows=sent.num_rows):
            file.write(piece)


def steps(sent: pa.Table, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the measured functions by name."""
    observations = Observations(sent)
    joined, room = np.frombuffer(b"".join(observations.bodies), np.uint8), np.empty(observations.size, np.uint8)
    ours, theirs = folder / "ours.xpt", folder / "theirs.xpt"
    write_xpt(sent, ours)
    columns = frame(sent)
    in_polars = pl.DataFrame(sent.replace_schema_metadata(None))
    seconds_since_1960 = columns.assign(
        SEEN=(columns["SEEN"] - pd.Timestamp("1960-01-01")).dt.days,
        STAMP=(columns["STAMP"] - pd.Timestamp("1960-01-01")).dt.total_seconds(),
    )
    return {
        "memcpy": lambda: np.copyto(room, joined),
        "decode": lambda: exhaust(observations.decoded()),
        "parquet": observations.parquet,
        "xpt read": lambda: read_xpt(ours),
        "xpt write": lambda: write_xpt(sent, folder / "again.xpt"),
        "polars read": lambda: polars_readstat.read_readstat(str(ours)),
        "polars write": lambda: polars_readstat.write_xpt(in_polars, str(theirs)),
        "pyreadstat read": lambda: pyreadstat.read_xport(str(ours)),
        "pyreadstat write": lambda: pyreadstat.write_xport(seconds_since_1960, str(theirs), file_format_version=5),
        "pandas read": lambda: pd.read_sas(io.BytesIO(ours.read_bytes()), format="xport", encoding="latin-1"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder for transport files (default: temporary)")
    given = parser.parse_args()
    sent = table(given.rows)
    best: dict[str, float] = {}
    with TemporaryDirectory(dir=given.folder) as name:
        measured = steps(sent, Path(name))
        for _ in range(given.rounds):
            for step, run in measured.items():
                started = perf_counter()
                run()
                best[step] = min(best.get(step, float("inf")), perf_counter() - started)
    size = Observations(sent.slice(0, 1000)).size / 1000 * given.rows
    for step, seconds in best.items():
        print(f"{step:<17} {seconds * 1000:8.1f} ms {size / seconds / 1e6:8.0f} MB/s of observations")
    ratios = {
        "decode_over_memcpy": best["memcpy"] / best["decode"],
        "decode_over_polars_xpt": best["polars read"] / best["decode"],
        "xpt_read_over_polars": best["polars read"] / best["xpt read"],
        "xpt_read_over_pyreadstat": best["pyreadstat read"] / best["xpt read"],
        "xpt_write_over_polars": best["polars write"] / best["xpt write"],
        "parquet_over_pyreadstat": best["pyreadstat read"] / best["parquet"],
    }
    print("ratios: " + " ".join(f"{name}={value:.2f}" for name, value in ratios.items()))


if __name__ == "__main__":
    main()
