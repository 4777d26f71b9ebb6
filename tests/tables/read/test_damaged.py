"""Errors of damaged files say which kind of file, what is wrong, where, and what to do; no library's own words."""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model.errors import InvalidInputError
from app.tables.read import file_formats, label_catalogs
from app.tables.read.damage_errors import (
    COLUMNAR,
    NOT_SUPPORTED,
    READSTAT,
    REMEDY,
    REMEDY_OF_OTHERS,
    UNKNOWN,
)
from app.tables.read.defining import define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, ReadOptions
from tests.support.readstat import Written, write_sas7bcat, write_sas7bdat

WAYS = 200
ROWS = 600
TABLE = pa.table(
    {
        "number": range(ROWS),
        "text": [f"t{n % 50}" for n in range(ROWS)],
        "moment": pa.array(range(ROWS), pa.timestamp("us")),
        "flag": [n % 3 == 0 for n in range(ROWS)],
    }
)
VARIABLES = (Written("NUM", label="A number", format="BEST12."), Written("CITY", 12, "A text é", "$CHAR12."))
OF_LIBRARIES = re.compile(
    r"thrift|deserializ|codec|flatbuffer|struct\b|unpack|slot \d|ERROR|Errno|\n|\bNone\b"
    "|Invalid |Corrupt|Unable|Unexpected"
)
OURS = re.compile(
    rf"(row [\d]+: )?the (Arrow file or stream|Parquet file|sas7bdat file|sas7bcat file) is damaged: .+; {REMEDY}"
    rf"|the (Arrow file or stream|Parquet file) has {NOT_SUPPORTED}(, .+)?; {REMEDY_OF_OTHERS}"
    "|the Parquet file: the description of its columns is too large, or damaged; write fewer row groups"
    "|the batch at byte .* after decompression; at most .*|.*(unknown file format|neither a sas7bcat|not a ).*"
)


