"""Stored data sets: their Parquet file, and what variables they have."""

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.service.content import Content
from app.web.schemas import SchemaView, VariableView, shown


class _ContentFile(io.RawIOBase):
    """Content as the seekable file that pyarrow reads a footer from."""

    def __init__(self, content: Content) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(self._content.size - self._at, 0)
        taken = left if size < 0 else min(size, left)
        data = b"".join(self._content.read(self._at, taken)) if taken else b""
        self._at += len(data)
        return data


def parquet_file(content: Content) -> pq.ParquetFile:
    """Content as Parquet, for one thread at a time. Raises pa.ArrowInvalid when it is not."""
    return pq.ParquetFile(_ContentFile(content))


def parquet_schema(content: Content) -> tuple[pa.Schema, int]:
    """The Arrow schema and the number of rows that a Parquet footer tells. Raises pa.ArrowInvalid for anything else."""
    with parquet_file(content) as file:
        return file.schema_arrow, file.metadata.num_rows


def describe(content: Content) -> SchemaView:
    """The variables of a data set by the `sas.*` metadata of its Arrow schema."""
    schema, rows = parquet_schema(content)
    said = _sas(schema.metadata)
    return SchemaView(
        library=said.pop("library", ""),
        member=said.pop("member", ""),
        label=said.pop("label", ""),
        observations=rows,
        variables=[_variable(field, position) for position, field in enumerate(schema, 1)],
        attributes=said,
    )


def _variable(field: pa.Field, position: int) -> VariableView:
    said = _sas(field.metadata)
    return VariableView(
        position=int(said.get("position", position)),
        name=said.get("name", field.name),
        column=field.name,
        type=_type(field, said),
        length=int(said.get("length", 8)),
        label=said.get("label", ""),
        format=said.get("format", ""),
        informat=said.get("informat", ""),
        arrow_type=str(field.type),
    )


def _type(field: pa.Field, said: Mapping[str, str]) -> Any:
    return said.get("type") or ("character" if pa.types.is_string(field.type) else "numeric")


def _sas(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """The `sas.*` entries of Arrow metadata, by what stands behind the dot."""
    pairs = ((key.decode(), shown(value.decode("utf-8", "replace"))) for key, value in (metadata or {}).items())
    return {key.removeprefix("sas."): value for key, value in pairs if key.startswith("sas.")}
