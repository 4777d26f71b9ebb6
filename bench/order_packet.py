"""Rows of order packets to Arrow and back, against a plain loop over single values, in one run.

The table has 20 columns: whole numbers, numbers of a fixed point, doubles, texts, dates, times and timestamps. The loop
is `app.codecs.sapdb.data_rows`, one value at a time, on fewer rows, since rows a second are compared. Everything is
measured in turn, `--rounds` times, and the best of each counts.

decode    the buffers of data parts, of 128 KiB at most each, to record batches of up to 16,384 rows
encode    record batches of as many rows to such buffers

Run it as `python -m bench.order_packet`. The last line names the ratios.
"""

import argparse
from collections.abc import Callable
from time import perf_counter

import numpy as np
import pyarrow as pa

from app.codecs.sapdb.constants import MOST_BYTES
from app.codecs.sapdb.data_rows import decode_rows, encode_rows, row_size
from app.codecs.sapdb.parameter_values import Manner, code_of
from app.dataset.sapdb import column_types, row_columns
from app.wire import Context

BATCH_ROWS = 16_384
LOOP_ROWS = 2_000
MANNER = Manner(code_of(0, "<"), Context("<"))


def table(count: int) -> pa.Table:
    """What a program would send, with some values missing."""
    random = np.random.default_rng(1)

    def some(values: pa.Array) -> pa.Array:
        return pa.array(values.to_pylist(), values.type, mask=random.random(count) < 0.05)

    fixed = pa.array(random.integers(-(10**9), 10**9, count)).cast(pa.decimal128(19, 0))
    cents = pa.Array.from_buffers(pa.decimal128(12, 2), count, [None, fixed.buffers()[1]])
    seconds = random.integers(0, 2_000_000_000, count)
    day = pa.array(random.integers(0, 20_000, count).astype(np.int32)).cast(pa.date32())
    names = pa.array([f"Somebody {number % 99_991}" for number in range(count)])
    columns: dict[str, pa.Array] = {}
    for number in range(3):
        columns |= {
            f"ID{number}": pa.array(random.integers(-(2**31), 2**31, count).astype(np.int32)),
            f"CENTS{number}": some(cents),
            f"SIZE{number}": pa.array(random.normal(size=count)),
            f"NAME{number}": names,
            f"DAY{number}": some(day),
            f"STAMP{number}": pa.array(seconds * 1_000_000).cast(pa.timestamp("us")),
        }
    columns["CLOCK"] = pa.array(seconds % 86_400 * 1_000_000).cast(pa.time64("us"))
    columns["FLAG"] = pa.array(seconds % 2 == 1)
    return pa.table(columns)


def best(rounds: int, count: int, work: Callable[[], object]) -> float:
    """Return rows a second of the fastest round."""
    fastest = float("inf")
    for _ in range(rounds):
        start = perf_counter()
        work()
        fastest = min(fastest, perf_counter() - start)
    return count / fastest


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows a second of order packets.")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    sent = table(wanted.rows).combine_chunks()
    infos = column_types.parameters(sent.schema, column_types.needs(sent.to_batches()))
    room = MOST_BYTES // row_size(infos)
    batches = sent.to_batches(max_chunksize=BATCH_ROWS)

    def encoded() -> list[tuple[bytes, int]]:
        """The parts of all batches, each with its number of rows."""
        return [
            (part.tobytes(), len(part))
            for cells in (row_columns.encode(batch, infos, MANNER) for batch in batches)
            for part in (cells[at : at + room] for at in range(0, len(cells), room))
        ]

    buffers = encoded()
    together = BATCH_ROWS // room
    gathered = [buffers[at : at + together] for at in range(0, len(buffers), together)]
    schema = column_types.schema(sent.schema.names, infos, {})

    few = buffers[: max(1, LOOP_ROWS // room)]
    looped = sum(count for _, count in few)
    values = [decode_rows(buffer, infos, count, MANNER) for buffer, count in few]
    assert [encode_rows(each, infos, MANNER) for each in values] == [buffer for buffer, _ in few]

    measured = {
        "decode": best(
            wanted.rounds,
            wanted.rows,
            lambda: [row_columns.decode_parts(parts, infos, MANNER, schema) for parts in gathered],
        ),
        "decode, a loop": best(
            wanted.rounds, looped, lambda: [decode_rows(buffer, infos, count, MANNER) for buffer, count in few]
        ),
        "encode": best(wanted.rounds, wanted.rows, encoded),
        "encode, a loop": best(wanted.rounds, looped, lambda: [encode_rows(each, infos, MANNER) for each in values]),
    }
    print(f"{wanted.rows:,} rows of {len(infos)} columns and {row_size(infos)} bytes, {room} a part")
    for name, rate in measured.items():
        print(f"{name:16} {rate:12,.0f} rows/s  {rate * row_size(infos) / 1e6:8.1f} MB/s")
    decoding = measured["decode"] / measured["decode, a loop"]
    encoding = measured["encode"] / measured["encode, a loop"]
    print(f"ratios: decode_over_loop={decoding:.1f} encode_over_loop={encoding:.1f}")


if __name__ == "__main__":
    main()