def _arrow(new: Callable[..., pa.ipc.RecordBatchStreamWriter], compression: str | None) -> bytes:
    sink = BytesIO()
    with new(sink, TABLE.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(TABLE, max_chunksize=200)
    return sink.getvalue()


def _parquet(**how: object) -> bytes:
    sink = BytesIO()
    pq.write_table(TABLE, sink, row_group_size=200, **how)
    return sink.getvalue()


def _sas7bdat() -> bytes:
    with TemporaryDirectory() as folder:
        rows = [(float(n), f"text {n}") for n in range(ROWS)]
        return write_sas7bdat(Path(folder) / "a.sas7bdat", VARIABLES, rows).read_bytes()


def _sas7bcat() -> bytes:
    with TemporaryDirectory() as folder:
        labels: dict[str, Mapping[str, str] | Mapping[float, str]] = {
            "$SEX": {"M": "Male", "F": "Female"},
            "AGE": {1.0: "one", 2.0: "two"},
        }
        return write_sas7bcat(Path(folder) / "f.sas7bcat", labels).read_bytes()


@cache
def whole(kind: str) -> Sequence[bytes]:
    match kind:
        case "parquet":
            return _parquet(), _parquet(compression="zstd", write_page_checksum=True), _parquet(use_dictionary=False)
        case "arrow":
            return [_arrow(pa.ipc.new_stream, each) for each in (None, "lz4", "zstd")]
        case "arrow-file":
            return [_arrow(pa.ipc.new_file, each) for each in (None, "lz4", "zstd")]
        case "sas7bdat":
            return [_sas7bdat()]
        case _:
            return [_sas7bcat()]


def refused(kind: str, data: bytes, encoding: str | None = None) -> str:
    """Return the reason for which a file is refused; "" if it is read."""
    file = BytesIO(data)
    try:
        if kind == "sas7bcat":
            label_catalogs.read(file, "formats.sas7bcat", "")
        else:
            for batch in file_formats.read(file, kind.removesuffix("-file"), ReadOptions(encoding=encoding)).batches():
                batch.validate()
    except InvalidInputError as error:
        return str(error)
    return ""


def changed(data: bytes, dice: Random) -> bytes:
    """Return a file that is damaged at its beginning, its end or anywhere."""
    file = bytearray(data)
    size = len(file)
    at = dice.choice([dice.randrange(400), size - 1 - dice.randrange(1500), dice.randrange(size)])
    match dice.randrange(6):
        case 0:
            del file[at:]
        case 1:
            del file[at : at + dice.choice([1, 4, 40, 400])]
        case 2:
            file[at : at + 8] = dice.randbytes(8)
        case 3:
            file[at : at + 4] = dice.choice([b"\xff" * 4, b"\0" * 4, b"\x7f" * 4])
        case 4:
            file[at:at] = dice.randbytes(8)
        case _:
            file[at] ^= 1 << dice.randrange(8)
    return bytes(file)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow-file", "sas7bdat", "sas7bcat"])
def test_every_error_has_our_words(kind: str) -> None:
    dice = Random(kind)
    reasons = [refused(kind, changed(dice.choice(whole(kind)), dice)) for _ in range(WAYS)]
    told = [reason for reason in reasons if reason]
    assert len(told) > WAYS / 4
    for reason in told:
        assert OURS.fullmatch(reason), reason
        assert not OF_LIBRARIES.search(reason), reason
    assert sum(UNKNOWN in reason for reason in told) < len(told) / 20


def test_a_sas7bdat_that_is_cut_off_names_the_page_and_its_byte() -> None:
    (data,) = whole("sas7bdat")
    assert len(data) > 5 * 4096
    assert refused("sas7bdat", data[:9000]) == (
        f"the sas7bdat file is damaged: it has 9,000 bytes of the {len(data):,} that its header states, "
        f"in page 2 of {len(data) // 4096 - 1} (from byte 8,192 on); {REMEDY}"
    )


@pytest.mark.parametrize("row", [1, 2, 333, ROWS])
def test_a_text_of_a_sas7bdat_that_does_not_decode_is_kept_and_its_row_is_told(row: int) -> None:
    (data,) = whole("sas7bdat")
    text = f"text {row - 1}".encode().ljust(12, b"\0" if b"text 0\0" in data else b" ")
    assert data.count(text) == 1
    changed = b"\xff" + text[1:]
    reading = file_formats.read(BytesIO(data.replace(text, changed)), "sas7bdat", ReadOptions())
    faults = define(reading, DataSetOverrides(), DataSetTarget()).warnings
    assert [(fault.code, fault.row) for fault in faults if fault.code == "damaged"] == [("damaged", row)]
    (side,) = [name for name in reading.schema.names if name.endswith("__bytes")]
    kept = [cell for batch in reading.batches() for cell in batch.column(side).to_pylist() if cell is not None]
    assert [cell.rstrip(b" ") for cell in kept] == [changed.rstrip(b" \0")]


def test_a_sas7bdat_with_an_unknown_kind_of_page_names_the_page() -> None:
    data = bytearray(whole("sas7bdat")[0])
    at = 4096 * 3
    offset = 32 if data[32] == 0x33 else 16
    data[at + offset : at + offset + 2] = b"\x33\x3c"
    reason = refused("sas7bdat", bytes(data))
    assert f"a page has the unknown type 0x3c33, in page 3 of {len(data) // 4096 - 1} (from byte 12,288 on)" in reason


def test_a_sas7bdat_that_states_no_lengths_is_read_or_refused() -> None:
    """Its only variable has the length 3, in whatever place of the header."""
    with TemporaryDirectory() as folder:
        data = write_sas7bdat(Path(folder) / "a.sas7bdat", [Written("TEXT", 3)], [("abc",)] * 5).read_bytes()
    length = struct.pack("<i", 3)
    places = [found.start() for found in re.finditer(re.escape(length), data)]
    assert places
    for at in places:
        reason = refused("sas7bdat", data[:at] + bytes(4) + data[at + 4 :])
        assert not reason or OURS.fullmatch(reason)


def test_a_sas7bcat_that_is_cut_off_names_the_page() -> None:
    (data,) = whole("sas7bcat")
    assert re.search(
        r"it has [\d,]+ bytes of the [\d,]+ .* in page \d of \d \(from byte", refused("sas7bcat", data[:-1])
    )


def test_parquet_names_the_column_the_row_group_and_the_byte() -> None:
    data = whole("parquet")[1]
    chunk = pq.ParquetFile(BytesIO(data)).metadata.row_group(1).column(2)
    begin = chunk.dictionary_page_offset
    at = begin + chunk.total_compressed_size - 8
    reason = refused("parquet", data[:at] + bytes(each ^ 0xFF for each in data[at : at + 4]) + data[at + 4 :])
    assert f"in column moment of row group 2 of 3 (from byte {begin:,} on)" in reason


def test_arrow_names_the_batch_and_its_first_row() -> None:
    data = whole("arrow")[0]
    offsets = struct.pack("<4i", 0, 2, 4, 6)
    places = [found.start() for found in re.finditer(re.escape(offsets), data)]
    at = places[-1]
    reason = refused("arrow", data[:at] + struct.pack("<4i", 0, 2, 1 << 30, 6) + data[at + 16 :])
    assert "out of order or beyond its bytes, in column text of batch 3 (from row 401 on)" in reason


def test_files_of_another_kind_are_not_called_damaged() -> None:
    assert refused("parquet", b"a,b\n1,2\n") == "not a Parquet file: its first four bytes are not PAR1"
    assert refused("parquet", b"PARE" + bytes(100)) == "the Parquet file is encrypted; write it without encryption"
    assert refused("sas7bdat", b"a,b\n") == "not a sas7bdat file: its first 32 bytes differ"


@pytest.mark.parametrize("words", [COLUMNAR, READSTAT])
def test_no_meaning_is_hidden_by_one_before_it(words: Sequence[tuple[str, str]]) -> None:
    parts = [part for part, _ in words]
    assert parts == [part.casefold() for part in parts]
    for at, part in enumerate(parts):
        assert not any(before in part for before in parts[:at]), part
