"""Value labels: the texts that a format of PROC FORMAT shows in place of values.

A *catalog* has the value labels of each format by its name in capitals, with `$` if it is for texts. A value is
identified by its text: a number in its shortest form, a special missing value as `.A`, a text without trailing blanks.

Messages of data sets have only the names of formats. So a catalog travels as a data set of its own: in the
form that PROC FORMAT reads with CNTLIN= and writes with CNTLOUT=.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import format_names
from app.dataset.missing import LETTERS
from app.model.names import in_capitals

VALUE_LABELS: Final = "sas.value_labels"
"""The field metadata with a variable's value labels: a JSON object of labels by the texts of values."""

MEMBER: Final = "FORMATS"
"""The name of the data set with the catalog of a message."""

MOST_LABELS: Final = 100_000
"""The maximum number of labels in a catalog; all of them are held in memory."""

MOST_METADATA: Final = 4 << 20
"""The maximum size in bytes of the value labels in a table's metadata: many variables may have the same long list."""

_SPECIAL = frozenset({".", *(f".{letter}" for letter in LETTERS)})
_COLUMNS = ("FMTNAME", "START", "LABEL")

ValueLabels = Mapping[str, str]
Catalog = Mapping[str, ValueLabels]


def value_text(value: float | str) -> str:
    """Return the text that identifies a value."""
    if isinstance(value, str):
        return value.rstrip(" ")
    return str(int(value)) if value.is_integer() and abs(value) < 1 << 53 else repr(value)


def format_name(reference: str) -> str:
    """Return the catalog's name for a format reference: `$sex8.` is `$SEX`."""
    return in_capitals(format_names.parse(reference).name)


def written(labels: ValueLabels) -> str:
    """Return value labels as field metadata."""
    return json.dumps(labels, ensure_ascii=False, separators=(",", ":"))


def read(text: str) -> ValueLabels:
    """Return the value labels in field metadata. Raises ValueError that states the fault."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{VALUE_LABELS} is not JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(label, str) for label in found.values()):
        raise ValueError(f"{VALUE_LABELS} is not a JSON object of texts")
    check_size([found])
    return found


def as_metadata(by_column: Iterable[tuple[str, ValueLabels]]) -> dict[str, dict[bytes, bytes]]:
    """Return the field metadata of columns with value labels, as long as there is room; the others get none."""
    found: dict[str, dict[bytes, bytes]] = {}
    room = MOST_METADATA
    for name, labels in by_column:
        text = written(labels).encode()
        if len(text) <= room:
            found[name] = {VALUE_LABELS.encode(): text}
            room -= len(text)
    return found


def check_size(found: Iterable[ValueLabels]) -> None:
    """Raise ValueError for more labels than are held in memory."""
    if (count := sum(map(len, found))) > MOST_LABELS:
        raise ValueError(f"{count:,} value labels; at most {MOST_LABELS:,} are read")


# --- the data set of a catalog --------------------------------------------------------------------------------------


def to_table(catalog: Catalog) -> pa.Table:
    """Return a catalog as a data set for CNTLIN=."""
    rows = [
        {
            "FMTNAME": name.removeprefix("$"),
            "START": value,
            "END": value,
            "LABEL": label,
            "TYPE": "C" if name.startswith("$") else "N",
        }
        for name, labels in catalog.items()
        for value, label in labels.items()
    ]
    types = ["FMTNAME", "START", "END", "LABEL", "TYPE"]
    named = {
        "FMTNAME": "Format name",
        "START": "Starting value for format",
        "END": "Ending value for format",
        "LABEL": "Format value label",
        "TYPE": "Type of format",
    }
    fields = [pa.field(name, pa.string(), metadata={"sas.label": named[name]}) for name in types]
    return pa.Table.from_pylist(rows, pa.schema(fields, {"sas.member": MEMBER, "sas.label": "Value labels"}))


def is_catalog(schema: pa.Schema) -> bool:
    """Tell whether a data set has the variables of CNTLOUT=."""
    names = {in_capitals(name) for name in schema.names}
    return all(name in names for name in _COLUMNS)


def from_batches(batches: Iterable[pa.RecordBatch], left_out: set[str] | None = None) -> Catalog:
    """Return the catalog in a data set of CNTLOUT=.

    Ranges of more than one value, OTHER and pictures are left out; `left_out` gets the names of their formats.

    Raises ValueError for too many labels.
    """
    catalog: dict[str, dict[str, str]] = {}
    count = 0
    for batch in batches:
        for name, value, label in _entries(batch):
            if value is None:
                if left_out is not None:
                    left_out.add(name)
                continue
            catalog.setdefault(name, {}).setdefault(value, label)
            count += 1
            if count > MOST_LABELS:
                raise ValueError(f"a catalog with more than {MOST_LABELS:,} value labels")
    return catalog


def _entries(batch: pa.RecordBatch) -> Iterator[tuple[str, str | None, str]]:
    """Yield the name of a format, the text of a value (None: no single value) and its label."""
    columns = {in_capitals(name): batch.column(at) for at, name in enumerate(batch.schema.names)}
    rows = batch.num_rows
    names, starts, labels = (_texts(columns[name]) for name in _COLUMNS)
    ends = _texts(columns["END"]) if "END" in columns else starts
    types = _texts(columns["TYPE"]) if "TYPE" in columns else [""] * rows
    special = _texts(columns["HLO"]) if "HLO" in columns else [""] * rows
    for named, start, end, label, kind, hlo in zip(names, starts, ends, labels, types, special, strict=True):
        plain = in_capitals(named).removeprefix("$")
        is_text = kind.upper() == "C" or named.startswith("$")
        if not plain:
            continue
        name = "$" + plain if is_text else plain
        if start == end and not hlo.strip() and kind.upper() in {"", "N", "C"}:
            yield name, start if is_text else _number_text(start), label
        else:
            yield name, None, label


def _texts(column: pa.Array) -> list[str]:
    texts: list[str] = [value or "" for value in column.cast(pa.string()).to_pylist()]
    return [text.rstrip(" ") for text in texts]


def _number_text(text: str) -> str:
    """Return the identifying text of a number as CNTLOUT= wrote it: with blanks, missing values as letters."""
    text = text.strip()
    if text.upper() in _SPECIAL:
        return text.upper()
    if len(text) == 1 and text.upper() in LETTERS:
        return f".{text.upper()}"
    try:
        return value_text(float(text))
    except ValueError:
        return text


# --- values -----------------------------------------------------------------------------------------------------


def labelled(texts: pa.StringArray, labels: ValueLabels) -> pa.StringArray:
    """Return values, given as their texts, as labels. A value without a label stays as it is."""
    places = pc.index_in(texts, value_set=pa.array(list(labels), pa.string()))
    return pc.coalesce(pa.array(list(labels.values()), pa.string()).take(places), texts)
