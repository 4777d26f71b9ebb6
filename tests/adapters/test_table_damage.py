"""Bits of a table's file, each flipped alone: no reader gives a row of it, and nothing is made of it."""

import base64
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapters.delta_tables import DeltaTables
from adapters.delta_tables.checked_files import BLOCK
from adapters.delta_tables.iceberg import IcebergOverDelta
from app.model.errors import DamagedError
from app.service.tables.sql_queries import answered
from tests.support.length import examples
from tests.support.tables import visits

ROWS = 9_000
TEXTS = Random(3).choices(["crc32c:00000000:AAAA;", "", "åäö", *map(str, range(900))], k=ROWS)
TABLE = pa.table(
    {
        "source": pa.array(["orders"] * ROWS),
        "crc32c:11111111:;": pa.array(TEXTS),  # a name and values that look like checksums
        "n": pa.array([Random(n).getrandbits(62) for n in range(ROWS)]),
        "x": pa.array([Random(n).random() for n in range(ROWS)]),
    }
)
WHOLE = TABLE.to_pydict()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DeltaTables:
    made = DeltaTables(tmp_path_factory.mktemp("tables"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _file: None)
        for number, rows in enumerate((TABLE, TABLE.slice(0, 10))):
            file = made.write("W.T", TABLE.schema, rows.to_batches(max_chunksize=4_000))
            made.commit("W.T", TABLE.schema, [file], "test", number)
    return made


def largest(tables: DeltaTables) -> Path:
    return max(Path(tables.location("W.T")).glob("*.parquet"), key=lambda path: path.stat().st_size)


def query(tables: DeltaTables) -> list[dict[str, Any]]:
    with answered(tables, "SELECT * FROM w.t WHERE n >= 0", "200MB") as answer:
        return [row for batch in answer.batches for row in batch.to_pylist()]


READERS: list[Callable[[DeltaTables], object]] = [
    lambda tables: list(tables.rows("W.T")),
    lambda tables: tables.open("W.T").dataset.to_table(),
    query,
    lambda tables: tables.compact("W.T"),
    lambda tables: tables.retain("W.T", 1),
]


def test_each_flipped_bit_is_found_by_whatever_reads_it(tables: DeltaTables, tmp_path: Path) -> None:
    path = largest(tables)
    good, version = path.read_bytes(), tables.describe("W.T").version
    assert [row for batch in tables.rows("W.T") for row in batch.to_pylist()][:ROWS] == TABLE.to_pylist()
    assert len(query(tables)) == ROWS + 10
    assert len(good) > 2 * BLOCK
    edges = [0, BLOCK - 1, BLOCK, len(good) - 9, len(good) - 8, len(good) - 1]
    footer = len(good) - 8 - struct.unpack("<I", good[-8:-4])[0]
    draw = Random(11)
    within = [draw.randrange(len(good)) for _ in range(examples(30))]
    in_footer = [draw.randrange(footer, len(good)) for _ in range(examples(30))]
    in_heads = [match.start() for match in re.finditer(re.escape(b"\x15\x04\x15"), good[:footer])][: examples(8)]
    for at in (*edges, footer - 1, footer, *in_heads, *within, *in_footer):
        damaged = bytearray(good)
        damaged[at] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        found = [file.damage for file in tables.verify("W.T") if file.damage]
        assert len(found) == 1, at
        assert path.name in found[0]
        for read in READERS[:3] if at not in edges else READERS[:4]:
            with pytest.raises(DamagedError, match=re.escape(f"W.T/{path.name}")):
                read(tables)
    for wrong in (good[:-1], good[: len(good) // 2], good[:10], b"", good + b"\0", good.replace(b"PAR1", b"PAR2")):
        path.write_bytes(wrong)
        assert sum(file.damage is not None for file in tables.verify("W.T")) == 1
        with pytest.raises(DamagedError):
            tables.compact("W.T")
    path.write_bytes(good[:footer] + good[footer:].replace(b"source", b"sourcf"))
    with pytest.raises(DamagedError):
        IcebergOverDelta(str(path.parent.parent), tmp_path).load("W.T")
    path.write_bytes(good)
    assert tables.describe("W.T").version == version, "something was made of a damaged file"
    assert not any(file.damage for file in tables.verify("W.T"))


def crc32c(data: bytes) -> int:
    """The checksum bit by bit, as RFC 3720 has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_checksums_are_those_that_the_file_says(tables: DeltaTables) -> None:
    good = largest(tables).read_bytes()
    said = pq.read_metadata(largest(tables)).metadata[b"attachment_gateway.crc32c"]
    name, own, blocks = said.removesuffix(b";").split(b":")
    assert name == b"crc32c"
    footer = len(good) - 8 - struct.unpack("<I", good[-8:-4])[0]
    sums = [each for (each,) in struct.iter_unpack("<I", base64.b64decode(blocks))]
    assert len(sums) == -(-footer // BLOCK)
    assert sums[0] == crc32c(good[:BLOCK])
    assert sums[-1] == crc32c(good[(len(sums) - 1) * BLOCK : footer])
    at = good.rindex(said) + len("crc32c:")
    assert int(own, 16) == crc32c(good[footer:at] + b"-" * 8 + good[at + 8 :])


def test_other_programs_read_the_files_and_find_damage_in_pages(tables: DeltaTables, tmp_path: Path) -> None:
    path = largest(tables)
    assert duckdb.execute(f"SELECT count(*), sum(n) FROM '{path}'").fetchall() == [(ROWS, sum(WHOLE["n"]))]
    place = pq.read_metadata(path).row_group(0).column(3)
    assert place.path_in_schema == "x"
    copy = tmp_path / "copy.parquet"
    damaged = bytearray(path.read_bytes())
    begin = place.data_page_offset if place.dictionary_page_offset is None else place.dictionary_page_offset
    damaged[begin + place.total_compressed_size - 20] ^= 1
    copy.write_bytes(damaged)
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(copy, page_checksum_verification=True)


def test_files_without_checksums_are_read_as_before(tmp_path: Path) -> None:
    """Of an earlier release, or of another program."""
    tables = DeltaTables(tmp_path)
    table = visits()
    file = tables.write("W.T", table.schema, table.to_batches())
    old = "00000000-0000-4000-8000-000000000000.zstd.parquet"
    place = tmp_path / "W.T"
    pq.write_table(pq.read_table(place / file.path), place / old, compression="zstd")
    tables.commit("W.T", table.schema, [file._replace(path=old, size=(place / old).stat().st_size)], "test", 1)
    assert pa.Table.from_batches(tables.rows("W.T"), tables.schema("W.T")).to_pylist() == table.to_pylist()
    assert not any(found.damage for found in tables.verify("W.T"))
    shutil.copy(place / old, place / file.path)  # the name says that there are checksums
    tables.commit("W.T", table.schema, [file], "test", 2)
    assert [found.damage is None for found in tables.verify("W.T")] == [True, False]
