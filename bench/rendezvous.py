"""A message of observations on TIB/Rendezvous (ATO) of 6,001 fields, decoded to Arrow in three ways in one run.

The data set has a character variable of 8 bytes and a number; the message has 1,000 rows of it. Every way begins with
the message's bytes and ends with the same Arrow arrays. The ways take turns, `--rounds` times, and the best counts.

loop      field by field: name, identifier, type, size and value; columns from lists
general   `app.codecs.sas.rendezvous_observations`, where texts have any length
regular   the same, where every text is filled up with blanks to its variable's length

Run it as `python -m bench.rendezvous`. Its last line has the ratios of the speeds.
"""

import argparse
import struct
from collections.abc import Callable
from time import perf_counter

import numpy as np
import pyarrow as pa

from app.codecs.sas.rendezvous_observations import Shape, read_observations, write_observations
from app.dataset import character_columns, numeric
from tests.codecs.sas.rendezvous_bytes import f64, i32, message, string

ROWS = 1_000
SHAPE = Shape((False, True), (8, 8))


def names() -> list[str]:
    """Return texts of 1 to 8 characters."""
    return [("Alfred", "Al", "Barbara", "Jane", "Ronald01")[row % 5] for row in range(ROWS)]


def regular_message() -> bytes:
    rows = b"".join(name.encode().ljust(8) + struct.pack(">d", row / 8) for row, name in enumerate(names()))
    (body,) = write_observations([rows], SHAPE, limit=1 << 20)
    return body


def trimmed_message() -> bytes:
    fields = [i32(2 * ROWS)]
    for row, name in enumerate(names()):
        fields += [i32(3), i32(2), string(name), i32(3), i32(1), f64(row / 8)]
    return message("ATO", fields)


def by_loop(body: bytes) -> list[pa.Array]:
    """Decode every field in its turn, straightforwardly."""
    fields: list[tuple[str, int, int | float | str]] = []
    at = 8
    while at < len(body):
        name_end = at + 1 + body[at]
        identifier = 0
        if body[at] >= 3 and not body[name_end - 3]:
            name = body[at + 1 : name_end - 3].decode()
            identifier = int.from_bytes(body[name_end - 2 : name_end], "big")
        else:
            name = body[at + 1 : name_end - 1].decode()
        kind, size, data_at = body[name_end], body[name_end + 1], name_end + 2
        if size == 0x79:
            size, data_at = int.from_bytes(body[data_at : data_at + 2], "big") - 2, data_at + 2
        elif size == 0x7A:
            size, data_at = int.from_bytes(body[data_at : data_at + 4], "big") - 4, data_at + 4
        at = data_at + size
        data = body[data_at:at]
        if kind == 11:
            fields.append((name, identifier, int.from_bytes(data, "big", signed=True)))
        elif kind == 13:
            fields.append((name, identifier, struct.unpack(">d", data)[0]))
        else:
            fields.append((name, identifier, data.rstrip(b"\0").decode("latin-1").rstrip(" ")))
    values = [held for _, _, held in fields[3::3]]
    return [pa.array(values[0::2], pa.string()), pa.array(values[1::2], pa.float64())]


def at_once(body: bytes) -> list[pa.Array]:
    """Decode it as the gateway does."""
    rows = read_observations(body, SHAPE).data.reshape(ROWS, SHAPE.length)
    numbers = numeric.read(rows[:, 8:], "big", "ieee", "utf-8")
    return [character_columns.read(rows[:, :8], "utf-8").strings, numeric.column(numbers)]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=30)
    rounds = arguments.parse_args().rounds
    regular, trimmed = regular_message(), trimmed_message()
    ways: dict[str, tuple[Callable[[bytes], list[pa.Array]], bytes]] = {
        "loop": (by_loop, regular),
        "general": (at_once, trimmed),
        "regular": (at_once, regular),
    }
    expected = [pa.array(names()), pa.array(np.arange(ROWS) / 8)]
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, (decode, body) in ways.items():
            begun = perf_counter()
            arrays = decode(body)
            best[name] = min(best[name], perf_counter() - begun)
            assert [array.to_pylist() for array in arrays] == [array.to_pylist() for array in expected], name
    fields = 1 + 6 * ROWS
    for name, (_, body) in ways.items():
        seconds = best[name]
        print(f"{name:8s} {len(body) / seconds / 1e6:8.1f} MB/s {fields / seconds / 1e6:8.2f} M fields/s")
    ratios = " ".join(f"{name}_over_loop={best['loop'] / best[name]:.1f}" for name in ("general", "regular"))
    print(f"ratios: {ratios}")


if __name__ == "__main__":
    main()
