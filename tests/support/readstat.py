"""SAS's own files, written by ReadStat, the C library that pyreadstat carries and uses to read them.

pyreadstat itself writes no sas7bdat and no sas7bcat, but its library exports the functions that do.
"""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyreadstat._readstat_writer as carrier

_LIBRARY = ctypes.CDLL(carrier.__file__)
_STRING, _DOUBLE = 0, 5
_DATA_WRITER = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

_P, _S = ctypes.c_void_p, ctypes.c_char_p
_SIGNATURES: Mapping[str, tuple[object, tuple[object, ...]]] = {
    "writer_init": (_P, ()),
    "writer_free": (None, (_P,)),
    "set_data_writer": (ctypes.c_int, (_P, _DATA_WRITER)),
    "writer_set_file_label": (ctypes.c_int, (_P, _S)),
    "writer_set_table_name": (ctypes.c_int, (_P, _S)),
    "add_variable": (_P, (_P, _S, ctypes.c_int, ctypes.c_size_t)),
    "variable_set_label": (None, (_P, _S)),
    "variable_set_format": (None, (_P, _S)),
    "begin_writing_sas7bdat": (ctypes.c_int, (_P, _P, ctypes.c_long)),
    "begin_writing_sas7bcat": (ctypes.c_int, (_P, _P)),
    "begin_row": (ctypes.c_int, (_P,)),
    "insert_double_value": (ctypes.c_int, (_P, _P, ctypes.c_double)),
    "insert_string_value": (ctypes.c_int, (_P, _P, _S)),
    "insert_missing_value": (ctypes.c_int, (_P, _P)),
    "insert_tagged_missing_value": (ctypes.c_int, (_P, _P, ctypes.c_char)),
    "end_row": (ctypes.c_int, (_P,)),
    "end_writing": (ctypes.c_int, (_P,)),
    "add_label_set": (_P, (_P, ctypes.c_int, _S)),
    "label_double_value": (None, (_P, ctypes.c_double, _S)),
    "label_string_value": (None, (_P, _S, _S)),
    "label_tagged_value": (None, (_P, ctypes.c_char, _S)),
}

Value = float | str | bytes | None
"""A cell: a number, a text or its bytes, a special missing value such as `.A` in a numeric column, or None for `.`."""

Rows = Sequence[Sequence[Value]]
Formats = Mapping[str, Mapping[float | str, str] | Mapping[float, str] | Mapping[str, str] | Mapping[bytes, bytes]]
"""Value labels by format name, `$NAME` for those of texts."""


class Written(NamedTuple):
    """A variable to write. A length makes it a character variable."""

    name: str
    length: int = 0
    label: str | bytes = ""
    format: str = ""


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _call(name: str, *given: object) -> int:
    function = getattr(_LIBRARY, f"readstat_{name}")
    result, arguments = _SIGNATURES[name]
    function.restype, function.argtypes = result, list(arguments)
    returned: int = function(*given)
    assert result is not ctypes.c_int or returned == 0, f"{name} failed with error {returned}"
    return returned


class _Writer:
    """ReadStat's writer and the bytes that it wrote."""

    def __init__(self) -> None:
        self.written = bytearray()

        def take(data: int, size: int, _context: int) -> int:
            self.written += ctypes.string_at(data, size)
            return size

        self._take = _DATA_WRITER(take)
        self.at = _call("writer_init")
        _call("set_data_writer", self.at, self._take)

    def end(self, path: Path) -> Path:
        _call("end_writing", self.at)
        _call("writer_free", self.at)
        path.write_bytes(self.written)
        return path


def write_sas7bdat(
    path: Path, variables: Sequence[Written], rows: Rows, *, table: str = "", label: str | bytes = ""
) -> Path:
    """Write a data set."""
    writer = _Writer()
    _call("writer_set_table_name", writer.at, table.encode())
    _call("writer_set_file_label", writer.at, _raw(label))
    known = []
    for each in variables:
        added = _call("add_variable", writer.at, each.name.encode(), _STRING if each.length else _DOUBLE, each.length)
        _call("variable_set_label", added, _raw(each.label))
        _call("variable_set_format", added, each.format.encode())
        known.append(added)
    _call("begin_writing_sas7bdat", writer.at, None, len(rows))
    for row in rows:
        _call("begin_row", writer.at)
        for variable, at, value in zip(variables, known, row, strict=True):
            _insert(writer, at, value, is_text=bool(variable.length))
        _call("end_row", writer.at)
    return writer.end(path)


def _insert(writer: _Writer, variable: int, value: Value, *, is_text: bool) -> None:
    if value is None:
        _call("insert_missing_value", writer.at, variable)
    elif is_text:
        assert not isinstance(value, float)
        _call("insert_string_value", writer.at, variable, _raw(value))
    elif isinstance(value, str | bytes):
        _call("insert_tagged_missing_value", writer.at, variable, _raw(value)[1:])
    else:
        _call("insert_double_value", writer.at, variable, value)


def write_sas7bcat(path: Path, formats: Formats) -> Path:
    """Write a catalog of formats: their value labels by format name, `$NAME` for those of texts."""
    writer = _Writer()
    for name, labels in formats.items():
        is_text = name.startswith("$")
        found = _call("add_label_set", writer.at, _STRING if is_text else _DOUBLE, name.encode())
        for value, label in labels.items():
            if is_text:
                assert not isinstance(value, float)
                _call("label_string_value", found, _raw(value), _raw(label))
            elif isinstance(value, str):
                _call("label_tagged_value", found, value[1:].encode(), _raw(label))
            else:
                _call("label_double_value", found, value, _raw(label))
    _call("begin_writing_sas7bcat", writer.at, None)
    return writer.end(path)
