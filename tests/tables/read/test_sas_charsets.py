"""sas7bdat and sas7bcat files in every character set of SAS, as independent decoders read their texts."""

import io
import json
import struct
from pathlib import Path
from unicodedata import normalize

import pandas as pd
import pyarrow as pa
import pytest

from app.model.errors import InvalidInputError
from app.tables.read import file_formats, label_catalogs, sas_file_headers
from app.tables.read.defining import define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, FileTable, ReadOptions
from tests.support import charsets
from tests.support.cases import for_each
from tests.support.readstat import Written, write_sas7bcat, write_sas7bdat

VECTORS = Path("tests/vectors/sas_files")
NEWER = {
    "x-MacCroatian": {"Ω": "Ω", "¤": "€"},
    "x-MacRomania": {"Ş": "Ș", "ş": "ș", "Ω": "Ω", "¤": "€", "Ţ": "Ț", "ţ": "ț"},
    "x-MacGreek": {"\xad": "€"},
    "x-MacIceland": {"Ω": "Ω", "¤": "€"},
    "x-MacTurkish": {"Ω": "Ω"},
    "x-MacUkraine": {"¤": "€"},
    "x-MacCyrillic": {"¢": "Ґ", "∂": "ґ", "¤": "€"},
    "x-MacArabic": {"\u066d": "❊"},
}
"""Characters that Apple changed after Java's tables were made."""

numbers = for_each("number", charsets.SAS)


def expected(texts: list[bytes], number: int) -> list[str]:
    name = charsets.SAS[number]
    newer = NEWER.get(name, {})
    return ["".join(newer.get(each, each) for each in text) for text in charsets.decoded(texts, name)]


def composed(text: str) -> str:
    return normalize("NFC", text)


