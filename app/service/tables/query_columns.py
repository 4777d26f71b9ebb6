"""SQL for the columns of a result that Arrow, or Python, cannot show as DuckDB has them.

DuckDB gives Arrow the type `uhugeint` as a decimal number that is too short, a time with an offset without it, and a
`bignum` as bytes. Dates and times beyond the years of Python, and the values `infinity`, cannot be written as text,
alone or within a list.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_NOT_IN_ARROW = re.compile(r"\b(UHUGEINT|BIGNUM|TIME WITH TIME ZONE)\b")
"""Types whose values Arrow does not get whole."""
_NESTED = frozenset({"list", "array", "struct", "map", "union", "tuple"})
_MOMENTS = re.compile(r"TIMESTAMP")
_WRITTEN_BY_ARROW = frozenset(
    {
        *("boolean", "tinyint", "smallint", "integer", "bigint", "hugeint"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "float", "double", "decimal"),
        *("varchar", "blob", "enum", "uuid"),
    }
)


def for_arrow(result: "DuckDBPyRelation") -> "DuckDBPyRelation":
    """Return a result whose values Arrow can hold: the others are text."""
    return _projected(result, as_text=False)


def for_text(result: "DuckDBPyRelation") -> "DuckDBPyRelation":
    """Return a result for formats of text: what is neither a number, text nor bytes is text, as DuckDB writes it.

    Dates and times are in ISO 8601, and nested values are JSON.
    """
    return _projected(result, as_text=True)


def quoted(name: str) -> str:
    """Return an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _projected(result: "DuckDBPyRelation", *, as_text: bool) -> "DuckDBPyRelation":
    columns = zip(result.columns, result.types, strict=True)
    made = [_expression(f"#{number}", each, as_text) for number, (_, each) in enumerate(columns, 1)]
    return result.project(", ".join(f"{one} AS {quoted(name)}" for one, name in zip(made, result.columns, strict=True)))


def _expression(column: str, data_type: object, as_text: bool) -> str:
    kind, name = str(getattr(data_type, "id", "")), str(data_type)
    if kind in _WRITTEN_BY_ARROW or not (as_text or _NOT_IN_ARROW.search(name)):
        return column
    if kind in _NESTED:
        return f"to_json({column})::VARCHAR"
    if _MOMENTS.match(name):
        return _iso_8601(f"{column}::VARCHAR")
    return f"{column}::VARCHAR"


def _iso_8601(text: str) -> str:
    """Return SQL for a moment in ISO 8601; one outside of the years 1 to 9999 stays as DuckDB writes it."""
    iso = f"regexp_replace(replace({text}, ' ', 'T'), '[+]00$', 'Z')"
    return f"CASE WHEN {text} LIKE '____-__-__ __:__:__%' THEN {iso} ELSE {text} END"