def made(tmp_path: Path, number: int, texts: list[bytes]) -> bytes:
    """A data set of three columns with the same texts in other orders: what is left of one meets every other."""
    word = max(texts[:20], key=len)
    label, room = word[: 40 // len(word) * len(word)] or word, max(map(len, texts))
    written = [
        Written("NUMBER"),
        Written("ONE", room, texts[0], "$FORM."),
        Written("TWO", room, label),
        Written("THREE", room, texts[-1]),
    ]
    rows = [
        (float(row), texts[row], texts[-row - 1], b"" if row % 3 == 0 else texts[row // 2]) for row in range(len(texts))
    ]
    path = write_sas7bdat(tmp_path / "x.sas7bdat", written, rows, table="TABLE", label=texts[1])
    data = bytearray(path.read_bytes())
    data[70] = number
    return bytes(data)


def read(data: bytes, encoding: str | None = None) -> FileTable:
    return file_formats.read(io.BytesIO(data), "sas7bdat", ReadOptions(encoding=encoding))


def table_of(reading: FileTable) -> pa.Table:
    return pa.Table.from_batches(reading.batches(), reading.schema)


def label_of(table: pa.Table, column: str) -> str:
    return composed((table.schema.field(column).metadata or {}).get(b"sas.label", b"").decode())


def test_every_number_of_the_tables_of_others_is_known() -> None:
    assert charsets.SAS.keys() | {55} == sas_file_headers._CODECS.keys() | sas_file_headers._UNSTATED.keys()


@numbers
def test_texts_are_those_of_an_independent_decoder(number: int, tmp_path: Path) -> None:
    """Values, labels and the label of the data set; the bytes are those that pandas reads."""
    texts = charsets.samples(charsets.SAS[number]) if number != 28 else [b"plain", b"ascii", b"texts"]
    data = made(tmp_path, number, texts)
    theirs = pd.read_sas(io.BytesIO(data), format="sas7bdat", encoding=None)
    reading = read(data)
    table = table_of(reading)
    for column in ("ONE", "TWO", "THREE"):
        raw = [b"" if isinstance(cell, float) else cell for cell in theirs[column]]
        ours = list(map(composed, table[column].to_pylist()))
        assert ours == expected(raw, number)
    assert table["ONE"].to_pylist()[0] != table["TWO"].to_pylist()[0]
    assert label_of(table, "ONE") == expected([texts[0]], number)[0].rstrip(" ")
    assert label_of(table, "THREE") == expected([texts[-1]], number)[0].rstrip(" ")
    label = (table.schema.metadata or {})[b"sas.label"].decode()
    assert composed(label) == expected([texts[1]], number)[0].rstrip(" ")
    told = [remark.why for remark in reading.remarks]
    assert len(told) == (number in {0, 204})
    assert all("states no character set" in why for why in told)


@numbers
def test_catalogs_are_those_of_an_independent_decoder(number: int, tmp_path: Path) -> None:
    texts = [b"plain", b"ascii"] if number == 28 else charsets.samples(charsets.SAS[number])[:40]
    texts = [text for text in dict.fromkeys(texts) if not text.isspace() and len(text) <= 16]
    path = write_sas7bcat(tmp_path / "f.sas7bcat", {"$F": dict(zip(texts, reversed(texts), strict=True))})
    data = bytearray(path.read_bytes())
    data[70] = number
    found, warnings = label_catalogs.read(io.BytesIO(bytes(data)), "f.sas7bcat", "")
    ours = {composed(value): composed(label) for value, label in found["$F"].items()}
    theirs = zip(expected(texts, number), expected(texts[::-1], number), strict=True)
    assert ours == {value.rstrip(" "): label.rstrip(" ") for value, label in theirs}
    assert len(warnings) == (number in {0, 204})


def test_no_text_reaches_the_next_in_windows_1255() -> None:
    said = json.loads((VECTORS / "hebrew_windows_1255.json").read_text(encoding="utf-8"))
    table = table_of(read((VECTORS / "hebrew_windows_1255.sas7bdat").read_bytes()))
    assert [list(row.values()) for row in table.to_pylist()] == said["rows"]


@pytest.mark.parametrize(("number", "name"), [(110, "open_ed-1047"), (130, "ibm-930"), (5, "number 5")])
def test_a_character_set_that_is_not_supported_is_named_and_can_be_stated(
    number: int, name: str, tmp_path: Path
) -> None:
    text = "Größe @".encode("ibm1047")
    data = made(tmp_path, number, [text, text + text])
    with pytest.raises(InvalidInputError, match=f"{name}, is not supported") as refused:
        read(data)
    assert "damaged" not in str(refused.value)
    assert "`encoding`" in str(refused.value)
    table = table_of(read(data, encoding="ibm1047"))
    assert table[1].to_pylist() == ["Größe @", "Größe @Größe @"]
    assert label_of(table, table.schema.names[1]) == "Größe @"
    with pytest.raises(InvalidInputError, match="no blank of one byte"):
        read(data, encoding="utf-16-le")


@for_each("codec", charsets.every_codec())
def test_any_stated_character_set_is_used_for_each_text_alone(codec: str, tmp_path: Path) -> None:
    texts = [text.encode(codec, "ignore") for text in charsets.WORDS]
    texts = [text for text in texts if text.strip() and b"\0" not in text][:20]
    data = made(tmp_path, 20, [*texts, b"end", b"\x8e\xa2\xc3"])
    if len(" ".encode(codec)) != 1:
        with pytest.raises(InvalidInputError):
            read(data, encoding=codec)
        return
    theirs = pd.read_sas(io.BytesIO(data), format="sas7bdat", encoding=None)
    table = table_of(read(data, encoding=codec))
    ours = [name for name in table.schema.names if not name.endswith("__bytes")]
    for at, column in enumerate(("ONE", "TWO", "THREE"), 1):
        raw = [b"" if isinstance(cell, float) else cell for cell in theirs[column]]
        assert table[ours[at]].to_pylist() == [cell.decode(codec, "replace").rstrip(" ") for cell in raw]


def test_what_does_not_decode_is_kept_and_told(tmp_path: Path) -> None:
    path = write_sas7bdat(
        tmp_path / "x.sas7bdat",
        [Written("CITY", 8, b"Gr\xf6\xdfe", "$CHAR8.")],
        [(b"Malm\xf6",), ("Kiel",), ("Köln",)],
        label=b"\xe9t\xe9",
    )
    reading = read(path.read_bytes())
    table = table_of(reading)
    assert table["CITY__bytes"].to_pylist() == [b"Malm\xf6", None, None]
    assert label_of(table, "CITY") == r"Gr\xf6\xdfe"
    definition = define(reading, DataSetOverrides(), DataSetTarget("cp1252"))
    assert definition.label == r"\xe9t\xe9"
    assert [(fault.variable, fault.code, fault.row) for fault in definition.warnings] == [
        ("CITY", "damaged", 1),
        ("CITY", "reading", None),
        (None, "reading", None),
    ]
    assert not definition.errors


def without_variables(data: bytes) -> bytes:
    """Take the only variable out of an empty file: of the page's subheaders, the sizes of rows and columns remain."""
    patched = bytearray(data)
    header, _, _ = struct.unpack_from("<iiq", data, 200)
    struct.pack_into("<HH", patched, header + 34, 2, 2)
    rows, columns = (struct.unpack_from("<q", data, header + 40 + 24 * at)[0] + header for at in range(2))
    for at in (rows + 40, rows + 72, columns + 8):
        struct.pack_into("<q", patched, at, 0)
    return bytes(patched)


def test_a_data_set_of_no_variables_is_not_called_damaged(tmp_path: Path) -> None:
    path = write_sas7bdat(tmp_path / "x.sas7bdat", [Written("A")], [], table="NONE")
    reading = read(without_variables(path.read_bytes()))
    assert reading.schema.names == []
    assert list(reading.batches()) == []
    definition = define(reading, DataSetOverrides(), DataSetTarget())
    assert [fault.why for fault in definition.errors] == ["a data set has 1 to 32767 variables, this one 0"]
